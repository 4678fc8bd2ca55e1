# SPDX-License-Identifier: Apache-2.0
"""Contenders against each other: who is fastest over which bytes, and how far behind the others are."""

from dataclasses import dataclass

from plots import units
from plots.headline import SAME, same_machine
from plots.load import rows
from plots.series import grouped, look_of, shape_of, told_apart


@dataclass
class Race:
    """On one set of devices, for one type, op and placement."""

    title: str
    seconds: dict  # name -> {bytes: seconds}
    looks: dict  # name -> the algorithm
    near: dict  # bytes -> names that cannot be told from the fastest

    @property
    def names(self):
        return list(self.seconds)

    @property
    def sizes(self):
        return sorted(self.near)

    def ratio(self, name, size):
        """To the fastest, None where it was not timed."""
        best = min(times[size] for times in self.seconds.values() if size in times)
        return self.seconds[name][size] / best if size in self.seconds[name] else None

    def fastest(self, size):
        """The algorithm, and a sentence with the runner-up."""
        order = sorted((times[size], name) for name, times in self.seconds.items() if size in times)
        (best, winner), rest = order[0], order[1:]
        alike = [name for _, name in rest if name in self.near[size]]
        said = f"{winner}, {units.seconds(best)}"
        if alike:
            said += f"; not to be told from it: {', '.join(alike)}"
        elif rest:
            said += f"; next {rest[0][1]}, {units.times(rest[0][0] / best)} times as long"
        return self.looks[winner], said


def races(runs):
    """One for each set of devices, type, op and placement on which several contenders ran."""
    good = [row for row in rows(runs, "allreduce") if row.ok and row.ranks > 1]
    good = [row for row in good if row.of_point("bytes") and row.metric("seconds")]
    found = []
    for group in grouped(good, lambda row: (same_machine(row), row.text("device"), *shape_of(row))).values():
        names = told_apart(group, ("bytes", "device", "topology"))
        seconds, looks, near = {}, {}, {}
        for row, name in zip(group, names):
            seconds.setdefault(name, {})[row.of_point("bytes")] = row.metric("seconds")
            looks[name] = look_of(row)
        if len(seconds) < 2:
            continue
        for size, here in grouped(list(zip(group, names)), lambda one: one[0].of_point("bytes")).items():
            first = min((row for row, _ in here), key=lambda row: row.metric("seconds"))
            bar = max(first.metric("high") or 0, first.metric("seconds") * (1 + SAME))
            near[size] = [name for row, name in here if (row.metric("low") or row.metric("seconds")) <= bar]
        where = group[0].text("topology") or group[0].text("device")
        if group[0].text("without"):
            where += f" without {group[0].text('without')}"
        nature = "" if group[0].measured else group[0].nature
        label = f"[{group[0].run.label}]" if group[0].run.label else ""
        shape = [units.counted(group[0].ranks, "rank"), *shape_of(group[0])[1:]]
        found.append(Race(" · ".join(filter(None, [where, *shape, nature, label])), seconds, looks, near))
    return found
