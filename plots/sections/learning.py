# SPDX-License-Identifier: Apache-2.0
"""Accuracy and loss, over epochs and steps."""

from plots import drawing, series, units
from plots.page import grid, noted


def learning(runs, page):
    parts = []
    for metric, label in series.LEARNED.items():
        found = series.epochs(runs, metric)
        few = found and max(len(one.points) for one in found) < 15
        parts.append(
            page.figure(
                drawing.lines(found, lambda x: f"epoch {x:.0f}", units.digits),
                340 + 20 * len(found),
                caption=f"{label} per epoch",
                xaxis=drawing.axis("epoch", dtick=1 if few else None),
                yaxis=drawing.axis(),
            )
        )
    found = series.losses(runs)
    parts.append(
        page.figure(
            drawing.lines(found, lambda x: f"step {x}", units.digits, markers=False),
            340 + 20 * len(found),
            caption="training loss per step",
            xaxis=drawing.axis("step"),
            yaxis=drawing.axis(),
        )
    )
    lead = "Lines that lie on each other are as it should be: how gradients are summed does not change what is learned."
    return noted(lead) + grid(parts) if any(parts) else ""
