# SPDX-License-Identifier: Apache-2.0
"""Whether two sets of timings of the same thing differ, by a test that assumes no distribution. What is tested are the
medians of visits (groups of samples, apart in time), since the samples inside a visit are too alike to count one by
one. So are visits that follow each other on a machine that wanders by itself: they are merged.

- Mann and Whitney, "On a test of whether one of two random variables is stochastically larger than the other", Annals
  of Mathematical Statistics 18, 1947. The hypothesis tested is not that the two are equal, but that they are within
  LEAST of each other: the same binary started twice differs by about that much (Mytkowicz et al., "Producing wrong data
  without doing anything obviously wrong!", ASPLOS 2009).
- Hodges and Lehmann, "Estimates of location based on rank tests", Annals of Mathematical Statistics 34, 1963: the ratio
  and its interval.
- Benjamini and Hochberg, "Controlling the false discovery rate", Journal of the Royal Statistical Society B 57, 1995:
  many points are compared at once, and one of a hundred would seem to differ by chance."""

import functools
import math
from dataclasses import dataclass
from statistics import NormalDist, mean, median

from plots import units

LEAST = math.log(1.01)  # a smaller difference, of the logarithms of seconds, is none
RATE = 0.01  # of false alarms; intervals have the confidence 1 - RATE
ALIKE = 0.4  # autocorrelation of what is not independent
FEWEST = 3  # visits that are never merged
EXACT = 400  # pairs up to which the distribution of U is counted, not approximated
METHOD = (
    f"Mann-Whitney U test on the medians of visits, for a difference of more than {units.percent(math.expm1(LEAST))}; "
    f"Benjamini-Hochberg over all points, false discovery rate {units.percent(RATE)}; "
    f"Hodges-Lehmann ratio with its {units.percent(1 - RATE)} interval."
)


@dataclass
class Difference:
    ratio: float  # of the second's seconds to the first's: above 1 is slower
    low: float | None = None  # its interval; None where it is not known
    high: float | None = None
    chance: float | None = None  # p-value; None where there are too few visits for any verdict


def visit_medians(samples, visits):
    """Medians of so many groups of consecutive samples."""
    visits = max(1, min(visits, len(samples)))
    ends = [len(samples) * visit // visits for visit in range(visits + 1)]
    return [median(samples[begin:end]) for begin, end in zip(ends, ends[1:])] if samples else []


def independent(visits):
    """Neighbours are merged while they resemble each other (a machine that wanders by itself), by the first
    autocorrelation of their logarithms: the test takes each for a draw of its own."""
    while len(visits) > FEWEST and autocorrelation([math.log(visit) for visit in visits]) > ALIKE:
        visits = [mean(visits[place : place + 2]) for place in range(0, len(visits), 2)]
    return visits


def autocorrelation(values):
    middle = mean(values)
    spread = math.fsum((value - middle) ** 2 for value in values)
    return math.fsum((a - middle) * (b - middle) for a, b in zip(values, values[1:])) / spread if spread else 0.0


@functools.lru_cache(maxsize=None)
def ways(first, second):
    """In how many orders of so many firsts and seconds U, the number of (first, second) pairs in which the second is
    larger, is 0, 1, ... first * second: the coefficients of the Gaussian binomial."""
    counts = [1]
    for size in range(1, first + 1):
        counts += [0] * second
        for place in range(len(counts) - 1, second + size - 1, -1):
            counts[place] -= counts[place - second - size]
        for place in range(size, len(counts)):
            counts[place] += counts[place - size]
    return counts


def chance_of(u, first, second):
    """The probability of a U of at least `u` where the two do not differ."""
    pairs = first * second
    if pairs <= EXACT:
        counts = ways(first, second)
        return sum(counts[max(0, math.floor(u)) :]) / sum(counts)
    spread = math.sqrt(pairs * (first + second + 1) / 12)
    return 1 - NormalDist().cdf((u - 0.5 - pairs / 2) / spread)


@functools.lru_cache(maxsize=None)
def left_out(first, second):
    """How many of the sorted pairs lie outside of the interval, at each end."""
    skip = 0
    while chance_of(first * second - skip - 1, first, second) <= RATE / 2:
        skip += 1
    return skip


def difference(first, second):
    """Of the visit medians of two runs, in seconds, all above 0."""
    first, second = independent(first), independent(second)
    apart = sorted(math.log(later) - math.log(earlier) for later in second for earlier in first)
    ratio = math.exp(median(apart))
    if 2 / math.comb(len(first) + len(second), len(first)) > RATE:
        return Difference(ratio)
    slower, faster = (
        sum(sign * one > LEAST for one in apart) + sum(sign * one == LEAST for one in apart) / 2 for sign in (1, -1)
    )
    chance = min(1.0, 2 * chance_of(max(slower, faster), len(first), len(second)))
    skip = left_out(len(first), len(second))
    return Difference(ratio, math.exp(apart[skip]), math.exp(apart[-1 - skip]), chance)


def found(chances):
    """Which of the p-values are differences, all of them tested together; None never is."""
    known = sorted((chance, index) for index, chance in enumerate(chances) if chance is not None)
    most = max((place for place, (chance, _) in enumerate(known, 1) if chance <= RATE * place / len(known)), default=0)
    differ = {index for _, index in known[:most]}
    return [index in differ for index in range(len(chances))]
