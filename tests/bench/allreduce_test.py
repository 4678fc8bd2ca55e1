# SPDX-License-Identifier: Apache-2.0
"""bench_allreduce as a user meets it: exact rows, valid files, and one clear line for what cannot be done."""
import json
import os
import pathlib
import tempfile
import unittest

from bench_case import BenchCase


class Sweeps(BenchCase):
    binary = "bench_allreduce"

    def test_every_dtype_and_op_is_exact_on_one_to_eight_devices(self):
        report = self.report("--device=cpu:1,cpu:2,cpu:3,cpu:5,cpu:8", "--mode=check", "--bytes=0,4,20,1000,70000",
                             "--dtype=f32,f64,f16,bf16,i32", "--op=sum,avg,min,max,prod", "--launch=eager,graph",
                             "--placement=in_place,out_of_place")
        self.assertEqual(len(report["results"]), 5 * 5 * 5 * 5 * 2 * 3 * 2)
        for result in report["results"]:
            self.assertEqual((result["status"], result["check"]), ("ok", "exact"), result["point"])

    def test_every_algorithm_is_exact_for_any_number_of_devices_and_groups(self):
        for device, group in (("cpu:3", 2), ("cpu:6", 4), ("cpu:7", None)):
            groups = [f"--group={group}"] if group else []
            results = self.results(f"--device={device}", "--algorithm=all", "--mode=check", "--bytes=0,8,4100",
                                   "--pieces=1,2", *groups)
            self.assertEqual(len(results), 12 * 3 * 2)
            for result in results:
                self.assertEqual((result["status"], result["check"]), ("ok", "exact"), result["point"])
                has_groups = result["point"]["algorithm"] in ("hierarchical", "leader")
                self.assertEqual(result["point"].get("group"), (group or 7) if has_groups else None)

    def test_the_algorithms_are_the_textbooks_three_unless_others_are_asked_for(self):
        results = self.results("--device=cpu:2", "--mode=check", "--bytes=4")
        self.assertEqual([row["point"]["algorithm"] for row in results], ["parameter_server", "tree", "ring"])

    def test_a_timed_row_has_its_samples_and_bandwidths(self):
        report = self.report("--device=cpu:2", "--bytes=64K", "--iterations=9", "--algorithm=ring")
        (result,) = report["results"]
        self.assertEqual(len(result["samples"]), 9)
        self.assertEqual(result["stop"], "count")
        metrics = result["metrics"]
        self.assertAlmostEqual(metrics["algbw"] * metrics["seconds"], 65536, delta=1)
        self.assertAlmostEqual(metrics["busbw"], metrics["algbw"])  # 2(n-1)/n is 1 for two ranks
        self.assertTrue(metrics["busbw_is_link_speed"])

    def test_a_row_is_held_against_what_shared_memory_allows(self):
        report = self.report("--device=cpu:1,cpu:2", "--bytes=0,1M", "--iterations=9", "--algorithm=tree",
                             "--placement=in_place,out_of_place")
        for result in report["results"]:
            point, metrics = result["point"], result["metrics"]
            work = point["bytes"] > 0 and (point["ranks"] > 1 or point["placement"] == "out_of_place")
            self.assertEqual(metrics["bound_kind"], "memory" if work else None, point)
            if work:
                self.assertAlmostEqual(metrics["bound_efficiency"] * metrics["seconds"], metrics["bound_seconds"])
                self.assertGreater(metrics["bound_seconds"], 0)
            else:
                self.assertIsNone(metrics["bound_seconds"])

    def test_bus_bandwidth_of_one_rank_is_not_a_number(self):
        report = self.report("--device=cpu:1", "--bytes=1K", "--iterations=3", "--algorithm=tree")
        self.assertIsNone(report["results"][0]["metrics"]["busbw"])
        self.assertIn("n/a", self.run_bench("--device=cpu:1", "--bytes=1K", "--iterations=3").stdout)

    def test_bytes_are_rounded_down_to_whole_elements(self):
        report = self.report("--device=cpu:2", "--bytes=1001", "--dtype=f64", "--mode=check", "--algorithm=ring")
        self.assertEqual(report["results"][0]["point"]["bytes"], 1000)

    def test_more_threads_than_cores_are_marked(self):
        report = self.report("--device=cpu:64", "--bytes=4", "--mode=check", "--algorithm=ring")
        self.assertEqual(report["results"][0]["oversubscribed"], len(os.sched_getaffinity(0)) < 64)

    def test_the_command_of_a_row_repeats_it(self):
        for algorithm in ("tree", "leader"):
            row = self.results("--device=cpu:3", "--bytes=1K", "--mode=check", "--op=avg", f"--algorithm={algorithm}")[0]
            again = self.results("--mode=check", *row["command"][1:])
            self.assertEqual(again[0]["point"], row["point"])

    def test_nccl_tests_short_forms_mean_the_same(self):
        report = self.report("-b", "1K", "-e", "4K", "-f", "2", "-d", "float", "-o", "max", "-n", "2", "--device=cpu:2",
                             "--algorithm=ring")
        self.assertEqual([row["point"]["bytes"] for row in report["results"]], [1024, 2048, 4096])


class Collectives(BenchCase):
    binary = "bench_allreduce"

    def test_are_exact_with_every_algorithm_of_theirs(self):
        for collective, root in (("reduce_scatter", None), ("all_gather", None), ("broadcast", 2), ("reduce", 1)):
            roots = [] if root is None else [f"--root={root}"]
            ops = ["--op=sum,avg"] if "reduce" in collective else []
            rows = self.results(f"--collective={collective}", "--device=cpu:3", "--mode=check", "--bytes=0,4,5000",
                                "--dtype=f32,f16", "--launch=eager,graph", "--placement=in_place,out_of_place",
                                "--fused=on,off", *roots, *ops)
            self.assertEqual(len(rows), 3 * 3 * 2 * 2 * 2 * 2 * (2 if ops else 1))
            for row in rows:
                self.assertEqual((row["bench"], row["status"], row["check"]), ("collective", "ok", "exact"))
                self.assertEqual((row["point"]["collective"], row["point"]["root"]), (collective, root))
                self.assertEqual(row["point"]["op"] is None, not ops)

    def test_have_the_bus_bandwidth_factors_of_nccl_tests(self):
        for collective, factor in (("reduce_scatter", 2 / 3), ("all_gather", 2 / 3), ("broadcast", 1), ("reduce", 1)):
            (row,) = self.results(f"--collective={collective}", "--device=cpu:3", "--bytes=64K", "--iterations=3",
                                  "--algorithm=ring")
            self.assertAlmostEqual(row["metrics"]["busbw"] / row["metrics"]["algbw"], factor)
            self.assertIsNone(row["metrics"]["bound_seconds"])
            again = self.results("--mode=check", *row["command"][1:])
            self.assertEqual(again[0]["point"], row["point"])

    def test_are_simulated_by_the_same_schedules(self):
        for collective in ("reduce_scatter", "all_gather", "broadcast", "reduce"):
            rows = self.results(f"--collective={collective}", "--engine=simulated", "--topology=ring:4", "--bytes=64M")
            ring = next(row for row in rows if row["point"]["algorithm"] == "ring")
            self.assertEqual((len(rows), ring["bench"], ring["nature"]), (3, "collective", "simulated"))
            self.assertEqual(self.results(*ring["command"][1:])[0]["metrics"], ring["metrics"])

    def test_refuse_what_they_do_not_have(self):
        for options in (["--collective=broadcast", "--op=sum"], ["--collective=all_gather", "--root=0"],
                        ["--collective=reduce", "--root=2"], ["--root=1"], ["--algorithm=direct"],
                        ["--collective=reduce", "--algorithm=two_shot"],
                        ["--collective=reduce", "--algorithm=ring", "--export=mine.json"],
                        ["--collective=reduce", "--schedule=mine.json"],
                        ["--collective=reduce", "--engine=simulated", "--topology=ring:2", "--software=nccl"],
                        ["--collective=reduce", "--engine=simulated", "--topology=ring:2", "--root=2"]):
            with self.subTest(options):
                device = [] if "--engine=simulated" in options else ["--device=cpu:2"]
                done = self.run_bench("--mode=check", "--bytes=4", *device, *options)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
                self.assertIn(options[-1].split("=")[0], done.stderr)


class Choice(BenchCase):
    binary = "bench_allreduce"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.table = pathlib.Path(folder.name) / "tuning.json"
        self.tune = [f"--tuning={self.table}", "--tune", "--device=cpu:2"]
        self.auto = [f"--tuning={self.table}", "--device=cpu:2", "--mode=check"]

    def test_is_the_fastest_of_what_tune_measured(self):
        rows = self.results(*self.tune, "--bytes=1K,64K", "--iterations=3")
        self.assertEqual(len(rows), 2 * 12)
        for bytes_ in (1024, 65536):
            times = {row["point"]["algorithm"]: row["metrics"]["seconds"] for row in rows
                     if row["point"]["bytes"] == bytes_}
            (row,) = self.results(*self.auto, "--algorithm=auto", f"--bytes={bytes_}")
            self.assertEqual(row["check"], "exact")
            self.assertEqual(row["chosen"]["algorithm"], min(times, key=times.get))
            self.assertIn("fastest of 12", row["chosen"]["why"])
            again = self.results("--mode=check", *row["command"][1:])
            self.assertEqual(again[0]["chosen"], row["chosen"])

    def test_stands_beside_all_the_others_as_a_row_of_its_own(self):
        self.results(*self.tune, "--bytes=1K", "--iterations=1")
        rows = self.results(*self.auto, "--bytes=1K", "--algorithm=auto,all")
        self.assertEqual([row["point"]["algorithm"] for row in rows].count("auto"), 1)
        self.assertEqual(len(rows), 13)

    def test_is_made_by_the_row_most_like_the_point(self):
        self.results(*self.tune, "--bytes=1K", "--iterations=1")
        table = json.loads(self.table.read_text())
        (row,) = table["tuned"]
        table["tuned"] = [dict(row, bytes=1 << 20, algorithm="two_shot"), dict(row, algorithm="one_shot"),
                          dict(row, bytes=1 << 20, dtype="f64", algorithm="leader"),
                          dict(row, machine={**row["machine"], "cores": 1000}, algorithm="ring")]
        self.table.write_text(json.dumps(table))
        auto = [*self.auto, "--algorithm=auto"]
        for bytes_, dtype, expected in (("4K", "f32", "one_shot"), ("512K", "f32", "two_shot"), ("1K", "f64", "leader")):
            (row,) = self.results(*auto, f"--bytes={bytes_}", f"--dtype={dtype}")
            self.assertEqual(row["chosen"]["algorithm"], expected)
            self.assertEqual("group" in row["point"], expected == "leader")
        done = self.run_bench(*auto, "--bytes=4", "--launch=graph")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--tune", done.stderr)

    def test_is_completed_and_renewed_by_what_is_tuned_later(self):
        for launch, sizes in (("eager", "1K,2K"), ("graph", "1K"), ("eager", "2K,4K")):
            self.results(*self.tune, f"--bytes={sizes}", f"--launch={launch}", "--iterations=1", "--algorithm=ring")
        rows = json.loads(self.table.read_text())["tuned"]
        self.assertEqual(sorted((row["launch"], row["bytes"]) for row in rows),
                         [("eager", 1024), ("eager", 2048), ("eager", 4096), ("graph", 1024)])

    def test_needs_a_table(self):
        for text, says in ((None, "no such file"), ("[]", "no table"), ('{"tuned": [{}]}', "no table")):
            if text:
                self.table.write_text(text)
            done = self.run_bench(*self.auto, "--algorithm=auto", "--bytes=4")
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1))
            self.assertIn(says, done.stderr)

    def test_refuses_what_it_cannot_do(self):
        tuning = f"--tuning={self.table}"
        for options in (["--mode=check", "--tune", tuning], ["--collective=reduce", "--tune", tuning],
                        ["--tune", tuning, "--group=2"], [tuning], ["--collective=reduce", "--algorithm=auto"],
                        ["--engine=nccl", "--algorithm=auto"], ["--engine=nccl", "--tune", tuning]):
            with self.subTest(options):
                done = self.run_bench("--bytes=4", "--device=cpu:2", *options)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
                self.assertRegex(done.stderr, "--(tune|tuning|algorithm|group)=")
                self.assertFalse(self.table.exists())


class BadInput(BenchCase):
    binary = "bench_allreduce"

    CASES = [
        "--bytes=4K:1K:x2", "--bytes=1K:4K:x1", "--bytes=0:4K:x2", "--bytes=-1", "--bytes=", "--bytes=1Q",
        "--collective=scatter", "--root=2", "--root=x", "--algorithm=rings", "--algorithm=ring,ring", "--dtype=f8", "--op=mean", "--launch=lazy", "--pieces=0", "--group=0", "--group=two",
        "--device=cpu:0", "--device=cpu:x", "--device=tpu:1", "--device=cpu:2,cpu:2", "--device=,", "--device=2", "--direction=up", "--fused=maybe", "--transport=air", "--nccl-algo=rings", "--device=cuda:", "--device=cuda:x", "--device=cuda:999",
        "--engine=magic", "--placement=there", "--mode=guess", "--threads=0", "--iterations=0", "--iterations=x",
        "--seed=x", "--time-budget=fast", "--timeout=-1s", "--cache=hot", "--cache=cold", "--check=perhaps", "--warmup=-1", "--bogus=1",
        "--output=/no/such/folder/result.json", "--output=/", "extra", "--benchmark_filter=x",
    ]

    def test_is_one_line_that_names_the_option_and_status_two(self):
        for option in self.CASES:
            with self.subTest(option):
                before = [] if option.startswith(("--bytes", "--mode")) else ["--mode=check", "--bytes=4"]
                done = self.run_bench(*before, option)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn(option.lstrip("-").split("=")[0].split("_")[0], done.stderr)

    def test_help_names_every_option_and_ends_well(self):
        done = self.run_bench("--help")
        self.assertEqual(done.returncode, 0)
        for option in ("--bytes", "--algorithm", "--device", "--output"):
            self.assertIn(option, done.stdout)


if __name__ == "__main__":
    unittest.main()
