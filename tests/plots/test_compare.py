# SPDX-License-Identifier: Apache-2.0
"""Verdicts: no difference where there is none, and one where it was planted."""

import csv
import io
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import unittest

import made_up
from plots import compare, difference

PAIRS = 100
POINTS = 8


def noisy(seconds, seed, visits=12, each=6):
    """Samples as a shared machine gives them: a spread of 1.5% from visit to visit and of 2% inside one, and one in
    thirty is held up."""
    dice = random.Random(seed)
    samples = []
    for _ in range(visits):
        visit = seconds * dice.lognormvariate(0, 0.015)
        samples += [
            visit * dice.lognormvariate(0, 0.02) * (dice.uniform(1.2, 5) if dice.random() < 1 / 30 else 1)
            for _ in range(each)
        ]
    return samples


def timed(seed, factor=1.0, points=POINTS, visits=12):
    results = []
    for index in range(points):
        seconds = 1e-4 * 4**index
        samples = noisy(seconds * factor, f"{seed} {index}", visits)
        result = made_up.allreduce(size=4096 * 4**index, seconds=difference.median(samples), samples=samples)
        results.append({**result, "visits": visits})
    return made_up.run(results)


def restless(seed, factor=1.0, points=15, wander=0.03, common=0.03):
    """A run on a machine whose speed differs from run to run, by so much for all points together and for each of them,
    and whose visits tell nothing of it: `factor` is a number, or one for each of the points, of three algorithms."""
    dice = random.Random(seed)
    slow, results = dice.gauss(0, common), []
    for index in range(points):
        planted = factor if isinstance(factor, float) else factor[index]
        seconds = planted * 1e-4 * 4 ** (index // 3) * math.exp(slow + dice.gauss(0, wander))
        samples = [seconds * dice.lognormvariate(0, 0.015) for _ in range(12)]
        name = ("ring", "tree", "parameter_server")[index % 3]
        result = made_up.allreduce(name, 2, 4096 * 4 ** (index // 3), difference.median(samples), samples=samples)
        results.append({**result, "visits": 12})
    return made_up.run(results, started=f"2026-01-31T12:{dice.randrange(60):02}:00Z")


def compared(before, after):
    first, second = made_up.loaded(before, after)
    return compare.compare([first], [second])


def verdicts(before, after):
    return [pair.verdict for pair in compared(before, after).pairs]


class Verdicts(unittest.TestCase):
    def test_two_runs_of_one_binary_do_not_differ_in_95_of_100_pairs(self):
        alike = sum(
            verdicts(timed(f"a {pair}"), timed(f"b {pair}")) == [compare.SAME] * POINTS for pair in range(PAIRS)
        )
        self.assertGreaterEqual(alike, 95)

    def test_a_planted_5_percent_is_found_in_90_of_100_pairs_both_ways(self):
        for factor, verdict in ((1.05, compare.SLOWER), (1 / 1.05, compare.FASTER)):
            told = sum(
                verdicts(timed(f"a {pair}", points=1), timed(f"b {pair}", factor, points=1)) == [verdict]
                for pair in range(PAIRS)
            )
            self.assertGreaterEqual(told, 90, verdict)

    def test_the_interval_holds_the_planted_ratio(self):
        inside = 0
        for pair in range(PAIRS):
            found = compared(timed(f"a {pair}", points=1), timed(f"b {pair}", 1.05, points=1))
            low, high = found.pairs[0].interval
            inside += low <= 1.05 <= high
        self.assertGreaterEqual(inside, 95)

    def test_visits_that_resemble_their_neighbours_count_for_less(self):
        def drifting(seed):
            """A machine whose speed wanders by itself."""
            dice, speed, samples = random.Random(seed), 0.0, []
            for _ in range(60):
                speed = 0.8 * speed + dice.gauss(0, 0.01)
                samples.append(1e-4 * 2.718**speed)
            result = made_up.allreduce(seconds=difference.median(samples), samples=samples)
            return made_up.run([{**result, "visits": 60}])

        quiet = [[compare.SAME], [compare.UNTOLD]]
        alike = sum(verdicts(drifting(f"a {pair}"), drifting(f"b {pair}")) in quiet for pair in range(PAIRS))
        self.assertGreaterEqual(alike, 95)

    def test_on_a_machine_that_differs_from_run_to_run_two_runs_do_not_differ_in_95_of_100_pairs(self):
        alike = sum(
            verdicts(restless(f"a {pair}"), restless(f"b {pair}")) == [compare.SAME] * 15 for pair in range(PAIRS)
        )
        self.assertGreaterEqual(alike, 95)

    def test_on_a_quiet_machine_one_point_or_one_algorithm_of_many_is_found_when_it_is_5_percent_slower(self):
        quiet = {"wander": 0.0, "common": 0.0}
        for factor in ([1.05] + 14 * [1.0], 5 * [1.05, 1.0, 1.0]):
            told = 0
            for pair in range(PAIRS):
                found = verdicts(restless(f"a {pair}", **quiet), restless(f"b {pair}", factor, **quiet))
                told += sum(one == compare.SLOWER for one, planted in zip(found, factor) if planted > 1)
            self.assertGreaterEqual(told, 0.9 * PAIRS * sum(planted > 1 for planted in factor), factor)

    def test_what_cannot_be_told_on_a_restless_machine_is_said(self):
        notes = " ".join(compared(restless("a"), restless("b")).notes())
        self.assertRegex(notes, r"The machine was restless.* What differs by \d+% or less is called no difference")
        self.assertNotIn("restless", " ".join(compared(timed("a"), timed("b")).notes()))

    def test_repeated_runs_by_turns_tell_what_two_runs_cannot(self):
        def runs(name, factor, pair):
            contents = [restless(f"{name} {pair} {turn}", factor, wander=0.01, common=0.01) for turn in range(8)]
            return made_up.loaded(*contents)

        alike, told = 0, 0  # pairs, points
        for pair in range(PAIRS):
            found = [one.verdict for one in compare.compare(runs("a", 1.0, pair), runs("b", 1.0, pair)).pairs]
            alike += found == [compare.SAME] * 15
            found = [one.verdict for one in compare.compare(runs("a", 1.0, pair), runs("b", 1.05, pair)).pairs]
            told += found.count(compare.SLOWER)
        self.assertGreaterEqual(alike, 95)
        self.assertGreaterEqual(told, 0.9 * 15 * PAIRS)

    def test_points_that_change_together_are_no_unrest(self):
        def ratios(*logs):
            return [difference.Difference(math.exp(one), math.exp(one - 0.001), math.exp(one + 0.001)) for one in logs]

        self.assertEqual(difference.unrest([ratios(*[0.5] * 5), ratios(*[0.0] * 5), ratios(*[-0.2] * 5)]), 0)
        self.assertGreater(difference.unrest([ratios(-0.1, 0.1, 0.05, -0.05, 0.0)]), 0.05)
        self.assertEqual(difference.unrest([ratios(0.1, -0.1)]), 0)  # too few to say

    def test_few_visits_give_no_verdict_rather_than_a_wrong_one(self):
        self.assertEqual(verdicts(timed("a", visits=3), timed("b", 2, visits=3)), [compare.UNTOLD] * POINTS)

    def test_a_run_does_not_differ_from_itself(self):
        self.assertEqual(verdicts(timed("a"), timed("a")), [compare.SAME] * POINTS)

    def test_what_was_computed_differs_exactly(self):
        def simulated(seconds):
            return made_up.run([made_up.allreduce(seconds=seconds, nature="simulated", samples=[])])

        self.assertEqual(verdicts(simulated(1e-4), simulated(1e-4)), [compare.SAME])
        self.assertEqual(verdicts(simulated(1e-4), simulated(1.02e-4)), [compare.SLOWER])

    def test_a_point_that_fails_now_is_failed_and_one_that_failed_before_is_no_baseline(self):
        good, bad = timed("a", points=1), made_up.run([made_up.allreduce(size=4096, status="failed", check="failed")])
        self.assertEqual(verdicts(good, bad), [compare.FAILED])
        self.assertEqual(verdicts(bad, good), [])

    def test_a_point_without_a_time_yet_cannot_be_told(self):
        begun = timed("b", points=1)
        begun["results"][0].update(metrics={}, samples=[])
        self.assertEqual(verdicts(timed("a", points=1), begun), [compare.UNTOLD])

    def test_a_run_on_a_busy_machine_is_named(self):
        after = timed("b", points=1)
        after["run"]["machine"]["load"] = 7.5
        notes = " ".join(compared(timed("a", points=1), after).notes())
        self.assertIn("made-up-1 began on a busy machine (load 7.5 on 2 cores)", notes)
        self.assertNotIn("made-up-0 began", notes)

    def test_a_measured_point_is_never_compared_with_a_simulated_one(self):
        simulated = made_up.run([made_up.allreduce(size=4096, nature="simulated")])
        found = compared(timed("a", points=1), simulated)
        self.assertEqual((found.pairs, found.lost, found.new), ([], 1, 1))

    def test_a_field_that_is_null_is_as_good_as_absent(self):
        after = timed("b", points=1)
        after["results"][0]["point"]["transport"] = None
        self.assertEqual(verdicts(timed("a", points=1), after), [compare.SAME])


class Test(unittest.TestCase):
    """The statistics against worked values."""

    def test_the_distribution_of_u_is_that_of_the_orders(self):
        self.assertEqual(difference.ways(2, 2), [1, 1, 2, 1, 1])
        # From the table of Mann and Whitney, 1947, for n = m = 4 and U = 1: 2 of 70.
        self.assertEqual(sum(difference.ways(4, 4)[:2]), 2)
        self.assertAlmostEqual(difference.chance_of(15, 4, 4), 2 / 70)

    def test_the_approximation_continues_the_exact_one(self):
        exact = difference.chance_of(260, 20, 20)
        before, difference.EXACT = difference.EXACT, 0
        try:
            self.assertAlmostEqual(difference.chance_of(260, 20, 20), exact, places=3)
        finally:
            difference.EXACT = before

    def test_the_rate_of_false_alarms_is_shared_by_all_points(self):
        # The worked example of Benjamini and Hochberg, 1995, at another rate: thresholds RATE * i / 5.
        rate = difference.RATE
        chances = [rate * 0.1, rate * 0.39, rate * 0.5, rate * 0.81, None, rate * 1.5]
        self.assertEqual(difference.found(chances), [True, True, True, False, False, False])
        self.assertEqual(difference.found([None, None]), [False, False])

    def test_the_same_as_scipy(self):
        try:
            from scipy import stats
        except ImportError:
            self.skipTest("python3-scipy is not installed")
        dice = random.Random(1)
        for sizes in ((8, 8), (5, 11), (25, 30)):
            first, second = ([dice.lognormvariate(-9, 0.02) for _ in range(size)] for size in sizes)
            shifted = [one / 1.01 for one in second]
            expected = stats.mannwhitneyu(shifted, first, alternative="greater").pvalue
            u = sum(later > earlier for later in shifted for earlier in first)
            self.assertAlmostEqual(difference.chance_of(u, *sizes), expected, places=9)

    def test_visits_are_consecutive_samples_and_all_of_them(self):
        self.assertEqual(difference.visit_medians([1, 2, 3, 10, 20, 30], 2), [2, 20])
        self.assertEqual(difference.visit_medians([1, 2, 3, 4, 5], 9), [1, 2, 3, 4, 5])
        self.assertEqual(difference.visit_medians([], 3), [])


class CommandLine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.before = self.file("before.json", timed("a"))
        self.same = self.file("same.json", timed("b"))
        self.slow = self.file("slow.json", timed("b", 1.2))

    def file(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def call(self, *arguments):
        command = [sys.executable, "-m", "plots.compare", *arguments]
        return subprocess.run(command, cwd=made_up.ROOT, capture_output=True, text=True, check=False)

    def test_the_gate_fails_on_what_is_slower_and_passes_otherwise(self):
        gate = "--fail-if-slower=5%"
        self.assertEqual(self.call(self.before, self.same, gate).returncode, 0)
        self.assertEqual(self.call(self.before, self.slow).returncode, 0)
        self.assertEqual(self.call(self.slow, self.before, gate).returncode, 0)
        failed = self.call(self.before, self.slow, gate)
        self.assertEqual(failed.returncode, 1)
        self.assertEqual(len(failed.stderr.splitlines()), POINTS, failed.stderr)
        self.assertRegex(failed.stderr, r"allreduce ring · 4 KiB: \d+% slower")
        self.assertEqual(self.call(self.before, self.slow, "--fail-if-slower=50%").returncode, 0)

    def test_a_gate_that_cannot_see_says_so(self):
        before, after = self.file("r.json", restless("a")), self.file("s.json", restless("b"))
        done = self.call(before, after, "--fail-if-slower=5%")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(
            done.stderr, r"^plots.compare: .*: the machine was too restless to tell 5.0%, only above \d+%\n$"
        )

    def test_a_point_that_fails_now_fails_the_gate(self):
        bad = self.file("bad.json", made_up.run([made_up.allreduce(size=4096, status="failed", check="failed")]))
        done = self.call(self.before, bad, "--fail-if-slower=5%")
        self.assertEqual((done.returncode, done.stderr.count("failed")), (1, 1))

    def test_the_table_names_ratio_interval_verdict_and_the_test(self):
        done = self.call(self.before, self.same, self.slow)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count("no difference"), POINTS + 1)
        self.assertRegex(done.stdout, r"ring · 4 KiB +\S+ µs +\S+ µs +1\.\d{3}  \d\.\d{3} to \d\.\d{3}  slower")
        for word in ("Mann-Whitney", "Benjamini-Hochberg", "Hodges-Lehmann", f"{POINTS} points in both"):
            self.assertIn(word, done.stdout)

    def test_the_spreadsheet_has_plain_numbers(self):
        target = os.path.join(self.folder, "table.csv")
        self.assertEqual(self.call(self.before, self.slow, f"--csv={target}").returncode, 0)
        lines = list(csv.DictReader(io.StringIO(self.read("table.csv"))))
        self.assertEqual(len(lines), POINTS)
        for line in lines:
            self.assertEqual(line["verdict"], "slower")
            self.assertLess(float(line["low"]), float(line["ratio"]))
            self.assertLess(float(line["before_seconds"]), float(line["after_seconds"]))

    def test_hostile_words_are_no_markdown_no_html_and_no_formula(self):
        hostile = "=1+1|<script>`[x](javascript:y)*\n# x"
        content = made_up.run([made_up.allreduce(hostile), made_up.allreduce(size=4096)])
        path, target = self.file("hostile.json", content), os.path.join(self.folder, "out")
        done = self.call(path, path, f"--markdown={target}.md", f"--csv={target}.csv")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        markdown = self.read("out.md")
        lines = [line for line in markdown.splitlines() if line.startswith("|")]
        self.assertEqual({line.count("|") for line in lines}, {8})
        for sign in "<`[*=":
            self.assertNotIn(sign, "".join(lines[2:]).replace("**", ""))
        self.assertEqual(sum(line.startswith("#") for line in markdown.splitlines()), 1)
        for line in csv.reader(io.StringIO(self.read("out.csv"))):
            self.assertFalse(any(cell.startswith("=") for cell in line), line)

    def test_folders_hold_repeated_runs(self):
        for side, factor in (("old", 1.0), ("new", 1.2)):
            os.mkdir(os.path.join(self.folder, side))
            for turn in range(7):
                started = f"2026-01-31T12:{2 * turn + (side == 'new'):02}:00Z"
                content = timed(f"{side} {turn}", factor, visits=1)
                content["run"]["started"] = started
                self.file(f"{side}/{turn}.json", content)
        old, new = (os.path.join(self.folder, side) for side in ("old", "new"))
        done = self.call(old, new, "--fail-if-slower=5%")
        self.assertEqual((done.returncode, done.stdout.count("  slower\n")), (1, POINTS), done.stdout + done.stderr)
        self.assertIn("medians of runs", done.stdout)
        self.assertNotIn("by turns", done.stdout)
        self.assertIn("were not taken by turns", self.call(old, self.before).stdout)
        self.file("new/half.json", '{"schema": 1')
        done = self.call(old, new)
        self.assertEqual((done.returncode, done.stdout.count("  slower\n")), (0, POINTS))
        self.assertIn("half.json: is not whole JSON", done.stderr)

    def test_a_point_that_failed_in_one_of_the_repeated_runs_is_failed(self):
        bad = made_up.run([made_up.allreduce(size=4096, status="failed", check="failed")])
        good = [timed(f"a {turn}", points=1) for turn in range(7)]
        pairs = compare.compare(made_up.loaded(*good), made_up.loaded(*good[1:], bad)).pairs
        self.assertEqual([pair.verdict for pair in pairs], [compare.FAILED])

    def test_a_folder_without_results_is_one_line(self):
        empty = os.path.join(self.folder, "empty")
        os.mkdir(empty)
        for arguments, output in (((empty, self.before), False), ((self.before, empty, self.same), True)):
            done = self.call(*arguments)
            self.assertEqual((done.returncode, bool(done.stdout)), (1, output))
            self.assertIn(f"{empty}: holds no .json file", done.stderr)

    def test_a_broken_file_costs_a_line_and_the_rest_is_compared(self):
        broken = self.file("broken.json", "{")
        done = self.call(self.before, broken, self.same)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("no difference", done.stdout)
        done = self.call(broken, self.same)
        self.assertEqual((done.returncode, done.stdout), (1, ""))

    def test_nothing_in_common_is_an_error(self):
        done = self.call(self.before, self.file("link.json", made_up.run([made_up.link()])))
        self.assertEqual(done.returncode, 1)
        self.assertIn("have no point in common", done.stderr)

    def test_a_wrong_command_line_is_one_line_and_status_2(self):
        for wrong in (
            ["--fail-if-slower=5"],
            ["--fail-if-slower=0%"],
            ["--fail-if-slower=-5%"],
            ["--fail-if-slower=nan%"],
            ["--fail-if-slower=much"],
            ["--fail=5%"],
            ["--no-such"],
        ):
            done = self.call(self.before, self.same, *wrong)
            self.assertEqual((done.returncode, done.stdout), (2, ""), wrong)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(wrong[0].split("=")[0], done.stderr)
        self.assertEqual(self.call(self.before).returncode, 2)

    def test_a_file_that_cannot_be_written_is_one_line(self):
        done = self.call(self.before, self.same, f"--csv={self.folder}/absent/x.csv")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1))


if __name__ == "__main__":
    unittest.main()
