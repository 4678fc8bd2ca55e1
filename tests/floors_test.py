# SPDX-License-Identifier: Apache-2.0
"""The floors of the house: a folder includes only what stands below it, written from the root."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAY_INCLUDE = {
    "harness": {"harness"},
    "allreduce": {"harness", "allreduce"},
    "models": {"harness", "models"},
    "bench": {"harness", "allreduce", "models", "bench"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def wrong_includes(floor, text):
    """The includes of `text`, a file of `floor`, that go up, sideways or nowhere."""
    wrong = []
    for included in INCLUDE.findall(text):
        if included.split("/")[0] not in MAY_INCLUDE[floor] or not (ROOT / included).is_file():
            wrong.append(included)
    return wrong


class Floors(unittest.TestCase):
    def test_no_include_goes_up_or_sideways(self):
        seen = 0
        for floor in MAY_INCLUDE:
            for path in (ROOT / floor).rglob("*.[ch]pp"):
                seen += 1
                self.assertEqual(wrong_includes(floor, path.read_text()), [], path)
        self.assertGreater(seen, 20)

    def test_an_include_that_goes_up_is_found(self):
        self.assertEqual(wrong_includes("harness", '#include "allreduce/engine.hpp"\n'), ["allreduce/engine.hpp"])
        self.assertEqual(wrong_includes("allreduce", '#include "engine.hpp"\n'), ["engine.hpp"])


if __name__ == "__main__":
    unittest.main()
