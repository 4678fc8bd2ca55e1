# SPDX-License-Identifier: Apache-2.0
"""What the comparisons with peers stand on. The peers themselves are not needed: a contender is whatever takes a
turn."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import unittest

from jsonschema.validators import validator_for

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = os.environ["RINGMARK_BIN"]
sys.path.insert(0, str(ROOT))

from bench.peers import allreduce, rounds  # noqa: E402


class Rounds(unittest.TestCase):
    def test_the_interval_of_a_median_covers_95_percent(self):
        # Of n values those that rank k and n + 1 - k, as tables of the sign test have them for 5% on two sides.
        for number, rank in ((1, 1), (5, 1), (6, 1), (8, 1), (9, 2), (10, 2), (12, 3), (20, 6), (50, 18)):
            values = list(range(1, number + 1))
            self.assertEqual(rounds.interval_of_median(values[::-1]), (rank, number + 1 - rank), number)

    def test_a_ratio_is_of_the_rounds_and_not_of_all_samples(self):
        # The machine is ten times slower in every other round, which is seen by both.
        pace = [1, 10] * 5
        first = rounds.Contender("a", None, rounds=[[2 * one, 2 * one, 9 * one] for one in pace])
        second = rounds.Contender("b", None, rounds=[[one] for one in pace])
        found = rounds.ratio(first, second)
        self.assertAlmostEqual(found.median, 2)
        self.assertAlmostEqual(found.low, 2)
        self.assertAlmostEqual(found.high, 2)

    def test_everyone_has_one_turn_a_round(self):
        turns = []
        contenders = [rounds.Contender(name, lambda name=name: turns.append(name) or [1.0]) for name in "abc"]
        rounds.alternate(contenders, 20)
        for index in range(20):
            self.assertEqual(sorted(turns[3 * index : 3 * index + 3]), ["a", "b", "c"])
        self.assertGreater(len({tuple(turns[3 * index : 3 * index + 3]) for index in range(20)}), 1)

    def test_who_fails_is_left_out_and_the_others_go_on(self):
        turns = []

        def fail_later():
            turns.append(1)
            if len(turns) == 2:
                raise rounds.Failed("b: gone")
            return [1.0]

        sound = rounds.Contender("a", lambda: [1.0])
        with contextlib.redirect_stderr(io.StringIO()) as told:
            whole = rounds.alternate([sound, rounds.Contender("b", fail_later, may_fail=True)], 4)
        self.assertEqual(([each.name for each in whole], len(sound.rounds), len(turns)), (["a"], 4, 2))
        self.assertEqual(told.getvalue(), "left out: b: gone\n")
        with self.assertRaises(rounds.Failed):
            turns.clear()
            rounds.alternate([sound, rounds.Contender("b", fail_later)], 4)

    def test_a_table_is_markdown_in_line(self):
        self.assertEqual(rounds.table(["a", "long"], [["wide one", "b"]]).splitlines(),
                         ["| a        | long |", "| -        | ---- |", "| wide one | b    |"])  # fmt: skip


class Allreduce(unittest.TestCase):
    def test_our_turn_is_a_run_of_the_benchmark_and_the_rows_keep_the_schema(self):
        options = type("Options", (), {"bin": BIN, "samples": 3})
        runs = []
        mine = allreduce.ours(options, "two_shot", 2, 4096, runs)
        answer = [sys.executable, "-c", "print([2e-6, 3e-6, 1e-6])"]
        theirs = allreduce.peer("a peer", "a_peer", answer, 2, 4096, 3)
        rounds.alternate([mine, theirs], 2)
        self.assertEqual(len(mine.samples), 6)
        self.assertEqual(theirs.seconds, 2e-6)
        both = (mine, theirs)
        rows = [rounds.row_of(each, "seconds", **allreduce.bandwidths(4096, each.seconds, 2)) for each in both]
        self.assertEqual(rows[1]["metrics"]["busbw"], 4096 / 2e-6)
        self.assertEqual(rows[0]["check"], "exact")
        schema = json.loads((ROOT / "results" / "schema.json").read_text())
        report = {"schema": 1, "run": runs[0], "results": rows}
        self.assertEqual([error.message for error in validator_for(schema)(schema).iter_errors(report)], [])

    def test_a_peer_that_fails_is_named(self):
        broken = [sys.executable, "-c", "import sys; sys.exit('no network')"]
        with self.assertRaisesRegex(rounds.Failed, "^a peer: no network$"):
            allreduce.peer("a peer", "a_peer", broken, 2, 4096, 3).turn()

    def test_a_folder_without_the_programs_is_named(self):
        with self.assertRaisesRegex(rounds.Failed, "build it first"):
            rounds.run_bench("/nowhere", ["bench_allreduce"])


class BadInput(unittest.TestCase):
    def test_is_one_line_and_status_2(self):
        for module, argument in (
            ("allreduce", "--bytes=4Q"), ("allreduce", "--bytes=3"), ("allreduce", "--ranks=0"),
            ("allreduce", "--rounds=x"), ("allreduce", "--samples=-1"), ("pytorch_step", "--model=lenet"),
            ("pytorch_step", "--model=vgg:8"), ("pytorch_step", "--threads=two"), ("pytorch_step", "--steps=0"),
        ):  # fmt: skip
            done = subprocess.run([sys.executable, "-m", f"bench.peers.{module}", argument], cwd=ROOT, check=False,
                                  capture_output=True, text=True)  # fmt: skip
            self.assertEqual(done.returncode, 2, (module, argument))
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn("is not allowed", done.stderr)


if __name__ == "__main__":
    unittest.main()
