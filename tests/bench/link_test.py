# SPDX-License-Identifier: Apache-2.0
"""bench_link as a user meets it: every ordered pair of devices once, checked, with its latency and bandwidths."""
import itertools
import json
import pathlib
import tempfile
import unittest

from bench_case import BenchCase

QUICK = ["--bytes=4,256K", "--iterations=3"]


class Links(BenchCase):
    binary = "bench_link"

    def test_every_ordered_pair_of_devices_is_measured_once(self):
        rows = self.results(*QUICK, "--device=cpu:3", "--threads=1")
        names = [f"cpu device {index}" for index in range(3)]
        self.assertEqual([(row["point"]["from"], row["point"]["to"]) for row in rows],
                         list(itertools.permutations(names, 2)))
        for row in rows:
            metrics = row["metrics"]
            self.assertEqual((row["check"], row["point"]["device"]), ("exact", "cpu:3"))
            self.assertAlmostEqual(metrics["bandwidth"] * metrics["seconds"], 256 * 1024, delta=1)
            self.assertGreater(metrics["bidirectional_bandwidth"], 0)
            # A hand-over between two workers is no copy of four cached bytes: it takes a cache line to and fro.
            self.assertGreater(metrics["latency_seconds"], 20e-9)

    def test_one_device_has_its_memory_but_no_latency(self):
        (row,) = self.results(*QUICK, "--device=cpu:1")
        self.assertEqual(row["point"]["from"], row["point"]["to"])
        self.assertGreater(row["metrics"]["bandwidth"], 0)
        self.assertIsNone(row["metrics"]["latency_seconds"])
        self.assertIsNone(row["metrics"]["bidirectional_bandwidth"])

    def test_a_pair_can_be_run_again(self):
        rows = self.results(*QUICK, "--device=cpu:2")
        again = self.results(*rows[0]["command"][1:], "--iterations=1")
        self.assertEqual([row["point"] for row in rows], [row["point"] for row in again])

    def test_what_was_measured_becomes_a_topology(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "mine.json"
            rows = self.results(*QUICK, "--device=cpu:3", "--threads=1", f"--write-topology={path}")
            topology = json.loads(path.read_text())
            self.assertTrue(topology["measured"])
            self.assertEqual((topology["gpus"], len(topology["links"])), (3, 6))
            rates = {}
            for link in topology["links"]:
                rates[link["from"], link["to"]] = topology["classes"][link["class"]]["rate"] * link.get("count", 1)
            for row in rows:
                ends = tuple("gpu" + row["point"][end].rsplit(" ", 1)[1] for end in ("from", "to"))
                self.assertAlmostEqual(rates[ends] / row["metrics"]["bandwidth"], 1, delta=1e-6)
            self.binary = "bench_allreduce"
            (row,) = self.results("--engine=simulated", f"--topology={path}", "--algorithm=ring", "--bytes=1M")
            self.assertEqual((row["point"]["ranks"], row["nature"]), (3, "simulated"))

    def test_bad_options_are_one_line_and_exit_2(self):
        for option in ("--bytes=4", "--bytes=0,4", "--bytes=4,0", "--bytes=1,2,3", "--device=cpu:0", "--algorithm=ring",
                       "--write-topology=/no/such/folder/x.json"):
            with self.subTest(option):
                done = self.run_bench(option)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn(option.split("=")[0], done.stderr)


if __name__ == "__main__":
    unittest.main()
