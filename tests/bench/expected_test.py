# SPDX-License-Identifier: Apache-2.0
"""Measured rows held against what a description of the machine says, and the choice made by it where nothing was tuned."""
import json
import pathlib
import tempfile
import unittest

from bench_case import BenchCase


class Expected(BenchCase):
    binary = "bench_allreduce"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_options = ["--device=cpu:2", "--bytes=1M", "--algorithm=ring", "--iterations=3"]

    def topology(self, rate, latency):
        """A file for two devices whose links carry `rate` bytes per second, as bench_link writes it."""
        link = {"kind": "nvlink", "rate": rate, "latency": latency}
        file = self.folder / "machine.json"
        file.write_text(json.dumps({
            "about": "two devices", "gpus": 2, "memory": "own", "measured": True, "sources": ["none"],
            "classes": {"wire": link, "own": {"kind": "memory", "rate": 1000 * rate}},
            "links": [{"class": "wire", "from": "gpu0", "to": "gpu1", "one_way": True},
                      {"class": "wire", "from": "gpu1", "to": "gpu0", "one_way": True}]}))
        return f"--topology={file}"

    def test_a_row_far_from_what_its_machine_allows_is_told_with_its_link(self):
        for rate, latency, verdict in ((1e15, 1e-12, "slow"), (1e3, 1.0, "fast")):
            with self.subTest(verdict):
                (row,) = self.results(*self.run_options, self.topology(rate, latency))
                expected = row["expected"]
                self.assertEqual((expected["verdict"], expected["topology"]), (verdict, "machine"))
                self.assertAlmostEqual(expected["ratio"], row["metrics"]["seconds"] / expected["seconds"])
                self.assertEqual(row["nature"], "measured")
                # Half of the vector goes each way, twice.
                link = expected["link"]
                self.assertAlmostEqual(link["bytes_per_second"], (1 << 20) / row["metrics"]["seconds"], delta=1)
                self.assertLessEqual(link["expected_bytes_per_second"], rate)
        done = self.run_bench(*self.run_options, self.topology(1e15, 1e-12))
        self.assertRegex(done.stdout, r"(?m)^ +1048576 .* slow \S+x$")
        self.assertRegex(done.stdout, r"(?m)^# slow: 1 rows; the most ring at 1 MiB, slow \S+x; its busiest link, gpu")

    def test_the_expected_is_what_the_simulated_engine_says(self):
        topology = self.topology(1e9, 1e-6)
        rows = self.results(*self.run_options, "--engine=streams,simulated", topology, "--launch=eager,graph")
        simulated = {row["point"]["launch"]: row["metrics"]["seconds"] for row in rows if row["nature"] == "simulated"}
        measured = [row for row in rows if row["nature"] == "measured"]
        self.assertEqual(len(measured), 2)
        for row in measured:
            self.assertEqual(row["expected"]["seconds"], simulated[row["point"]["launch"]])

    def test_nothing_is_expected_where_no_machine_is_described_or_no_byte_moves(self):
        for options in ([], [self.topology(1e9, 1e-6), "--bytes=0"]):
            (row,) = self.results(*self.run_options[:1], *self.run_options[2:], *(options or ["--bytes=1K"]))
            self.assertNotIn("expected", row)

    def test_auto_takes_the_simulation_where_nothing_was_tuned(self):
        table = self.folder / "tuning.json"
        table.write_text('{"tuned": []}')
        auto = ["--device=cpu:2", "--algorithm=auto", "--mode=check", f"--tuning={table}"]
        refused = self.run_bench(*auto, "--bytes=4")
        self.assertEqual((refused.returncode, refused.stdout, refused.stderr.count("\n")), (2, "", 1))
        self.assertIn("--topology", refused.stderr)
        topology = self.topology(1e9, 1e-5)
        rows = self.results("--engine=simulated", topology, "--algorithm=all", "--bytes=4,4M")
        for bytes_ in (4, 4 << 20):
            (row,) = self.results(*auto, topology, f"--bytes={bytes_}")
            self.assertEqual(row["check"], "exact")
            self.assertIn("simulated on machine", row["chosen"]["why"])
            times = {other["point"]["algorithm"]: other["metrics"]["seconds"] for other in rows
                     if other["point"]["bytes"] == bytes_}
            self.assertEqual(times[row["chosen"]["algorithm"]], min(times.values()))
            again = self.results("--mode=check", *row["command"][1:])
            self.assertEqual(again[0]["chosen"], row["chosen"])

    def test_refuses_what_does_not_fit(self):
        topology = self.topology(1e9, 1e-6)
        for options, named in (([topology, "--device=cpu:3"], "topology"), (["--topology=ring:2,ring:3"], "topology"),
                               (["--topology=nowhere"], "topology"), (["--software=nccl"], "software"),
                               (["--rank-order=best"], "rank-order"), (["--without=nvlink"], "without")):
            with self.subTest(options):
                done = self.run_bench("--bytes=4", *options)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
                self.assertIn("--" + named, done.stderr)


if __name__ == "__main__":
    unittest.main()
