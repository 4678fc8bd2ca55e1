# SPDX-License-Identifier: Apache-2.0
"""How much of a slow link's time a training step hides behind its backward pass: python3 -m bench.overlap

In each round bench_train runs twice. The first run says how long a step computes; in the second every bucket also takes as
long as on a link so slow that the communication of a step takes a given part of that. With perfect overlap a step would
then take the longer of the two. Needs a core for each device, since a device that has none computes longer meanwhile."""

import argparse
import os
import sys

from bench.peers.rounds import DEFAULT_BIN, Failed, count, models, run_bench, table
from plots import units
from plots.command import Parser


def metrics_of(arguments, model, batch, link=None):
    """Of a step, by overlap (on and off); `link` is in bytes a second."""
    if link:
        os.environ["RINGMARK_SLOW_LINK"] = str(link)
    else:
        os.environ.pop("RINGMARK_SLOW_LINK", None)
    report = run_bench(arguments.bin, ["bench_train", f"--model={model}", f"--batch={batch}", "--scaling=strong",
                                       f"--device=cpu:{arguments.devices}", "--threads=1", "--data=synthetic",
                                       "--strategy=distributed", "--overlap=on,off", f"--bucket={arguments.bucket}",
                                       "--steps=0", f"--iterations={arguments.iterations}"])  # fmt: skip
    for row in report["results"]:
        if row["status"] != "ok":
            raise Failed(f"{model}: {row['reason']}")
    return {row["point"]["overlap"]: row["metrics"] for row in report["results"]}


def part(text):
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not allowed; allowed is a number above 0")
    return value


def main():
    parser = Parser("bench.overlap", __doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", type=models, default="lenet:512", metavar="NAME:BATCH,...",
                        help="models and the images of all devices together (default: %(default)s)")  # fmt: skip
    parser.add_argument("--devices", type=count, default=2, help="each of one thread (default: %(default)s)")
    parser.add_argument("--bucket", default="64K", help="size of a bucket (default: %(default)s)")
    parser.add_argument("--part", type=part, default=0.5,
                        help="what the communication takes of the computing's time (default: %(default)s)")  # fmt: skip
    parser.add_argument("--iterations", type=count, default=10, help="steps of a run (default: %(default)s)")
    parser.add_argument("--rounds", type=count, default=3, help="(default: %(default)s)")
    parser.add_argument("--bin", default=DEFAULT_BIN, help="the folder of Ringmark's programs")
    arguments = parser.parse_args()

    lines = []
    try:
        for _ in range(arguments.rounds):
            for model, batch in arguments.model:
                fast = metrics_of(arguments, model, batch)["on"]
                link = fast["parameter_bytes"] / (arguments.part * fast["compute_seconds"])
                for overlap, metrics in metrics_of(arguments, model, batch, link).items():
                    times = [metrics[f"{name}_seconds"] for name in ("compute", "communication", "step")]
                    lines.append([model, overlap, *map(units.seconds, times), f"{times[-1] / max(times[:-1]):.2f}"])
    except Failed as error:
        print(f"bench.overlap: {error}", file=sys.stderr)
        return 1
    print(table(["model", "overlap", "compute", "communication", "step", "step / the longer of the two"], lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
