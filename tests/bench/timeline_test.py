# SPDX-License-Identifier: Apache-2.0
"""One step of training, part by part: in the result, and as a trace for Perfetto."""
import itertools
import json
import pathlib
import tempfile
import unittest

from bench_case import BenchCase

OPTIONS = ("--model=mlp", "--data=synthetic", "--device=cpu:2", "--strategy=scratch,distributed", "--overlap=off",
           "--batch=16", "--steps=1", "--iterations=3")


class Timeline(BenchCase):
    binary = "bench_train"

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace.json"
            cls.results = cls().results(*OPTIONS, f"--trace={trace}")
            cls.trace = json.loads(trace.read_text())

    def test_every_replica_computes_forward_then_backward_then_updates(self):
        for result in self.results:
            lanes = {span["lane"] for span in result["timeline"] if not span["lane"].endswith("communication")}
            self.assertEqual(len(lanes), 2)
            for lane in lanes:
                order = [span for span in result["timeline"] if span["lane"] == lane]
                self.assertEqual([kind for kind, _ in itertools.groupby(span["kind"] for span in order)],
                                 ["forward", "backward", "update"])
                layers = [[span["name"] for span in order if span["kind"] == kind] for kind in ("forward", "backward")]
                self.assertEqual(layers, [["fc", "cross_entropy"], ["cross_entropy", "fc"]])
                for before, after in zip(order, order[1:]):
                    self.assertLessEqual(before["begin_seconds"], before["end_seconds"])
                    self.assertLessEqual(before["end_seconds"], after["begin_seconds"])

    def test_each_all_reduce_has_a_bar_on_every_rank_after_its_gradients_are_there(self):
        for result in self.results:
            for rank in (0, 1):
                bars = [span for span in result["timeline"] if span["kind"] == "all_reduce"
                        and span["lane"].startswith(f"rank {rank},")]
                self.assertEqual(len(bars), len(result["buckets"]))
                backward = [span for span in result["timeline"] if span["kind"] == "backward"
                            and span["lane"].startswith(f"rank {rank},")][-1]
                for bar in bars:
                    self.assertGreaterEqual(bar["begin_seconds"], backward["end_seconds"])
                    self.assertGreaterEqual(bar["end_seconds"], bar["begin_seconds"])

    def test_the_first_bucket_is_on_its_way_before_backward_ends(self):
        rows = BenchCase.results(self, "--data=synthetic", "--device=cpu:2", "--strategy=distributed,sharded",
                                 "--overlap=on,off", "--batch=256", "--bucket=64K", "--steps=0", "--iterations=1")
        for row in rows:
            for rank in (0, 1):
                own = [span for span in row["timeline"] if span["lane"].startswith(f"rank {rank},")]
                ends = [span["end_seconds"] for span in own if span["kind"] == "backward"]
                begin = min(span["begin_seconds"] for span in own if span["kind"] in ("all_reduce", "reduce_scatter"))
                self.assertEqual(begin < max(ends), row["point"]["overlap"] == "on")
            longest = max(span["end_seconds"] for span in row["timeline"])
            self.assertGreaterEqual(row["metrics"]["other_seconds"], 0)
            self.assertLess(row["metrics"]["other_seconds"], longest)

    def test_watching_a_step_changes_nothing_of_the_training(self):
        losses = [result["losses"] for result in self.results]
        self.assertEqual(losses[0], losses[1])
        for result in self.results:
            self.assertEqual(len(set(result["checksums"])), 1)

    def test_the_trace_has_a_process_a_point_and_its_bars_in_microseconds(self):
        events = self.trace["traceEvents"]
        processes = [event["args"]["name"] for event in events if event["name"] == "process_name"]
        self.assertEqual(len(processes), len(self.results))
        for process, result in enumerate(self.results):
            bars = [event for event in events if event["ph"] == "X" and event["pid"] == process]
            self.assertEqual(len(bars), len(result["timeline"]))
            for bar, span in zip(bars, result["timeline"]):
                self.assertEqual(bar["cat"], span["kind"])
                self.assertAlmostEqual(bar["ts"], span["begin_seconds"] * 1e6, places=3)
                self.assertAlmostEqual(bar["dur"], (span["end_seconds"] - span["begin_seconds"]) * 1e6, places=3)


if __name__ == "__main__":
    unittest.main()
