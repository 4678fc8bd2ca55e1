# SPDX-License-Identifier: Apache-2.0
"""From results to lines and bars, before any plotting library: what the page and the PNG files both draw."""

from dataclasses import dataclass, field

from plots import units
from plots.headline import baseline_of, growth, model_name, speedup_of
from plots.load import rows
from plots.style import PHASES

# What may tell two lines apart, in the order it is named in the legend.
TELLING = (
    "model",
    "strategy",
    "engine",
    "root",
    "algorithm",
    "device",
    "threads",
    "backend",
    "math",
    "launch",
    "pieces",
    "overlap",
    "bucket_bytes",
    "batch",
    "global_batch",
    "scaling",
    "lr",
    "lr_scaling",
    "init",
    "seed",
    "order",
    "data",
    "transport",
    "direction",
    "fused",
    "cache",
    "group",
    "rank_order",
    "nccl",
    "topology",
    "without",
    "software",
    "slow",
    "schedule",
    "grad_dtype",
    "accumulate",
    "microbatches",
    "momentum",
    "weight_decay",
    "mode",
)


@dataclass
class Series:
    name: str
    look: str | tuple  # the algorithm, or the engine that has none; or colour and marker themselves
    nature: str  # of the results, or one of style.REFERENCES
    points: list = field(default_factory=list)  # (x, y, low, high), by x; low and high may be None


@dataclass
class Panel:
    title: str
    series: list
    note: str = ""


@dataclass
class Bar:
    name: str
    nature: str
    parts: dict  # phase -> seconds
    text: str  # all the numbers


LEARNED = {"test_accuracy": "test accuracy", "test_loss": "test loss", "train_loss": "training loss"}


def look_of(row):
    return row.carrier or row.text("strategy") or "?"


def told_apart(some, leave=(), always=("algorithm",)):
    """A name for each row out of the fields that tell it from the others and those in `always`; the nature where it is
    not measured."""

    def nature(row):
        """Comes last, and tells rows apart before any field does."""
        where = f" on {row.text('topology')}" if row.text("topology") else ""
        return ["" if row.measured else row.nature + where, f"[{row.run.label}]" if row.run.label else ""]

    parts = [[] for _ in some]
    ends = [nature(row) for row in some]

    def kinds(names):
        return len({(*name, *end) for name, end in zip(names, ends)})

    for name in TELLING:
        longer = [[*before, worded(name, row)] for before, row in zip(parts, some)]
        if name in always or (name not in leave and kinds(longer) > kinds(parts)):
            parts = longer
    return [
        " · ".join(dict.fromkeys(filter(None, [*words, *end]))) or row.text("device", "?")
        for row, words, end in zip(some, parts, ends)
    ]


def worded(name, row):
    if name == "algorithm":
        return "" if row.bench == "train" and row.ranks == 1 else look_of(row)  # one device reduces nothing
    value = row.point.get(name)
    if value is None or (not row.measured and name in ("topology", "engine")):
        return ""
    if name == "device" and value == row.point.get("topology"):
        return ""
    if name == "model":
        return model_name(row)
    if name == "bucket_bytes":
        return f"buckets {units.size(value)}"
    if name in ("engine", "device", "launch", "strategy", "backend", "math", "topology", "scaling", "data"):
        return str(value)
    return f"{name.replace('_', ' ')} {value}"


def grouped(some, key):
    groups = {}
    for row in some:
        groups.setdefault(key(row), []).append(row)
    return groups


def lines(some, x, y, leave):
    """One Series for each way of running, with the fields in `leave` running along x. `y` gives (value, low, high)."""
    series = {}
    for row, name in zip(some, told_apart(some, leave)):
        point = (x(row), *y(row))
        if point[0] is not None and point[1] is not None:
            series.setdefault(name, Series(name, look_of(row), row.nature)).points.append(point)
    for one in series.values():
        one.points.sort(key=lambda point: point[0])
    return list(series.values())


def of_time(row):
    return row.metric("seconds"), row.metric("low"), row.metric("high")


def of_bandwidth(name):
    def read(row):
        """The interval of a bandwidth is that of the time, turned over."""
        value, seconds = row.metric(name), row.metric("seconds")
        low, high = row.metric("low"), row.metric("high")
        if value is None or not seconds or not low or not high:
            return value, None, None
        return value, value * seconds / high, value * seconds / low

    return read


METRICS = {"seconds": of_time, "algbw": of_bandwidth("algbw"), "busbw": of_bandwidth("busbw")}


def over_bytes(runs, metric, bench="allreduce"):
    """Panels of one metric over bytes, one for each collective, rank count, dtype, op and placement. 0 bytes has no place
    on a logarithmic axis and is in the table only."""
    good = [row for row in rows(runs, bench) if row.ok and row.of_point("bytes") and row.metric("seconds")]
    panels = []
    shapes = grouped(good, lambda row: (row.text("collective").replace("_", "-"), *shape_of(row)))
    for (collective, ranks, *words), group in sorted(shapes.items(), key=lambda item: (item[0][1] == 1, item[0])):
        series = lines(group, lambda row: row.of_point("bytes"), METRICS[metric], ("bytes", "ranks"))
        series += bounds(group, metric)
        note = not_link_speed(group) if metric == "busbw" else ""
        if any(row.oversubscribed for row in group):
            note = (note + " Some of these ranks share cores or a GPU (oversubscribed).").strip()
        title = " · ".join(filter(None, [collective, units.counted(ranks, "rank"), *words]))
        panels.append(Panel(title, series, note))
    return panels


def bounds(group, metric):
    """What no algorithm can beat, for each set of devices and topology: it is the same for all algorithms there."""
    found = {}
    for row in group:
        seconds, size = row.metric("bound_seconds"), row.of_point("bytes")
        if seconds and row.ranks > 1:
            algbw, busbw = row.metric("algbw"), row.metric("busbw")
            bus = busbw / algbw if metric == "busbw" and algbw and busbw else 1
            value = seconds if metric == "seconds" else bus * size / seconds
            where = row.text("topology") or row.text("device")
            found.setdefault(where, {}).setdefault(size, (size, value, None, None))
    return [
        Series(
            "bound" if len(found) == 1 else f"bound of {where}", f"bound of {where}", "bound", sorted(points.values())
        )
        for where, points in found.items()
    ]


def shape_of(row):
    return row.ranks, row.text("dtype"), row.text("op"), row.text("placement").replace("_", " ")


def not_link_speed(group):
    names = sorted({look_of(row) for row in group if row.metrics.get("busbw_is_link_speed") is not True})
    if all(row.ranks == 1 for row in group):
        return "One rank moves nothing: busbw is n/a."
    return (
        f"For {', '.join(names)} busbw is not link speed: they move other bytes over a link than busbw counts."
        if names
        else ""
    )


def steps(runs):
    """[(title, bars)]: the training step in its phases, one group for each model."""
    good = [row for row in rows(runs, "train") if row.ok and row.metric("step_seconds")]
    good.sort(key=lambda row: row.ranks)
    groups = []
    for (model, scaling), group in grouped(good, lambda row: (model_name(row), row.text("scaling"))).items():
        names = told_apart(group, ("model", "scaling", "lr"), ("algorithm", "device"))
        groups.append(
            (f"{model} · {scaling or 'unknown'} scaling", [bar(row, name) for row, name in zip(group, names)])
        )
    return groups


def bar(row, name):
    """compute + hidden and exposed communication + update is the step; loading is beside it. Computing goes on while
    communication is hidden, so that part is taken out of compute, and there is none where nothing overlaps. Times
    below zero are noise, and have no place in a stack; the text keeps the numbers."""
    step, exposed = row.metric("step_seconds"), row.metric("exposed_seconds")
    update, load = row.metric("optimizer_seconds") or 0, row.metric("load_seconds") or 0
    shown = max(exposed or 0, 0) if row.ranks > 1 else 0  # one device communicates with nobody
    compute = max(step - shown - update, 0)
    overlaps = row.ranks > 1 and row.text("overlap") == "on"
    hidden = min(max(row.metric("hidden_seconds") or 0, 0), compute) if overlaps else 0
    parts = dict(zip(PHASES, (compute - hidden, hidden, shown, update, load)))
    numbers = [
        ("step", "step"),
        ("compute alone", "compute"),
        ("communication alone", "communication"),
        ("exposed", "exposed"),
        ("hidden", "hidden"),
        ("forward", "forward"),
        ("backward", "backward"),
        ("update", "optimizer"),
        ("load", "load"),
    ]
    said = [f"{label} {units.seconds(row.metric(key + '_seconds'))}" for label, key in numbers]
    return Bar(name, row.nature, parts, "\n".join([name, *said]))


def speedups(runs):
    """Panels of speed-up over devices, one for each model and scaling, with the ideal as the last series."""
    everything = [row for row in rows(runs, "train") if row.ok]
    panels = []
    for (model, scaling), group in grouped(everything, lambda row: (model_name(row), row.text("scaling"))).items():
        reached = [(row, baseline_of(row, everything)) for row in group]
        reached = [(row, baseline, speedup_of(row, baseline)) for row, baseline in reached if row.ranks > 1]
        reached = [one for one in reached if one[2] is not None]
        if not reached:
            continue
        leave = (
            "model",
            "scaling",
            "device",
            "ranks",
            "threads",
            "global_batch" if scaling == "weak" else "batch",
            "lr",
        )
        chosen = [row for row, _, _ in reached]
        values = {id(row): value for row, _, value in reached}
        series = lines(chosen, lambda row: row.ranks, lambda row: (values[id(row)], None, None), leave)
        for one in series:
            one.points.insert(0, (1, 1.0, None, None))
        counts = [1, *sorted({row.ranks for row in chosen})]
        series.append(Series("ideal", "ideal", "ideal", [(count, count, None, None) for count in counts]))
        panels.append(Panel(f"{model} · {scaling or 'unknown'} scaling", series, core_note(reached)))
    return panels


def per_device(one):
    """A series of speed-ups as one of efficiencies."""
    return Series(
        one.name, one.look, one.nature, [(count, value / count, None, None) for count, value, _, _ in one.points]
    )


def core_note(reached):
    shared = {row.text("device") for row, _, _ in reached if row.oversubscribed}
    less = {
        row.text("device")
        for row, baseline, _ in reached
        if baseline is not None and growth(row, baseline) < 0.99 * row.ranks
    }
    notes = [
        f"{', '.join(sorted(shared))}: oversubscribed, the devices share cores or a GPU." if shared else "",
        (
            f"{', '.join(sorted(less))}: the hardware grew less than the devices, so the ideal is out of reach."
            if less
            else ""
        ),
    ]
    return " ".join(filter(None, notes))


def epochs(some, metric):
    """Series of test_accuracy, test_loss or train_loss over epochs."""
    trained = [row for row in some if row.list("epochs")]
    series = []
    for row, name in zip(trained, told_apart(trained)):
        points = [
            (units.number(epoch.get("epoch")), units.number(epoch.get(metric)), None, None)
            for epoch in row.list("epochs")
            if isinstance(epoch, dict)
        ]
        points = [point for point in points if None not in point[:2]]
        if points:
            series.append(Series(name, look_of(row), row.nature, points))
    return series


def losses(some):
    """Series of the training loss over steps. A loss that is no number is a gap."""
    trained = [row for row in some if len(row.list("losses")) > 1]
    return [
        Series(
            name,
            look_of(row),
            row.nature,
            [(step, units.number(loss), None, None) for step, loss in enumerate(row.list("losses"))],
        )
        for row, name in zip(trained, told_apart(trained))
    ]
