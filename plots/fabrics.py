# SPDX-License-Identifier: Apache-2.0
"""The same work over different fabrics: on one topology and on another, with NVLink and without it, between peers and
through the host. What is compared differs in nothing else."""

import json
from dataclasses import dataclass, field

from plots import series, style, units
from plots.headline import model_name
from plots.load import rows

FABRIC = ("topology", "without", "transport")
BESIDES = ("device", "rank_order")  # differ with the fabric


@dataclass
class Work:
    what: str
    row: object  # one of its results
    seconds: dict = field(default_factory=dict)  # fabric -> seconds, the fastest fabric first


def name(row):
    """Of the fabric that a result ran on; empty where it says nothing of one."""
    parts = [row.text("topology"), f"without {row.text('without')}" if row.text("without") else ""]
    if row.text("transport") not in ("", "auto"):
        parts.append(
            {"peer": "peer access", "staged": "through the host"}.get(row.text("transport"), row.text("transport"))
        )
    return " ".join(filter(None, parts))


def works(runs, bench, metric, what):
    found = {}
    for row in rows(runs, bench):
        if row.ok and row.ranks > 1 and row.metric(metric) and name(row):
            point = {key: value for key, value in row.point.items() if key not in FABRIC + BESIDES}
            key = json.dumps([row.nature, point], sort_keys=True)
            work = found.setdefault(key, Work(what(row), row))
            work.seconds.setdefault(name(row), row.metric(metric))
    several = [work for work in found.values() if len(work.seconds) > 1]
    order = {
        fabric: sum(work.seconds.get(fabric, 0) for work in several) for work in several for fabric in work.seconds
    }
    for work in several:
        # A machine with NVLink comes before itself without, also where it makes no difference.
        work.seconds = dict(sorted(work.seconds.items(), key=lambda one: (order[one[0]], len(one[0]))))
    return several


def allreduce(runs):
    def what(row):
        parts = [
            row.carrier,
            units.counted(row.ranks, "rank"),
            row.text("dtype"),
            row.text("op"),
        ]
        return " · ".join(filter(None, [*parts, row.text("software"), units.size(row.of_point("bytes"))]))

    return works(runs, "allreduce", "seconds", what)


def training(runs):
    def what(row):
        parts = [model_name(row), row.text("strategy"), row.text("algorithm"), units.counted(row.ranks, "device")]
        return " · ".join(filter(None, [*parts, f"{units.digits(row.of_point('global_batch'))} images a step"]))

    return works(runs, "train", "step_seconds", what)


def over_bytes(some):
    """Panels of the time of an all-reduce over bytes, by the fastest algorithm on each fabric: a line a fabric."""

    def shape(work):
        return work.row.nature, work.row.ranks, *(work.row.text(name) for name in ("dtype", "op", "software"))

    panels = []
    for (nature, ranks, *words), group in series.grouped(some, shape).items():
        best = {}
        for work in group:
            size = work.row.of_point("bytes")
            for fabric, seconds in work.seconds.items() if size else ():
                times = best.setdefault(fabric, {})
                times[size] = min(seconds, times.get(size, seconds))
        lines = [
            series.Series(fabric, style.fabric(place), nature, [(*one, None, None) for one in sorted(times.items())])
            for place, (fabric, times) in enumerate(best.items())
        ]
        title = ["all-reduce", units.counted(ranks, "rank"), *words, "" if nature == "measured" else nature]
        if lines:
            panels.append(series.Panel(" · ".join(filter(None, title)), lines))
    return panels
