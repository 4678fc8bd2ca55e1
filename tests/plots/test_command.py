# SPDX-License-Identifier: Apache-2.0
"""What the command lines of the modules share."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

import made_up


class Command(unittest.TestCase):
    def test_ends_silently_when_nobody_reads_on(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "run.json")
            with open(file, "w", encoding="utf-8") as out:
                json.dump(made_up.whole(), out)
            for module, *arguments in (
                ("report", "--summary", file),
                ("summary", file),
                ("compare", file, file),
                ("figures", file, "--output", folder),
            ):
                with self.subTest(module):
                    reader, writer = os.pipe()
                    os.close(reader)
                    command = [sys.executable, "-m", f"plots.{module}", *arguments]
                    with os.fdopen(writer, "w") as closed:
                        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
                    self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, ""))


if __name__ == "__main__":
    unittest.main()
