# SPDX-License-Identifier: Apache-2.0
"""What every bench promises: a deadline, too little memory or a signal loses no result and leaves a valid file."""
import json
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

import jsonschema
from bench_case import ROOT, BenchCase

LONG = {"bench_allreduce": ["--device=cpu:2", "--bytes=1M:16M:x2"],
        "bench_link": ["--device=cpu:2", "--bytes=4,16M"],
        "bench_model": ["--device=cpu:1", "--batch=256"],
        "bench_train": ["--device=cpu:2", "--data=synthetic", "--steps=100000"]}


class Sessions(BenchCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.output = pathlib.Path(folder.name) / "result.json"

    def valid_report(self):
        report = json.loads(self.output.read_text())
        jsonschema.validate(report, json.loads((ROOT / "results/schema.json").read_text()))
        return report

    def test_a_wait_that_passes_its_deadline_ends_the_run_with_a_valid_report(self):
        for self.binary, options in LONG.items():
            with self.subTest(self.binary):
                done = self.run_bench(*options, "--timeout=10us", f"--output={self.output}")
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("within 0.00001", done.stderr)
                report = self.valid_report()
                self.assertFalse(report["run"]["complete"])
                last = report["results"][-1]
                self.assertEqual(last["status"], "timed_out")
                self.assertIn(last["reason"], done.stderr)

    def test_a_point_without_memory_is_skipped_with_the_numbers_and_the_rest_goes_on(self):
        for self.binary, options in (
                ("bench_allreduce", ["--bytes=4000G,1K", "--algorithm=ring", "--iterations=1"]),
                ("bench_link", ["--bytes=4,4000G"])):
            with self.subTest(self.binary):
                done = self.run_bench("--device=cpu:2", *options, f"--output={self.output}")
                self.assertEqual(done.returncode, 0, done.stderr)
                first, *rest = self.valid_report()["results"]
                self.assertEqual(first["status"], "skipped")
                self.assertIn(str(4000 << 30), first["reason"])
                self.assertIn(first["reason"], done.stderr)
                self.assertIn("skipped", done.stdout)
                self.assertEqual([row["status"] for row in rest], ["ok" if "allreduce" in self.binary else "skipped"])

    def test_a_killed_run_leaves_what_it_measured(self):
        for self.binary, options in LONG.items():
            for deadly in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                with self.subTest(self.binary, signal=deadly):
                    self.output.unlink(missing_ok=True)
                    running = subprocess.Popen(self.command(*options, f"--output={self.output}"),
                                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    until = time.monotonic() + 60
                    while not self.output.exists() and time.monotonic() < until:
                        time.sleep(0.01)
                    time.sleep(0.2)
                    running.send_signal(deadly)
                    self.assertNotEqual(running.wait(timeout=60), 0)
                    report = self.valid_report()
                    self.assertFalse(report["run"]["complete"])
                    self.assertGreater(len(report["results"]), 0)


if __name__ == "__main__":
    unittest.main()
