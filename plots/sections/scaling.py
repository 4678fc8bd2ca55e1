# SPDX-License-Identifier: Apache-2.0
"""Speed-up and efficiency over devices, with the ideal."""

from plots import drawing, series, units
from plots.page import chosen, grid, noted


def scaling(runs, page):
    panels = []
    for panel in series.speedups(runs):
        counts = sorted({point[0] for point in drawing.points_of(panel.series)})
        shown = {"xaxis": drawing.axis("devices", tickvals=counts)}
        speed = page.figure(
            drawing.lines(panel.series, devices, units.times),
            caption="speed-up",
            note=panel.note,
            yaxis=drawing.axis(rangemode="tozero"),
            **shown,
        )
        efficiency = page.figure(
            drawing.lines([series.per_device(one) for one in panel.series], devices, units.percent),
            caption="efficiency (speed-up over devices)",
            yaxis=drawing.axis(rangemode="tozero", tickformat=".0%"),
            **shown,
        )
        panels.append((panel.title, grid([speed, efficiency])))
    lead = (
        "Images per second over those of one device. Weak scaling: the batch of a device stays; strong: the global one."
    )
    return noted(lead) + chosen("Show", panels) if panels else ""


def devices(count):
    return units.counted(int(count), "device")
