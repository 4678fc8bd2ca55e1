# SPDX-License-Identifier: Apache-2.0
"""Two ways to use several devices: each has the whole network and its part of the batch (data parallelism), or each has
a piece of the network. What that moves between them, how long they compute nothing, and what there is to compute."""

from plots import units

IN_PIECES = ("pipeline", "tensor")  # strategies


def in_pieces(row):
    return row.text("strategy") in IN_PIECES


def idle_share(row):
    """Of what all devices could compute in a step, the part that they did not; None where it was not measured."""
    idle, step = row.metrics.get("idle_seconds"), row.metric("step_seconds")
    idle = [units.number(one) for one in idle] if isinstance(idle, list) else []
    return sum(idle) / len(idle) / step if idle and step and None not in idle else None


def compared(family, rate, name):
    """The fastest way that shares out the batch beside the fastest of each that cuts the network, in words; None where
    one of the two was not tried. `rate` and `name` tell a row's speed and its way."""
    best = {}
    for row in sorted(family, key=lambda row: rate(row) or 0, reverse=True):
        best.setdefault(row.text("strategy") if in_pieces(row) else None, row)
    whole, cut = best.pop(None, None), list(best.values())
    if whole is None or not cut:
        return None
    costs = "; ".join(f"{name(row)} {cost(row)}" for row in (whole, *cut))
    ratio = (rate(whole) or 0) / (rate(cut[0]) or 1)
    if ratio >= 1:
        verdict = f"the batch is what to share out, {units.times(ratio)} times as fast as the network in pieces at best"
    else:
        verdict = f"the network is what to cut, {units.times(1 / ratio)} times as fast as sharing out the batch"
    return (
        "What a step moves between the devices, how much of it they compute nothing, and what it takes without"
        f" communication: {costs}. Here {verdict}."
    )


def cost(row):
    compute = units.seconds(row.metric("compute_seconds"))
    return f"{units.size(row.metric('bytes_moved'))}, {units.percent(idle_share(row))}, {compute}"
