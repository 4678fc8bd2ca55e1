# SPDX-License-Identifier: Apache-2.0
"""Figures as plain data for plotly.js: lines with their intervals, stacked bars, and axes in the units of
plots.units."""

import html
import json
import math

from plots import style, units


def figure_text(value):
    """plotly.js reads some tags and entities in its texts, so they are escaped there too."""
    return html.escape(str(value), quote=False)


def embedded(data):
    """JSON for the inside of <script>, which no text in it can end."""
    text = json.dumps(data, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").replace("\u2028", "\\u2028")


class Figures:
    """Collects the figures of the page; gives the place each is drawn in."""

    def __init__(self):
        self.all = []

    def place(self, traces, height=380, **layout):
        self.all.append({"data": traces, "layout": {"height": height, **layout}})
        return f'<div class="figure" data-figure="{len(self.all) - 1}" style="min-height:{height}px"></div>'


def axis(title, **more):
    return {"title": {"text": figure_text(title)}, **more}


def byte_axis(panel):
    """Powers of four as people say them: 64 KiB."""
    sizes = [point[0] for one in panel.series for point in one.points]
    ticks = [4**power for power in range(26) if min(sizes) <= 4**power <= max(sizes)] or sorted(set(sizes))
    while len(ticks) > 9:
        ticks = ticks[::2]
    return axis("bytes", type="log", tickvals=ticks, ticktext=[units.size(tick) for tick in ticks])


def log_axis(title, values, show):
    """Decades, with 2 and 5 between them where there are few."""
    values = [value for value in values if value > 0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    steps = (1, 2, 5) if high - low <= 3 else (1,)
    ticks = [step * 10.0**power for power in range(low, high + 1) for step in steps]
    return axis(title, type="log", tickvals=ticks, ticktext=[show(tick) for tick in ticks])


def time_axis(title, longest):
    """From 0, in steps of 1, 2 or 5."""
    raw = max(longest, 1e-12) / 6
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    ticks = [step * count for count in range(8)]
    return axis(title, rangemode="tozero", tickvals=ticks, ticktext=["0", *map(units.seconds, ticks[1:])])


def name_axis(names):
    return {"tickvals": list(range(len(names))), "ticktext": names, "autorange": "reversed", "automargin": True}


def band(one, colour):
    """The interval of the median as an area, broken where it is unknown."""
    stretches, current = [], []
    for x, _, low, high in [*one.points, (None, None, None, None)]:
        if low is not None and high is not None:
            current.append((x, low, high))
        elif current:
            stretches.append(current)
            current = []
    traces = []
    for stretch in stretches:
        xs, lows, highs = zip(*stretch)
        area = {"x": [*xs, *reversed(xs)], "y": [*highs, *reversed(lows)], "fill": "toself", "fillcolor": colour + "33"}
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "line": {"width": 0},
                "hoverinfo": "skip",
                "showlegend": False,
                "legendgroup": figure_text(one.name),
                **area,
            }
        )
    return traces


def lines(panel_series, show_x, show_y, markers=True):
    """Series of one algorithm share its colour; the later ones are paler."""
    seen, traces = {}, []
    for one in panel_series:
        if one.points:
            nth = seen[one.look] = seen.get(one.look, -1) + 1
            traces += line(one, show_x, show_y, markers, max(0.4, 1 - 0.3 * nth))
    return traces


def line(one, show_x, show_y, markers, opacity):
    if one.nature in style.REFERENCES:
        return [
            {
                "type": "scatter",
                "mode": "lines",
                "name": figure_text(one.name),
                "x": [point[0] for point in one.points],
                "y": [point[1] for point in one.points],
                "text": [f"{figure_text(one.name)}<br>{show_x(x)}: {show_y(y)}" for x, y, _, _ in one.points],
                "line": {"color": style.REFERENCES[one.nature], "dash": "dot", "width": 1.5},
                "hoverinfo": "text",
            }
        ]
    colour, marker = style.look(one.look)
    hollow = "" if one.nature == "measured" else "-open"
    texts = []
    for x, y, low, high in one.points:
        span = f"<br>{show_y(low)} to {show_y(high)}" if low is not None and high is not None else ""
        texts.append(f"{figure_text(one.name)}<br>{show_x(x)}: {show_y(y)}{span}")
    name = figure_text(one.name)
    main = {
        "type": "scatter",
        "mode": "lines+markers" if markers else "lines",
        "name": name,
        "legendgroup": name,
        "x": [point[0] for point in one.points],
        "y": [point[1] for point in one.points],
        "text": texts,
        "hoverinfo": "text",
        "line": {"color": colour, "width": 2, "dash": style.dash(one.nature)},
        "connectgaps": False,
        "opacity": opacity,
        "marker": {"symbol": marker + hollow, "size": 7, "color": colour},
    }
    return [*band(one, colour), main]


def stacked(names, phases, natures):
    """Horizontal bars. `phases`: (name, colour, seconds of each bar, hover text of each)."""
    hatch = ["" if nature == "measured" else "/" for nature in natures]
    return [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": list(range(len(names))),
            "x": values,
            "text": [figure_text(text).replace("\n", "<br>") for text in texts],
            "textposition": "none",
            "hoverinfo": "text",
            "marker": {"color": colour, "pattern": {"shape": hatch}},
        }
        for name, colour, values, texts in phases
    ]
