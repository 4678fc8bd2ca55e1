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

    title: str  # what tells it from the other races
    alike: str  # type, op and placement, where all races have the same; else they are in the title
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

    def stretches(self):
        """[(algorithm, smallest bytes, largest bytes)]: as few as cover all sizes with an algorithm that is the fastest,
        or cannot be told from it."""
        found, place = [], 0
        while place < len(self.sizes):
            names = {self.looks[name]: None for name in sorted(self.near[self.sizes[place]], key=self.order(place))}
            winner, end = max(((name, self.until(name, place)) for name in names), key=lambda one: one[1])
            found.append((winner, self.sizes[place], self.sizes[end]))
            place = end + 1
        return found

    def order(self, place):
        return lambda name: self.seconds[name][self.sizes[place]]

    def until(self, look, place):
        """The last of the sizes up to which the algorithm is among the fastest."""
        while place + 1 < len(self.sizes) and look in {self.looks[one] for one in self.near[self.sizes[place + 1]]}:
            place += 1
        return place


def races(runs):
    """One for each set of devices, type, op and placement on which several contenders ran."""
    good = [row for row in rows(runs, "allreduce") if row.ok and row.ranks > 1]
    good = [row for row in good if row.of_point("bytes") and row.metric("seconds")]
    good.sort(key=lambda row: not row.measured)
    groups = grouped(good, lambda row: (same_machine(row), row.text("device"), *shape_of(row)))
    several = [group for group in groups.values() if len(set(told_apart(group, ("bytes", "device", "topology")))) > 1]
    shapes = {shape_of(group[0])[1:] for group in several}
    found = []
    for group in several:
        names = told_apart(group, ("bytes", "device", "topology"))
        seconds, looks, near = {}, {}, {}
        for row, name in zip(group, names):
            seconds.setdefault(name, {})[row.of_point("bytes")] = row.metric("seconds")
            looks[name] = look_of(row)
        for size, here in grouped(list(zip(group, names)), lambda one: one[0].of_point("bytes")).items():
            first = min((row for row, _ in here), key=lambda row: row.metric("seconds"))
            bar = max(first.metric("high") or 0, first.metric("seconds") * (1 + SAME))
            near[size] = [name for row, name in here if (row.metric("low") or row.metric("seconds")) <= bar]
        shape = " · ".join(filter(None, shape_of(group[0])[1:]))
        title = [where(group[0]), units.counted(group[0].ranks, "rank"), shape if len(shapes) > 1 else ""]
        title += ["" if group[0].measured else group[0].nature, f"[{group[0].run.label}]" if group[0].run.label else ""]
        found.append(Race(" · ".join(filter(None, title)), "" if len(shapes) > 1 else shape, seconds, looks, near))
    return found


def where(row):
    return (row.text("topology") or row.text("device")) + (
        f" without {row.text('without')}" if row.text("without") else ""
    )
