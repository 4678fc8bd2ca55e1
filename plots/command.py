# SPDX-License-Identifier: Apache-2.0
"""What the command lines of the modules share: one line and status 2 for what was typed wrongly, files that are written
whole or not at all."""

import argparse
import os
import signal
import sys


class Parser(argparse.ArgumentParser):
    def __init__(self, module, description):
        super().__init__(prog=f"python3 -m {module}", description=description, allow_abbrev=False)
        self.module = module

    def error(self, message):
        self.exit(2, f"{self.module}: {' '.join(message.split())}\n")


def share(text):
    """Reads "5%" as 0.05."""
    try:
        value = float(text.removesuffix("%")) / 100
    except ValueError:
        value = 0
    if not text.endswith("%") or not 0 < value < 1000:
        raise argparse.ArgumentTypeError(f"'{text}' is not allowed; allowed is a percentage above 0%, such as 5%")
    return value


def write(path, text, module, option="--output"):
    """Beside its name first, then renamed; one line and status 1 where that cannot be."""
    beside = f"{path}.{os.getpid()}.tmp"
    try:
        with open(beside, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        os.replace(beside, path)
    except OSError as error:
        if os.path.exists(beside):
            os.unlink(beside)
        sys.exit(f"{module}: {option}={path}: {error.strerror}")


def start(main):
    """What a module does when it is the program."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # "| head" is no error
    sys.exit(main(sys.argv[1:]))
