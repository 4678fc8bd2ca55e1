# SPDX-License-Identifier: Apache-2.0
"""How near the simulation comes to what others measured and published."""

from plots import drawing, published, series, style, units
from plots.page import folded, noted


def machine(row):
    return row.text("topology", "?")


def validation(runs, page):
    found = published.compared(runs)
    if not found:
        return ""
    errors = {name: published.errors(group) for name, group in series.grouped(found, machine).items()}
    errors = sorted(((name, one) for name, one in errors.items() if one), key=lambda one: -one[1].middle)
    everything = published.errors(found)
    body = [
        [name, one.count, *map(units.percent, (one.middle, one.largest, one.left_out))]
        for name, one in ([("all", everything)] if everything else []) + errors
    ]
    head = ["machine", "published times", "median error", "largest error", "median error, machine left out"]
    lead = (
        "Simulated over published time of the same all-reduce: above 1 the simulation is too slow. The error is the"
        " distance of that ratio from 1, the larger way round. Machine left out: with constants fitted to all other"
        " machines. Published times that there is reason to doubt are hollow, and in no error."
    )
    return (
        noted(lead)
        + drawn(found, page)
        + page.table(head, body, "numbers")
        + folded("All numbers", listing(found, page))
    )


def listing(found, page):
    head = ["row", "machine", "bytes", "published", "simulated", "ratio", "left out", "source", "note"]
    body = [
        [
            published.fact(row, "id") or "",
            machine(row),
            units.size(row.of_point("bytes")),
            units.seconds(row.metric("measured_seconds")),
            units.seconds(row.metric("simulated_seconds")),
            units.times(row.metric("ratio")),
            units.times(row.metric("left_out_ratio")),
            row.text("source"),
            f"{published.fact(row, 'note') or ''}{' (doubtful)' if published.doubtful(row) else ''}",
        ]
        for row in found
    ]
    return page.table(head, body, "numbers")


def drawn(found, page):
    """A mark for each published time, a colour and shape for each machine."""
    found = [row for row in found if row.of_point("bytes")]
    traces = []
    for place, (name, group) in enumerate(series.grouped(found, machine).items()):
        colour, marker = style.fabric(place)
        symbols = [marker + ("-open" if published.doubtful(row) else "") for row in group]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": drawing.figure_text(name),
                "x": [row.of_point("bytes") for row in group],
                "y": [row.metric("ratio") for row in group],
                "text": [drawing.figure_text(told(row)).replace("\n", "<br>") for row in group],
                "hoverinfo": "text",
                "marker": {"size": 9, "color": colour, "symbol": symbols},
            }
        )
    if not traces:
        return ""
    return page.figure(
        traces,
        460,
        caption="simulated over published time",
        hovermode="closest",
        xaxis=drawing.byte_axis([row.of_point("bytes") for row in found]),
        yaxis=drawing.axis(type="log", tickvals=style.RATIOS, ticktext=list(map(units.times, style.RATIOS))),
    )


def told(row):
    simulated, measured = (units.seconds(row.metric(f"{name}_seconds")) for name in ("simulated", "measured"))
    ratio = f"{machine(row)} · {units.size(row.of_point('bytes'))}: {units.times(row.metric('ratio'))}"
    words = [ratio, f"simulated {simulated}, published {measured}", row.text("source"), published.fact(row, "note")]
    return "\n".join(str(one) for one in words if one)
