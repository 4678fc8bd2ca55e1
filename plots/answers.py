# SPDX-License-Identifier: Apache-2.0
"""The first screen: what people came to ask, each answer one sentence computed from the data, with the section that
proves it."""

from plots import fabrics, races, series, units
from plots.headline import baseline_of, equal, images_per_second, model_name, prefix, same_machine, speedup_of, way
from plots.load import rows

MOST = 4  # of a kind


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
            yield f"{pair[0]} against {pair[1]}: saves {', '.join(saved)}{nature}.", "fabrics"


def fastest(works, pair):
    """The best time on each of the two fabrics, whatever the algorithm."""
    return [min(work.seconds[name] for work in works) for name in pair]


def saving(seconds, of):
    first, second = seconds
    share = 1 - first / second
    return f"nothing on {of}" if share < 0.01 else f"{units.percent(share)} on {of}"


def allreduce(runs):
    """Which algorithm should I use?"""
    for race in sorted(races.races(runs), key=lambda one: -max(one.sizes)):
        stretches = []
        for size in race.sizes:
            name = race.fastest(size)[0]
            near = {race.looks[one] for one in race.near[size]}
            if stretches and stretches[-1][0] in near:
                stretches[-1][2] = size
            else:
                stretches.append([name, size, size])
        parts = [f"{name.replace('_', ' ')} {span(low, high)}" for name, low, high in stretches]
        yield f"All-reduce on {race.title}: fastest is {', '.join(parts)}.", "choice"


def span(low, high):
    return f"at {units.size(low)}" if low == high else f"from {units.size(low)} to {units.size(high)}"


def trust(runs):
    everything = rows(runs)
    bad = [row for row in everything if not row.ok]
    simulated = sum(not row.measured for row in everything)
    exact = sum(row.result.get("check") in ("exact", "tolerance") for row in everything)
    shared = sum(row.oversubscribed for row in everything)
    parts = [f"{exact} of {units.counted(len(everything), 'result')} checked"]
    parts += [f"{simulated} not measured"] if simulated else []
    parts += [f"{shared} on shared cores or devices"] if shared else []
    parts += [f"{len(bad)} without a result"] if bad else []
    parts += [f"{run.name} not complete" for run in runs if run.info.get("complete") is not True]
    if everything:
        yield "; ".join(parts) + ".", "trust"


def answers(runs):
    """[(sentence, name of its section)]"""
    return [one for part in (training, links, allreduce, trust) for one in list(part(runs))[:MOST]]
