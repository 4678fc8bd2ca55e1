# SPDX-License-Identifier: Apache-2.0
"""What the results say, in sentences computed from them: how a training step on several devices compares with one and
why, which all-reduce is fastest where, what the links do, what was learned, and what not to believe."""

from plots import pieces, units
from plots.load import rows

SAME = 0.03  # two speeds nearer than this are called equal, as are those whose intervals overlap
BEYOND = 1.15  # times the ideal; caches can give a little more than that, other programs on the machine much more
NAMES = {"lenet": "LeNet", "resnet18": "ResNet-18", "mlp": "MLP"}


def model_name(row):
    name = row.text("model", "?")
    return NAMES.get(name, name)


def images_per_second(row):
    rate = row.metric("images_per_second")
    seconds, batch = row.metric("step_seconds"), row.of_point("global_batch")
    return rate if rate else batch / seconds if batch and seconds else None


def threads_in_all(row):
    return row.ranks * int(row.of_point("threads") or 1)


def hardware(row):
    """How much there is to compute on: the threads of CPU devices, but no more than there are cores; else devices."""
    if kind_of_device(row) != "cpu":
        return row.ranks
    machine = row.run.info.get("machine")
    cpu = machine.get("cpu") if isinstance(machine, dict) else None
    cores = units.number(cpu.get("usable_cores")) if isinstance(cpu, dict) else None
    return min(threads_in_all(row), cores or threads_in_all(row))


def growth(row, baseline):
    """The speed-up that the hardware allows: 2 devices of one thread have no more than 1 device of two."""
    return hardware(row) / hardware(baseline)


def same_machine(row):
    return (row.run.label, row.nature, row.point.get("topology"), row.point.get("without"), kind_of_device(row))


def kind_of_device(row):
    return row.text("device").split(":")[0]


def baseline_of(row, candidates):
    """The result on one device that this one is fairly compared with: the same model, data and way of computing, and
    the same batch: that of a device when scaling is weak, the global one when it is strong. The fastest of
    several, so that all strategies are held against the same one; None where there is none."""
    batch = "global_batch" if row.text("scaling") == "strong" else "batch"
    same = ("model", "backend", "math", "data", "accumulate", "grad_dtype", batch)

    def fits(other):
        return (
            other.ranks == 1
            and other.ok
            and images_per_second(other)
            and same_machine(other) == same_machine(row)
            and all(other.point.get(name) == row.point.get(name) for name in same)
        )

    fitting = [other for other in candidates if fits(other)]
    return max(fitting, key=images_per_second, default=None)


def speedup_of(row, baseline):
    """Images per second over those of one device; what the bench itself said, where its baseline is not in the
    files."""
    if baseline is not None and images_per_second(row):
        return images_per_second(row) / images_per_second(baseline)
    return row.metric("speedup")


def equal(row, other, ratio):
    """Whether two steps cannot be told apart: nearer than SAME, or with intervals that overlap. Under weak scaling the
    steps of the two do different work, so intervals are brought to seconds an image first."""
    if abs(ratio - 1) < SAME:
        return True
    spans = []
    for each in (row, other):
        low, high, batch = each.metric("low"), each.metric("high"), each.of_point("global_batch")
        if None in (low, high, batch) or batch == 0:
            return False
        spans.append((low / batch, high / batch))
    return spans[0][0] <= spans[1][1] and spans[1][0] <= spans[0][1]


def prefix(row):
    where = f"[{row.run.label}] " if row.run.label else ""
    if row.measured:
        return where
    topology = row.text("topology")
    if row.text("without"):
        topology += f" without {row.text('without')}"
    return f"{where}{row.nature.capitalize()}{' on ' + topology if topology else ''}, not measured: "


def way(row):
    """The strategy and what carries its gradients: "distributed with ring"."""
    return row.text("strategy", "?") + (f" with {row.carrier}" if row.carrier and row.ranks > 1 else "")


def compare(row, baseline, ways=1):
    """How the step on several devices compares with one: the first sentence says what, the others why."""
    ratio, devices = speedup_of(row, baseline), f"{row.ranks} devices"
    if ratio is None:
        return None
    same = baseline is not None and equal(row, baseline, ratio)
    if same:
        verdict = f"as fast as on 1 ({units.times(ratio)} times: no difference that can be told)"
    elif ratio > 1:
        verdict = f"{units.times(ratio)} times as fast as on 1"
    else:
        verdict = f"slower than on 1: {units.times(ratio)} times its speed"
    batch = row.of_point("batch"), row.of_point("global_batch")
    scaling = {
        "weak": f"weak scaling, {units.digits(batch[0])} images a device in each step",
        "strong": f"strong scaling, {units.digits(batch[1])} images a step in all",
    }.get(row.text("scaling"), "")
    rates = f", {units.rate(images_per_second(row))}" if images_per_second(row) else ""
    if rates and baseline is not None:
        rates += f" against {units.rate(images_per_second(baseline))}"
    best = "at best " if ways > 1 else ""
    sentences = [
        f"{prefix(row)}{model_name(row)} on {devices} ({row.text('device', '?')}) is {best}{verdict}{rates} "
        f"({scaling or 'scaling unknown'}; {way(row)})."
    ]
    sentences += [*why(row, baseline, ratio), *believe(row)]
    return " ".join(sentences)


def why(row, baseline, ratio):
    """Where the step's time goes, and which of communication and computing keeps it from the ideal."""
    step, compute, exposed = (row.metric(f"{name}_seconds") for name in ("step", "compute", "exposed"))
    if exposed is None and step is not None and compute is not None:
        exposed = step - compute
    if step is None or step == 0 or exposed is None:
        return
    hidden = row.metric("hidden_seconds")
    communication = row.metric("communication_seconds")
    lost = (
        f"Of its step of {units.seconds(step)}, {units.seconds(max(exposed, 0))}"
        f" ({units.percent(max(exposed, 0) / step)}) waits for communication"
    )
    if exposed <= 0:
        lost = (
            f"Its step of {units.seconds(step)} is no longer with communication than without, as far as can be measured"
        )
    if hidden is not None and communication and exposed > 0:
        part = hidden / communication
        if part >= 0.05 and row.text("overlap") == "on":
            lost += f"; another {units.seconds(hidden)} of communication hides behind computing"
        elif part <= -0.05:
            lost += f", {units.seconds(-hidden)} more than the all-reduce takes alone: the two get in each other's way"
        else:
            lost += ", none of it hidden behind computing"
    yield lost + "."
    if baseline is None or not baseline.metric("step_seconds"):
        return
    allowed = growth(row, baseline)
    less = allowed < 0.99 * row.ranks
    ideal_words = (
        f"the {units.times(allowed)} times that this hardware allows" if less else f"the ideal {row.ranks} times"
    )
    if less:
        yield (
            f"1 device had {units.counted(threads_in_all(baseline), 'thread')}, the {row.ranks} together"
            f" {threads_in_all(row)}, on {units.counted(int(hardware(row)), 'core')}: there is"
            f" {units.times(allowed)} times the hardware, not {row.ranks} times."
        )
    # What a perfect split of the one device's step would take: all of its work again on each device under weak scaling.
    work = row.ranks if row.text("scaling") == "weak" else 1
    ideal = baseline.metric("step_seconds") * work / allowed
    gap = step - ideal
    if ratio > BEYOND * allowed:
        yield (
            f"That is {units.percent(ratio / allowed)} of {ideal_words}, more than can be: something else slowed the"
            " run on 1 device, so measure again on a quiet machine."
        )
        return
    if gap <= SAME * step:
        cheap = ": communication costs next to nothing here" if exposed <= SAME * step else ""
        yield f"That is {units.percent(ratio / allowed)} of {ideal_words}{cheap}."
        return
    slower = step - exposed - ideal
    if slower > exposed:
        reason = (
            "the devices share the same cores"
            if row.oversubscribed or less
            else (
                "smaller batches use a device less well"
                if work == 1
                else "the devices compete for memory, caches or power"
            )
        )
        yield (
            f"What keeps it from {ideal_words} is mostly computing itself,"
            f" {units.times((step - exposed) / ideal)} times as long as a perfect split would take: probably {reason}."
        )
    elif exposed > gap:
        yield (
            f"What keeps it from {ideal_words} is communication alone: it costs more than the {units.seconds(gap)} lost"
            " in each step."
        )
    else:
        yield (
            f"What keeps it from {ideal_words} is mostly communication: {units.seconds(exposed)} of the"
            f" {units.seconds(gap)} lost in each step."
        )


def believe(row):
    if row.oversubscribed:
        yield (
            f"Oversubscribed: these {row.ranks} devices share cores or a GPU, so this says nothing about"
            f" {row.ranks} real ones."
        )
    if row.text("data") == "synthetic":
        yield "On made-up images."


def training(runs):
    """One comparison for each model, device set and scaling, told for its fastest way; then the ways against each
    other."""
    everything = rows(runs, "train")
    families = {}
    for row in everything:
        if row.ok and row.ranks > 1 and (images_per_second(row) or row.metric("speedup")):
            key = (
                same_machine(row),
                row.point.get("model"),
                row.point.get("device"),
                row.point.get("threads"),
                row.point.get("scaling"),
                row.point.get("global_batch"),
                row.point.get("data"),
                row.point.get("slow"),
            )
            families.setdefault(key, []).append(row)
    for family in families.values():
        family.sort(key=lambda row: images_per_second(row) or 0, reverse=True)
        sentence = compare(family[0], baseline_of(family[0], everything), len(family))
        if sentence:
            yield sentence
        if len(family) > 1:
            yield ways_ranked(family)
        costs = pieces.compared(family, images_per_second, way)
        if costs:
            yield f"{prefix(family[0])}{model_name(family[0])} on {family[0].text('device')}. {costs}"


def ways_ranked(family):
    names = ways_of(family)
    fastest = images_per_second(family[0]) or 1
    parts = []
    for row, name in zip(family, names):
        share = (images_per_second(row) or 0) / fastest
        exposed, step = row.metric("exposed_seconds"), row.metric("step_seconds")
        waits = f"{units.percent(exposed / step)} exposed" if exposed and step and exposed > 0 else "nothing exposed"
        note = f", {waits}" if exposed is not None else ""
        parts.append(f"{name} ({units.times(share)}{note})")
    return f"{prefix(family[0])}{model_name(family[0])} on {family[0].text('device')}, by speed: {'; '.join(parts)}."


def ways_of(family):
    """Short names that tell the ways apart: strategy and algorithm, and what else differs."""
    names = [way(row) for row in family]
    for field in (
        "launch",
        "overlap",
        "bucket_bytes",
        "math",
        "backend",
        "engine",
        "grad_dtype",
        "transport",
        "software",
    ):
        values = [row.point.get(field) for row in family]
        if len(set(map(str, values))) > 1 and len(set(names)) < len(names):
            names = [f"{name}, {field.replace('_', ' ')} {value}" for name, value in zip(names, values)]
    return names


def fastest_by_size(contenders):
    """[(bytes, those that cannot be told from the fastest, by name, the fastest first)], by size."""
    by_size = {}
    for row in contenders:
        by_size.setdefault(row.of_point("bytes"), []).append(row)
    table = []
    for size, here in sorted(by_size.items()):
        here.sort(key=lambda row: row.metric("seconds"))
        bar = max(here[0].metric("high") or 0, here[0].metric("seconds") * (1 + SAME))
        near = {}
        for row in here:
            if (row.metric("low") or row.metric("seconds")) <= bar:
                near.setdefault(contender(row), row)
        table.append((size, near))
    return table


def contender(row):
    name = row.carrier or "?"
    return name + (" as a graph" if row.text("launch") == "graph" else "")


def allreduce(runs):
    """Which algorithm is fastest over which sizes, one sentence for each set of devices."""
    families = {}
    for row in rows(runs, "allreduce"):
        if row.ok and row.ranks > 1 and row.metric("seconds") and row.of_point("bytes"):
            key = (
                same_machine(row),
                row.text("device"),
                row.point.get("threads"),
                row.text("dtype"),
                row.text("op"),
                row.text("placement"),
            )
            families.setdefault(key, []).append(row)
    for family in families.values():
        if len({contender(row) for row in family}) < 2:
            largest = max(family, key=lambda row: row.of_point("bytes"))
            yield (
                f"{prefix(largest)}All-reduce alone over {largest.text('device')} ({contender(largest)}): "
                f"{figure(largest)}.{share_note(family)}"
            )
            continue
        stretches = []
        for size, near in fastest_by_size(family):
            if not stretches or stretches[-1]["name"] not in near:
                stretches.append({"name": next(iter(near)), "from": size})
            stretches[-1].update(to=size, row=near[stretches[-1]["name"]])
        parts = [
            f"{part['name']} {span(part)} ({figure(part['row'], part['from'] != part['to'])})" for part in stretches
        ]
        sample = family[0]
        yield (
            f"{prefix(sample)}All-reduce alone over {sample.text('device')} ({sample.text('dtype')}"
            f" {sample.text('op')}), fastest: {'; '.join(parts)}.{share_note(family)}"
        )


def span(part):
    return (
        f"at {units.size(part['to'])}"
        if part["from"] == part["to"]
        else f"from {units.size(part['from'])} to {units.size(part['to'])}"
    )


def figure(row, with_size=True):
    bandwidth = row.metric("busbw")
    note = "" if row.metrics.get("busbw_is_link_speed") is True else " which is not link speed"
    time = units.seconds(row.metric("seconds"))
    if with_size:
        time = f"{units.size(row.of_point('bytes'))} in {time}"
    return time + (f", busbw {units.bandwidth(bandwidth)}{note}" if bandwidth else "")


def share_note(family):
    return " Oversubscribed: these ranks share cores or a GPU." if any(row.oversubscribed for row in family) else ""


def expected_of(row):
    """(the topology, measured over expected, the verdict, the busiest link in words) of a row that was held against a
    described machine, else None."""
    found = row.result.get("expected")
    ratio = units.number(found.get("ratio")) if isinstance(found, dict) else None
    if not ratio or not row.ok:
        return None
    link, words = found.get("link"), ""
    if isinstance(link, dict) and units.number(link.get("bytes_per_second")) is not None:
        had, of = (
            units.bandwidth(units.number(link.get(name))) for name in ("bytes_per_second", "expected_bytes_per_second")
        )
        words = f"; its busiest link, {link.get('from')} to {link.get('to')}, carried {had} where {of} were expected"
    return str(found.get("topology")), ratio, str(found.get("verdict")), words


def expectations(runs):
    """How what was measured compares with what the machine's description lets one expect."""
    groups = {}
    for row in rows(runs, "allreduce"):
        if found := expected_of(row):
            groups.setdefault((row.run.label, found[0]), []).append((row, *found[1:]))
    for (_, topology), group in groups.items():
        usual = sum(verdict == "as expected" for _, _, verdict, _ in group)
        parts = [f"{usual} of {units.counted(len(group), 'result')} as expected"]
        for verdict, pick in (("slow", max), ("fast", min)):
            some = [one for one in group if one[2] == verdict]
            if not some:
                continue
            row, ratio, _, link = pick(some, key=lambda one: one[1])
            parts.append(
                f"{len(some)} {verdict}, the most {contender(row)} at {units.size(row.of_point('bytes'))}, with"
                f" {units.times(ratio)} times the time that was expected{link if verdict == 'slow' else ''}"
            )
        yield f"{prefix(group[0][0])}Held against {topology} as simulated: {'; '.join(parts)}."


def links(runs):
    pairs = {}
    for row in rows(runs, "link"):
        if row.text("from") != row.text("to"):
            pairs.setdefault((row.run.label, row.nature), []).append(row)
    for group in pairs.values():
        bad = [row for row in group if not row.ok]
        widths = [row.metric("bandwidth") for row in group if row.ok and row.metric("bandwidth")]
        delays = [row.metric("latency_seconds") for row in group if row.ok and row.metric("latency_seconds")]
        if widths and delays:
            yield (
                f"{prefix(group[0])}{units.counted(len(group), 'ordered pair')} of devices: one way"
                f" {between(widths, units.bandwidth)}, latency {between(delays, units.seconds)}."
            )
        if bad:
            yield (
                f"{prefix(group[0])}{units.counted(len(bad), 'pair')} did not pass:"
                f" {named(bad, lambda r: r.text('from') + ' to ' + r.text('to'))}."
            )


def between(values, show):
    low, high = show(min(values)), show(max(values))
    return low if low == high else f"{low} to {high}"


def named(some, name, most=3):
    names = list(dict.fromkeys(name(row) for row in some))
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def learning(runs):
    """What was reached, one sentence for all ways that train on the same images in the same order."""
    groups = {}
    for row in rows(runs, "train"):
        lost = next((step for step, loss in enumerate(row.list("losses")) if units.number(loss) is None), None)
        if lost is not None:
            yield (
                f"{prefix(row)}{model_name(row)} on {row.text('device')} ({way(row)}) diverged: the loss of step {lost}"
                " is no number."
            )
        reached = [
            (units.number(epoch.get("test_accuracy")), epoch.get("epoch"))
            for epoch in row.list("epochs")
            if isinstance(epoch, dict)
        ]
        reached = [one for one in reached if one[0] is not None]
        if reached:
            key = (
                prefix(row),
                model_name(row),
                len(reached),
                *(str(row.point.get(name)) for name in ("global_batch", "lr", "init", "data")),
            )
            groups.setdefault(key, []).append((row, reached))
    for (where, name, count, *_), group in groups.items():
        last = [f"{reached[-1][0]:.3f}" for _, reached in group]
        best = max((one for _, reached in group for one in reached), key=lambda one: one[0])
        ways = f"{way(group[0][0])} on {group[0][0].text('device')}" if len(group) == 1 else f"{len(group)} ways"
        ended = last[0] if len(set(last)) == 1 else f"{min(last)} to {max(last)}"
        alike = ", all the same" if len(group) > 1 and len(set(last)) == 1 else ""
        sample = group[0][0]
        yield (
            f"{where}{name} reached a test accuracy of {ended} after {units.counted(count, 'epoch')} ({ways},"
            f" {sample.text('init', 'default')} init,"
            f" global batch {units.digits(sample.of_point('global_batch'))}{alike};"
            f" best {best[0]:.3f} after epoch {best[1]})."
        )


def models(runs):
    for row in rows(runs, "model"):
        if row.ok and row.metric("step_seconds"):
            parts = [
                f"{name} {units.seconds(row.metric(name + '_seconds'))}"
                for name in ("forward", "backward", "optimizer")
                if row.metric(name + "_seconds") is not None
            ]
            rate = images_per_second(row) or (row.of_point("batch") or 0) / row.metric("step_seconds")
            yield (
                f"{prefix(row)}{model_name(row)} alone on {row.text('device')} ({row.text('backend', '?')}, batch"
                f" {units.digits(row.of_point('batch'))}): {units.seconds(row.metric('step_seconds'))} a step,"
                f" {units.rate(rate)}{' (' + ', '.join(parts) + ')' if parts else ''}."
            )


def honesty(runs):
    """What was proved, and what to be careful with."""
    everything = rows(runs)
    bad = [row for row in everything if row.status in ("failed", "timed_out") or row.result.get("check") == "failed"]
    if bad:
        reason = next((str(row.result.get("reason")) for row in bad if row.result.get("reason")), "no reason given")
        yield f"{len(bad)} of {units.counted(len(everything), 'result')} FAILED; the first says: {reason}"
    exact = sum(row.result.get("check") == "exact" for row in everything)
    if exact:
        yield f"{exact} of {units.counted(len(everything), 'result')} checked exact, at every element."
    over = [row for row in everything if row.oversubscribed]
    if over:
        yield (
            f"{units.counted(len(over), 'result')} oversubscribed ({named(over, lambda row: row.text('device', '?'))}):"
            " they time the scheduler."
        )
    for flag, meaning in {"load": "others used the machine", "throttled": "the clocks were lowered"}.items():
        flagged = [row for row in everything if flag in row.list("flags")]
        if flagged:
            yield f"{units.counted(len(flagged), 'result')} taken while {meaning}: trust ratios within one run only."
    for run in runs:
        if run.info.get("complete") is not True:
            yield f"{run.name} is not complete: the run was interrupted or is still going."


def sentences(runs):
    """All of them, the most asked-for first."""
    return [
        sentence
        for part in (training, allreduce, expectations, links, models, learning, honesty)
        for sentence in part(runs)
    ]
