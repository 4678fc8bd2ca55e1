# SPDX-License-Identifier: Apache-2.0
"""bench_allreduce with a process for each rank, and what becomes of a job whose processes are not alike or are lost."""
import os
import pathlib
import platform
import shutil
import signal
import time
import unittest

from mpi_case import BIN, ENVIRONMENT, IS_MPICH, MpiCase, mpirun, mpirun_two, run


class Processes(MpiCase):
    def check(self, ranks, *options):
        rows = self.report(ranks, "bench_allreduce", "--engine=mpi", "--mode=check", *options)["results"]
        self.assertEqual({(row["status"], row["check"]) for row in rows}, {("ok", "exact")})
        return rows

    def test_every_algorithm_is_exact_in_processes(self):
        rows = self.check(3, "--algorithm=all", "--dtype=f32,bf16,i32", "--op=sum,avg", "--pieces=1,3",
                          "--placement=in_place,out_of_place", "--bytes=0,4,1000,100000")  # fmt: skip
        self.assertGreater(len(rows), 500)
        self.assertEqual({row["point"]["ranks"] for row in rows}, {3})
        self.check(4, "--algorithm=all", "--bytes=4,1M")

    def test_every_collective_is_exact_in_processes(self):
        for collective in ("reduce_scatter", "all_gather", "broadcast", "reduce"):
            rows = self.check(3, f"--collective={collective}", "--bytes=1000,100000",
                              "--placement=in_place,out_of_place")  # fmt: skip
            self.assertGreater(len(rows), 4)

    def test_mpis_own_collectives_are_rows_of_the_same_table(self):
        rows = self.report(2, "bench_allreduce", "--engine=mpi,mpi_native", "--algorithm=ring", "--bytes=4,100000",
                           "--iterations=3")["results"]  # fmt: skip
        self.assertEqual([(row["point"]["engine"], row["check"], len(row["samples"])) for row in rows],
                         [("mpi", "exact", 3), ("mpi_native", "exact", 3)] * 2)
        for row in rows:
            self.assertLessEqual(row["metrics"]["mean_over_ranks"], row["metrics"]["seconds"])
        for collective in ("reduce_scatter", "all_gather", "broadcast", "reduce"):
            rows = self.report(3, "bench_allreduce", "--engine=mpi_native", f"--collective={collective}", "--root=1" if
                               collective in ("broadcast", "reduce") else "--seed=2", "--bytes=1000,100000",
                               "--placement=in_place,out_of_place", "--mode=check")["results"]  # fmt: skip
            refused = collective == "reduce_scatter" or IS_MPICH and collective == "reduce"
            self.assertEqual([row["check"] for row in rows if row["point"]["placement"] == "out_of_place"],
                             ["exact", "exact"])
            self.assertEqual([row["status"] for row in rows if row["point"]["placement"] == "in_place"],
                             ["refused" if refused else "ok"] * 2)

    def test_gloo_is_exact_in_the_same_table_or_says_what_to_install(self):
        rows = self.report(3, "bench_allreduce", "--engine=mpi,gloo", "--algorithm=ring", "--bytes=4,100000",
                           "--gloo-algo=ring,ring_chunked,halving_doubling", "--op=sum,max", "--dtype=f32,i32",
                           "--iterations=2")["results"]  # fmt: skip
        gloo = [row for row in rows if row["point"]["engine"] == "gloo"]
        self.assertEqual(len(gloo), 24)
        if all(row["status"] == "refused" for row in gloo):
            self.assertIn("libgloo-dev", gloo[0]["reason"])
        else:
            self.assertEqual({(row["status"], row["check"]) for row in gloo}, {("ok", "exact")})

    def test_what_mpi_does_not_know_is_refused_with_the_reason(self):
        rows = self.report(2, "bench_allreduce", "--engine=mpi_native,mpi", "--dtype=bf16,f32", "--op=avg",
                           "--algorithm=ring", "--bytes=1K", "--iterations=1")["results"]  # fmt: skip
        native = [row["reason"] for row in rows if row["point"]["engine"] == "mpi_native"]
        self.assertEqual(native, ["MPI has no type for bf16", "MPI has no average"])
        self.assertEqual({row["status"] for row in rows if row["point"]["engine"] == "mpi"}, {"ok"})

    def test_rank_0_alone_prints_and_the_report_has_every_rank(self):
        options = ["--engine=mpi", "--algorithm=ring", "--bytes=1K", "--iterations=1"]
        done = run(mpirun(3, "bench_allreduce", *options))
        self.assertEqual(done.stdout.count("busbw is"), 1, done.stdout)
        self.assertEqual(done.stdout.count(": OK"), 1, done.stdout)
        world = self.report(3, "bench_allreduce", *options)["run"]["world"]
        self.assertEqual(world["size"], 3)
        self.assertEqual(world["hosts"], ["host0"])
        self.assertEqual([(one["rank"], one["host"], one["device"]) for one in world["rank_map"]],
                         [(rank, "host0", "cpu:1") for rank in range(3)])
        self.assertTrue(all(one["cores"] for one in world["rank_map"]))
        named = self.report(2, "bench_allreduce", "--with-hostname", *options)["run"]["world"]
        self.assertEqual(named["hosts"], [platform.node()])

    def test_ranks_have_cores_of_their_own_or_are_marked(self):
        options = ["--engine=mpi", "--algorithm=ring", "--bytes=1K", "--iterations=1"]
        cores = len(os.sched_getaffinity(0))
        (row,) = self.report(cores + 1, "bench_allreduce", *options)["results"]
        self.assertTrue(row["oversubscribed"])
        if cores > 1:
            report = self.report(2, "bench_allreduce", *options)
            self.assertFalse(report["results"][0]["oversubscribed"])
            first, second = (set(one["cores"]) for one in report["run"]["world"]["rank_map"])
            self.assertEqual(first & second, set())

    def test_a_point_without_memory_is_skipped_and_names_the_rank(self):
        rows = self.report(2, "bench_allreduce", "--engine=mpi", "--algorithm=ring", "--bytes=4000G,1K",
                           "--iterations=1")["results"]  # fmt: skip
        self.assertEqual([row["status"] for row in rows], ["skipped", "ok"])
        self.assertIn("rank 0 on host0", rows[0]["reason"])

    def test_the_parts_of_the_engine(self):
        for ranks in (2, 3):
            done = run(mpirun(ranks, "test_mpi"))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class WrongStarts(MpiCase):
    def refused(self, command, program, *expected, env=None):
        done = run(command, env={**ENVIRONMENT, **(env or {})})
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        lines = self.own_lines(done.stderr, program)
        self.assertEqual(len(lines), 1, done.stderr)
        for text in expected:
            self.assertIn(text, lines[0])

    def test_several_copies_of_what_is_one_process_are_noticed(self):
        self.refused(mpirun(2, "bench_allreduce"), "bench_allreduce", "streams", "one process", "2")
        self.refused(mpirun(2, "bench_link"), "bench_link", "started 2 times", "start it once")

    def test_a_launcher_of_another_mpi_is_noticed(self):
        variables = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE") if IS_MPICH else ("PMI_RANK", "PMI_SIZE")
        self.refused([BIN / "bench_allreduce", "--engine=mpi"], "bench_allreduce", "started 4 times", "knows of 1",
                     env=dict(zip(variables, "04")))  # fmt: skip

    def test_a_bad_value_is_said_once(self):
        self.refused(mpirun(3, "bench_allreduce", "--engine=mpi", "--bytes=4Q"), "bench_allreduce", "--bytes=4Q")

    def test_another_size_in_one_rank_is_named(self):
        first, second = ([BIN / "bench_allreduce", "--engine=mpi", f"--bytes={size}"] for size in ("1K", "4K"))
        command = mpirun_two(first, second)
        self.refused(command, "bench_allreduce", "the command line of rank 1 on host0", "--bytes=4K", "--bytes=1K")

    def test_another_build_in_one_rank_is_named(self):
        other = self.folder / "bench_allreduce"
        shutil.copy(BIN / "bench_allreduce", other)
        with open(other, "ab") as file:
            file.write(b"x")
        command = mpirun_two(*([program, "--engine=mpi", "--bytes=1K"] for program in (BIN / "bench_allreduce", other)))
        self.refused(command, "bench_allreduce", "the program of rank 1 on host0")


def ranks_of(launcher):
    """Rank to process, of those that a running mpirun started."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            name = (folder / "comm").read_text().strip()
            parent = descends(int(folder.name), launcher)
        except (OSError, ValueError, IndexError):
            continue
        for variable in variables:
            key, _, value = variable.partition(b"=")
            if key in (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK") and name.startswith("bench_") and parent:
                found[int(value)] = int(folder.name)
    return found


def descends(process, ancestor):
    while process > 1:
        process = int(pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
        if process == ancestor:
            return True
    return False


class Failures(MpiCase):
    def lose(self, engine, deadly, *options):
        """The report, stderr and seconds until the end of a job of three whose rank 1 gets a signal when all run."""
        self.output.unlink(missing_ok=True)
        command = mpirun(3, "bench_allreduce", f"--engine={engine}", "--algorithm=ring", "--bytes=64K,1M",
                         "--iterations=100000000", f"--output={self.output}", *options)  # fmt: skip
        with self.started(command) as job:
            os.kill(ranks_of(job.pid)[1], deadly)
            begin = time.monotonic()
            said = job.communicate(timeout=60)[1]
            seconds = time.monotonic() - begin
        self.assertNotEqual(job.returncode, 0)
        report = self.valid_report()
        self.assertFalse(report["run"]["complete"])
        self.assertEqual(len(report["results"]), 1)
        return report["results"][0], said, seconds

    def test_a_rank_that_dies_ends_the_job_and_is_named(self):
        for engine in ("mpi", "mpi_native"):
            with self.subTest(engine):
                row, said, seconds = self.lose(engine, signal.SIGKILL)
                self.assertLess(seconds, 20)
                if IS_MPICH and row["status"] == "ok":
                    continue  # its launcher kills the others at once, and may be faster than rank 0's last words
                self.assertEqual(row["status"], "failed", row["reason"] + said)
                self.assertIn("rank 1 on host0 ended", row["reason"])
                self.assertIn(f"allreduce, sum by {engine}", row["reason"])
                self.assertIn("65536 bytes of f32", row["reason"])
                if not IS_MPICH:
                    self.assertIn(row["reason"], said)

    def test_a_rank_that_is_stopped_ends_the_job_after_the_timeout_and_is_named(self):
        for engine in ("mpi", "mpi_native"):
            with self.subTest(engine):
                row, said, seconds = self.lose(engine, signal.SIGSTOP, "--timeout=3s")
                self.assertGreater(seconds, 2)
                self.assertLess(seconds, 30)
                self.assertEqual(row["status"], "timed_out", row["reason"] + said)
                self.assertIn("rank 1 on host0 is silent", row["reason"])
                self.assertIn(f"allreduce, sum by {engine}", row["reason"])
                self.assertIn("65536 bytes of f32", row["reason"])
                self.assertIn(row["reason"], said)


if __name__ == "__main__":
    unittest.main()
