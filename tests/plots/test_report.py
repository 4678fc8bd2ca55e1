# SPDX-License-Identifier: Apache-2.0
"""The page: safe, self-contained, and true to what it shows."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import made_up
from plots import drawing, load, page, report, series, units

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'"


def render(*results, **changes):
    return report.render(made_up.loaded(made_up.run(list(results), **changes)), "/* plotly.js */")


def figures_of(text):
    return json.loads(re.search(r'id="figures">(.*?)</script>', text, re.S).group(1))


class Safety(unittest.TestCase):
    def test_hostile_words_are_escaped_wherever_they_stand(self):
        results = [
            made_up.allreduce(HOSTILE, point={"dtype": HOSTILE, "device": HOSTILE}, flags=[HOSTILE], command=[HOSTILE]),
            made_up.allreduce("ring", point={"dtype": HOSTILE}, status="failed", reason=HOSTILE, check=HOSTILE),
            made_up.train(1, point={"model": HOSTILE}, phases={HOSTILE: 1}),
            made_up.train(
                2,
                point={"model": HOSTILE, "strategy": HOSTILE, "scaling": "weak"},
                epochs=[{"epoch": 1, "test_accuracy": 1}],
            ),
            made_up.link(HOSTILE, HOSTILE),
            {**made_up.model(), "layers": [{"name": HOSTILE, "parameters": HOSTILE}]},
        ]
        text = render(*results, command=[HOSTILE], machine={HOSTILE: HOSTILE}, started=HOSTILE)
        self.assertNotIn("<img", text)
        self.assertNotIn("alert(1)</script>", text)
        self.assertEqual(text.count("<script"), 3)
        self.assertIn("&lt;img src=x", text)

    def test_a_file_name_is_escaped_too(self):
        run = load.Run("<b>bold</b>.json", made_up.run([])["run"], [made_up.link()])
        self.assertNotIn("<b>bold", report.render([run], ""))

    def test_figures_hold_no_tags_for_plotly_to_obey(self):
        text = render(made_up.allreduce("<a href='http://example.org'>x</a>"))
        self.assertNotIn("<a", json.dumps(figures_of(text)))

    def test_the_page_fetches_nothing(self):
        text = report.render(made_up.loaded(made_up.whole()), "")
        self.assertEqual(re.findall(r"(?:src|href)\s*=|url\(|@import|https?://|fetch\(", text), [])

    def test_wrong_types_everywhere_do_not_stop_the_page(self):
        point = {"bytes": "many", "ranks": 2, "algorithm": 7, "device": None, "threads": [], "dtype": {}, "topology": 3}
        odd = made_up.result(
            "allreduce",
            point,
            {"seconds": "soon", "busbw": True, "algbw": float("inf")},
            flags=None,
            samples=3,
            check=None,
        )
        train = made_up.train(
            2,
            losses=5,
            epochs=[None, {"epoch": "x", "test_accuracy": "high"}],
            phases=[],
            point={"batch": "b", "global_batch": None},
        )
        self.assertIn(
            "Ringmark report", render(odd, train, {**made_up.model(), "layers": [1, None]}, machine=[], features=3)
        )


class Truth(unittest.TestCase):
    def test_what_is_simulated_is_dashed_and_named(self):
        measured, simulated = made_up.allreduce(), made_up.allreduce(
            nature="simulated", point={"engine": "simulated", "topology": "dgx"}
        )
        traces = [
            trace for figure in figures_of(render(measured, simulated)) for trace in figure["data"] if "name" in trace
        ]
        dashes = {trace["name"]: trace["line"]["dash"] for trace in traces}
        self.assertTrue(any("simulated" in name for name in dashes), dashes)
        self.assertEqual(dashes.pop("bound of cpu:4"), "dot")
        dashes.pop("bound of dgx")
        for name, dash in dashes.items():
            self.assertEqual(dash != "solid", "simulated" in name, name)

    def test_simulated_bars_are_hatched_and_named(self):
        runs = made_up.loaded(made_up.run([made_up.train(2), made_up.train(2, nature="simulated")]))
        figure = drawing.Figures()
        page.steps(runs, figure)
        self.assertEqual(figure.all[0]["data"][0]["marker"]["pattern"]["shape"], ["", "/"])
        self.assertIn("simulated", figure.all[0]["layout"]["yaxis"]["ticktext"][1])

    def test_a_null_busbw_is_a_gap_and_never_zero(self):
        text = render(made_up.allreduce(ranks=1), made_up.allreduce(ranks=1, size=4096))
        self.assertIn("busbw is n/a", text)
        self.assertIn("<td>n/a</td>", text)
        self.assertNotIn("<td>0 B/s</td>", text)

    def test_zero_bytes_stay_off_the_logarithmic_axis_and_in_the_table(self):
        text = render(made_up.allreduce(size=0), made_up.allreduce())
        self.assertIn("<td>0 B</td>", text)
        self.assertEqual(
            [x for figure in figures_of(text) for trace in figure["data"] for x in trace["x"] if x <= 0], []
        )

    def test_the_interval_turns_over_with_the_bandwidth_and_breaks_where_unknown(self):
        unknown = made_up.allreduce(size=4194304)
        unknown["metrics"]["low"] = None
        runs = made_up.loaded(made_up.run([made_up.allreduce(), unknown]))
        (_, value, low, high), (_, _, none, _) = series.allreduce(runs, "algbw")[0].series[0].points
        self.assertTrue(low < value < high)
        self.assertIsNone(none)

    def test_a_caption_names_the_algorithms_whose_busbw_is_not_link_speed(self):
        text = render(made_up.allreduce("ring"), made_up.allreduce("tree", link_speed=False))
        self.assertIn("For tree busbw is not link speed", text)
        self.assertNotIn("For ring", text)

    def test_failed_results_are_on_no_plot_and_in_the_table_of_trust(self):
        wrong = {"count": 3, "first_index": 7, "expected": 4, "got": 5, "rank": 2}
        text = render(made_up.allreduce(status="failed", reason="3 elements differ", check="failed", wrong=wrong))
        self.assertNotIn('id="figures"', text)
        self.assertIn("failed: 3 wrong, first at 7 on rank 2: 5 for 4", text)
        self.assertIn("3 elements differ", text)

    def test_exposed_time_below_zero_keeps_the_bar_as_long_as_the_step(self):
        bar = series.steps(made_up.loaded(made_up.run([made_up.train(2, 0.05, exposed=-0.002)])))[0][1][0]
        self.assertAlmostEqual(sum(bar.parts.values()) - bar.parts["load"], 0.05)
        self.assertIn("exposed -2 ms", bar.text)

    def test_one_device_has_no_communication_to_draw(self):
        bar = series.steps(made_up.loaded(made_up.run([made_up.train(1, 0.05, exposed=0.001)])))[0][1][0]
        self.assertEqual(bar.parts["exposed communication"], 0)

    def test_an_algorithm_has_one_colour_in_every_figure(self):
        colours = {}
        for figure in figures_of(report.render(made_up.loaded(made_up.whole()), "")):
            for trace in figure["data"]:
                for algorithm in ("ring", "tree", "parameter_server"):
                    if algorithm in trace.get("name", "").split(" · "):
                        colours.setdefault(algorithm, set()).add(trace["line"]["color"])
        self.assertEqual(
            {algorithm: len(found) for algorithm, found in colours.items()},
            {"ring": 1, "tree": 1, "parameter_server": 1},
        )

    def test_empty_sections_are_left_out(self):
        text = render(made_up.link())
        self.assertIn("<h2>Links</h2>", text)
        for title in ("All-reduce alone", "The training step", "Speed-up over devices", "What was learned"):
            self.assertNotIn(f"<h2>{title}</h2>", text)

    def test_numbers_are_read_as_people_say_them(self):
        self.assertEqual(
            [units.seconds(0.0015), units.size(65536), units.bandwidth(8.7e9), units.seconds(None), units.percent(0.5)],
            ["1.50 ms", "64 KiB", "8.70 GB/s", "n/a", "50%"],
        )


class CommandLine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.good = self.file("good.json", json.dumps(made_up.whole()))

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return path

    def call(self, module, *arguments, **environment):
        return subprocess.run(
            [sys.executable, "-m", f"plots.{module}", *arguments],
            cwd=made_up.ROOT,
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            check=False,
        )

    def test_each_broken_file_costs_one_line_and_the_rest_is_shown(self):
        whole = json.dumps(made_up.whole())
        broken = {
            "half.json": whole[: len(whole) // 2],
            "empty.json": "",
            "list.json": "[]",
            "newer.json": '{"schema": 2}',
            "binary.json": b"\xff\xfe\x00",
            "deep.json": "[" * 100000,
            "bare.json": '{"schema": 1, "run": {}}',
        }
        paths = [self.file(name, text) for name, text in broken.items()] + [
            os.path.join(self.folder, "absent.json"),
            self.folder,
        ]
        done = self.call("summary", *paths, self.good)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len(done.stderr.splitlines()), len(paths), done.stderr)
        for path, line in zip(paths, done.stderr.splitlines()):
            self.assertTrue(line.startswith(path + ": "), line)
        self.assertIn("LeNet on 2 devices", done.stdout)

    def test_a_result_without_its_fields_is_left_out_with_a_count(self):
        content = made_up.run([made_up.link(), {"bench": "link"}, 7])
        done = self.call("summary", self.file("odd.json", json.dumps(content)))
        self.assertIn("2 of 3 results lack a field", done.stderr)
        self.assertIn("1 ordered pair", done.stdout)

    def test_runs_on_one_machine_need_no_names_and_those_on_two_do(self):
        def machine(model):
            return {"cpu": {"model": model}, "devices": [{"name": model}]}

        def labels(*contents):
            return [run.label for run in made_up.loaded(*contents)]

        link, model = made_up.run([made_up.link()], machine=machine("A")), made_up.run(
            [made_up.model()], machine=machine("A")
        )
        self.assertEqual(labels(link, model), ["", ""])
        self.assertEqual(labels(link, link), ["made-up-0", "made-up-1"])
        self.assertEqual(
            labels(link, {**model, "run": {**model["run"], "machine": machine("B")}}), ["made-up-0", "made-up-1"]
        )

    def test_nothing_readable_is_an_error_and_no_page(self):
        target = os.path.join(self.folder, "page.html")
        done = self.call("report", self.file("empty.json", ""), "-o", target)
        self.assertEqual(done.returncode, 1)
        self.assertFalse(os.path.exists(target))

    def test_the_page_is_written_whole_with_the_library_inside(self):
        target = os.path.join(self.folder, "page.html")
        done = self.call("report", self.good, "-o", target)
        if "no python here has plotly" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(target, encoding="utf-8") as file:
            text = file.read()
        self.assertGreater(len(text), 1000000)
        self.assertNotRegex(text, r"<(script|link|img|iframe)[^>]*\s(src|href)=[\"']?http")
        self.assertEqual(os.listdir(self.folder).count("page.html"), 1)

    def test_a_package_that_is_nowhere_is_one_line_that_names_debians(self):
        program = (
            "import sys; from plots import interpreter; interpreter.CANDIDATES = []; "
            "interpreter.need('no_such_package_anywhere', 'python3-none', 'plots.report', [])"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=made_up.ROOT, capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 1)
        self.assertEqual(
            done.stderr,
            "plots.report: no python here has no_such_package_anywhere; install it, e.g. apt-get install"
            " python3-none\n",
        )

    def test_an_output_that_cannot_be_written_is_one_line(self):
        done = self.call("report", self.good, "-o", os.path.join(self.folder, "absent", "page.html"))
        if "no python here has plotly" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_the_summary_of_the_report_is_the_summary(self):
        self.assertEqual(self.call("report", "--summary", self.good).stdout, self.call("summary", self.good).stdout)


if __name__ == "__main__":
    unittest.main()
