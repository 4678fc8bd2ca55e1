# SPDX-License-Identifier: Apache-2.0
"""bench_micro: every part of an all-reduce is there, runs, and says what it costs."""
import json
import unittest

from bench_case import BenchCase


class Parts(BenchCase):
    binary = "bench_micro"

    def command(self, *options):  # all of its options are Google Benchmark's
        return [word for word in super().command(*options) if word != "--quiet"]

    def test_all_run_and_report_a_time(self):
        done = self.run_bench("--benchmark_min_time=0.001", "--benchmark_format=json",
                              "--benchmark_filter=/(4|4096)(/|$)|/(2|4)/")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)["benchmarks"]
        self.assertEqual({row["name"].split("/")[0] for row in rows},
                         {"build", "prove", "reduce", "launch", "all-reduce", "yardstick"})
        for row in rows:
            self.assertNotIn("error_message", row)
            self.assertGreater(row["real_time"], 0, row["name"])

    def test_an_unknown_option_is_one_line_and_status_two(self):
        for option in ("--bogus", "extra", "--device=cpu:2"):
            done = self.run_bench(option)
            self.assertEqual((done.returncode, done.stdout), (2, ""), option)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(option, done.stderr)

    def test_a_malformed_value_is_not_ignored(self):
        for option in ("--benchmark_min_time=abc", "--benchmark_repetitions=x"):  # the library names it, then we do
            done = self.run_bench(option)
            self.assertEqual(done.returncode, 2, option + done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
