# SPDX-License-Identifier: Apache-2.0
"""bench_topology: the matrix that nvidia-smi would print, the tree, the bound, a drawing."""
import os
import pathlib
import tempfile
import unittest
import xml.etree.ElementTree

from bench_case import BenchCase


class Topology(BenchCase):
    binary = "bench_topology"

    def test_what_it_prints_can_be_read_back(self):
        for name in ("dgx-1v", "dgx-a100", "4x3090-nvlink", "pcie5-8gpu-switch"):
            with tempfile.TemporaryDirectory() as folder:
                first = self.run_bench(f"--topology={name}").stdout
                matrix = [line for line in first.splitlines() if "\t" in line]
                path = pathlib.Path(folder) / "pasted.txt"
                path.write_text("\n".join(matrix))
                again = self.run_bench(f"--topology={path}").stdout
                cells = [line.split("\t")[:-2] for line in matrix]
                self.assertEqual([line.split("\t")[:-2] for line in again.splitlines() if "\t" in line], cells, name)

    def test_the_bound_is_told_and_kept(self):
        (row,) = self.results("--topology=switch:8")
        self.assertAlmostEqual(row["metrics"]["bound_seconds"], 2 * 7 / 8 * 2**30 / 10e9)
        self.assertEqual(row["metrics"]["devices"], 8)
        text = self.run_bench("--topology=dgx-1v").stdout
        for word in ("cpu0", "switch3", "nvlink2 x2", "1 GiB takes at least", "best order of a ring: 0 3 2 1 5 6 7 4"):
            self.assertIn(word, text)

    def test_the_drawing_is_xml_and_has_every_device(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "machine.svg"
            self.assertEqual(self.run_bench("--topology=8xa6000-nvlink", f"--svg={path}").returncode, 0)
            root = xml.etree.ElementTree.parse(path).getroot()
            texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
            self.assertLessEqual({f"gpu{i}" for i in range(8)} | {"cpu0", "cpu1", "NVLink", "PCIe"}, texts)

    def test_the_machine_itself_is_asked_of_nvidia_smi(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = pathlib.Path(folder) / "nvidia-smi"
            tool.write_text("#!/bin/sh\ncase \"$*\" in\n-L) echo 'GPU 0: NVIDIA A100-PCIE-40GB (UUID: x)';;\n"
                            "'topo -m') printf '\\tGPU0\\tGPU1\\tCPU Affinity\\nGPU0\\t X \\tNV12\\t0-7\\n"
                            "GPU1\\tNV12\\t X \\t0-7\\n';;\nesac\n")
            tool.chmod(0o755)
            before = os.environ["PATH"]
            os.environ["PATH"] = f"{folder}:{before}"
            try:
                text = self.run_bench("--topology=auto").stdout
            finally:
                os.environ["PATH"] = before
            self.assertIn("A100", text)
            self.assertIn("gpu0 > gpu1 (nvlink3 x12)", text)

    def test_every_name_is_listed_with_what_it_is(self):
        listed = self.run_bench("--list").stdout.splitlines()
        self.assertGreater(len(listed), 35)
        for line in listed:
            self.assertRegex(line, r"^\S+: .{10,}")

    def test_bad_input_is_one_line_and_status_two(self):
        for options in ([], ["--topology=nothing"], ["--topology=ring:0"], ["--topology=ring:4", "--without=air"],
                        ["--topology=ring:4,ring:8", "--svg=/tmp/x.svg"], ["--topology=ring:4", "--svg=/no/such/x.svg"]):
            with self.subTest(options):
                done = self.run_bench(*options)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)
                self.assertRegex(done.stderr, "--(topology|svg|without)")


if __name__ == "__main__":
    unittest.main()
