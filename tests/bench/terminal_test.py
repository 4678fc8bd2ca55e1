# SPDX-License-Identifier: Apache-2.0
"""What a person sees who runs a bench on a terminal: a table that fits it, on lines of its own."""
import os
import pty
import re
import struct
import subprocess
import termios
import unittest
from fcntl import ioctl

from bench_case import BenchCase

OPTIONS = ("--device=cpu:2", "--algorithm=ring,tree", "--bytes=1K,64K", "--iterations=3")
ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Terminal(BenchCase):
    binary = "bench_allreduce"

    def on_terminal(self, columns, **environment):
        """All that came to a terminal of so many columns, standard error too."""
        master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        command = [self.command()[0], *OPTIONS]
        environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "", **environment}
        with subprocess.Popen(command, stdout=slave, stderr=slave, env=environment) as running:
            os.close(slave)
            text = b""
            while True:
                try:
                    part = os.read(master, 65536)
                except OSError:  # the other end is closed
                    break
                if not part:
                    break
                text += part
            self.assertEqual(running.wait(60), 0)
        os.close(master)
        return text.decode()

    @staticmethod
    def lines(text):
        """What is left on the screen: each line as it was last written."""
        shown = []
        for line in text.split("\r\n"):
            for part in line.split("\r"):
                line = ESCAPE.sub("", part)
            shown.append(line)
        return shown

    def rows(self, text):
        return [line for line in self.lines(text) if re.search(r"(ring|tree) .*B/s", line)]

    def test_each_row_has_a_line_of_its_own_that_fits_the_terminal(self):
        text = self.on_terminal(80)
        rows = self.rows(text)
        self.assertEqual(len(rows), 4)
        for row in rows:
            self.assertRegex(row, r"^ +\d+  (ring|tree) ")
            self.assertLessEqual(len(row), 80)
        self.assertIn("# count bytes / size of the type, type f32, redop sum", text)

    def test_a_wide_terminal_has_every_column_and_a_bar(self):
        rows = self.rows(self.on_terminal(200))
        for row in rows:
            self.assertRegex(row, r"f32 +sum .*in_place +cpu:2 .* %  +0(  #+)?$")
        self.assertTrue(any("#" in row for row in rows), rows)

    def test_colours_are_on_a_terminal_only_and_can_be_refused(self):
        self.assertIn("\x1b[1m", self.on_terminal(80))
        self.assertNotIn("\x1b[1m", self.on_terminal(80, NO_COLOR="1"))
        self.assertNotIn("\x1b[1m", self.on_terminal(80, TERM="dumb"))
        self.assertNotIn("\x1b", self.run_bench(*OPTIONS).stdout)

    def test_a_progress_line_never_wraps(self):
        for part in re.split(r"[\r\n]", self.on_terminal(40)):
            if "%] " in part:
                self.assertLess(len(ESCAPE.sub("", part)), 40)


if __name__ == "__main__":
    unittest.main()
