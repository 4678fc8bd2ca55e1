# SPDX-License-Identifier: Apache-2.0
"""Simulated times beside those that others measured and published: how far off the simulation is."""

from dataclasses import dataclass
from statistics import median

from plots.load import rows


@dataclass
class Errors:
    count: int
    middle: float  # the median of the errors, as a share
    largest: float
    left_out: float | None  # the median with constants fitted to the other machines only


def compared(runs):
    return [row for row in rows(runs, "validate") if row.ok and (row.metric("ratio") or 0) > 0]


def fact(row, name):
    """What is known of the published time."""
    published = row.result.get("published")
    return published.get(name) if isinstance(published, dict) else None


def doubtful(row):
    return fact(row, "doubtful") is True


def error(ratio):
    """The distance of a ratio from 1, the larger way round: half and twice are both 100% off."""
    return max(ratio, 1 / ratio) - 1


def errors(some):
    """Of those that nobody doubts; None where there are none."""
    sure = [row for row in some if not doubtful(row)]
    if not sure:
        return None
    found = [error(row.metric("ratio")) for row in sure]
    left_out = [error(ratio) for ratio in (row.metric("left_out_ratio") for row in sure) if ratio and ratio > 0]
    return Errors(len(sure), median(found), max(found), median(left_out) if left_out else None)
