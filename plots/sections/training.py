# SPDX-License-Identifier: Apache-2.0
"""The training step: its phases, its all-reduce beside all-reduce alone, and one step from begin to end."""

import math

from plots import drawing, headline, pieces, series, style, units
from plots.load import machine_of, rows
from plots.page import chosen, folded, noted
from plots.timelines import steps_watched


CARRIED = {
    "alone, in one piece": style.PHASES["update"],
    "its buckets alone": style.PHASES["hidden communication"],
    "exposed in the step": style.PHASES["exposed communication"],
}


def steps(runs, page):
    panels = [(title, phases_of(bars, page)) for title, bars in series.steps(runs)]
    listed = [row for row in rows(runs, "train") if row.metric("step_seconds") is not None]
    if not listed:
        return ""
    names = series.told_apart(listed)
    listing = page.table(
        [
            "what",
            "step",
            "compute",
            "communication",
            "exposed",
            "hidden",
            "exposed / step",
            "moved",
            "idle",
            "images/s",
            "load",
        ],
        [
            [
                name,
                *(
                    units.seconds(row.metric(f"{key}_seconds"))
                    for key in ("step", "compute", "communication", "exposed", "hidden")
                ),
                units.percent(row.metric("communication_fraction")),
                units.size(row.metric("bytes_moved")),
                units.percent(pieces.idle_share(row)),
                units.rate(headline.images_per_second(row), "images"),
                units.seconds(row.metric("load_seconds")),
            ]
            for row, name in zip(listed, names)
        ],
        "numbers",
    )
    phases = [
        [name, phase, units.seconds(value)]
        for row, name in zip(listed, names)
        for phase, value in (row.result["phases"].items() if isinstance(row.result.get("phases"), dict) else ())
    ]
    lead = (
        "Compute, hidden and exposed communication and update make up the step; loading is beside it, not in it."
        " Communication is hidden where computing goes on meanwhile. Exposed is the step minus the step without"
        " communication; below zero it is noise, and drawn as nothing. Idle is the part of all devices' time in which they"
        " compute nothing; where the network is cut in pieces, exposed has their waiting for each other in it."
    )
    return (
        noted(lead)
        + chosen("Show", panels)
        + folded("All numbers", listing)
        + folded("Phases as the benches name them", page.table(["what", "phase", "time"], phases))
    )


def phases_of(bars, page):
    names = [bar.name for bar in bars]
    phases = [
        (phase, colour, [bar.parts[phase] for bar in bars], [f"{phase}\n{bar.text}" for bar in bars])
        for phase, colour in style.PHASES.items()
        if any(bar.parts[phase] > 0 for bar in bars)
    ]
    return page.figure(
        drawing.bars(names, phases, [bar.nature for bar in bars]),
        130 + 34 * len(bars),
        barmode="stack",
        margin={"l": 10},
        xaxis=drawing.time_axis("a step", max(sum(bar.parts.values()) for bar in bars)),
        yaxis=drawing.name_axis(names),
    )


def inside(runs, page):
    """The same bytes reduced by bench_allreduce, by the training's own buckets with nothing else running, and what of
    it is left to see in the step."""
    several = [row for row in rows(runs, "train") if row.ok and row.ranks > 1 and row.metric("communication_seconds")]
    good = [row for row in several if not pieces.in_pieces(row)]  # of gradients alone
    if not good:
        return ""
    panels, body = [], []
    for model, group in series.grouped(good, headline.model_name).items():
        names = series.told_apart(group, ("model", "lr"), ("algorithm", "device"))
        sizes = [row.metric("parameter_bytes") for row in group]
        columns = (
            [alone(row, size, runs) for row, size in zip(group, sizes)],
            [row.metric("communication_seconds") for row in group],
            [row.metric("exposed_seconds") for row in group],
        )
        panels.append((model, carried(names, columns, group, page)))
        for name, size, row, *seconds in zip(names, sizes, group, *columns):
            sent = len(row.list("buckets")) or units.NOTHING
            body.append([f"{model} · {name}", units.size(size), sent, *map(units.seconds, seconds)])
    head = ["what", "gradients", "pieces", *CARRIED]
    return (
        noted(
            "Alone: all gradients in one all-reduce, from the all-reduce results on the same devices, between the two"
            " sizes nearest to it. Its buckets alone: as the training sends them, nothing else running."
        )
        + chosen("Show", panels)
        + folded("All numbers", page.table(head, body, "numbers"))
    )


def carried(names, columns, group, page):
    """A group of bars for each name: the seconds of each of CARRIED."""
    phases = [
        (
            kind,
            colour,
            [max(one or 0, 0) for one in times],
            [f"{name}\n{kind} {units.seconds(one)}" for name, one in zip(names, times)],
        )
        for (kind, colour), times in zip(CARRIED.items(), columns)
        if any(times)
    ]
    return page.figure(
        drawing.bars(names, phases, [row.nature for row in group]),
        130 + 56 * len(group),
        barmode="group",
        margin={"l": 10},
        xaxis=drawing.time_axis("a step", max(max(values) for _, _, values, _ in phases)),
        yaxis=drawing.name_axis(names),
    )


def alone(row, size, runs):
    """Seconds of one all-reduce of so many bytes on the same devices by the same algorithm, in any run on that machine:
    between measured sizes, straight on logarithmic axes; None outside of them."""
    if not size:
        return None
    here, times = machine_of(row.run), {}
    for other in rows(runs, "allreduce"):
        same = all(
            (other.point.get(name) or None) == (row.point.get(name) or None)
            for name in ("device", "threads", "algorithm", "engine", "topology", "without")
        )
        plain = other.text("dtype") == "f32" and other.text("op") == "sum" and other.text("launch") == "eager"
        if same and plain and other.ok and machine_of(other.run) == here and other.metric("seconds"):
            times[other.of_point("bytes")] = other.metric("seconds")
    below = max((one for one in times if one and one <= size), default=None)
    above = min((one for one in times if one and one >= size), default=None)
    if below is None or above is None:
        return None
    if below == above:
        return times[below]
    share = math.log(size / below) / math.log(above / below)
    return math.exp((1 - share) * math.log(times[below]) + share * math.log(times[above]))


def timelines(runs, page):
    panels = [(name, timeline(spans, nature, page)) for name, spans, nature in steps_watched(runs)]
    lead = (
        "Measured ones are from a run of their own with a clock around every part, which costs time itself: it says"
        " where, not how long. Drag to zoom, double-click to come back."
    )
    return noted(lead) + chosen("Show", panels) if panels else ""


def timeline(spans, nature, page):
    lanes = list(dict.fromkeys(span.lane for span in spans))
    traces = []
    for kind in dict.fromkeys(span.kind for span in spans):
        those = [span for span in spans if span.kind == kind]
        texts = [
            f"{one.name}\n{kind} on {one.lane}\n"
            f"{units.seconds(one.begin)} to {units.seconds(one.end)}, {units.seconds(one.end - one.begin)}"
            for one in those
        ]
        (trace,) = drawing.bars(lanes, [(kind, style.work(kind), [one.end - one.begin for one in those], texts)], [])
        trace.update(y=[lanes.index(one.lane) for one in those], base=[one.begin for one in those], width=0.8)
        trace["marker"] = {"color": style.work(kind), "line": {"width": 0.5, "color": "#ffffff"}}
        trace.update(hovertext=trace["text"], text=[drawing.figure_text(one.name) for one in those])
        trace.update(textposition="inside", insidetextanchor="middle", textangle=0, insidetextfont={"color": "#ffffff"})
        if nature != "measured":
            trace["marker"]["pattern"] = {"shape": "/"}
        traces.append(trace)
    return page.figure(
        traces,
        140 + 34 * len(lanes),
        barmode="overlay",
        uniformtext={"minsize": 10, "mode": "hide"},  # a name stands in its bar where it has room
        dragmode="zoom",
        margin={"l": 10},
        xaxis=drawing.time_axis("since the step began", max(span.end for span in spans)),
        yaxis={**drawing.name_axis(lanes), "fixedrange": True},
    )
