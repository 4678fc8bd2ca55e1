# SPDX-License-Identifier: Apache-2.0
"""All-reduces on CPU devices beside those of Open MPI, MPICH, Gloo and PyTorch: python3 -m bench.peers.allreduce. Sums
of float32 in place, in rounds. Ringmark's ranks are threads of one process, the peers' are processes."""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

from bench.peers.rounds import (
    DEFAULT_BIN, ROOT, Contender, Failed, alternate, count, counts, ratio, row_of, run_bench, save, table
)
from plots import units
from plots.command import Parser

HERE = os.path.dirname(os.path.abspath(__file__))
MODULE = "bench.peers.allreduce"
TARGET_SECONDS = 2e-3  # of a sample of the peers', roughly: runs in a row are as many as fit at 5 GB/s and 5 us


class Peers:
    """Those that are installed here: name to the command of `ranks` processes."""

    def __init__(self, folder, python):
        self.folder, self.python = folder, python
        self.missing = []

    def _built(self, compiler, source, *libraries):
        program = os.path.join(self.folder, f"{compiler}.{source}")
        command = [compiler, "-std=c++20", "-O3", "-march=native", "-DOMPI_SKIP_MPICXX", f"-I{ROOT}",
                   os.path.join(HERE, source), "-o", program, *libraries]  # fmt: skip
        if not shutil.which(compiler):
            return None
        return program if subprocess.run(command, capture_output=True, check=False).returncode == 0 else None

    def commands(self, ranks):
        """(name, engine, command): {folder} in it is a new, empty one."""
        crowded = ranks > len(os.sched_getaffinity(0))
        if program := self._built("mpicxx.openmpi", "mpi_allreduce.cpp"):
            how = ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"] if crowded else ["--bind-to", "core"]
            yield "Open MPI", "openmpi", ["mpirun.openmpi", "--allow-run-as-root", "--mca", "btl", "self,vader", *how,
                                          "-n", str(ranks), program]  # fmt: skip
        else:
            self.missing.append("Open MPI (libopenmpi-dev, openmpi-bin)")
        if program := self._built("mpicxx.mpich", "mpi_allreduce.cpp"):
            how = [] if crowded else ["-bind-to", "core"]
            yield "MPICH", "mpich", ["mpirun.mpich", *how, "-n", str(ranks), program]
        else:
            self.missing.append("MPICH (libmpich-dev, mpich)")
        if program := self._built("g++", "gloo_allreduce.cpp", "-lgloo", "-lpthread"):
            for algorithm in ("ring_chunked", "halving_doubling", "new_ring"):
                yield f"Gloo {algorithm}", "gloo", [program, algorithm, str(ranks), "{folder}"]
        else:
            self.missing.append("Gloo (libgloo-dev)")
        torch = [self.python, os.path.join(HERE, "torch_allreduce.py")]
        if subprocess.run([self.python, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
            yield "PyTorch gloo", "torch_gloo", [*torch, str(ranks), "{folder}"]
        else:
            self.missing.append("PyTorch (python3-torch)")


def peer(name, engine, command, ranks, size, samples):
    runs = max(1, int(TARGET_SECONDS / (5e-6 + size / 5e9)))

    def turn():
        with tempfile.TemporaryDirectory() as folder:
            words = [word.replace("{folder}", folder) for word in command]
            words += [str(size), str(samples), str(runs)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"{name}: {(done.stderr or 'failed').strip().splitlines()[-1]}")
        return json.loads(done.stdout)

    point = {"engine": engine, "device": f"cpu:{ranks}", "algorithm": None, "ranks": ranks, "bytes": size,
             "dtype": "f32", "op": "sum", "placement": "in_place", "launch": "eager"}  # fmt: skip
    shown = [os.path.basename(command[0]), *(os.path.basename(word) for word in command[1:])]
    row = {"bench": "allreduce", "point": point, "command": [*shown, str(size)]}
    return Contender(name, turn, row, may_fail=True)


def ours(options, algorithm, ranks, size, runs):
    arguments = ["bench_allreduce", f"--device=cpu:{ranks}", "--threads=1", f"--bytes={size}", "--launch=graph",
                 f"--algorithm={algorithm}", f"--iterations={options.samples}"]  # fmt: skip
    contender = Contender(f"ringmark {algorithm}", None)

    def turn():
        report = run_bench(options.bin, arguments)
        (row,) = report["results"]
        if row["status"] != "ok" or row["check"] != "exact":
            raise Failed(f"{' '.join(arguments)}: {row['reason'] or row['check']}")
        runs.append(report["run"])
        contender.result = {name: row[name] for name in ("bench", "point", "command", "check", "oversubscribed")}
        return row["samples"]

    contender.turn = turn
    return contender


def bandwidths(size, seconds, ranks):
    """As nccl-tests defines them (doc/PERFORMANCE.md)."""
    rate = size / seconds
    return {"algbw": rate, "busbw": rate * 2 * (ranks - 1) / ranks if ranks > 1 else None}


def size_of(text):
    number = text.rstrip("KMG")
    if not number.isdigit() or len(text) - len(number) > 1 or int(number) % 4 > 0 and text == number:
        raise argparse.ArgumentTypeError(f"'{text}' is not allowed; allowed are bytes, by fours, such as 4, 64K or 1M")
    return int(number) << {"": 0, "K": 10, "M": 20, "G": 30}[text[len(number) :]]


def sizes(text):
    return [size_of(one) for one in text.split(",")]


def main():
    parser = Parser(MODULE, __doc__)
    parser.add_argument("--ranks", type=counts, default="2,4",
                        help="ranks, each a thread or process (default: %(default)s)")  # fmt: skip
    parser.add_argument("--bytes", type=sizes, default="4,64,1K,4K,64K,256K,1M,4M,16M,64M,256M",
                        help="sizes of the vector (default: %(default)s)")  # fmt: skip
    parser.add_argument("--algorithm", default="one_shot,two_shot,ring",
                        help="Ringmark's contenders (default: %(default)s)")  # fmt: skip
    parser.add_argument("--rounds", type=count, default=10, help="turns of each contender (default: %(default)s)")
    parser.add_argument("--samples", type=count, default=7, help="samples of a turn (default: %(default)s)")
    parser.add_argument("--python", default=sys.executable, help="the interpreter with PyTorch (default: this one)")
    parser.add_argument("--bin", default=DEFAULT_BIN, help="the folder of Ringmark's programs")
    parser.add_argument("--output", help="the JSON file for the results")
    options = parser.parse_args()
    rows, lines, runs = [], [], []
    with contextlib.ExitStack() as stack:
        peers = Peers(stack.enter_context(tempfile.TemporaryDirectory()), options.python)
        try:
            for ranks in options.ranks:
                peers.missing.clear()
                commands = list(peers.commands(ranks))
                if not commands:
                    raise Failed(f"no peer is installed; any of {'; '.join(peers.missing)}")
                for size in options.bytes:
                    mine = [ours(options, algorithm, ranks, size, runs) for algorithm in options.algorithm.split(",")]
                    theirs = [peer(*one, ranks, size, options.samples) for one in commands]
                    whole = alternate(mine + theirs, options.rounds)
                    theirs = [each for each in theirs if each in whole]
                    if not theirs:
                        raise Failed(f"no peer ran at {units.size(size)}")
                    rows += [row_of(each, "seconds", **bandwidths(size, each.seconds, ranks)) for each in mine + theirs]
                    first, best = (min(some, key=lambda each: each.seconds) for some in (mine, theirs))
                    lines.append([str(ranks), units.size(size), first.name, units.seconds(first.seconds), best.name,
                                  units.seconds(best.seconds), str(ratio(best, first))])  # fmt: skip
                    print(" ".join(lines[-1]), file=sys.stderr)
                    if options.output:
                        save(options.output, runs[0], rows, MODULE)
        except Failed as error:
            sys.exit(f"{MODULE}: {error}")
    for name in peers.missing:
        print(f"left out, not installed: {name}")
    head = ["ranks", "bytes", "fastest of ours", "time", "fastest peer", "its time", "times as fast (95%)"]
    print(table(head, lines))


if __name__ == "__main__":
    main()
