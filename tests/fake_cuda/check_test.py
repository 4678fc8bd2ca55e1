# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/check, the script for a real GPU, on the fake one and without any."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
from bench_case import ROOT


def check(*options, **settings):
    with mock.patch.dict(os.environ, {f"FAKE_CUDA_{name}": str(value) for name, value in settings.items()}):
        return subprocess.run([ROOT / "tests/gpu/check", f"--bin={os.environ['RINGMARK_BIN']}", *options],
                              capture_output=True, text=True, timeout=1000, check=False)


class Check(unittest.TestCase):
    def test_runs_every_bench_and_leaves_a_complete_file_of_each(self):
        with tempfile.TemporaryDirectory() as folder:
            done = check(f"--output={folder}", "--bytes=1K,64K", "--batch=2", "--models=lenet", GPUS=2)
            self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr)
            files = {path.stem: json.loads(path.read_text()) for path in pathlib.Path(folder).glob("*.json")}
            capture = (pathlib.Path(folder) / "capture.txt").read_text()
        names = {"alone", "direct", "exact", "fused", "link", "peer", "shared", "small", "staged", "reduce_scatter",
                 "all_gather", "broadcast", "reduce", "all_to_all", "send_recv"}
        if "models: left out" not in done.stdout:
            names |= {"model", "train_2", "graph_2"}
        self.assertEqual(set(files), names)
        self.assertTrue(all(report["run"]["complete"] for report in files.values()))
        self.assertIn("cudaMemcpyAsync from GPU 1 to GPU 0, recorded: works", capture)

    def test_without_a_gpu_it_is_skipped_with_the_reason(self):
        done = check(GPUS=0)
        self.assertEqual((done.returncode, done.stdout.count("\n")), (77, 1), done.stderr)
        self.assertIn("skipped: --device=cuda: there is no GPU", done.stdout)

    def test_a_bad_option_is_one_line(self):
        done = check("--fast")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))


if __name__ == "__main__":
    unittest.main()
