# SPDX-License-Identifier: Apache-2.0
"""How much of a slow link's time a training step hides behind its backward pass: python3 -m bench.overlap

Runs bench_train twice. The first run says how long a step computes; in the second every bucket also takes as long as on a
link so slow that the communication of a step takes a given part of that. With perfect overlap a step would then
take the longer of the two. Needs a core for each device, since a device that has none computes longer meanwhile."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(arguments, link=None):
    """The results of bench_train, overlap on and off; `link` is in bytes a second."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "result.json"
        command = [arguments.bin / "bench_train", "--quiet", f"--output={output}", "--data=synthetic", "--steps=0",
                   "--scaling=strong", "--strategy=distributed", "--overlap=on,off", f"--model={arguments.model}",
                   f"--batch={arguments.batch}", f"--device={arguments.device}", f"--bucket={arguments.bucket}",
                   f"--iterations={arguments.iterations}", "--threads=1"]
        environment = os.environ | ({"RINGMARK_SLOW_LINK": str(link)} if link else {})
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr.strip())
        return {row["point"]["overlap"]: row["metrics"] for row in json.loads(output.read_text())["results"]}


def main():
    parser = argparse.ArgumentParser(prog="bench.overlap", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", default="lenet")
    parser.add_argument("--batch", type=int, default=256, help="of all devices (default: %(default)s)")
    parser.add_argument("--device", default="cpu:2")
    parser.add_argument("--bucket", default="64K", help="size of a bucket (default: %(default)s)")
    parser.add_argument("--part", type=float, default=0.5,
                        help="what the communication takes of the computing's time (default: %(default)s)")
    parser.add_argument("--iterations", type=int, default=15)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/cpu/bin", help="folder of bench_train")
    arguments = parser.parse_args()

    fast = run(arguments)["on"]
    slow = run(arguments, fast["parameter_bytes"] / (arguments.part * fast["compute_seconds"]))
    print("| overlap | compute | communication | step | step / the longer of the two |")
    print("|---|---|---|---|---|")
    for overlap, metrics in slow.items():
        compute, communication, step = (metrics[f"{name}_seconds"] for name in ("compute", "communication", "step"))
        print(f"| {overlap} | {1e3 * compute:.2f} ms | {1e3 * communication:.2f} ms | {1e3 * step:.2f} ms | "
              f"{step / max(compute, communication):.3f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
