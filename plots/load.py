# SPDX-License-Identifier: Apache-2.0
"""Reads result files. A file that is missing, broken, half written or of another schema costs one line on stderr and is
left out; the rest is shown. The full check is `python3 -m jsonschema -i FILE results/schema.json`; this one looks only
at what the plots lean on, so that they need no package for it."""

import json
import os
import sys
from dataclasses import dataclass, field

from plots.units import number

SCHEMA = 1
SHAPE = {"bench": str, "nature": str, "status": str, "point": dict, "metrics": dict}


@dataclass
class Run:
    path: str
    info: dict
    results: list = field(default_factory=list)
    label: str = ""  # names this run where several would be mixed up

    @property
    def name(self):
        return os.path.splitext(os.path.basename(self.path))[0]


class Row:
    """One result, with the run it belongs to."""

    def __init__(self, run, result):
        self.run, self.result = run, result
        self.bench, self.nature, self.status = result["bench"], result["nature"], result["status"]
        self.point, self.metrics = result["point"], result["metrics"]

    def metric(self, name):
        return number(self.metrics.get(name))

    def of_point(self, name):
        return number(self.point.get(name))

    def text(self, name, otherwise=""):
        """A word of the point, as people say it: of a topology's file its name, without folder and ending."""
        value = self.point.get(name)
        if not isinstance(value, str):
            return otherwise
        described = name in ("topology", "device") and value.endswith(".json")
        return os.path.splitext(os.path.basename(value))[0] if described else value

    def list(self, name):
        """A list of the result; what is no list is an empty one."""
        value = self.result.get(name)
        return value if isinstance(value, list) else []

    @property
    def measured(self):
        return self.nature == "measured"

    @property
    def ok(self):
        return self.status == "ok" and self.result.get("check") != "failed"

    @property
    def oversubscribed(self):
        return self.result.get("oversubscribed") is True

    @property
    def ranks(self):
        return int(self.of_point("ranks") or 1)

    @property
    def carrier(self):
        """What carries its collectives: the algorithm, or a library that has its own. A way of training that only
        copies has none."""
        engine = self.text("engine")
        ours = self.bench == "train" and engine in ("streams", "simulated")
        return self.text("algorithm") or ("" if ours else engine)


class Unreadable(Exception):
    pass


def read(path):
    """The run in the file, or Unreadable with the reason."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise Unreadable("is not text in UTF-8") from None
    if not text.strip():
        raise Unreadable("is empty")
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise Unreadable(f"is not whole JSON: {error.msg} in line {error.lineno}") from None
    except (RecursionError, ValueError):
        raise Unreadable("is JSON that cannot be read: nested too deep, or a number too long") from None
    if not isinstance(content, dict) or "schema" not in content:
        raise Unreadable('is JSON, but no result file: it has no "schema"')
    if content["schema"] != SCHEMA or isinstance(content["schema"], bool):
        raise Unreadable(f"has schema {str(content['schema'])[:20]}; known here: {SCHEMA}")
    if not isinstance(content.get("run"), dict) or not isinstance(content.get("results"), list):
        raise Unreadable('lacks "run" or "results"')
    return Run(path, content["run"], content["results"])


def well_formed(result):
    return isinstance(result, dict) and all(isinstance(result.get(name), kind) for name, kind in SHAPE.items())


def one_line(text):
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))


def load(paths, complain=lambda line: print(line, file=sys.stderr)):
    """The runs that can be read, oldest first. `complain` gets one line for each that cannot."""
    runs = []
    for path in dict.fromkeys(paths):
        try:
            run = read(path)
        except Unreadable as why:
            complain(one_line(f"{path}: {why}; left out"))
            continue
        whole = [result for result in run.results if well_formed(result)]
        if len(whole) < len(run.results):
            complain(
                one_line(
                    f"{path}: {len(run.results) - len(whole)} of {len(run.results)} results lack a field; left out"
                )
            )
        run.results = whole
        runs.append(run)
    runs.sort(key=lambda run: str(run.info.get("started", "")))
    label(runs)
    return runs


def machine_of(run):
    """What tells one machine from another, as (host and CPU, models of its GPUs). Runs that use no GPU name none."""
    machine = run.info.get("machine")
    machine = machine if isinstance(machine, dict) else {}
    devices = machine.get("devices")
    devices = [device for device in devices if isinstance(device, dict)] if isinstance(devices, list) else []
    models = {str(device.get("model")) for device in devices if device.get("kind") not in (None, "cpu")}
    return json.dumps([machine.get("hostname"), machine.get("cpu")], sort_keys=True), tuple(sorted(models))


def mixed_machines(runs):
    hosts, models = zip(*map(machine_of, runs))
    return len(set(hosts)) > 1 or len({some for some in models if some}) > 1


def label(runs):
    """Runs get their names on the plots where what was measured is from several machines, or where the same point was
    timed twice. What was computed is the same on all machines."""
    owners = {}
    for run in runs:
        for result in run.results:
            if result.get("stop") is not None:
                point = json.dumps([result["bench"], result["nature"], result["point"]], sort_keys=True)
                owners.setdefault(point, {})[run.path] = run
    names = [run.name for run in runs]
    repeating = [run for some in owners.values() if len(some) > 1 for run in some.values()]
    measured = [run for run in runs if any(result["nature"] == "measured" for result in run.results)]
    for run in measured if len(measured) > 1 and mixed_machines(measured) else repeating:
        run.label = run.name if names.count(run.name) == 1 else run.path


def rows(runs, bench=None):
    return [Row(run, result) for run in runs for result in run.results if bench in (None, result["bench"])]
