# SPDX-License-Identifier: Apache-2.0
"""Traces and axes as plain data for plotly.js: lines with their intervals, bars, heat maps, in the units of
plots.units."""

import html
import math

from plots import style, units


def figure_text(value):
    """plotly.js reads some tags and entities in its texts, so they are escaped there too."""
    return html.escape(str(value), quote=False)


def template(text):
    """For a hovertemplate, which also reads %{...}."""
    return figure_text(text).replace("%", "&#37;")


def axis(title="", **more):
    return {"title": {"text": figure_text(title)}, **more}


def byte_axis(sizes):
    """Powers of four as people say them: 64 KiB."""
    ticks = [4**power for power in range(26) if min(sizes) <= 4**power <= max(sizes)] or sorted(set(sizes))
    while len(ticks) > 9:
        ticks = ticks[::2]
    return axis("bytes", type="log", tickvals=ticks, ticktext=[units.size(tick) for tick in ticks])


def log_axis(values, show):
    """Decades, with 2 and 5 between them where there are few."""
    values = [value for value in values if value > 0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    steps = (1, 2, 5) if high - low <= 3 else (1,)
    ticks = [step * 10.0**power for power in range(low, high + 1) for step in steps]
    return axis(type="log", tickvals=ticks, ticktext=[show(tick) for tick in ticks])


def time_axis(title, longest):
    """From 0, in steps of 1, 2 or 5."""
    raw = max(longest, 1e-12) / 6
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    ticks = [step * count for count in range(8)]
    return axis(title, rangemode="tozero", tickvals=ticks, ticktext=["0", *map(units.seconds, ticks[1:])])


def name_axis(names):
    """One name for each place from 0 up, the first on top."""
    texts = [figure_text(name) for name in names]
    places = {"tickvals": list(range(len(names))), "ticktext": texts}
    return {**places, "autorange": "reversed", "automargin": True, "showgrid": False, "zeroline": False}


def column_axis(title, names):
    """The same for the columns of a heat map."""
    names = list(names)
    texts = [figure_text(name) for name in names]
    return axis(title, tickvals=list(range(len(names))), ticktext=texts, showgrid=False, zeroline=False)


def points_of(panel_series):
    return [point for one in panel_series for point in one.points]


def lines(panel_series, show_x, show_y, markers=True):
    """Series of one algorithm share its colour; the later ones are paler."""
    seen, traces = {}, []
    for one in panel_series:
        if one.points:
            nth = seen[one.look] = seen.get(one.look, -1) + 1
            traces += line(one, show_x, show_y, markers, max(0.4, 1 - 0.3 * nth))
    return traces


def line(one, show_x, show_y, markers, opacity):
    name = figure_text(one.name)
    common = {
        "type": "scatter",
        "name": name,
        "legendgroup": name,
        "x": [point[0] for point in one.points],
        "y": [point[1] for point in one.points],
        "text": [hover(point, show_x, show_y) for point in one.points],
        "hovertemplate": template(one.name) + "<br>%{text}<extra></extra>",
    }
    if one.nature in style.REFERENCES:
        look = {"color": style.REFERENCES[one.nature], "dash": "dot", "width": 1.5}
        return [{**common, "mode": "lines", "line": look}]
    colour, marker = one.look if isinstance(one.look, tuple) else style.look(one.look)
    symbol = marker + ("" if one.nature == "measured" else "-open")
    look = {
        "mode": "lines+markers" if markers else "lines",
        "line": {"color": colour, "width": 2, "dash": style.dash(one.nature)},
        "connectgaps": False,
        "opacity": opacity,
        "marker": {"symbol": symbol, "size": 7, "color": colour},
    }
    return [*band(one, name, colour), {**common, **look}]


def hover(point, show_x, show_y):
    x, y, low, high = point
    span = f" ({show_y(low)} to {show_y(high)})" if low is not None and high is not None else ""
    return f"{show_x(x)}: {show_y(y)}{span}"


def band(one, name, colour):
    """The interval of the median as an area, broken where it is unknown."""
    stretches, current = [], []
    for x, _, low, high in [*one.points, (None, None, None, None)]:
        if low is not None and high is not None:
            current.append((x, low, high))
        elif current:
            stretches.append(current)
            current = []
    look = {"type": "scatter", "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
    traces = []
    for stretch in stretches:
        xs, lows, highs = zip(*stretch)
        area = {"x": [*xs, *reversed(xs)], "y": [*highs, *reversed(lows)], "fill": "toself", "fillcolor": colour + "33"}
        traces.append({**look, "legendgroup": name, **area})
    return traces


def bars(names, phases, natures):
    """Horizontal bars, one place for each name. `phases`: (name, colour, seconds of each bar, hover text of each)."""
    hatch = ["" if nature == "measured" else "/" for nature in natures]
    return [
        {
            "type": "bar",
            "orientation": "h",
            "name": figure_text(name),
            "y": list(range(len(names))),
            "x": values,
            "text": [figure_text(text).replace("\n", "<br>") for text in texts],
            "textposition": "none",
            "hoverinfo": "text",
            "marker": {"color": colour, "pattern": {"shape": hatch}},
        }
        for name, colour, values, texts in phases
    ]


def heat(columns, lines_of, values, shown, **look):
    """A heat map over named columns and lines; `shown` has the hover text of each cell. Unknown cells stay empty."""
    return {
        "type": "heatmap",
        "x": list(range(len(columns))),
        "y": list(range(len(lines_of))),
        "z": values,
        "text": [[figure_text(text).replace("\n", "<br>") for text in line_texts] for line_texts in shown],
        "hoverinfo": "text",
        "hoverongaps": False,
        "xgap": 2,
        "ygap": 2,
        **look,
    }


def written(texts, most=240):
    """The words in the cells of a heat map, where they are few enough to be read."""
    cells = [(x, y, text) for y, line_texts in enumerate(texts) for x, text in enumerate(line_texts) if text]
    if len(cells) > most:
        return []
    return [
        {
            "x": x,
            "y": y,
            "text": figure_text(text).replace("\n", "<br>"),
            "showarrow": False,
            "font": {"size": 11, "color": "#14171b"},
        }
        for x, y, text in cells
    ]
