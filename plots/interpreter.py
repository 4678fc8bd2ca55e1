# SPDX-License-Identifier: Apache-2.0
"""Finds a python that has a package the current one lacks. The python that comes first on PATH is often not the
system's, and sees none of the system's modules."""

import importlib.util
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CANDIDATES = [os.path.join(ROOT, ".venv", "bin", "python3"), "/usr/bin/python3"]
TRIED = "RINGMARK_PYTHON_TRIED"  # set in the second python, so that there is never a third


def has(python, package):
    command = [python, "-c", f"import {package}"]
    return os.path.exists(python) and subprocess.run(command, capture_output=True, check=False).returncode == 0


def need(package, debian, module, arguments):
    """Returns when this python has `package`; else starts `python -m module arguments` anew in one that does, and does
    not return; else exits 1 with one line that names Debian's package."""
    if importlib.util.find_spec(package) is not None:
        return
    if TRIED not in os.environ:
        for python in CANDIDATES:
            if has(python, package):
                path = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
                os.execve(python, [python, "-m", module, *arguments], {**os.environ, "PYTHONPATH": path, TRIED: "1"})
    sys.exit(f"{module}: no python here has {package}; install it, e.g. apt-get install {debian}")
