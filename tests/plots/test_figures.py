# SPDX-License-Identifier: Apache-2.0
"""The pictures for a paper: whole files, with what they show in words that can be found."""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

import made_up
from plots import figures

ODD = "$x_{$ <b>&\"'</text>"  # a formula that is none, and a tag


def size_and_colours(path):
    """Width, height and the number of different bytes in the pixels of a PNG."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", path
    place, pixels = 8, b""
    while place < len(data):
        length, kind = struct.unpack(">I4s", data[place : place + 8])
        body = data[place + 8 : place + 8 + length]
        if kind == b"IHDR":
            width, height = struct.unpack(">II", body[:8])
        if kind == b"IDAT":
            pixels += body
        place += 12 + length
    return width, height, len(set(zlib.decompress(pixels)))


class Figures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        odd = [made_up.allreduce(ODD, point={"device": ODD}), made_up.train(1, point={"model": ODD})]
        cls.pages = {"whole": cls.draw("whole", made_up.whole()), "odd": cls.draw("odd", made_up.run(odd))}

    @classmethod
    def draw(cls, name, content):
        path = os.path.join(cls.folder, f"{name}.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)
        target = os.path.join(cls.folder, name)
        return cls.call(path, f"--output={target}"), target

    @classmethod
    def call(cls, *arguments):
        command = [sys.executable, "-m", "plots.figures", *arguments]
        done = subprocess.run(command, cwd=made_up.ROOT, capture_output=True, text=True, check=False)
        if "no python here has matplotlib" in done.stderr:
            raise unittest.SkipTest(done.stderr.strip())
        return done

    def texts(self, page, name):
        with open(os.path.join(self.pages[page][1], name + ".svg"), encoding="utf-8") as file:
            return file.read()

    def test_every_figure_is_a_png_and_an_svg(self):
        done, folder = self.pages["whole"]
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = sorted(os.listdir(folder))
        self.assertEqual([os.path.join(folder, name) for name in names], sorted(done.stdout.split()))
        plain = {name[:-4] for name in names}
        self.assertEqual(names, sorted(f"{name}.{kind}" for name in plain for kind in ("png", "svg")))
        starts = (
            "allreduce-bandwidth-",
            "allreduce-time-",
            "collective-time-",
            "fabrics-",
            "step-",
            "timeline-",
            "speedup-",
        )
        for start in (*starts, "efficiency-", "test-accuracy", "winners", "published"):
            self.assertTrue(any(name.startswith(start) for name in plain), start)

    def test_a_png_is_large_enough_to_read_and_not_blank(self):
        folder = self.pages["whole"][1]
        for name in os.listdir(folder):
            if name.endswith(".png"):
                width, height, colours = size_and_colours(os.path.join(folder, name))
                self.assertGreater(width, 1000, name)
                self.assertGreater(height, 250, name)
                self.assertGreater(colours, 100, name)

    def test_the_bandwidth_names_its_axes_units_contenders_and_the_bound(self):
        text = self.texts("whole", "allreduce-bandwidth-4-ranks-f32-sum-in-place")
        words = ("bus bandwidth", "64 KiB", "GB/s", "ring", "parameter_server", "simulated on dgx-a100", "bound")
        for word in (*words, "All-reduce, 4 ranks"):
            self.assertTrue(word in text, word)

    def test_the_step_names_its_phases_and_its_devices(self):
        text = self.texts("whole", "step-lenet-weak-scaling")
        for word in ("compute", "hidden communication", "exposed communication", "update", "load", "LeNet", "cpu:2"):
            self.assertTrue(f"{word}<" in text or f"{word} ·" in text, word)

    def test_the_speed_up_shows_the_ideal(self):
        text = self.texts("whole", "speedup-lenet-weak-scaling")
        for word in ("ideal", "devices", "distributed"):
            self.assertTrue(word in text, word)

    def test_the_winners_the_fabrics_and_the_published_times_are_named(self):
        for name, words in (
            ("winners", ("The fastest algorithm", "cpu:4 · 4 ranks", "tree", "ring", "64 KiB")),
            ("fabrics-all-reduce-4-ranks-f32-sum-simulated", ("dgx-made-up without nvlink", "64 MiB")),
            ("published", ("dgx-h100", "dgx-a100 (doubtful)", "simulated / published time", "1.25")),
            ("collective-bandwidth-broadcast-4-ranks-f32-in-place", ("Collectives, broadcast · 4 ranks", "ring")),
        ):
            for word in words:
                self.assertTrue(word in self.texts("whole", name), f"{word} in {name}")

    def test_a_timeline_names_its_lanes_and_what_they_do(self):
        text = self.texts("whole", "timeline-scratch-ring-cpu-2")
        for word in ("cpu:0 communication", "cpu:1", "all_reduce", "backward", "since the step began"):
            self.assertTrue(word in text, word)

    def test_odd_words_are_drawn_as_they_are(self):
        done, folder = self.pages["odd"]
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for name in os.listdir(folder):
            if name.endswith(".svg"):
                text = self.texts("odd", name[:-4])
                self.assertFalse("<b>" in text, name)
                self.assertTrue("$x_{$ &lt;b&gt;" in text or not name.startswith("allreduce"), name)

    def test_the_same_results_give_the_same_svg(self):
        before = self.texts("whole", "step-lenet-weak-scaling")
        self.draw("whole", made_up.whole())
        self.assertTrue(before == self.texts("whole", "step-lenet-weak-scaling"))

    def test_file_names_are_plain_and_none_is_taken_twice(self):
        names = list(figures.file_names(["a/../B c", "a b C", "x" * 500]))
        self.assertEqual(names, ["a-b-c", "a-b-c-2", "x" * 100])

    def test_results_with_nothing_to_draw_are_an_error(self):
        done, folder = self.draw("links", made_up.run([made_up.link()]))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertFalse(os.path.exists(folder))

    def test_a_folder_that_cannot_be_made_is_one_line(self):
        path = os.path.join(self.folder, "whole.json")
        done = self.call(path, f"--output={path}")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, f"plots.figures: --output={path}: File exists\n")


if __name__ == "__main__":
    unittest.main()
