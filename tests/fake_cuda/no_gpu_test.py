# SPDX-License-Identifier: Apache-2.0
"""A build for GPUs on a machine that has none: one line that says so, and everything else as ever."""
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
from bench_case import BenchCase


@unittest.skipIf(os.path.exists("/dev/nvidiactl"), "this machine has a GPU")
class NoGpu(BenchCase):
    binary = "bench_allreduce"

    def test_a_gpu_that_is_asked_for_is_missed_in_one_line(self):
        for device in ("cuda", "cuda:0", "cuda:0,1", "cuda:0*8"):
            done = self.run_bench(f"--device={device}")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(f"--device={device}: there is no GPU", done.stderr)
            self.assertIn("nvidia-smi", done.stderr)

    def test_without_a_wish_the_cpu_is_taken(self):
        (row,) = self.results("--bytes=1K", "--iterations=2", "--algorithm=ring")
        self.assertEqual(row["point"]["device"], "cpu:2")


if __name__ == "__main__":
    unittest.main()
