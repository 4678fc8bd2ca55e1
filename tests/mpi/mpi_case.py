# SPDX-License-Identifier: Apache-2.0
"""Runs programs by mpirun of the MPI that the build has."""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import time
import unittest

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ["RINGMARK_BIN"])
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",  # what Open MPI 5 calls it
               "OMPI_MCA_btl_base_warn_component_unused": "0"}  # fmt: skip


def run(command, **more):
    more = {"capture_output": True, "text": True, "timeout": 300, "check": False, "env": ENVIRONMENT, **more}
    return subprocess.run(command, **more)


def library():
    """"Open MPI 4.1.4", as a process alone finds it."""
    with tempfile.TemporaryDirectory() as folder:
        run([BIN / "bench_allreduce", "--engine=mpi", "--bytes=4", "--mode=check", f"--output={folder}/one.json"])
        return json.loads(pathlib.Path(folder, "one.json").read_text())["run"]["world"]["mpi"]


IS_MPICH = library().startswith("MPICH")
MPIRUN = shutil.which("mpirun.mpich" if IS_MPICH else "mpirun.openmpi") or shutil.which("mpirun")


def mpirun(ranks, program, *options):
    return [MPIRUN, "-n", str(ranks), BIN / program, *options]


def mpirun_two(first, second):
    """Two ranks, each with a command of its own. By a shell: what mpirun has for it (":") crashes Open MPI 5.0.7."""
    choose = 'if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ]; then exec %s; else exec %s; fi'
    return [MPIRUN, "-n", "2", "sh", "-c", choose % tuple(shlex.join(map(str, one)) for one in (second, first))]


class MpiCase(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.output = self.folder / "result.json"

    def valid_report(self):
        report = json.loads(self.output.read_text())
        jsonschema.validate(report, json.loads((ROOT / "results/schema.json").read_text()))
        return report

    def report(self, ranks, program, *options):
        """That of a run which must end well."""
        done = run(mpirun(ranks, program, "--quiet", f"--output={self.output}", *options))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = self.valid_report()
        self.assertTrue(report["run"]["complete"])
        return report

    def started(self, command):
        """A job that has been measuring for a second, as its file shows."""
        job = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 60
        while not self.output.exists() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(1)
        return job

    def own_lines(self, text, program):
        """What the program said, among what the launcher says of its end."""
        return [line for line in text.splitlines() if line.startswith(f"{program}: ")]
