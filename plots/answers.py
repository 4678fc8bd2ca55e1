# SPDX-License-Identifier: Apache-2.0
"""The first screen: what people came to ask, each answer one sentence computed from the data, with the section that
proves it."""

from plots import fabrics, published, races, series, units
from plots.headline import baseline_of, equal, images_per_second, model_name, prefix, same_machine, speedup_of, way
from plots.load import rows

MOST = 4  # of a kind
PARTS = {"nvlink": "NVLink", "pcie": "PCIe"}


def training(runs):
    """Is another device worth it? For each model and device count, by the best way and the worst."""
    everything = rows(runs, "train")
    families = series.grouped(
        [row for row in everything if row.ok and row.ranks > 1 and row.metric("step_seconds")],
        lambda row: (same_machine(row), row.text("model"), row.text("scaling"), row.ranks),
    )
    for family in sorted(families.values(), key=lambda rows_of: rows_of[0].measured, reverse=True):
        reached = [(row, baseline_of(row, everything)) for row in family]
        reached = [(speedup_of(row, baseline), row, baseline) for row, baseline in reached]
        reached = sorted((one for one in reached if one[0]), key=lambda one: one[0])
        if reached:
            yield verdict(reached[-1], reached[0]), "training"


def verdict(best, worst):
    speed, row, baseline = best
    if baseline is not None and equal(row, baseline, speed):
        what = f"{row.ranks} devices are as fast as 1"
    else:
        what = f"{row.ranks} devices are {units.times(speed)} times as fast as 1"
    said = f"{prefix(row)}{model_name(row)}: {what}{lost(row)}, by {way(row)}"
    if worst[1] is not row and not equal(worst[1], row, worst[0] / speed):
        said += f"; by {way(worst[1])} {units.times(worst[0])} times{lost(worst[1])}"
    return said + "." + (" They share cores or a device." if row.oversubscribed else "")


def lost(row):
    step, exposed = row.metric("step_seconds"), row.metric("exposed_seconds")
    if exposed is None or not step:
        return ""
    share = max(exposed, 0) / step
    return (
        f" ({units.percent(share)} of the step is communication)"
        if share >= 0.005
        else " (none of the step is communication)"
    )


def links(runs):
    """Is a faster fabric worth it? What the first one saves of the time on the second."""
    for kind, works in (("step", fabrics.training(runs)), ("all-reduce", fabrics.allreduce(runs))):
        groups = {}
        for work in works:
            first, *others = work.seconds
            for other in others:
                groups.setdefault((first, other), []).append(work)
        for pair, group in groups.items():
            if kind == "step":
                best = {}
                for work in group:
                    best.setdefault(model_name(work.row), []).append(work)
                saved = [f"{saving(fastest(some, pair), 'the step')} of {model}" for model, some in best.items()]
            else:
                largest = max(group, key=lambda work: work.row.of_point("bytes") or 0)
                same_size = [work for work in group if work.row.of_point("bytes") == largest.row.of_point("bytes")]
                saved = [
                    saving(fastest(same_size, pair), f"an all-reduce of {units.size(largest.row.of_point('bytes'))}")
                ]
            sample = group[0].row
            nature = "" if sample.measured else f" ({sample.nature})"
            yield f"{faster(*pair)} saves {', '.join(saved)}{nature}.", "fabrics"


def faster(first, second):
    """What makes the first fabric the faster one."""
    with_it, _, without = second.partition(" without ")
    if without and first == with_it:
        return f"{PARTS.get(without, without)} on {first}"
    return f"{first} against {second}:"


def fastest(works, pair):
    """The best time on each of the two fabrics, whatever the algorithm."""
    return [min(work.seconds[name] for work in works) for name in pair]


def saving(seconds, of):
    first, second = seconds
    share = 1 - first / second
    return f"nothing on {of}" if share < 0.01 else f"{units.percent(share)} on {of}"


def allreduce(runs):
    """Which algorithm should I use?"""
    for race in races.races(runs):
        first, *others = race.stretches()
        parts = [f"{worded(first[0])} {span(*first[1:])}"]
        parts += [f"{worded(name)} to {units.size(high)}" for name, _, high in others]
        yield f"All-reduce on {race.title}: fastest is {', then '.join(parts)}.", "choice"


def worded(name):
    return name.replace("_", " ")


def span(low, high):
    return f"at {units.size(low)}" if low == high else f"from {units.size(low)} to {units.size(high)}"


def trust(runs):
    everything = rows(runs)
    bad = [row for row in everything if not row.ok]
    measured = [row for row in everything if row.measured]
    exact = sum(row.result.get("check") in ("exact", "tolerance") for row in measured)
    shared = sum(row.oversubscribed for row in everything)
    parts = [f"{units.counted(len(measured), 'result')} measured, {exact} of them checked element by element"]
    for nature in dict.fromkeys(row.nature for row in everything if not row.measured):
        parts.append(f"{sum(row.nature == nature for row in everything)} {nature}, not measured")
    parts += [f"{shared} on shared cores or devices"] if shared else []
    parts += [f"{len(bad)} without a result"] if bad else []
    parts += [f"{run.name} not complete" for run in runs if run.info.get("complete") is not True]
    if everything:
        yield "; ".join(parts) + ".", "trust"


def validated(runs):
    """How good is the simulation?"""
    found = published.errors(published.compared(runs))
    if found:
        share = f" (the median; {units.percent(found.largest)} at worst)" if found.count > 1 else ""
        ones = units.counted(found.count, "published one")
        yield f"Simulated times are within {units.percent(found.middle)} of {ones}{share}.", "validation"


def answers(runs):
    """[(sentence, name of its section)]"""
    return [one for part in (training, links, allreduce, validated, trust) for one in list(part(runs))[:MOST]]
