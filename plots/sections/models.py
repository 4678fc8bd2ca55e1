# SPDX-License-Identifier: Apache-2.0
"""What each layer of a model costs, without communication."""

from plots import drawing, headline, style, units
from plots.load import rows
from plots.page import chosen, folded


def layers(runs, page):
    panels = []
    for row in rows(runs, "model"):
        found = [layer for layer in row.list("layers") if isinstance(layer, dict)]
        if found:
            parts = [headline.model_name(row), row.text("device"), row.text("backend", "?")]
            parts += [f"batch {units.digits(row.of_point('batch'))}", "" if row.measured else row.nature]
            panels.append((" · ".join(filter(None, parts)), drawn(found, row.nature, page)))
    return chosen("Show", panels)


def drawn(found, nature, page):
    names = [str(layer.get("name", "?")) for layer in found]
    spent = {way: [units.number(layer.get(f"{way}_seconds")) or 0 for layer in found] for way in style.PASSES}
    phases = [
        (way, colour, spent[way], [f"{name}\n{way} {units.seconds(one)}" for name, one in zip(names, spent[way])])
        for way, colour in style.PASSES.items()
    ]
    figure = page.figure(
        drawing.bars(names, phases, [nature] * len(found)),
        130 + 20 * len(found),
        barmode="stack",
        margin={"l": 10},
        xaxis=drawing.time_axis("a step", max(map(sum, zip(*spent.values())))),
        yaxis=drawing.name_axis(names),
    )
    body = [
        [
            layer.get("name", "?"),
            units.seconds(layer.get("forward_seconds")),
            units.seconds(layer.get("backward_seconds")),
            layer.get("parameters", units.NOTHING),
            units.scaled(rate(layer), units.DECIMAL, "FLOP/s"),
        ]
        for layer in found
    ]
    head = ["layer", "forward", "backward", "parameters", "rate"]
    return figure + folded("All numbers", page.table(head, body, "numbers"))


def rate(layer):
    flops = units.number(layer.get("flops"))
    seconds = [units.number(layer.get(f"{way}_seconds")) or 0 for way in style.PASSES]
    return units.number(layer.get("flops_per_second")) or (flops / sum(seconds) if flops and sum(seconds) else None)
