# SPDX-License-Identifier: Apache-2.0
"""Steps of training from begin to end, part by part, before any plotting library."""

from typing import NamedTuple

from plots import series, units
from plots.load import rows


class Span(NamedTuple):
    """What keeps a lane busy; seconds since the step began."""

    lane: str
    kind: str
    name: str
    begin: float
    end: float


def steps_watched(runs):
    """[(name, spans, nature)], the measured ones on most devices first: one device has little to show."""
    good = [row for row in rows(runs, "train") if row.ok and spans_of(row)]
    good.sort(key=lambda row: (not row.measured, -row.ranks))
    names = series.told_apart(good, ("lr",), ("algorithm", "device"))
    return [(name, spans_of(row), row.nature) for row, name in zip(good, names)]


def spans_of(row):
    """What can be drawn: the parts that were watched; of a forecast, which was not watched but knows when its buckets
    begin and end, those beside the phases."""
    found = []
    for span in row.list("timeline"):
        if isinstance(span, dict):
            begin, end = units.number(span.get("begin_seconds")), units.number(span.get("end_seconds"))
            if begin is not None and end is not None and end >= begin:
                found.append(Span(str(span.get("lane")), str(span.get("kind")), str(span.get("name")), begin, end))
    return found or forecast(row)


def forecast(row):
    """Of the strategies whose communication is all in their buckets."""
    step, forward, backward, update = (
        row.metric(f"{name}_seconds") for name in ("step", "forward", "backward", "optimizer")
    )
    known = row.text("strategy") in ("scratch", "distributed")
    if row.measured or not known or None in (step, forward, backward, update):
        return []
    ends = (("forward", 0, forward), ("backward", forward, forward + backward), ("update", step - update, step))
    found = [Span("every device", kind, kind, begin, end) for kind, begin, end in ends]
    for bucket in row.list("buckets"):
        bucket = bucket if isinstance(bucket, dict) else {}
        begin, end = units.number(bucket.get("begin_seconds")), units.number(bucket.get("end_seconds"))
        if begin is not None and end is not None:
            layers = bucket.get("layers")
            layers = ", ".join(map(str, layers)) if isinstance(layers, list) else ""
            name = " of ".join(filter(None, (units.size(bucket.get("bytes")), layers)))
            found.append(Span("communication", "all_reduce", name, begin, end))
    return found
