# SPDX-License-Identifier: Apache-2.0
"""Losses beside PyTorch's: python3 -m bench.peers.pytorch_losses. The same networks from the same parameters on the same
images of Fashion-MNIST in the same order, on one device and dealt out to several, step by step. PyTorch trains in floats
and in doubles: where a value comes close to the kink of a ReLU rounding decides, and two right programs part. To be run
by an interpreter that has a PyTorch."""

import copy
import gzip
import itertools
import math
import os
import sys

import numpy
import torch
from torch.nn import functional

from bench.peers.pytorch_models import MODELS
from bench.peers.rounds import DEFAULT_BIN, Failed, count, counts, run_bench, table
from plots.command import Parser

MODULE = "bench.peers.pytorch_losses"
SIDE = 28
FIRST_STEP = 1e-5  # a first loss may be apart by so much: it has been through no update


def uniform(index, bound):
    """Ringmark's draws: splitmix64 (Steele, Lea and Flood, 2014) of the index, as a float within the bound."""
    with numpy.errstate(over="ignore"):
        z = index + numpy.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        z = z ^ (z >> numpy.uint64(31))
    fraction = (z >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53
    return ((fraction - 0.5) * 2.0 * bound).astype(numpy.float32)


def bound_of(tensor, fan_in, init):
    is_weight = tensor.dim() > 1
    if init == "default":
        return 1 / math.sqrt(fan_in)
    if not is_weight:
        return 0.0
    return 0.01 * math.sqrt(3.0) if init == "std001" else math.sqrt(2.0 / fan_in) * math.sqrt(3.0)


def drawn(model, init, seed):
    """The model with parameters drawn as Ringmark draws them; batch norms stay the identity."""
    offset = 0
    with torch.no_grad():
        for module in model.modules():
            for tensor in module.parameters(recurse=False):
                if not isinstance(module, torch.nn.BatchNorm2d):
                    index = numpy.arange(tensor.numel(), dtype=numpy.uint64) + numpy.uint64(seed + offset)
                    bound = bound_of(tensor, module.weight[0].numel(), init)
                    tensor.copy_(torch.from_numpy(uniform(index, bound)).view(tensor.shape))
                offset += tensor.numel()
    return model


def first_images(folder, number):
    """Pixels in 0 to 1, and labels."""
    try:
        with gzip.open(os.path.join(folder, "train-images-idx3-ubyte.gz")) as file:
            pixels = numpy.frombuffer(file.read(16 + number * SIDE * SIDE), numpy.uint8, offset=16)
        with gzip.open(os.path.join(folder, "train-labels-idx1-ubyte.gz")) as file:
            labels = numpy.frombuffer(file.read(8 + number), numpy.uint8, offset=8)
    except OSError as error:
        raise Failed(f"--data-dir={folder}: {error.strerror or error}") from None
    images = (pixels.astype(numpy.float64) / 255).astype(numpy.float32).reshape(-1, 1, SIDE, SIDE)
    if len(labels) < number:
        raise Failed(f"--data-dir={folder}: {number} images are wanted, and there are {len(labels)}")
    return torch.from_numpy(images), torch.from_numpy(labels.astype(numpy.int64))


def apart(losses, others):
    """Of each step, relative."""
    return [abs(one - other) / other for one, other in zip(losses, others, strict=True)]


def train(model, images, labels, batch, devices, lr, steps):
    """The mean loss of each step before its update, each device with its own statistics of batch norms."""
    replicas = [model, *(copy.deepcopy(model) for _ in range(devices - 1))]
    losses = []
    for step in range(steps):
        total = 0.0
        for rank, replica in enumerate(replicas):
            part = slice(step * batch + batch * rank // devices, step * batch + batch * (rank + 1) // devices)
            replica.zero_grad()
            loss = functional.cross_entropy(replica(images[part]), labels[part], reduction="sum")
            loss.backward()
            total += loss.item()
        losses.append(total / batch)
        with torch.no_grad():
            for tensors in zip(*(replica.parameters() for replica in replicas)):
                gradient = sum(tensor.grad for tensor in tensors[1:]) + tensors[0].grad
                for tensor in tensors:
                    tensor -= gradient * (lr / batch)
    return losses


def ours(options, model, device, batch, lr, seed, init):
    arguments = ["bench_train", f"--model={model}", f"--device=cpu:{device}", f"--batch={batch}", f"--lr={lr}",
                 f"--seed={seed}", f"--init={init}", f"--steps={options.steps}", "--scaling=strong",
                 "--strategy=distributed", "--algorithm=ring", "--order=sequential", "--iterations=1", "--warmup=0",
                 f"--data-dir={options.data_dir}"]  # fmt: skip
    (row,) = run_bench(options.bin, arguments)["results"]
    if row["status"] != "ok":
        raise Failed(f"{' '.join(arguments)}: {row['reason']}")
    return row["losses"]


def main():
    parser = Parser(MODULE, __doc__)
    parser.add_argument("--model", choices=sorted(MODELS), default="lenet", help="(default: %(default)s)")
    parser.add_argument("--devices", type=counts, default="1,2", help="CPU devices (default: %(default)s)")
    parser.add_argument("--batch", type=counts, default="48,100", help="of all devices (default: %(default)s)")
    parser.add_argument("--lr", type=lambda text: [float(one) for one in text.split(",")], default="0.03",
                        help="learning rates (default: %(default)s)")  # fmt: skip
    parser.add_argument("--seed", type=counts, default="3,11", help="of the parameters (default: %(default)s)")
    parser.add_argument("--init", type=lambda text: text.split(","), default="he,default",
                        help="how they are drawn: he, std001, default (default: %(default)s)")  # fmt: skip
    parser.add_argument("--steps", type=count, default=10, help="(default: %(default)s)")
    parser.add_argument("--tolerance", type=float, default=1e-2,
                        help="between a loss and the nearer of PyTorch's two, relative (default: %(default)s)")  # fmt: skip
    parser.add_argument("--data-dir", default="/usr/share/datasets/fashion-mnist",
                        help="the folder of Fashion-MNIST's four files (default: %(default)s)")  # fmt: skip
    parser.add_argument("--bin", default=DEFAULT_BIN, help="the folder of Ringmark's programs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines, worst, worst_first = [], 0.0, 0.0
    try:
        images, labels = first_images(options.data_dir, max(options.batch) * options.steps)
        every = itertools.product(options.devices, options.batch, options.lr, options.seed, options.init)
        for devices, batch, lr, seed, init in every:
            model = drawn(MODELS[options.model](), init, seed)
            doubles = train(copy.deepcopy(model).double(), images.double(), labels, batch, devices, lr, options.steps)
            floats = train(model, images, labels, batch, devices, lr, options.steps)
            found = ours(options, options.model, devices, batch, lr, seed, init)
            of_floats, of_doubles = apart(found, floats), apart(found, doubles)
            worst_first = max(worst_first, of_floats[0])
            worst = max(worst, min(max(of_floats), max(of_doubles)))
            lines.append([options.model, str(devices), str(batch), str(lr), str(seed), init, f"{doubles[0]:.6f}",
                          f"{doubles[-1]:.6f}", f"{of_floats[0]:.1e}", f"{max(of_floats):.1e}",
                          f"{max(of_doubles):.1e}", f"{max(apart(floats, doubles)):.1e}"])  # fmt: skip
    except Failed as error:
        sys.exit(f"{MODULE}: {error}")
    print(table(["model", "devices", "batch", "lr", "seed", "init", "first loss", "last loss", "first step apart",
                 "apart from floats", "from doubles", "these two"], lines))  # fmt: skip
    if worst_first > FIRST_STEP:
        sys.exit(f"{MODULE}: a first loss is {worst_first:.1e} apart from PyTorch's, more than {FIRST_STEP:.0e}")
    if worst > options.tolerance:
        sys.exit(f"{MODULE}: a loss is {worst:.1e} apart from both of PyTorch's, more than {options.tolerance:.0e}")


if __name__ == "__main__":
    main()
