# SPDX-License-Identifier: Apache-2.0
"""What the tests of the benches on the fake machine share."""
import json
import os
import pathlib
import sys
import tempfile
from unittest import mock

import jsonschema

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
from bench_case import ROOT, BenchCase


class FakeCase(BenchCase):
    def on_machine(self, **settings):
        return mock.patch.dict(os.environ, {f"FAKE_CUDA_{name}": str(value) for name, value in settings.items()})

    def fails(self, *options):
        """A run that must end with status 1, a line about it, and a valid report."""
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "result.json"
            done = self.run_bench(f"--output={output}", *options)
            self.assertEqual(done.returncode, 1, done.stderr)
            report = json.loads(output.read_text())
        jsonschema.validate(report, json.loads((ROOT / "results/schema.json").read_text()))
        return report, done.stderr
