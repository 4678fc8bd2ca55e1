# SPDX-License-Identifier: Apache-2.0
"""Every option that a bench's --help names refuses what it does not allow: one line that names it, status 2, no file."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

BINARIES = sorted(path for path in pathlib.Path(os.environ["RINGMARK_BIN"]).glob("bench_*")
                  if path.name != "bench_micro")  # its options are Google Benchmark's

FILE = ["", "/no/such/folder/file", "/"]
# What is wrong with each kind of value, by how --help words the kind.
KINDS = [
    (r"a whole number from (-?\d+) to (\d+)",
     lambda low, high: ["", "x", "1.5", "--", "0x10", " 1", str(int(low) - 1), str(int(high) + 1), "9" * 30, "1,"]),
    (r"a whole number of at least (-?\d+)", lambda low: ["", "x", "1.5", str(int(low) - 1), "9" * 30]),
    (r"whole numbers", lambda: ["", "x", "1.5", "1,1", "1,", "9" * 30]),
    (r"a time such as", lambda: ["", "x", "-1s", "5 parsecs", "nan", "1ss", "1e999s"]),
    (r"a size such as", lambda: ["", "x", "-1", "1Q", "9" * 30, "1K:4K:x2"]),
    (r"sizes and ranges", lambda: ["", "x", "-1", "1Q", "4K:1K:x2", "1K:4K:x1", "0:4K:x2", "1K:4K:+0", "9" * 30]),
    (r"a number from (\S+) to", lambda low: ["", "x", "nan", "inf", "1e999", str(float(low) - 1)]),
    (r"a number of at least", lambda: ["", "x", "-1", "nan", "inf", "1e999", "1,2"]),
    (r"a list of (\S+?)(?:,.*)? *(?:\(default.*)?$", lambda first: ["", "nonsense", f"{first},{first}", f"{first},", ","]),
    (r"one of (\S+?)(?:,.*)? *(?:\(default.*)?$", lambda first: ["", "nonsense", f"{first},{first}"]),
    (r"on or off", lambda: ["", "maybe", "1on"]),
    (r"names with commas between", lambda: ["", "nonsense", ",", "/no/such/file"]),
]
TEXTS = {
    "device": ["", "tpu:1", "cpu:0", "cpu:x", "cpu:2,cpu:2", ",", "2", "cpu:99999999999", "cuda:0+"],
    "slow": ["", "x", "1", "1:", ":2", "1:0.5", "1:x", "-1:2", "99:2", "1:nan"],
    "rank-order": ["", "worst", "0,0", "0,x", "0,"],
}
NEEDED = {"bench_topology": "topology=dgx-a100"}


def options_of(binary):
    """[(name, what --help says of its values)]."""
    text = subprocess.run([binary, "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  --([a-z-]+)[^\n]*\n      [^\n]*\n      ([^\n]*)$", text, re.MULTILINE)


def bad_values(name, kind):
    for pattern, values in KINDS:
        if found := re.search(pattern, kind):
            return values(*found.groups())
    if kind.startswith("any text"):
        return TEXTS.get(name, FILE)
    raise AssertionError(f"--{name}: no bad value is known for '{kind}'")


class EveryOption(unittest.TestCase):
    def test_refuses_what_it_does_not_allow(self):
        self.assertGreater(len(BINARIES), 3)
        for binary in BINARIES:
            options = options_of(binary)
            self.assertGreater(len(options), 10, binary)
            for name, kind in options:
                for value in bad_values(name, kind):
                    with self.subTest(f"{binary.name} --{name}={value}"), tempfile.TemporaryDirectory() as folder:
                        others = [f"output={folder}/result.json", *filter(None, [NEEDED.get(binary.name)])]
                        others = [f"--{one}" for one in others if one.split("=")[0] != name]
                        done = subprocess.run([binary, *others, f"--{name}={value}"], capture_output=True, text=True,
                                              timeout=120, check=False, cwd=folder)
                        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                        self.assertIn(name, done.stderr)
                        self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    unittest.main()
