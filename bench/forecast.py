# SPDX-License-Identifier: Apache-2.0
"""How far the forecast of a training step is from the step that is then measured: python3 -m bench.forecast

In each round bench_link measures how the CPU devices of this machine are joined and bench_model the layers on one of
them; from these alone bench_train forecasts the step of several, and then takes it. Devices of one processor also slow
each other down, of which one alone knows nothing; so it is forecast again from layers that all devices computed at the
same time, without communication. The error is that of bench_validate: the mean factor between forecast and measurement,
less one."""

import json
import math
import os
import statistics
import sys
import tempfile

from bench.peers.rounds import DEFAULT_BIN, Failed, count, models, run_bench, table
from plots import units
from plots.command import Parser

POINT = ("model", "strategy", "algorithm", "ranks")


def steps_of(report):
    """Seconds of a step by what is compared."""
    return {tuple(row["point"][name] for name in POINT): row["metrics"]["step_seconds"] for row in report["results"]
            if row["status"] == "ok" and row["point"]["ranks"] > 1}  # fmt: skip


def one_round(arguments, model, batch, folder):
    """The step of each way to take it: forecast from layers alone, from layers on all devices at once, and measured."""
    device = f"cpu:{arguments.devices}"
    topology = os.path.join(folder, "topology.json")
    run_bench(arguments.bin, ["bench_link", f"--device={device}", f"--write-topology={topology}"])
    step = ["bench_train", f"--model={model}", f"--batch={batch}", "--scaling=weak", "--overlap=on",
            f"--strategy={arguments.strategy}", f"--algorithm={arguments.algorithm}"]  # fmt: skip
    found = []
    for profiled in ("cpu:1", device):
        layers = run_bench(arguments.bin, ["bench_model", f"--model={model}", f"--device={profiled}", "--threads=1",
                                           f"--batch={batch}"])  # fmt: skip
        profile = os.path.join(folder, "profile.json")
        with open(profile, "w", encoding="utf-8") as file:
            json.dump(layers, file)
        found.append(steps_of(run_bench(arguments.bin, [*step, "--engine=simulated", f"--profile={profile}",
                                                        f"--topology={topology}"])))  # fmt: skip
    found.append(steps_of(run_bench(arguments.bin, [*step, f"--device={device}", "--threads=1", "--steps=0"])))
    if not found[0] or any(one.keys() != found[0].keys() for one in found):
        raise Failed(f"{model}: what was forecast is not what was measured")
    return {key: tuple(one[key] for one in found) for key in found[0]}


def error_of(pairs):
    """Of forecasts and measurements: exp(mean |ln(forecast / measured)|) - 1."""
    return math.exp(statistics.mean(abs(math.log(forecast / measured)) for forecast, measured in pairs)) - 1


def main():
    parser = Parser("bench.forecast", __doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", type=models, default="lenet:64,resnet18:8", metavar="NAME:BATCH,...",
                        help="models and the images on each device (default: %(default)s)")  # fmt: skip
    parser.add_argument("--devices", type=count, default=2, help="each of one thread (default: %(default)s)")
    parser.add_argument("--strategy", default="scratch,distributed,sharded,data_parallel",
                        help="of bench_train (default: %(default)s)")  # fmt: skip
    parser.add_argument("--algorithm", default="ring", help="of bench_train (default: %(default)s)")
    parser.add_argument("--rounds", type=count, default=5, help="(default: %(default)s)")
    parser.add_argument("--bin", default=DEFAULT_BIN, help="the folder of Ringmark's programs")
    arguments = parser.parse_args()

    rounds = {}
    try:
        for _ in range(arguments.rounds):
            for model, batch in arguments.model:
                with tempfile.TemporaryDirectory() as folder:
                    for key, pair in one_round(arguments, model, batch, folder).items():
                        rounds.setdefault(key, []).append(pair)
    except Failed as error:
        print(f"bench.forecast: {error}", file=sys.stderr)
        return 1
    lines, medians = [], []
    for key, found in rounds.items():
        medians.append([statistics.median(side) for side in zip(*found)])
        *forecasts, measured = medians[-1]
        lines.append([str(word) if word else "" for word in key] + [units.seconds(one) for one in medians[-1]] +
                     [f"{one / measured:.2f}" for one in forecasts])  # fmt: skip
    print(table([*POINT, "layers alone", "at once", "measured", "alone / measured", "at once / measured"], lines))
    alone, at_once = (error_of([(row[side], row[-1]) for row in medians]) for side in (0, 1))
    print(f"\nerror {100 * alone:.0f}% from layers alone, {100 * at_once:.0f}% from layers on all devices at once")
    return 0


if __name__ == "__main__":
    sys.exit(main())
