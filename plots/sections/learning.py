# SPDX-License-Identifier: Apache-2.0
"""Accuracy and loss, over epochs and steps."""

from plots import drawing, series, units
from plots.headline import model_name
from plots.load import rows
from plots.page import chosen, grid, noted


def learning(runs, page):
    trained = series.grouped(rows(runs, "train"), model_name)
    panels = [(model, learned(group, page)) for model, group in trained.items()]
    lead = "Lines that lie on each other are as it should be: how gradients are summed does not change what is learned."
    body = chosen("Show", panels)
    return noted(lead) + body if body else ""


def learned(group, page):
    parts = []
    for metric, label in series.LEARNED.items():
        found = series.epochs(group, metric)
        few = found and max(len(one.points) for one in found) < 15
        parts.append(
            page.figure(
                drawing.lines(found, lambda x: f"epoch {x:.0f}", units.digits),
                caption=f"{label} per epoch",
                xaxis=drawing.axis("epoch", dtick=1 if few else None),
                yaxis=drawing.axis(),
            )
        )
    found = series.losses(group)
    parts.append(
        page.figure(
            drawing.lines(found, lambda x: f"step {x}", units.digits, markers=False),
            caption="training loss per step",
            xaxis=drawing.axis("step"),
            yaxis=drawing.axis(),
        )
    )
    return grid(parts)
