# SPDX-License-Identifier: Apache-2.0
"""One process of PyTorch's side: builds a model, then times steps as it is told. Reads "N" from stdin, runs N steps
after one that is not timed, answers with one line of JSON. Its first line says what PyTorch this is.

    pytorch_worker.py MODEL BATCH THREADS RANK RANKS RENDEZVOUS

With more than one rank, DistributedDataParallel over gloo; the ranks meet in the file RENDEZVOUS. BATCH is a rank's."""

import json
import os
import sys
import time

model_name, batch, threads, rank, ranks, rendezvous = sys.argv[1:]
batch, threads, rank, ranks = int(batch), int(threads), int(rank), int(ranks)
os.environ["OMP_NUM_THREADS"] = str(threads)
cores = sorted(os.sched_getaffinity(0))
mine = cores[rank * threads : (rank + 1) * threads]
if len(mine) == threads:
    os.sched_setaffinity(0, mine)

import torch  # noqa: E402  (after its number of threads and cores are settled)
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

torch.set_num_threads(threads)
torch.manual_seed(1)


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2, 2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2, 2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


class Residual(nn.Module):
    def __init__(self, inputs, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Conv2d(inputs, channels, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


def resnet18():
    layers = [nn.Conv2d(1, 64, 3, 1, 1), nn.BatchNorm2d(64), nn.ReLU()]
    inputs = 64
    for channels in (64, 128, 256, 512):
        layers += [Residual(inputs, channels, 1 if channels == 64 else 2), Residual(channels, channels, 1)]
        inputs = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


model = {"lenet": lenet, "resnet18": resnet18}[model_name]()
images = torch.randn(batch, 1, 28, 28)
labels = torch.randint(0, 10, (batch,))
if ranks > 1:
    torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks)
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)


def step():
    """Seconds of forward, of backward with what it communicates, and of the update."""
    marks = [time.perf_counter()]
    loss = functional.cross_entropy(model(images), labels)
    marks.append(time.perf_counter())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    marks.append(time.perf_counter())
    optimizer.step()
    marks.append(time.perf_counter())
    return [later - earlier for earlier, later in zip(marks, marks[1:])]


def answer(content):
    print(json.dumps(content), flush=True)


answer({"version": torch.__version__, "parameters": sum(p.numel() for p in model.parameters()),
        "build": torch.__config__.show()})  # fmt: skip
for line in sys.stdin:
    step()
    answer([step() for _ in range(int(line))])
