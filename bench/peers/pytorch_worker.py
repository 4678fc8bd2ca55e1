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

from pytorch_models import MODELS  # noqa: E402

torch.set_num_threads(threads)
torch.manual_seed(1)

model = MODELS[model_name]()
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
