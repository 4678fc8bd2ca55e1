# SPDX-License-Identifier: Apache-2.0
"""Training steps beside PyTorch's: python3 -m bench.peers.pytorch_step. One device against one process, and two devices
against DistributedDataParallel over gloo, with the same threads on the same cores and the same batch, in rounds."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile

from bench.peers.rounds import (
    DEFAULT_BIN, Contender, Failed, alternate, count, counts, models, ratio, row_of, run_bench, save, table
)
from plots import units
from plots.command import Parser

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pytorch_worker.py")
MODULE = "bench.peers.pytorch_step"


class PyTorch:
    """The processes of one contender, which wait for their turns."""

    def __init__(self, python, model, batch, threads, ranks, scratch):
        rendezvous = tempfile.mktemp(dir=scratch)
        self.name = f"{python}: {model}"
        self.processes = []
        for rank in range(ranks):
            command = [python, WORKER, model, str(batch), str(threads), str(rank), str(ranks), rendezvous]
            try:
                self.processes.append(
                    subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     text=True)
                )  # fmt: skip
            except OSError as error:
                raise Failed(f"{python}: {error.strerror}") from None
        self.about = self._answers()[0]

    def _answers(self):
        lines = [process.stdout.readline() for process in self.processes]
        for process, line in zip(self.processes, lines):
            if not line:
                said = process.stderr.read().strip().splitlines()
                raise Failed(f"{self.name}: {said[-1] if said else 'ended without a word'}")
        return [json.loads(line) for line in lines]

    def steps(self, count):
        """Of each step the slowest rank's phases: seconds of forward, backward and update."""
        for process in self.processes:
            process.stdin.write(f"{count}\n")
            process.stdin.flush()
        return [max(ranks, key=sum) for ranks in zip(*self._answers())]

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


class Pair:
    """What is compared: Ringmark's contenders and each PyTorch's, for a model, a thread count and a device count."""

    def __init__(self, model, batch, threads, ranks):
        self.model, self.batch, self.threads, self.ranks = model, batch, threads, ranks
        self.ours, self.theirs = [], []
        self.run, self.parameters = None, set()  # of the models, which must be one

    def add_ours(self, options, steps, math):
        device = f"cpu:{self.ranks}"
        fixed = [f"--model={self.model}", f"--device={device}", f"--threads={self.threads}", f"--iterations={steps}"]
        if self.ranks == 1:
            arguments = ["bench_model", *fixed, f"--batch={self.batch}", f"--math={math}"]
        else:
            arguments = ["bench_train", *fixed, f"--batch={self.batch * self.ranks}", "--strategy=distributed",
                         "--algorithm=ring", "--steps=2"]  # fmt: skip
        contender = Contender(f"ringmark {math}" if math != "f32" else "ringmark", None)

        def turn():
            report = run_bench(options.bin, arguments)
            (row,) = report["results"]
            if row["status"] != "ok":
                raise Failed(f"{' '.join(arguments)}: {row['reason']}")
            self.run = self.run or report["run"]
            self.parameters.add(row["metrics"]["parameters"])
            contender.result = {"bench": row["bench"], "point": row["point"], "command": row["command"]}
            return row["samples"]

        contender.turn = turn
        self.ours.append(contender)

    def add_pytorch(self, python, steps, scratch, stack):
        peer = PyTorch(python, self.model, self.batch, self.threads, self.ranks, scratch)
        stack.callback(peer.close)
        contender = Contender(f"PyTorch {peer.about['version']}", lambda: [sum(one) for one in peer.steps(steps)])
        contender.about = peer.about
        self.parameters.add(peer.about["parameters"])
        point = {"model": self.model, "device": f"cpu:{self.ranks}", "threads": self.threads,
                 "backend": contender.name.lower(), "batch": self.batch, "math": "f32"}  # fmt: skip
        if self.ranks > 1:
            point |= {"ranks": self.ranks, "strategy": "distributed", "engine": "gloo", "algorithm": None,
                      "global_batch": self.batch * self.ranks, "scaling": "strong"}  # fmt: skip
        contender.result = {"bench": "model" if self.ranks == 1 else "train", "point": point,
                            "command": [os.path.basename(python), "pytorch_worker.py", self.model, str(self.batch),
                                        str(self.threads)]}  # fmt: skip
        self.theirs.append(contender)

    def lines(self):
        """Of the table: each of ours against the faster PyTorch."""
        best = min(self.theirs, key=lambda peer: peer.seconds)
        for ours in self.ours:
            yield [self.model, str(self.batch), f"{self.ranks} x {self.threads}",
                   ours.name, units.seconds(ours.seconds), best.name, units.seconds(best.seconds),
                   str(ratio(ours, best))]  # fmt: skip


def pairs_of(options):
    for name, batch in options.model:
        for threads in options.threads:
            yield Pair(name, batch, threads, 1)
        yield Pair(name, batch, 1, 2)


def main():
    parser = Parser(MODULE, __doc__)
    parser.add_argument("--model", type=lambda text: models(text, ("lenet", "resnet18")), default="lenet:256,resnet18:32", metavar="NAME:BATCH,...",
                        help="models and the images on each device (default: %(default)s)")  # fmt: skip
    parser.add_argument("--threads", type=counts, default="1,2", help="of the one device (default: %(default)s)")
    parser.add_argument("--rounds", type=count, default=10, help="turns of each contender (default: %(default)s)")
    parser.add_argument("--steps", type=count, default=5, help="timed steps of a turn (default: %(default)s)")
    parser.add_argument("--python", default=sys.executable, metavar="PATH,...",
                        help="interpreters, each with its PyTorch (default: this one)")  # fmt: skip
    parser.add_argument("--bin", default=DEFAULT_BIN, help="the folder of Ringmark's programs")
    parser.add_argument("--output", help="the JSON file for the results")
    options = parser.parse_args()
    rows, lines, builds = [], [], {}
    run = None
    try:
        for pair in pairs_of(options):
            with contextlib.ExitStack() as stack:
                scratch = stack.enter_context(tempfile.TemporaryDirectory())
                pair.add_ours(options, options.steps, "f32")
                if pair.model == "resnet18" and pair.ranks == 1:
                    pair.add_ours(options, options.steps, "winograd")
                for python in options.python.split(","):
                    pair.add_pytorch(python, options.steps, scratch, stack)
                alternate(pair.ours + pair.theirs, options.rounds)
            if len(pair.parameters) > 1:
                raise Failed(f"{pair.model}: not the same model, of {sorted(pair.parameters)} parameters")
            run = run or pair.run
            builds |= {peer.name: peer.about["build"] for peer in pair.theirs}
            rows += [row_of(each, "step_seconds") for each in pair.ours + pair.theirs]
            lines += pair.lines()
            if options.output:
                save(options.output, run, rows, MODULE)
    except Failed as error:
        sys.exit(f"{MODULE}: {error}")
    print(table(["model", "batch", "devices x threads", "contender", "step", "fastest peer", "its step",
                 "ratio (95%)"], lines))  # fmt: skip
    for name, build in builds.items():
        print(f"\n{name}\n{build}")


if __name__ == "__main__":
    main()
