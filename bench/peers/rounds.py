# SPDX-License-Identifier: Apache-2.0
"""Contenders of different programs against each other: in rounds, each in random order, so that what the machine does
meanwhile falls on all alike. What is compared is the ratio within a round, never two times of different minutes."""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Callable

from plots.command import write

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
DEFAULT_BIN = os.path.join(ROOT, "build", "cpu", "bin")


class Failed(Exception):
    """A contender that could not run: its name and the reason, one line."""


@dataclass
class Contender:
    name: str
    turn: Callable[[], list]  # runs some steps; the seconds of each
    result: dict = field(default_factory=dict)  # its row: bench, point, command
    rounds: list = field(default_factory=list)  # the samples of each round
    may_fail: bool = False  # it is then left out, and the others go on

    @property
    def samples(self):
        return [seconds for turn in self.rounds for seconds in turn]

    @property
    def medians(self):
        return [statistics.median(turn) for turn in self.rounds]

    @property
    def seconds(self):
        return statistics.median(self.samples)


@dataclass
class Ratio:
    """Of the first to the second: the median over the rounds, and its interval of at least 95%."""

    median: float
    low: float
    high: float

    def __str__(self):
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


def interval_of_median(values):
    """The narrowest pair of order statistics, alike far from the ends, that covers the median with a probability of at
    least 95% (the sign test turned around: Thompson, 1936); the extremes where the values are too few."""
    ordered, number = sorted(values), len(values)
    outside, skip = 0.0, 0  # the chance that the median lies beyond the values which are skipped at the ends
    while (outside := outside + 2 * math.comb(number, skip) / 2**number) <= 0.05:
        skip += 1
    skip = max(0, skip - 1)
    return ordered[skip], ordered[number - 1 - skip]


def ratio(first, second):
    apart = [math.log(a / b) for a, b in zip(first.medians, second.medians, strict=True)]
    low, high = interval_of_median(apart)
    return Ratio(math.exp(statistics.median(apart)), math.exp(low), math.exp(high))


def alternate(contenders, rounds, seed=1):
    """Each contender once a round, in an order drawn anew. Gives those that took all their turns."""
    order = random.Random(seed)
    contenders = list(contenders)
    for index in range(rounds):
        for contender in order.sample(contenders, len(contenders)):
            if sys.stderr.isatty():
                print(f"\r\033[Kround {index + 1} of {rounds}: {contender.name}", end="", file=sys.stderr, flush=True)
            try:
                contender.rounds.append(contender.turn())
            except Failed as error:
                if not contender.may_fail:
                    raise
                contenders.remove(contender)
                print(f"left out: {error}", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return contenders


def count(text):
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not allowed; allowed is a whole number of at least 1")
    return int(text)


def counts(text):
    return [count(one) for one in text.split(",")]


def models(text, among=()):
    """Reads "lenet:64,resnet18:8": models, of any name or among these, each with a batch."""
    found = []
    for one in text.split(","):
        name, colon, batch = one.partition(":")
        if not name or not colon or (among and name not in among):
            allowed = " or ".join(among) or "a model"
            raise argparse.ArgumentTypeError(f"'{one}' is not allowed; allowed is {allowed}, ':' and a batch")
        found.append((name, count(batch)))
    return found


def run_bench(folder, arguments):
    """A benchmark of Ringmark: its report, or Failed."""
    program = os.path.join(folder, arguments[0])
    with tempfile.TemporaryDirectory() as scratch:
        output = os.path.join(scratch, "report.json")
        try:
            done = subprocess.run(
                [program, *arguments[1:], "--quiet", f"--output={output}"], capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise Failed(f"{program}: {error.strerror}; build it first, or say where it is with --bin") from None
        if done.returncode != 0:
            raise Failed(f"{' '.join(arguments)}: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
        with open(output, encoding="utf-8") as file:
            return json.load(file)


def row_of(contender, metric, **metrics):
    """A result of schema 1 from the samples of all rounds."""
    low, high = interval_of_median(contender.medians)
    return {
        "nature": "measured",
        "status": "ok",
        "reason": "",
        "check": "off",
        "wrong": None,
        "oversubscribed": False,
        "stop": "count",
        "visits": len(contender.rounds),
        "runs_per_sample": 1,
        "flags": [],
        "samples": contender.samples,
        "metrics": {metric: contender.seconds, "low": low, "high": high, **metrics},
        **contender.result,
    }


def save(path, run, rows, module):
    """`run` is that of a report of Ringmark's from the same machine; the command becomes this one."""
    of_this_machine = ("--bin=", "--python=", "--output=")
    words = [word for word in sys.argv[1:] if not word.startswith(of_this_machine)]
    run = {**run, "command": ["python3", "-m", module, *words], "complete": True}
    write(path, json.dumps({"schema": 1, "run": run, "results": rows}, indent=1) + "\n", module)


def table(head, rows):
    """As Markdown, its columns in line."""
    lines = [head, ["-" * len(name) for name in head], *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines)
