# SPDX-License-Identifier: Apache-2.0
"""bench_validate, and that the errors which the README quotes are those that the program computes."""
import unittest

from bench_case import ROOT, BenchCase


class Validate(BenchCase):
    binary = "bench_validate"

    def test_every_published_row_is_compared_and_none_is_called_measured(self):
        rows = self.results()
        self.assertGreater(len(rows), 40)
        for row in rows:
            metrics = row["metrics"]
            self.assertEqual((row["nature"], row["status"]), ("simulated", "ok"))
            self.assertAlmostEqual(metrics["ratio"], metrics["simulated_seconds"] / metrics["measured_seconds"])
            self.assertTrue(row["point"]["source"])

    def test_the_readme_quotes_what_the_command_prints(self):
        printed = self.run_bench("--markdown").stdout.strip()
        self.assertIn(printed, (ROOT / "allreduce/README.md").read_text(),
                      "paste the output of bench_validate --markdown into allreduce/README.md")


if __name__ == "__main__":
    unittest.main()
