# SPDX-License-Identifier: Apache-2.0
"""Whether two sets of timings of the same thing differ, by a test that assumes no distribution. What is tested are the
medians of visits (groups of samples, apart in time), since the samples inside a visit are too alike to count one by
one. So are visits that follow each other on a machine that wanders by itself: they are merged.

- Mann and Whitney, "On a test of whether one of two random variables is stochastically larger than the other", Annals
  of Mathematical Statistics 18, 1947. The hypothesis tested is not that the two are equal, but that they are within
  some least difference of each other. On a quiet machine that is LEAST: the same binary started twice differs by about
  that much (Mytkowicz et al., "Producing wrong data without doing anything obviously wrong!", ASPLOS 2009). On a
  restless one it is what the points themselves show: see unrest().
- Hodges and Lehmann, "Estimates of location based on rank tests", Annals of Mathematical Statistics 34, 1963: the ratio
  and its interval.
- Benjamini and Hochberg, "Controlling the false discovery rate", Journal of the Royal Statistical Society B 57, 1995:
  many points are compared at once, and one of a hundred would seem to differ by chance."""

import functools
import math
from dataclasses import dataclass
from statistics import NormalDist, mean, median, quantiles

from plots import units

LEAST = math.log(1.01)  # a smaller difference, of the logarithms of seconds, is none
UNRESTS = 6  # a difference of so many times the unrest, or less, is none
NOISES = 3  # times the variance of the noise: what lies within is put down to noise, not to unrest
MOST_NOISE = 0.03  # but no more than this, as a deviation: where runs are noisier inside, so is what lies between them
GROUP = 4  # points that have a median of their own
NORMAL = NormalDist()
RATE = 0.01  # of false alarms; intervals have the confidence 1 - RATE
ALIKE = 0.4  # autocorrelation of what is not independent
FEWEST = 3  # visits that are never merged
EXACT = 400  # pairs up to which the distribution of U is counted, not approximated
METHOD = (
    "Mann-Whitney U test on the medians of {what}, for a difference of more than {least}; "
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
    return 1 - NORMAL.cdf((u - 0.5 - pairs / 2) / spread)


@functools.lru_cache(maxsize=None)
def left_out(first, second):
    """How many of the sorted pairs lie outside of the interval, at each end."""
    skip = 0
    while chance_of(first * second - skip - 1, first, second) <= RATE / 2:
        skip += 1
    return skip


def difference(first, second, least=LEAST):
    """Of the visit medians of two runs, in seconds, all above 0; by more than `least`, in logarithms."""
    first, second = independent(first), independent(second)
    apart = sorted(math.log(later) - math.log(earlier) for later in second for earlier in first)
    ratio = math.exp(median(apart))
    if 2 / math.comb(len(first) + len(second), len(first)) > RATE:
        return Difference(ratio)
    slower, faster = (
        sum(sign * one > least for one in apart) + sum(sign * one == least for one in apart) / 2 for sign in (1, -1)
    )
    chance = min(1.0, 2 * chance_of(max(slower, faster), len(first), len(second)))
    skip = left_out(len(first), len(second))
    return Difference(ratio, math.exp(apart[skip]), math.exp(apart[-1 - skip]), chance)


def unrest(groups):
    """What the machine did to single points between the two runs, as a standard deviation of the logarithm of their
    ratios: how far ratios lie from the median of their group, beyond what the noise inside the runs explains. `groups`
    has lists of Difference; the points of a group, such as one algorithm over bytes, are expected to change together.
    From the upper quartile of the distances, so that a quarter of the points may have changed for any reason. Groups too
    small for a median of their own are taken together; 0 where there are too few points in all."""
    groups = [[one for one in group if one.low is not None] for group in groups]
    small = [one for group in groups if len(group) < GROUP for one in group]
    distances, noises = [], []
    for group in [group for group in groups if len(group) >= GROUP] + ([small] if len(small) > 1 else []):
        logs = [math.log(one.ratio) for one in group]
        middle = median(logs)
        # A median of few lies nearer to each of them than to what they are drawn from.
        distances += [abs(one - middle) * math.sqrt(len(group) / (len(group) - 1)) for one in logs]
        noises += map(noise_of, group)
    if len(distances) <= GROUP:
        return 0.0
    spread = quantiles(distances, n=4, method="inclusive")[2] / NORMAL.inv_cdf(0.875)
    return math.sqrt(max(0.0, spread**2 - min(NOISES * median(noises), MOST_NOISE**2)))


def noise_of(one):
    """The variance of the logarithm of a ratio, from its interval."""
    return (math.log(one.high / one.low) / (2 * NORMAL.inv_cdf(1 - RATE / 2))) ** 2


def found(chances):
    """Which of the p-values are differences, all of them tested together; None never is."""
    known = sorted((chance, index) for index, chance in enumerate(chances) if chance is not None)
    most = max((place for place, (chance, _) in enumerate(known, 1) if chance <= RATE * place / len(known)), default=0)
    differ = {index for _, index in known[:most]}
    return [index in differ for index in range(len(chances))]
