# SPDX-License-Identifier: Apache-2.0
"""The sections of the page, in HTML in which every word from a file is escaped. A section that has nothing to say is
the empty string, and is left out."""

import html

from plots import drawing, headline, series, style, units
from plots.drawing import axis, figure_text
from plots.load import rows


def escape(value):
    return html.escape(str(value), quote=True)


def chosen_from(title, panels):
    """Panels of which one is shown at a time, chosen by name; a single one is shown as it is. [(name, html)]"""
    if len(panels) == 1:
        return f"<h3>{escape(panels[0][0])}</h3>{panels[0][1]}"
    options = "".join(f'<option value="{index}">{escape(name)}</option>' for index, (name, _) in enumerate(panels))
    bodies = "".join(
        f'<div class="panel"{"" if index == 0 else " hidden"}>{body}</div>' for index, (_, body) in enumerate(panels)
    )
    return f'<div class="choice"><label>{escape(title)} <select>{options}</select></label>{bodies}</div>'


def table(head, body, classes=""):
    """Cells are escaped here. A cell ("bad", text) is marked."""

    def cell(value):
        mark, text = value if isinstance(value, tuple) else ("", value)
        return f'<td class="{mark}">{escape(text)}</td>' if mark else f"<td>{escape(text)}</td>"

    header = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join("<tr>" + "".join(map(cell, row)) + "</tr>" for row in body)
    return (
        '<div class="scroll"><table'
        f' class="{classes}"><thead><tr>{header}</tr></thead><tbody>{lines}</tbody></table></div>'
    )


def folded(title, body):
    return f"<details><summary>{escape(title)}</summary>{body}</details>"


def section(title, body, lead=""):
    return (
        f"<section><h2>{escape(title)}</h2>{f'<p>{escape(lead)}</p>' if lead else ''}{body}</section>" if body else ""
    )


def said(runs, _):
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in headline.sentences(runs))
    return section("What the results say", f'<ul class="said">{items}</ul>' if items else "")


def allreduce(runs, figures):
    wanted = [
        ("busbw", "bus bandwidth (busbw)", units.bandwidth),
        ("algbw", "bytes / time (algbw)", units.bandwidth),
        ("seconds", "time", units.seconds),
    ]
    by_title = {}
    for metric, label, show in wanted:
        for panel in series.allreduce(runs, metric):
            values = [point[1] for one in panel.series for point in one.points]
            traces = drawing.lines(panel.series, units.size, show)
            drawn = (
                figures.place(traces, xaxis=drawing.byte_axis(panel), yaxis=drawing.log_axis("", values, show))
                if traces
                else ""
            )
            note = f'<p class="note">{escape(panel.note)}</p>' if panel.note else ""
            by_title.setdefault(panel.title, []).append(
                f"<figure><figcaption>{escape(label)}</figcaption>{drawn}{note}</figure>"
            )
    panels = [(title, f'<div class="grid">{"".join(parts)}</div>') for title, parts in by_title.items()]
    numbers = [row for row in rows(runs, "allreduce") if row.metric("seconds") is not None]
    listing = table(
        ["what", "bytes", "time", "95% interval", "algbw", "busbw", "of the bound"],
        [
            [
                name,
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
    body = (chosen_from("Show", panels) if panels else "") + (folded("All numbers", listing) if numbers else "")
    return section(
        "All-reduce alone",
        body,
        "Bands are the 95% interval of the median. Both axes are logarithmic; 1 GB is 1e9 bytes. "
        "algbw is bytes over time; busbw is that times 2(n-1)/n.",
    )


def interval(row):
    low, high = row.metric("low"), row.metric("high")
    return units.NOTHING if low is None or high is None else f"{units.seconds(low)} to {units.seconds(high)}"


def steps(runs, figures):
    panels = []
    for title, bars in series.steps(runs):
        names, texts, natures = (
            [figure_text(bar.name) for bar in bars],
            [bar.text for bar in bars],
            [bar.nature for bar in bars],
        )
        phases = [
            (phase, colour, [bar.parts[phase] for bar in bars], texts)
            for phase, colour in style.PHASES.items()
            if any(bar.parts[phase] > 0 for bar in bars)
        ]
        most = max(sum(bar.parts.values()) for bar in bars)
        panels.append(
            (
                title,
                figures.place(
                    drawing.stacked(names, phases, natures),
                    130 + 34 * len(bars),
                    barmode="stack",
                    margin={"l": 10},
                    xaxis=drawing.time_axis("a step", most),
                    yaxis=drawing.name_axis(names),
                ),
            )
        )
    listed = [row for row in rows(runs, "train") if row.metric("step_seconds") is not None]
    listing = table(
        ["what", "step", "compute", "communication", "exposed", "hidden", "exposed / step", "images/s", "load"],
        [
            [
                name,
                *(
                    units.seconds(row.metric(f"{key}_seconds"))
                    for key in ("step", "compute", "communication", "exposed", "hidden")
                ),
                units.percent(row.metric("communication_fraction")),
                units.rate(headline.images_per_second(row), "images"),
                units.seconds(row.metric("load_seconds")),
            ]
            for row, name in zip(listed, series.told_apart(listed))
        ],
        "numbers",
    )
    phases = [
        (name, row.result["phases"])
        for row, name in zip(listed, series.told_apart(listed))
        if isinstance(row.result.get("phases"), dict)
    ]
    phase_list = table(
        ["what", "phase", "time"],
        [[name, phase, units.seconds(value)] for name, those in phases for phase, value in those.items()],
    )
    body = (chosen_from("Show", panels) if panels else "") + (folded("All numbers", listing) if listed else "")
    body += folded("Phases as the benches name them", phase_list) if any(those for _, those in phases) else ""
    return section(
        "The training step",
        body,
        "Compute, hidden and exposed communication and update make up the step; loading is beside it, not in it. "
        "Communication is hidden where computing goes on meanwhile. "
        "Exposed is the step minus the step without communication; below zero it is noise, and drawn as nothing.",
    )


def speedups(runs, figures):
    panels = []
    for panel in series.speedups(runs):
        traces = drawing.lines(panel.series, lambda x: units.counted(int(x), "device"), units.times)
        note = f'<p class="note">{escape(panel.note)}</p>' if panel.note else ""
        counts = sorted({point[0] for one in panel.series for point in one.points})
        panels.append(
            (
                panel.title,
                figures.place(
                    traces, xaxis=axis("devices", tickvals=counts), yaxis=axis("speed-up", rangemode="tozero")
                )
                + note,
            )
        )
    return section(
        "Speed-up over devices",
        chosen_from("Show", panels) if panels else "",
        "Images per second over those of one device. Weak scaling: the batch of a device stays; strong: the global"
        " batch stays.",
    )


def learning(runs, figures):
    parts = []
    for metric, label in series.LEARNED.items():
        found = series.epochs(runs, metric)
        if found:
            traces = drawing.lines(found, lambda x: f"epoch {x:.0f}", units.digits)
            drawn = figures.place(
                traces,
                340 + 20 * len(found),
                xaxis=axis("epoch", dtick=1 if longest(found) < 15 else None),
                yaxis=axis(""),
            )
            parts.append(f"<figure><figcaption>{label} per epoch</figcaption>{drawn}</figure>")
    found = series.losses(runs)
    if found:
        traces = drawing.lines(found, lambda x: f"step {x}", units.digits, markers=False)
        drawn = figures.place(traces, 340 + 20 * len(found), xaxis=axis("step"), yaxis=axis(""))
        parts.append(f"<figure><figcaption>training loss per step</figcaption>{drawn}</figure>")
    return section(
        "What was learned",
        f'<div class="grid">{"".join(parts)}</div>' if parts else "",
        "Lines that lie on each other are as it should be: how gradients are summed does not change what is learned.",
    )


def longest(found):
    return max(len(one.points) for one in found)


def links(runs, _):
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
        for row in rows(runs, "link")
    ]
    head = ["from", "to", "latency", "one way", "both ways", "transport", "data check", "nature"]
    return section(
        "Links",
        table(head, body, "numbers") if body else "",
        "Every ordered pair of devices. Both ways is the sum, both running at once.",
    )


def checked(row):
    if not row.ok:
        return "bad", str(row.result.get("reason") or row.status)
    return "intact" if row.metrics.get("checked") is True else ("bad", "not checked")


def models(runs, figures):
    panels = []
    for row in rows(runs, "model"):
        layers = [layer for layer in row.list("layers") if isinstance(layer, dict)]
        if not layers:
            continue
        names = [str(layer.get("name", "?")) for layer in layers]
        spent = {way: [units.number(layer.get(f"{way}_seconds")) or 0 for layer in layers] for way in style.PASSES}
        phases = [
            (
                way,
                colour,
                spent[way],
                [f"{name}\n{way} {units.seconds(value)}" for name, value in zip(names, spent[way])],
            )
            for way, colour in style.PASSES.items()
        ]
        most = max(map(sum, zip(*spent.values())))
        drawn = figures.place(
            drawing.stacked(names, phases, [row.nature] * len(layers)),
            130 + 20 * len(layers),
            barmode="stack",
            margin={"l": 10},
            xaxis=drawing.time_axis("a step", most),
            yaxis=drawing.name_axis([figure_text(name) for name in names]),
        )
        listing = table(
            ["layer", "forward", "backward", "parameters", "rate"],
            [
                [
                    layer.get("name", "?"),
                    units.seconds(layer.get("forward_seconds")),
                    units.seconds(layer.get("backward_seconds")),
                    layer.get("parameters", units.NOTHING),
                    units.scaled(layer.get("flops_per_second"), units.DECIMAL, "FLOP/s"),
                ]
                for layer in layers
            ],
            "numbers",
        )
        title = (
            f"{headline.model_name(row)} · {row.text('device')} · {row.text('backend', '?')} · batch"
            f" {units.digits(row.of_point('batch'))}"
        )
        panels.append((title + ("" if row.measured else f" · {row.nature}"), drawn + folded("All numbers", listing)))
    return section("The layers of a model, no communication", chosen_from("Show", panels) if panels else "")


def flat(value):
    """A machine's field in words: {"L1d": 32768} is "L1d 32768"."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {flat(one)}" for name, one in value.items()) or "none"
    if isinstance(value, list):
        return "; ".join(map(flat, value)) or "none"
    return (
        {None: units.NOTHING, True: "yes", False: "no"}[value]
        if value is None or isinstance(value, bool)
        else str(value)
    )


def machines(runs, _):
    parts = []
    for run in runs:
        machine = run.info.get("machine")
        fields = [[name, flat(value)] for name, value in machine.items()] if isinstance(machine, dict) else []
        fields += [
            [name, flat(run.info[name])]
            for name in ("started", "version", "revision", "seed", "features", "world")
            if name in run.info
        ]
        parts.append((run.name, table(["", ""], fields, "facts")))
    if not parts:
        return ""
    first = parts[0][1] if len(parts) == 1 else "".join(folded(name, body) for name, body in parts)
    return section("The machine", first)


def honesty(runs, _):
    everything = rows(runs)
    lines = [(careful(row), trial(row, name)) for row, name in zip(everything, names_of(everything))]
    head = ["bench", "what", "nature", "status", "check", "shares cores", "ended by", "visits", "flags"]
    wary = [line for careful_line, line in lines if careful_line]
    body = ""
    if wary:
        body += f"<p>{len(wary)} of {units.counted(len(lines), 'result')} to read with care:</p>" + table(head, wary)
    elif lines:
        body += (
            f"<p>{units.counted(len(lines), 'result')}: all measured, checked, on devices of their own, nothing"
            " flagged.</p>"
        )
    body += folded("Every result", table(head, [line for _, line in lines])) if lines else ""
    return section("How far to trust it", body)


def names_of(everything):
    """Names for all results of all benches: the point itself."""

    def name(row):
        fields = (
            "from",
            "to",
            "model",
            "strategy",
            "engine",
            "algorithm",
            "device",
            "dtype",
            "op",
            "placement",
            "launch",
            "topology",
        )
        words = [str(row.point[field]) for field in fields if row.point.get(field) is not None]
        return " ".join(words + ([units.size(row.of_point("bytes"))] if row.of_point("bytes") is not None else []))

    return [name(row) for row in everything]


def careful(row):
    no_check = row.result.get("check") == "off" and row.bench in ("allreduce", "collective")
    return (
        not row.ok
        or no_check
        or row.oversubscribed
        or not row.measured
        or bool(row.list("flags"))
        or row.result.get("stop") == "budget"
    )


def trial(row, name):
    status = row.status if row.ok else ("bad", f"{row.status}: {row.result.get('reason', '')}")
    wrong = row.result.get("wrong")
    check = row.result.get("check", units.NOTHING)
    if isinstance(wrong, dict):
        check = (
            "bad",
            (
                f"{check}: {wrong.get('count')} wrong, first at {wrong.get('first_index')} on rank {wrong.get('rank')}:"
                f" {wrong.get('got')} for {wrong.get('expected')}"
            ),
        )
    nature = row.nature if row.measured else ("mark", row.nature)
    return [
        row.bench,
        name,
        nature,
        status,
        check,
        ("mark", "yes") if row.oversubscribed else "no",
        row.result.get("stop") or "-",
        row.result.get("visits", ""),
        ", ".join(map(str, row.list("flags"))) or "-",
    ]


def commands(runs, _):
    def shell(words):
        return " ".join(map(str, words)) if isinstance(words, list) else ""

    whole = "".join(f"<pre>{escape(shell(run.info.get('command')))}</pre>" for run in runs if run.info.get("command"))
    single = "\n".join(dict.fromkeys(filter(None, (shell(row.result.get("command")) for row in rows(runs)))))
    return section(
        "The commands", whole + (folded("One for each result", f"<pre>{escape(single)}</pre>") if single else "")
    )


SECTIONS = (said, steps, speedups, allreduce, links, models, learning, machines, honesty, commands)
