# SPDX-License-Identifier: Apache-2.0
"""What connects the devices: fabrics side by side, measured links, and a topology drawn with the load of its links."""

import math

from plots import drawing, fabrics as compared, headline, series, style, units
from plots.load import rows
from plots.page import chosen, folded, grid, noted


def fabrics(runs, page):
    """The same work on different fabrics: the fastest algorithm's time on each, and every number."""
    works = {"all-reduce": compared.allreduce(runs), "training step": compared.training(runs)}
    panels = [*over_bytes(works["all-reduce"], page), *in_training(works["training step"], page)]
    listed = [listing(what, found, page) for what, found in works.items() if found]
    lead = "Of the algorithms that ran on each, the fastest. What is hollow, dashed or hatched was not measured."
    return noted(lead) + chosen("Show", panels) + folded("All numbers", "".join(listed)) if listed else ""


def over_bytes(works, page):
    """Panels of the time over bytes, a line a fabric."""
    for panel in compared.over_bytes(works):
        points = drawing.points_of(panel.series)
        figure = page.figure(
            drawing.lines(panel.series, units.size, units.seconds),
            xaxis=drawing.byte_axis([point[0] for point in points]),
            yaxis=drawing.log_axis([point[1] for point in points], units.seconds),
        )
        yield panel.title, figure


def in_training(works, page):
    """Panels of the step, one for each model: a group of bars for each way of training, a bar a fabric."""
    for (model, nature), group in series.grouped(
        works, lambda work: (headline.model_name(work.row), work.row.nature)
    ).items():
        names = [work.what.removeprefix(f"{model} · ") for work in group]
        bars = [
            (
                fabric,
                style.fabric(place)[0],
                [work.seconds.get(fabric, 0) for work in group],
                [f"{work.what}\n{fabric} {units.seconds(work.seconds.get(fabric))}" for work in group],
            )
            for place, fabric in enumerate(dict.fromkeys(name for work in group for name in work.seconds))
        ]
        figure = page.figure(
            drawing.bars(names, bars, [nature] * len(names)),
            130 + (20 + 18 * len(bars)) * len(names),
            barmode="group",
            margin={"l": 10},
            xaxis=drawing.time_axis("a step", max(max(work.seconds.values()) for work in group)),
            yaxis=drawing.name_axis(names),
        )
        yield " · ".join(filter(None, ["training step", model, "" if nature == "measured" else nature])), figure


def listing(what, works, page):
    """Each against the first."""
    names = list(dict.fromkeys(name for work in works for name in work.seconds))

    def cell(work, name):
        first, seconds = next(iter(work.seconds)), work.seconds.get(name)
        if not seconds or name == first:
            return units.seconds(seconds)
        return f"{units.seconds(seconds)} ({units.times(seconds / work.seconds[first])} times as long)"

    return page.table([what, *names], [[work.what, *(cell(work, name) for name in names)] for work in works], "numbers")


def links(runs, page):
    found = rows(runs, "link")
    head = ["from", "to", "latency", "one way", "both ways", "transport", "data check", "nature"]
    body = [
        [
            row.text("from"),
            row.text("to"),
            units.seconds(row.metric("latency_seconds")),
            units.bandwidth(row.metric("bandwidth")),
            units.bandwidth(row.metric("bidirectional_bandwidth")),
            row.text("transport", "-"),
            checked(row),
            row.nature,
        ]
        for row in found
    ]
    if not found:
        return ""
    lead = noted("Every ordered pair of devices. Both ways is the sum, both running at once.")
    groups = series.grouped(
        [row for row in found if row.ok], lambda row: (row.run.label, row.nature, row.of_point("bytes"))
    )
    drawn = [matrix(group, page) for group in groups.values() if len(group) > 2]
    listed = page.table(head, body, "numbers")
    return lead + "".join(drawn) + (folded("All numbers", listed) if drawn else listed)


def matrix(group, page):
    names = list(dict.fromkeys(name for row in group for name in (row.text("from"), row.text("to"))))
    parts = []
    for metric, label, show in (
        ("bandwidth", "one way", units.bandwidth),
        ("latency_seconds", "latency", units.seconds),
    ):
        values = {(row.text("from"), row.text("to")): row.metric(metric) for row in group}
        cells = [[values.get((start, end)) for end in names] for start in names]
        words = [[show(one) if one is not None else "" for one in line] for line in cells]
        texts = [[f"{start} to {end}\n{word}" for end, word in zip(names, line)] for start, line in zip(names, words)]
        better = "Blues" if metric == "bandwidth" else "Oranges"
        parts.append(
            page.figure(
                [drawing.heat(names, names, cells, texts, colorscale=style.SCALES[better], showscale=False)],
                150 + 34 * len(names),
                caption=f"{label} (line: from, column: to)",
                annotations=drawing.written(words, 150),
                showlegend=False,
                margin={"l": 10, "t": 10},
                xaxis=drawing.column_axis("", names),
                yaxis=drawing.name_axis(names),
            )
        )
    return grid(parts)


def checked(row):
    if not row.ok:
        return "bad", str(row.result.get("reason") or row.status)
    return "intact" if row.metrics.get("checked") is True else ("bad", "not checked")


def topologies(runs, page):
    """The largest all-reduce on each topology and algorithm, with the load of every link."""
    largest = {}
    for row in rows(runs):
        edges = edges_of(row)
        if edges and row.ok:
            key = (row.text("topology"), row.text("without"), row.text("algorithm"), row.run.label)
            if key not in largest or (row.of_point("bytes") or 0) > (largest[key][0].of_point("bytes") or 0):
                largest[key] = (row, edges)
    panels = []
    for row, edges in largest.values():
        where = row.text("topology") + (f" without {row.text('without')}" if row.text("without") else "")
        parts = [where, row.text("algorithm"), units.size(row.of_point("bytes")) if row.of_point("bytes") else ""]
        panels.append((" · ".join(filter(None, [*parts, "" if row.measured else row.nature])), drawn(edges, page)))
    return (
        noted("Links are coloured by how long they are busy; the busiest is named.") + chosen("Show", panels)
        if panels
        else ""
    )


def edges_of(row):
    """(from, to, kind, utilisation or None) of each link of a result."""
    found = []
    for link in row.list("links"):
        if isinstance(link, dict) and link.get("from") and link.get("to"):
            found.append(
                (str(link["from"]), str(link["to"]), str(link.get("kind") or ""), units.number(link.get("utilisation")))
            )
    return found


def drawn(edges, page):
    places = layout(edges)
    lines, most = [], max((edge[3] or 0 for edge in edges), default=0) or 1
    merged = series.grouped(edges, lambda edge: tuple(sorted(edge[:2])))
    for (start, end), both in sorted(merged.items(), key=lambda one: max(edge[3] or 0 for edge in one[1])):
        used = max(edge[3] or 0 for edge in both)
        (x0, y0), (x1, y1) = places[start], places[end]
        text = "<br>".join(
            f"{drawing.figure_text(a)} to {drawing.figure_text(b)} {drawing.figure_text(kind)}: "
            + ("unused" if not load else units.percent(load) + " of the time")
            for a, b, kind, load in both
        )
        lines.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [x0, (x0 + x1) / 2, x1],
                "y": [y0, (y0 + y1) / 2, y1],
                "text": [text] * 3,
                "hoverinfo": "text",
                "showlegend": False,
                "line": {"width": 1.5 + 5 * used / most, "color": style.between(used / most)},
            }
        )
    names = list(places)
    nodes = {
        "type": "scatter",
        "mode": "markers+text",
        "x": [places[name][0] for name in names],
        "y": [places[name][1] for name in names],
        "text": [drawing.figure_text(name) for name in names],
        "textposition": ["top center" if places[name][1] > 0 else "bottom center" for name in names],
        "hoverinfo": "text",
        "showlegend": False,
        "marker": {"size": 16, "color": "#5b86b8"},
    }
    start, end, kind, load = max(edges, key=lambda edge: edge[3] or 0)
    note = f"The busiest: {start} to {end} {kind}, {units.percent(load)} of the time." if load else ""
    hidden = {"visible": False}
    return page.figure(
        [*lines, nodes], 460, note=note, showlegend=False, hovermode="closest", xaxis=hidden, yaxis=hidden
    )


def layout(edges):
    """Devices at the bottom, what connects them above, by how many links away it is; on a circle where there is
    nothing but devices."""
    names = list(dict.fromkeys(name for edge in edges for name in edge[:2]))
    devices = [name for name in names if name.lower().startswith(("gpu", "cuda", "cpu:", "rank", "npu"))] or names
    if len(devices) == len(names):
        angle = 2 * math.pi / len(names)
        return {name: (math.sin(place * angle), math.cos(place * angle)) for place, name in enumerate(names)}
    height = dict.fromkeys(devices, 0)
    frontier = list(devices)
    while frontier:
        reached = []
        for start, end, *_ in edges:
            for here, there in ((start, end), (end, start)):
                if here in frontier and there not in height:
                    height[there] = height[here] + 1
                    reached.append(there)
        frontier = reached
    places = {}
    for level in sorted(set(height.values())) + [-1]:
        here = sorted(name for name in names if height.get(name, -1) == level)
        for place, name in enumerate(here):
            places[name] = ((place + 0.5) / len(here), level)
    return places
