# SPDX-License-Identifier: Apache-2.0
"""What the tests of all benches share: running a binary, and reading the file that it wrote."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class BenchCase(unittest.TestCase):
    """A subclass names its `binary`."""

    binary = ""

    def command(self, *options):
        return [pathlib.Path(os.environ["RINGMARK_BIN"]) / self.binary, "--quiet", *options]

    def run_bench(self, *options):
        return subprocess.run(self.command(*options), capture_output=True, text=True, timeout=500, check=False)

    def report(self, *options):
        """The report of a run that must end well, valid and complete."""
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "result.json"
            done = self.run_bench(f"--output={output}", *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.rstrip().endswith("OK"), done.stdout)
            report = json.loads(output.read_text())
        jsonschema.validate(report, json.loads((ROOT / "results/schema.json").read_text()))
        self.assertTrue(report["run"]["complete"])
        return report

    def results(self, *options):
        return self.report(*options)["results"]
