# SPDX-License-Identifier: Apache-2.0
"""Made-up results for the tests of the plots; no number here was measured. They follow the examples of
results/README.md."""

import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

from plots.load import Run, label  # noqa: E402  (the line above finds it)


def run(results, **changes):
    info = {
        "started": "2026-01-31T12:00:00Z",
        "command": ["bench_train", "--model=lenet"],
        "version": "0.1.0",
        "revision": "abc123",
        "seed": 1,
        "features": {"cuda": False, "onednn": True},
        "machine": {
            "cpu": {"model": "Made-up CPU", "cores": 2, "threads": 2, "usable_cores": 2, "caches": {"L1d": 32768}},
            "devices": [],
            "links": [],
            "libraries": {"onednn": "2.6.3"},
            "environment": {},
            "load": 0.1,
        },
        "world": {"size": 1, "hosts": [], "rank_map": []},
        "complete": True,
    }
    return {"schema": 1, "run": {**info, **changes}, "results": results}


def result(bench, point, metrics, **changes):
    return {
        "bench": bench,
        "nature": "measured",
        "status": "ok",
        "reason": "",
        "check": "exact",
        "wrong": None,
        "oversubscribed": False,
        "stop": "interval",
        "visits": 12,
        "runs_per_sample": 1,
        "flags": [],
        "point": point,
        "command": [f"bench_{bench}"],
        "samples": [0.00012],
        "metrics": metrics,
        **changes,
    }


def allreduce(algorithm="ring", ranks=4, size=1048576, seconds=1.2e-4, link_speed=True, point=None, **changes):
    algbw = size / seconds if size else None
    where = {
        "engine": "streams",
        "device": f"cpu:{ranks}",
        "threads": 1,
        "algorithm": algorithm,
        "ranks": ranks,
        "bytes": size,
        "dtype": "f32",
        "op": "sum",
        "placement": "in_place",
        "launch": "eager",
        "pieces": 1,
        "topology": None,
    }
    metrics = {
        "seconds": seconds,
        "mean_over_ranks": seconds * 0.95,
        "low": seconds * 0.99,
        "high": seconds * 1.01,
        "algbw": algbw,
        "busbw": algbw * 2 * (ranks - 1) / ranks if algbw and ranks > 1 else None,
        "busbw_is_link_speed": link_speed,
        "bound_seconds": 2 * ranks * size / 1.2e11 if size else None,
        "bound_kind": "memory" if size else None,
        "bound_efficiency": 2 * ranks * size / 1.2e11 / seconds if size else None,
    }
    return result("allreduce", {**where, **(point or {})}, metrics, **changes)


def collective(name="broadcast", algorithm="ring", **more):
    made = allreduce(algorithm, **more)
    root = {"broadcast": 0, "reduce": 0}.get(name)
    point = {
        **made["point"],
        "collective": name,
        "root": root,
        "op": None if name in ("broadcast", "all_gather") else "sum",
    }
    bus = {"broadcast": 1, "reduce": 1}.get(name, (made["point"]["ranks"] - 1) / made["point"]["ranks"])
    metrics = {**made["metrics"], "busbw": made["metrics"]["algbw"] * bus, "bound_seconds": None}
    metrics.update(bound_kind=None, bound_efficiency=None)
    return {**made, "bench": "collective", "point": point, "metrics": metrics, "command": ["bench_allreduce"]}


def train(
    ranks=1,
    step=0.05,
    exposed=0.0,
    batch=256,
    scaling="weak",
    threads=1,
    strategy="distributed",
    algorithm="ring",
    point=None,
    communication=0.004,
    **changes,
):
    """`batch` is that of a device when scaling is weak, the global one when strong. The interval is 1% either way."""
    device_batch, global_batch = (batch, batch * ranks) if scaling == "weak" else (batch // ranks, batch)
    where = {
        "model": "lenet",
        "device": f"cpu:{ranks}",
        "ranks": ranks,
        "threads": threads,
        "strategy": strategy,
        "engine": "streams",
        "algorithm": algorithm,
        "backend": "onednn",
        "math": "f32",
        "batch": device_batch,
        "global_batch": global_batch,
        "scaling": scaling,
        "lr": 0.1,
        "lr_scaling": "linear",
        "init": "he",
        "seed": 1,
        "order": "shuffled",
        "steps": 50,
        "overlap": None if strategy == "scratch" else "on",
        "bucket_bytes": 26214400,
        "data": "fashion_mnist",
        "slow": None,
    }
    metrics = {
        "step_seconds": step,
        "low": step * 0.99,
        "high": step * 1.01,
        "compute_seconds": step - exposed,
        "communication_seconds": communication if ranks > 1 else 0,
        "exposed_seconds": exposed,
        "hidden_seconds": communication - exposed if ranks > 1 else 0,
        "forward_seconds": step * 0.3,
        "backward_seconds": step * 0.5,
        "optimizer_seconds": step * 0.05,
        "load_seconds": step * 0.02,
        "images_per_second": global_batch / step,
        "speedup": None,
        "scaling_efficiency": None,
        "communication_fraction": exposed / step,
        "waiting_seconds": [0.0] * ranks,
    }
    extra = {
        "phases": {},
        "buckets": [],
        "checksums": [],
        "baseline": "cpu:1",
        "losses": [2.3, 1.9, 1.5],
        "epochs": [
            {"epoch": 1, "seconds": 9.5, "train_loss": 0.9, "test_accuracy": 0.743},
            {"epoch": 2, "seconds": 9.4, "train_loss": 0.5, "test_accuracy": 0.798},
        ],
    }
    return result("train", {**where, **(point or {})}, metrics, **{**extra, **changes})


def link(start="cpu:0", end="cpu:1", **changes):
    return result(
        "link",
        {"from": start, "to": end, "bytes": 67108864},
        {"latency_seconds": 4e-7, "bandwidth": 1.1e10, "bidirectional_bandwidth": 1.6e10, "checked": True},
        **changes,
    )


def model(**changes):
    layers = [
        {"name": f"convolution {n}", "forward_seconds": 0.002 * n, "backward_seconds": 0.004 * n, "parameters": 200 * n}
        for n in (1, 2)
    ]
    return result(
        "model",
        {"model": "lenet", "device": "cpu:1", "threads": 2, "backend": "onednn", "math": "f32", "batch": 256},
        {
            "step_seconds": 0.02,
            "forward_seconds": 0.006,
            "backward_seconds": 0.013,
            "optimizer_seconds": 0.001,
            "images_per_second": 12800.0,
        },
        layers=layers,
        **changes,
    )


def whole():
    """A bit of everything: what the quickstart's files look like, put together."""
    results = [link(), link("cpu:1", "cpu:0"), model()]
    for ranks in (1, 2, 4):
        for algorithm, slope, start in (("ring", 1.0, 4e-6), ("tree", 1.5, 2e-6), ("parameter_server", 2.2, 2.5e-6)):
            for power in range(5, 14):
                size = 4**power
                results.append(
                    allreduce(
                        algorithm,
                        ranks,
                        size,
                        start * ranks + slope * size * ranks / 2e10,
                        algorithm == "ring",
                        oversubscribed=ranks > 2,
                    )
                )
    simulated = {"engine": "simulated", "device": "dgx", "threads": None, "topology": "dgx-a100"}
    results += [
        allreduce(
            "ring",
            4,
            4**power,
            2e-5 + 4**power / 2e11,
            True,
            simulated,
            nature="simulated",
            stop=None,
            samples=[],
            check="off",
        )
        for power in range(5, 14)
    ]
    results += fabrics(0.38)
    results += [collective(name, size=4**power) for name in ("broadcast", "all_gather") for power in (8, 9)]
    results += [validate(1.1), validate(0.8, "dgx-h100"), validate(3.0, doubtful=True)]
    results.append(train(1, 0.05, epochs=[]))
    for strategy, exposed in (("scratch", 0.006), ("distributed", 0.002)):
        for algorithm, more in (("ring", 0.0), ("tree", 0.0005), ("parameter_server", 0.001)):
            results.append(
                train(
                    2,
                    0.053 + exposed + more,
                    exposed + more,
                    strategy=strategy,
                    algorithm=algorithm,
                    timeline=timeline(),
                )
            )
            results.append(
                train(
                    4,
                    0.103 + exposed + more,
                    exposed + more,
                    strategy=strategy,
                    algorithm=algorithm,
                    oversubscribed=True,
                )
            )
    return run(results)


def timeline(ranks=2):
    """One step on each of so many devices, whose buckets are reduced behind the backward pass."""
    spans = []
    for rank in range(ranks):
        parts = (("forward", "layer 1", 0, 1), ("backward", "layer 2", 1, 2), ("backward", "layer 1", 2, 3.5))
        for kind, name, begin, end in (*parts, ("update", "all", 4.2, 4.5)):
            spans.append(span(f"cpu:{rank}", kind, name, begin, end))
        for index, begin in enumerate((2, 3.5)):
            spans.append(span(f"cpu:{rank} communication", "all_reduce", f"bucket {index}", begin, begin + 0.7))
    return spans


def span(lane, kind, name, begin, end):
    return {"lane": lane, "kind": kind, "name": name, "begin_seconds": begin / 1e3, "end_seconds": end / 1e3}


def fabrics(saving, size=67108864):
    """A training step and an all-reduce on a made-up machine with and without NVLink: the step takes 1 - saving of
    what it takes without. Links with their load."""
    results = []
    for without, slower in ((None, 1 - saving), ("nvlink", 1.0)):
        where = {"engine": "simulated", "topology": "dgx-made-up", "without": without, "device": "dgx-made-up"}
        computed = {"nature": "simulated", "stop": None, "samples": [], "check": "off"}
        results.append(train(2, 0.05 * slower, 0.01, point=where, epochs=[], losses=[], **computed))
        links = [
            {"from": f"gpu{rank}", "to": "switch0", "kind": "PCIe", "bytes": size, "seconds": 0.01, "utilisation": 0.5}
            for rank in range(4)
        ] + [{"from": "switch0", "to": "host", "kind": "PCIe", "bytes": 0, "seconds": 0, "utilisation": 0.9}]
        for algorithm, more in (("ring", 1), ("tree", 1.5)):
            seconds = 0.1 * slower * more
            results.append(allreduce(algorithm, 4, size, seconds, point=where, links=links, **computed))
    return results


def validate(ratio=1.1, topology="dgx-a100", doubtful=False, left_out=1.3, **changes):
    """A published time, and the simulated one that is `ratio` times as long."""
    return result(
        "validate",
        {"topology": topology, "bytes": 1048576, "software": "nccl", "source": "a made-up page"},
        {"measured_seconds": 1e-4, "simulated_seconds": ratio * 1e-4, "ratio": ratio, "left_out_ratio": left_out},
        **{
            "published": {"id": "A1", "machine": "made up", "note": "a note", "launch": None, "doubtful": doubtful},
            "nature": "simulated",
            "stop": None,
            "samples": [],
            "check": "off",
            **changes,
        },
    )


def many(count=10000):
    """So many all-reduce results, with as many samples as a bench takes."""
    algorithms = ("ring", "tree", "parameter_server", "double_tree", "one_shot", "two_shot", "hierarchical", "nccl")
    results = []
    for op in ("sum", "avg", "min", "max", "prod"):
        for dtype in ("f32", "f64", "f16", "bf16", "i32"):
            for launch in ("eager", "graph"):
                for place, algorithm in enumerate(algorithms):
                    for power in range(25):
                        size = 1024 * 2**power
                        seconds = (1 + place / 10) * (4e-6 + size / 7e9) * (1.1 if launch == "graph" else 1.0)
                        point = {"dtype": dtype, "op": op, "launch": launch}
                        samples = [seconds * (1 + n / 1000) for n in range(100)]
                        result = allreduce(algorithm, 4, size, seconds, place == 0, point, samples=samples)
                        words = [f"--{name}={value}" for name, value in result["point"].items()]
                        results.append({**result, "command": ["bench_allreduce", *words]})
    return run(results[:count])


def loaded(*contents):
    """Runs as plots.load gives them, without files."""
    runs = [Run(f"made-up-{index}.json", content["run"], content["results"]) for index, content in enumerate(contents)]
    label(runs)
    return runs


if __name__ == "__main__":
    json.dump(whole(), sys.stdout)
