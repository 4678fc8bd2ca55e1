# SPDX-License-Identifier: Apache-2.0
"""torch.distributed's all-reduce over gloo, a process a rank: torch_allreduce.py RANKS FOLDER BYTES SAMPLES RUNS.
Prints what peer.hpp describes."""

import json
import os
import sys
import time

ranks, folder = int(sys.argv[1]), sys.argv[2]
size, samples, runs = (int(word) for word in sys.argv[3:])
os.environ["OMP_NUM_THREADS"] = "1"

import torch  # noqa: E402
from torch import distributed, multiprocessing  # noqa: E402


def run(rank):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= ranks:
        os.sched_setaffinity(0, [cores[rank]])
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    data = torch.full((size // 4,), float(rank + 1))
    distributed.all_reduce(data)
    if not bool((data == ranks * (ranks + 1) / 2).all()):
        sys.exit("torch_allreduce: a sum is wrong")
    data.zero_()
    seconds = torch.empty(samples, dtype=torch.float64)
    for sample in range(-1, samples):  # the first one is not kept
        distributed.barrier()
        begin = time.perf_counter()
        for _ in range(runs):
            distributed.all_reduce(data)
        seconds[sample] = (time.perf_counter() - begin) / runs
    distributed.all_reduce(seconds, op=distributed.ReduceOp.MAX)
    if rank == 0:
        print(json.dumps(seconds.tolist()), flush=True)


if __name__ == "__main__":
    multiprocessing.spawn(run, nprocs=ranks)
