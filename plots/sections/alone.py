# SPDX-License-Identifier: Apache-2.0
"""All-reduce and the other collectives alone: bandwidth and time over bytes, and which algorithm is fastest where."""

from plots import drawing, races, series, style, units
from plots.load import rows
from plots.page import chosen, folded, grid, interval, noted

WANTED = (("busbw", "bus bandwidth (busbw)", units.bandwidth), ("seconds", "time", units.seconds))


def allreduce(runs, page):
    return over_bytes(runs, page, "allreduce", "times 2(n-1)/n")


def collectives(runs, page):
    return over_bytes(runs, page, "collective", "times what nccl-tests multiply by for each collective")


def over_bytes(runs, page, bench, factor):
    by_title = {}
    for metric, label, show in WANTED:
        for panel in series.over_bytes(runs, metric, bench):
            points = drawing.points_of(panel.series)
            drawn = noted(panel.note)
            if points:
                drawn = page.figure(
                    drawing.lines(panel.series, units.size, show),
                    caption=label,
                    note=panel.note,
                    xaxis=drawing.byte_axis([point[0] for point in points]),
                    yaxis=drawing.log_axis([point[1] for point in points], show),
                )
            by_title.setdefault(panel.title, []).append(drawn)
    numbers = [row for row in rows(runs, bench) if row.metric("seconds") is not None]
    listing = page.table(
        ["what", "bytes", "time", "95% interval", "algbw", "busbw", "of the bound"],
        [
            [
                " · ".join(filter(None, (row.text("collective").replace("_", "-"), name))),
                units.size(row.of_point("bytes")),
                units.seconds(row.metric("seconds")),
                interval(row),
                units.bandwidth(row.metric("algbw")),
                units.bandwidth(row.metric("busbw")),
                units.percent(row.metric("bound_efficiency")),
            ]
            for row, name in zip(numbers, series.told_apart(numbers, ("bytes",)))
        ],
        "numbers",
    )
    panels = chosen("Show", [(title, grid(parts)) for title, parts in by_title.items()])
    if not panels and not listing:
        return ""
    return (
        noted(
            "Bands are the 95% interval of the median, dotted lines what no algorithm can beat there; what is hollow"
            " and dashed was not measured. Both axes are logarithmic; 1 GB is 1e9 bytes. algbw is bytes over time; busbw is"
            f" that {factor}."
        )
        + panels
        + folded("All numbers", listing)
    )


def choice(runs, page):
    """Heat maps: the fastest algorithm over bytes for each set of devices, and how far behind the others are."""
    maps = races.races(runs)
    if not maps:
        return ""
    panels = [(one.title, distances(one, page)) for one in maps]
    return (
        noted(
            (f"All for {maps[0].alike}. " if maps[0].alike else "")
            + "Those that cannot be told from the fastest, nearer than 3% or with intervals that overlap, count as it in"
            " the sentences above."
        )
        + (winners(maps, page) if len(maps) > 1 else "")
        + chosen("How far behind the others are", panels)
    )


def winners(maps, page):
    sizes = sorted({size for one in maps for size in one.sizes})
    names = sorted({one.fastest(size)[0] for one in maps for size in one.sizes})
    colours = [style.pale(style.look(one)[0]) for one in names]
    values, texts, words = [], [], []
    for one in maps:
        found = [one.fastest(size) if size in one.sizes else None for size in sizes]
        values.append([names.index(found_here[0]) if found_here else None for found_here in found])
        words.append([found_here[0].replace("_", "\n") if found_here else "" for found_here in found])
        texts.append(
            [f"{one.title}\n{units.size(size)}: {here[1]}" if here else "" for size, here in zip(sizes, found)]
        )
    steps = max(1, len(names))
    scale = [[edge / steps, colours[place]] for place in range(len(names)) for edge in (place, place + 1)]
    look = {"colorscale": scale, "zmin": -0.5, "zmax": len(names) - 0.5, "showscale": False}
    return page.figure(
        [drawing.heat(sizes, maps, values, texts, **look)],
        110 + 34 * len(maps),
        caption="The fastest algorithm",
        annotations=drawing.written(words, 100),
        showlegend=False,
        margin={"l": 10, "t": 10},
        xaxis=drawing.column_axis("bytes", map(units.size, sizes)),
        yaxis=drawing.name_axis([one.title for one in maps]),
    )


def distances(one, page):
    values, texts, words = [], [], []
    for name in one.names:
        ratios = [one.ratio(name, size) for size in one.sizes]
        values.append([min(ratio, 4) if ratio else None for ratio in ratios])
        words.append([units.times(ratio) if ratio else "" for ratio in ratios])
        texts.append(
            [
                f"{units.size(size)}: {units.seconds(one.seconds[name].get(size))}, {units.times(ratio)}"
                if ratio
                else ""
                for size, ratio in zip(one.sizes, ratios)
            ]
        )
    bar = {"title": {"text": "times the fastest"}, "tickvals": [1, 2, 3, 4], "ticktext": ["1", "2", "3", "4 or more"]}
    scale = [[0, "#6fbf8f"], [0.03, "#a9d8b8"], [0.33, "#f3e3a8"], [1, "#d9826a"]]
    return page.figure(
        [drawing.heat(one.sizes, one.names, values, texts, colorscale=scale, zmin=1, zmax=4, colorbar=bar)],
        130 + 28 * len(one.names),
        annotations=drawing.written(words),
        showlegend=False,
        margin={"l": 10, "t": 10},
        xaxis=drawing.column_axis("bytes", map(units.size, one.sizes)),
        yaxis=drawing.name_axis(one.names),
    )
