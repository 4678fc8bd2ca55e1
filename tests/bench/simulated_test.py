# SPDX-License-Identifier: Apache-2.0
"""The simulated engine of bench_allreduce as a user meets it: rows that say what they are, and clear refusals."""
import json
import pathlib
import tempfile
import unittest

from bench_case import BenchCase


class Simulated(BenchCase):
    binary = "bench_allreduce"

    def simulate(self, *options):
        engine = [] if options[0].startswith("--engine") else ["--engine=simulated"]
        return self.results(*engine, *options)

    def test_two_machines_over_all_sizes_are_all_marked_simulated(self):
        rows = self.simulate("--topology=dgx-h100,pcie4-8gpu", "--algorithm=all", "--bytes=1K:1G:x4")
        machines = {row["point"]["topology"] for row in rows}
        self.assertEqual(machines, {"dgx-h100", "pcie4-8gpu"})
        self.assertEqual(len(rows) % 22, 0)
        for row in rows:
            self.assertEqual((row["nature"], row["status"], row["check"]), ("simulated", "ok", "off"))
            self.assertEqual(row["samples"], [])
            metrics = row["metrics"]
            self.assertEqual(metrics["bound_kind"], "topology")
            self.assertLessEqual(metrics["bound_seconds"], metrics["seconds"], row["point"])
            self.assertTrue(row["critical_path"])
            self.assertTrue(row["busiest_link"]["from"])
            self.assertLessEqual(row["busiest_link"]["utilisation"], 1 + 1e-9)

    def test_the_table_says_simulated_in_every_row(self):
        lines = self.run_bench("--engine=simulated", "--topology=ring:4", "--bytes=1K,1M").stdout.splitlines()
        rows = [line for line in lines[1:] if not line.startswith("#")]
        self.assertGreater(len(rows), 3)
        for line in rows:
            self.assertTrue(line.startswith("simulated "), line)

    def test_nvlink_is_faster_than_the_same_machine_without(self):
        for software in ("streams", "nccl"):
            rows = self.simulate("--topology=dgx-a100", "--without=none,nvlink", "--algorithm=ring", "--bytes=256M",
                                 f"--software={software}")
            by = {row["point"]["without"]: row["metrics"]["seconds"] for row in rows}
            self.assertGreater(by["nvlink"], 4 * by[None])

    def test_nccl_says_what_it_chose(self):
        rows = self.simulate("--topology=dgx-h100", "--software=nccl", "--bytes=8,1G")
        self.assertEqual([row["point"]["algorithm"] for row in rows], ["nccl", "nccl"])
        self.assertEqual(rows[1]["chosen"]["algorithm"], "nvls Simple")
        self.assertFalse(rows[1]["metrics"]["busbw_is_link_speed"])

    def test_the_best_order_of_a_cube_beats_its_numbers_and_is_told(self):
        order = {}
        for name in ("given", "best"):
            (row,) = self.simulate("--topology=dgx-1v", "--algorithm=ring", "--bytes=64M", f"--rank-order={name}")
            order[name] = row
        self.assertEqual(order["given"]["point"]["rank_order"], "given")
        self.assertEqual(sorted(order["best"]["point"]["rank_order"]), list(range(8)))
        self.assertGreater(order["given"]["metrics"]["seconds"], 1.2 * order["best"]["metrics"]["seconds"])

    def test_the_command_of_a_row_repeats_it(self):
        for options in (["--software=nccl"], ["--without=nvlink", "--rank-order=best", "--algorithm=tree"]):
            row = self.simulate("--topology=4xa6000-nvlink:3", "--bytes=1000", *options)[0]
            again = self.results(*row["command"][1:])
            self.assertEqual((again[0]["point"], again[0]["metrics"]), (row["point"], row["metrics"]))

    def test_a_file_is_a_topology(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "mine.json"
            path.write_text(json.dumps({"gpus": 2, "links": [["gpu0", "gpu1", "nvlink3", 4]]}))
            (row,) = self.simulate(f"--topology={path}", "--algorithm=ring", "--bytes=1M")
            self.assertEqual(row["point"]["ranks"], 2)
            path.write_text('{"gpus": 2}')
            done = self.run_bench("--engine=simulated", f"--topology={path}")
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1))

    def test_measured_and_simulated_rows_stand_in_one_report(self):
        rows = self.simulate("--engine=streams,simulated", "--device=cpu:2", "--topology=ring:2", "--bytes=4K",
                             "--algorithm=ring", "--iterations=3")
        self.assertEqual([row["nature"] for row in rows], ["measured", "simulated"])

    def test_a_schedule_that_was_exported_is_the_same_again(self):
        with tempfile.TemporaryDirectory() as folder:
            for algorithm in ("ring", "tree", "parameter_server"):
                path = pathlib.Path(folder) / f"{algorithm}.json"
                options = ["--engine=simulated", "--topology=dgx-a100:5", "--bytes=4M"]
                done = self.run_bench(*options, f"--algorithm={algorithm}", f"--export={path}")
                self.assertEqual(done.returncode, 0, done.stderr)
                (own,) = self.results(*options, f"--algorithm={algorithm}")
                (read,) = self.results(*options, f"--schedule={path}")
                self.assertEqual(read["metrics"]["seconds"], own["metrics"]["seconds"], algorithm)
                self.assertEqual(read["point"]["schedule"], str(path))
                # And it runs for real, checked at every element.
                (real,) = self.results("--device=cpu:5", "--bytes=1000", "--mode=check", f"--schedule={path}")
                self.assertEqual(real["check"], "exact")

    def test_a_schedule_that_is_no_all_reduce_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "mine.json"
            whole = [["reduce", 1, 0, 0, 1], ["copy", 0, 1, 0, 1]]
            path.write_text(json.dumps({"ranks": 2, "chunks": 1, "program": whole}))
            self.assertEqual(self.simulate("--topology=ring:2", f"--schedule={path}", "--bytes=4")[0]["status"], "ok")
            simulated = ["--engine=simulated", "--topology=ring:2", f"--schedule={path}"]
            wrong = [("for 2 ranks", whole, ["--engine=simulated", "--topology=ring:3", f"--schedule={path}"]),
                     ("no all-reduce", whole[:1], simulated), ("step 0", [["move", 0, 1, 0, 1]], simulated),
                     ("takes the place", whole, [*simulated, "--algorithm=ring"])]
            for says, program, options in wrong:
                path.write_text(json.dumps({"ranks": 2, "chunks": 1, "program": program}))
                done = self.run_bench(*options)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
                self.assertIn("--schedule=", done.stderr)
                self.assertIn(says, done.stderr)


class BadInput(BenchCase):
    binary = "bench_allreduce"

    def test_is_one_line_that_names_the_option_and_status_two(self):
        simulated = ["--engine=simulated"]
        cases = [simulated, [*simulated, "--topology=dgx"], [*simulated, "--topology=ring:0"],
                 [*simulated, "--topology=dgx-a100,dgx-a100"], [*simulated, "--topology=dgx-a100:9"],
                 [*simulated, "--topology=pcie4-8gpu*2"], [*simulated, "--topology=ring:4", "--without=nvlink"],
                 [*simulated, "--topology=ring:4", "--without=pcie"], [*simulated, "--topology=ring:4", "--software=mpi"],
                 [*simulated, "--topology=ring:4", "--rank-order=0,1,2"],
                 [*simulated, "--topology=ring:4", "--rank-order=0,1,2,2"],
                 [*simulated, "--topology=ring:4", "--device=cpu:4"], ["--topology=ring:4"], ["--without=nvlink"],
                 ["--rank-order=best"], ["--software=nccl"]]
        for options in cases:
            with self.subTest(options):
                done = self.run_bench(*options)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertRegex(done.stderr, "--(topology|without|software|rank-order|device)")

    def test_help_names_the_options(self):
        text = self.run_bench("--help").stdout
        for option in ("--topology", "--without", "--software", "--rank-order", "simulated"):
            self.assertIn(option, text)


if __name__ == "__main__":
    unittest.main()
