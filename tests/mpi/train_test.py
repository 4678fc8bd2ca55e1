# SPDX-License-Identifier: Apache-2.0
"""bench_train with a process for each rank: the training of one process, bit for bit."""
import json
import os
import signal
import time
import unittest

from mpi_case import BIN, MpiCase, mpirun, run
from mpi_test import ranks_of

SHORT = ("--data=synthetic", "--threads=1", "--iterations=2", "--warmup=1")


def short(options):
    steps = any(option.startswith("--steps") for option in options)
    return (*SHORT, *options) if steps else (*SHORT, "--steps=4", *options)


class Training(MpiCase):
    def trained(self, ranks, *options):
        """By strategy and engine, or algorithm."""
        rows = self.report(ranks, "bench_train", *short(options))["results"]
        for row in rows:
            self.assertEqual((row["status"], row["reason"]), ("ok", ""))
        return {(row["point"]["strategy"], row["point"]["algorithm"]): row for row in rows}

    def in_one_process(self, ranks, *options):
        report = self.folder / "one.json"
        done = run([BIN / "bench_train", *short(options), f"--device=cpu:{ranks}", "--quiet", f"--output={report}"])
        self.assertEqual(done.returncode, 0, done.stderr)
        return {(row["point"]["strategy"], row["point"]["algorithm"]): row
                for row in json.loads(report.read_text())["results"]}  # fmt: skip

    def assert_alike(self, ranks, *options):
        together, apart = self.in_one_process(ranks, *options), self.trained(ranks, "--engine=mpi", *options)
        self.assertEqual(apart.keys(), together.keys())
        for way, row in apart.items():
            with self.subTest(way=way, options=options):
                for said in ("losses", "checksums", "buckets"):
                    self.assertEqual(row[said], together[way][said])
                for metric in ("test_accuracy", "bytes_moved", "parameters"):
                    self.assertEqual(row["metrics"].get(metric), together[way]["metrics"].get(metric))
                self.assertEqual(row["check"], "exact")
        return apart

    def test_the_losses_are_those_of_one_process(self):
        ways = "--strategy=scratch,distributed,sharded"
        self.assert_alike(3, ways, "--algorithm=ring,tree", "--batch=40", "--eval", "--overlap=on")
        self.assert_alike(2, ways, "--batch=32", "--momentum=0.9", "--accumulate=2", "--bucket=64K")
        self.assert_alike(2, "--strategy=distributed", "--algorithm=all", "--batch=16", "--grad-dtype=bf16")
        self.assert_alike(2, ways, "--model=mlp", "--batch=7", "--scaling=weak", "--overlap=off")

    def test_a_network_with_batch_norm_too(self):
        self.assert_alike(2, "--model=resnet18", "--batch=8", "--lr=0.01", "--steps=2", "--strategy=distributed")

    def test_its_evaluation_is_by_rank_0s_statistics(self):
        options = ("--model=resnet18", "--batch=4", "--lr=0.01", "--steps=1", "--strategy=scratch", "--eval")
        self.assert_alike(2, *options)

    def test_other_libraries_train_too(self):
        ways = ("--strategy=distributed", "--batch=32", "--overlap=on")
        (ours,) = self.in_one_process(2, *ways).values()
        report = self.report(2, "bench_train", *short(ways), "--engine=mpi_native,gloo")
        for row in report["results"]:
            if row["status"] == "refused":
                self.assertIn("libgloo-dev", row["reason"])
                continue
            self.assertEqual(row["check"], "exact")
            self.assertIsNone(row["metrics"]["bytes_moved"])
            for own, other in zip(ours["losses"], row["losses"]):
                self.assertAlmostEqual(own, other, delta=1e-4 * own)

    def test_what_a_library_cannot_do_is_refused_in_its_row(self):
        report = self.report(2, "bench_train", *SHORT, "--steps=1", "--engine=mpi_native,mpi", "--strategy=sharded", "--batch=8")
        self.assertEqual([row["status"] for row in report["results"]], ["refused", "ok"])
        self.assertIn("MPI", report["results"][0]["reason"])

    def test_the_report_has_every_rank(self):
        report = self.report(3, "bench_train", *SHORT, "--steps=2", "--engine=mpi", "--strategy=distributed",
                             "--batch=9", "--slow=1:4")  # fmt: skip
        (row,) = report["results"]
        self.assertEqual(report["run"]["world"]["size"], 3)
        self.assertEqual(row["point"]["ranks"], 3)
        self.assertEqual([each["rank"] for each in row["memory"]], [0, 1, 2])
        self.assertEqual({span["lane"].split(",")[0] for span in row["timeline"]}, {"rank 0", "rank 1", "rank 2"})
        self.assertEqual(len(row["metrics"]["idle_seconds"]), 3)
        self.assertGreater(row["metrics"]["planted_seconds"], 0)
        waiting = row["metrics"]["waiting_seconds"]
        self.assertEqual(min(waiting), waiting[1])
        self.assertEqual(row["command"][:4], ["mpirun", "-n", "3", "bench_train"])

    def test_training_goes_on_from_a_file_with_more_processes_or_fewer(self):
        ways = ("--strategy=sharded", "--momentum=0.9", "--batch=24")
        ((_, whole),) = self.in_one_process(2, *ways, "--steps=6").items()
        kept = self.folder / "kept.safetensors"
        self.trained(2, "--engine=mpi", *ways, "--steps=3", f"--save={kept}")
        for row in (*self.in_one_process(2, *ways, "--steps=6", f"--resume={kept}").values(),
                    *self.trained(2, "--engine=mpi", *ways, "--steps=6", f"--resume={kept}").values()):  # fmt: skip
            self.assertEqual((row["losses"], row["checksums"]), (whole["losses"], whole["checksums"]))

    def test_buckets_are_found_by_all_alike(self):
        (row,) = self.trained(2, "--engine=mpi", "--strategy=distributed", "--batch=16", "--find-bucket").values()
        self.assertIn(row["point"]["bucket_bytes"], [size["bytes"] for size in row["bucket_sizes"]])


class WrongStarts(MpiCase):
    def refused(self, *options):
        done = run(mpirun(2, "bench_train", *options))
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        (line,) = self.own_lines(done.stderr, "bench_train")
        return line

    def test_what_needs_one_process_is_refused_in_one_line(self):
        self.assertIn("one process, and there are 2; allowed: mpi", self.refused("--steps=1"))
        self.assertIn("one process", self.refused("--engine=simulated", "--topology=dgx-a100"))
        for strategy in ("data_parallel", "pipeline", "tensor"):
            self.assertIn(strategy, self.refused("--engine=mpi", f"--strategy={strategy}"))
        self.assertIn("--save", self.refused("--engine=mpi", "--strategy=scratch", "--save=/nowhere/a.safetensors"))

    def test_several_devices_in_a_process_are_refused(self):
        report = self.report(2, "bench_train", *SHORT, "--steps=1", "--engine=mpi", "--device=cpu:2")
        for row in report["results"]:
            self.assertEqual(row["status"], "refused")
            self.assertIn("one device", row["reason"])


class Failures(MpiCase):
    def lose(self, deadly, *options):
        command = mpirun(2, "bench_train", "--engine=mpi", "--data=synthetic", "--strategy=distributed", "--batch=16",
                         "--iterations=2", "--steps=100000000", f"--output={self.output}", *options)  # fmt: skip
        with self.started(command) as job:
            os.kill(ranks_of(job.pid)[1], deadly)
            begin = time.monotonic()
            said = job.communicate(timeout=60)[1]
            seconds = time.monotonic() - begin
        self.assertNotEqual(job.returncode, 0)
        report = self.valid_report()
        self.assertFalse(report["run"]["complete"])
        return report["results"][0], said, seconds

    def test_a_rank_that_dies_while_it_trains_ends_the_job_and_is_named(self):
        row, said, seconds = self.lose(signal.SIGKILL)
        self.assertLess(seconds, 20)
        if row["status"] != "ok":  # else the launcher was faster than rank 0's last words
            self.assertIn("rank 1 on host0 ended", row["reason"])
        self.assertGreater(row["metrics"]["step_seconds"], 0)  # what was measured is kept

    def test_one_that_is_stopped_ends_it_after_the_timeout(self):
        row, said, seconds = self.lose(signal.SIGSTOP, "--timeout=3s")
        self.assertGreater(seconds, 2)
        self.assertLess(seconds, 30)
        self.assertEqual(row["status"], "timed_out", row["reason"] + said)
        self.assertIn("rank 1 on host0 is silent", row["reason"])


if __name__ == "__main__":
    unittest.main()
