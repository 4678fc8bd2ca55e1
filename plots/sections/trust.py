# SPDX-License-Identifier: Apache-2.0
"""What the results say in full, how far to trust it, and what is needed to do it again: the machine, the commands."""

import shlex
from collections import Counter

from plots import headline, units
from plots.load import rows
from plots.page import SHORT, command, escape, folded

FEW = 12  # rows that are shown without being asked for
FLAGS = {
    "outliers": "with samples far from the others",
    "spread": "with samples widely spread",
    "load": "taken while others used the machine",
    "throttled": "taken while the clocks were lowered",
    "clock": "too short for the clock, or while it went back",
}


def said(runs, _):
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in headline.sentences(runs))
    return f'<ul class="said">{items}</ul>' if items else ""


def honesty(runs, page):
    everything = rows(runs)
    if not everything:
        return ""
    lines = [(list(doubts(row)), trial(row, name)) for row, name in zip(everything, names_of(everything))]
    head = ["bench", "what", "nature", "status", "check", "shares cores", "ended by", "visits", "flags", "samples"]
    wary = [line for found, line in lines if found]
    counted = units.counted(len(lines), "result")
    body = f"<p>{counted}: all measured, checked, on devices of their own, nothing flagged.</p>"
    if wary:
        counts = Counter(doubt for found, _ in lines for doubt in found)
        body = f"<p>{len(wary)} of {counted} to read with care, since they are:</p>"
        body += page.table(["results", "what they are"], [[count, doubt] for doubt, count in counts.most_common()])
        listed = page.table(head, wary)
        body += listed if len(wary) <= FEW else folded("Those to read with care", listed)
    return body + folded("Every result", page.table(head, [line for _, line in lines]))


def names_of(everything):
    """Names for all results of all benches: the point itself."""

    def name(row):
        fields = (
            "from",
            "to",
            "model",
            "strategy",
            "collective",
            "engine",
            "algorithm",
            "device",
            "dtype",
            "op",
            "placement",
            "launch",
            "topology",
            "without",
        )
        words = [str(row.point[field]) for field in fields if row.point.get(field) is not None]
        return " ".join(words + ([units.size(row.of_point("bytes"))] if row.of_point("bytes") is not None else []))

    return [name(row) for row in everything]


def doubts(row):
    """Why a result is to be read with care."""
    if not row.ok:
        yield f"{row.status}, without a time to believe"
    if not row.measured:
        yield f"{row.nature}, not measured"
    elif row.result.get("check") == "off" and row.bench in ("allreduce", "collective"):
        yield "not checked"
    if row.oversubscribed:
        yield "timed on shared cores or devices: they time the scheduler"
    expected = headline.expected_of(row)
    if expected and expected[2] != "as expected":
        yield f"{expected[2]} for their machine, as it is described"
    if row.result.get("stop") == "budget":
        yield "out of their time before the interval of the median was within 2%"
    for flag in row.list("flags"):
        yield FLAGS.get(str(flag), f"flagged: {flag}")


def trial(row, name):
    status = row.status if row.ok else ("bad", f"{row.status}: {row.result.get('reason', '')}")
    wrong = row.result.get("wrong")
    check = row.result.get("check", units.NOTHING)
    if isinstance(wrong, dict):
        what = f"{check}: {wrong.get('count')} wrong, first at {wrong.get('first_index')} on rank {wrong.get('rank')}"
        check = ("bad", f"{what}: {wrong.get('got')} for {wrong.get('expected')}")
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
        spread(row),
    ]


def spread(row):
    """Five of the samples' quantiles: the smallest, the quarters, the largest."""
    samples = sorted(sample for sample in map(units.number, row.list("samples")) if sample is not None)
    if not samples:
        return "-"
    marks = [samples[round(share * (len(samples) - 1))] for share in (0, 0.25, 0.5, 0.75, 1)]
    return f"{len(samples)}: {' / '.join(map(units.seconds, marks))}"


def flat(value):
    """A machine's field in words: {"L1d": 32768} is "L1d 32768"."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {flat(one)}" for name, one in value.items()) or "none"
    if isinstance(value, list):
        return "; ".join(map(flat, value)) or "none"
    if value is None or isinstance(value, bool):
        return {None: units.NOTHING, True: "yes", False: "no"}[value]
    return str(value)


def machines(runs, page):
    parts = []
    for run in runs:
        machine = machine_of(run)
        fields = [[name, flat(value)] for name, value in machine.items()]
        named = ("started", "version", "revision", "seed", "features", "world")
        fields += [[name, flat(run.info[name])] for name in named if name in run.info]
        parts.append((run.name, page.table(["", ""], fields, "facts")))
    if len(parts) == 1:
        return parts[0][1]
    head = ["run", "began", "processor", "cores", "GPUs", "load before", "revision"]
    return page.table(head, list(map(overview, runs))) + "".join(folded(name, body) for name, body in parts)


def machine_of(run):
    machine = run.info.get("machine")
    return machine if isinstance(machine, dict) else {}


def overview(run):
    machine = machine_of(run)
    cpu = machine.get("cpu") if isinstance(machine.get("cpu"), dict) else {}
    devices = machine.get("devices") if isinstance(machine.get("devices"), list) else []
    gpus = Counter(str(one.get("model")) for one in devices if isinstance(one, dict) and one.get("kind") != "cpu")
    return [
        run.name,
        run.info.get("started", units.NOTHING),
        cpu.get("model", units.NOTHING),
        units.digits(cpu.get("usable_cores")),
        ", ".join(f"{count} x {model}" for model, count in gpus.items()) or "-",
        units.digits(machine.get("load")),
        run.info.get("revision", units.NOTHING),
    ]


def commands(runs, page):
    def words(found):
        """As a shell takes them."""
        return tuple(shlex.quote(str(word)) for word in found) if isinstance(found, list) else ()

    whole = "".join(command(" ".join(words(run.info.get("command")))) for run in runs)
    single = list(filter(None, dict.fromkeys(words(row.result.get("command")) for row in rows(runs))))
    few = len(single) <= SHORT
    listed = "".join(command(" ".join(one)) for one in single) if few else page.table(["command"], single)
    return whole + folded("One for each result", listed)
