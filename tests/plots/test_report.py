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
from plots import answers, load, report, series, units
from plots.page import Page, columns
from plots.sections import training

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'"


def render(*results, **changes):
    return report.render(made_up.loaded(made_up.run(list(results), **changes)), "/* plotly.js */")


def figures_of(text):
    return data_of(text)["figures"]


def data_of(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S).group(1))


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
            made_up.validate(topology=HOSTILE, published={"id": HOSTILE, "note": HOSTILE}),
            made_up.collective(HOSTILE, HOSTILE),
            {**made_up.model(), "layers": [{"name": HOSTILE, "parameters": HOSTILE}]},
        ]
        text = render(*results, command=[HOSTILE], machine={HOSTILE: HOSTILE}, started=HOSTILE)
        self.assertNotIn("<img", text)
        self.assertNotIn("alert(1)</script>", text)
        self.assertEqual(text.count("<script"), 3)
        self.assertIn("&lt;img src=x", text)
        machine = {"cpu": {"model": HOSTILE}, "devices": [{"kind": HOSTILE, "model": HOSTILE}], "load": HOSTILE}
        run = made_up.run([made_up.link()], machine=machine, started=HOSTILE, revision=HOSTILE)
        self.assertNotIn("<img", report.render(made_up.loaded(run, run), ""))

    def test_a_file_name_is_escaped_too(self):
        run = load.Run("<b>bold</b>.json", made_up.run([])["run"], [made_up.link()])
        self.assertNotIn("<b>bold", report.render([run], ""))

    def test_figures_hold_no_tags_for_plotly_to_obey(self):
        text = render(made_up.allreduce("<a href='http://example.org'>x</a>"))
        self.assertNotIn("<a", json.dumps(figures_of(text)))

    def test_the_page_fetches_nothing(self):
        text = report.render(made_up.loaded(made_up.whole()), "")
        self.assertEqual(re.findall(r'(?:src|href)\s*=(?!"#)|url\(|@import|https?://|fetch\(', text), [])

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
        page = Page()
        training.steps(runs, page)
        self.assertEqual(page.figures[0]["data"][0]["marker"]["pattern"]["shape"], ["", "/"])
        self.assertIn("simulated", page.figures[0]["layout"]["yaxis"]["ticktext"][1])

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
        (_, value, low, high), (_, _, none, _) = series.over_bytes(runs, "algbw")[0].series[0].points
        self.assertTrue(low < value < high)
        self.assertIsNone(none)

    def test_a_caption_names_the_algorithms_whose_busbw_is_not_link_speed(self):
        text = render(made_up.allreduce("ring"), made_up.allreduce("tree", link_speed=False))
        self.assertIn("For tree busbw is not link speed", text)
        self.assertNotIn("For ring", text)

    def test_failed_results_are_on_no_plot_and_in_the_table_of_trust(self):
        wrong = {"count": 3, "first_index": 7, "expected": 4, "got": 5, "rank": 2}
        text = render(made_up.allreduce(status="failed", reason="3 elements differ", check="failed", wrong=wrong))
        self.assertEqual(figures_of(text), [])
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


class Answers(unittest.TestCase):
    """Results that are opposite give answers that are opposite, each with a section that is there."""

    def said(self, *results):
        runs = made_up.loaded(made_up.run(list(results)))
        text = report.render(runs, "")
        found = answers.answers(runs)
        for sentence, place in found:
            self.assertIn(f'<section id="{place}">', text, sentence)
            self.assertIn(f'<li><a href="#{place}">', text)
        return " ".join(sentence for sentence, _ in found)

    def test_a_second_device_that_pays_one_that_does_not_and_one_that_changes_nothing(self):
        pays = self.said(made_up.train(1, 0.05), made_up.train(2, 0.052, 0.001))
        self.assertIn("LeNet: 2 devices are 1.92 times as fast as 1 (1.9% of the step is communication)", pays)
        slower = self.said(made_up.train(1, 0.05), made_up.train(2, 0.16, 0.11))
        self.assertIn("LeNet: 2 devices are 0.62 times as fast as 1 (69% of the step is communication)", slower)
        same = self.said(made_up.train(1, 0.05), made_up.train(2, 0.1, 0))
        self.assertIn("LeNet: 2 devices are as fast as 1 (none of the step is communication)", same)

    def test_the_worst_way_is_told_beside_the_best(self):
        slow = made_up.train(2, 0.11, 0.06, algorithm="parameter_server")
        said = self.said(made_up.train(1, 0.05), made_up.train(2, 0.06, 0.01), slow)
        self.assertIn("1.67 times as fast as 1", said)
        self.assertIn("by distributed with parameter_server 0.91 times (55% of the step is communication)", said)

    def test_nvlink_that_saves_something_and_nvlink_that_saves_nothing(self):
        something, nothing = self.said(*made_up.fabrics(0.38)), self.said(*made_up.fabrics(0.0))
        self.assertIn("NVLink on dgx-made-up saves 38% on the step of LeNet (simulated).", something)
        self.assertIn("NVLink on dgx-made-up saves 38% on an all-reduce of 64 MiB (simulated).", something)
        self.assertIn("NVLink on dgx-made-up saves nothing on the step of LeNet (simulated).", nothing)
        self.assertIn("NVLink on dgx-made-up saves nothing on an all-reduce of 64 MiB (simulated).", nothing)

    def test_another_machine_is_named_as_such(self):
        first, second = (
            made_up.allreduce(
                nature="simulated", seconds=seconds, point={"engine": "simulated", "topology": name, "device": name}
            )
            for name, seconds in (("slow-box", 2e-3), ("fast-box", 1e-3))
        )
        self.assertIn("fast-box against slow-box: saves 50% on an all-reduce of 1 MiB", self.said(first, second))

    def test_the_fabric_with_nvlink_comes_first_whatever_the_order_in_the_file(self):
        self.assertIn("saves 38% on the step", self.said(*reversed(made_up.fabrics(0.38))))

    def test_the_fastest_algorithm_over_bytes(self):
        def both(ring, tree):
            return self.said(
                made_up.allreduce("ring", seconds=ring), made_up.allreduce("tree", seconds=tree, link_speed=False)
            )

        self.assertIn("fastest is ring at 1 MiB", both(1e-4, 2e-4))
        self.assertIn("fastest is tree at 1 MiB", both(2e-4, 1e-4))

    def test_what_cannot_be_told_from_the_fastest_takes_no_turn_with_it(self):
        def sizes(algorithm, *seconds):
            return [made_up.allreduce(algorithm, 4, 4**power, one) for power, one in zip((5, 6, 7, 8), seconds)]

        said = self.said(*sizes("ring", 1.01e-5, 1e-5, 1.02e-5, 9e-5), *sizes("tree", 1e-5, 1.02e-5, 1e-5, 2e-5))
        self.assertIn("fastest is tree from 1 KiB to 64 KiB.", said)
        said = self.said(*sizes("ring", 1e-5, 1e-5, 5e-5, 9e-5), *sizes("tree", 2e-5, 2e-5, 1e-5, 2e-5))
        self.assertIn("fastest is ring from 1 KiB to 4 KiB, then tree to 64 KiB.", said)

    def test_type_op_and_placement_are_named_only_where_they_differ(self):
        def two(**point):
            return [made_up.allreduce("ring", point=point), made_up.allreduce("tree", seconds=2e-4, point=point)]

        self.assertIn("All-reduce on cpu:4 · 4 ranks: fastest is ring", self.said(*two()))
        self.assertIn("All-reduce on cpu:4 · 4 ranks · f64 · sum", self.said(*two(), *two(dtype="f64")))

    def test_what_was_measured_comes_before_what_was_simulated(self):
        computed = {"nature": "simulated", "size": 2**30, "point": {"engine": "simulated", "topology": "dgx"}}
        simulated = [made_up.allreduce(name, seconds=one, **computed) for name, one in (("ring", 1), ("tree", 2))]
        said = self.said(*simulated, made_up.allreduce("ring"), made_up.allreduce("tree", seconds=1))
        self.assertLess(said.index("All-reduce on cpu:4"), said.index("All-reduce on dgx"))

    def test_how_near_the_simulation_comes_to_published_times(self):
        near = self.said(made_up.validate(1.02), made_up.validate(0.97), made_up.validate(1.04))
        self.assertIn("Simulated times are within 3.1% of 3 published ones (the median; 4.0% at worst).", near)
        self.assertIn(
            "within 100% of 1 published one", self.said(made_up.validate(0.5), made_up.validate(9, doubtful=True))
        )

    def test_what_failed_and_what_was_not_measured_are_counted(self):
        said = self.said(
            made_up.allreduce(status="failed", reason="7 differ", check="failed"),
            made_up.allreduce(nature="simulated", check="off"),
            made_up.allreduce(oversubscribed=True),
        )
        self.assertIn("2 results measured, 1 of them checked element by element; 1 simulated, not measured;", said)
        self.assertIn("1 on shared cores or devices; 1 without a result.", said)


class Sections(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = report.render(made_up.loaded(made_up.whole()), "")
        cls.figures = figures_of(cls.text)

    def body(self, place):
        return re.search(rf'<section id="{place}">.*?</section>', self.text, re.S).group(0)

    def drawn(self, place):
        return [self.figures[int(found)] for found in re.findall(r'data-figure="(\d+)"', self.body(place))]

    def test_every_section_that_has_something_to_say_is_in_the_contents(self):
        contents = re.search(r"<nav>.*?</nav>", self.text).group(0)
        self.assertEqual(re.findall(r'<section id="(\w+)"', self.text), re.findall(r'href="#(\w+)"', contents))

    def test_the_heat_map_names_the_winner_and_its_distance(self):
        winners, distances = self.drawn("choice")[:2]
        self.assertEqual({one["text"] for one in winners["layout"]["annotations"]}, {"ring", "tree"})
        (heat,) = distances["data"]
        columns = list(zip(*heat["z"]))
        self.assertTrue(all(min(value for value in column if value) == 1 for column in columns))

    def test_fabrics_stand_side_by_side(self):
        body = self.body("fabrics")
        for word in ("dgx-made-up without nvlink", "LeNet", "1.61 times as long", "64 MiB"):
            self.assertIn(word, body)
        over_bytes, in_training = self.drawn("fabrics")
        names = ["dgx-made-up", "dgx-made-up without nvlink"]
        for figure, values in ((over_bytes, [[0.062], [0.1]]), (in_training, [[0.031], [0.05]])):
            self.assertEqual([trace["name"] for trace in figure["data"]], names)
            self.assertEqual([trace["y" if figure is over_bytes else "x"] for trace in figure["data"]], values)
        self.assertEqual({trace["line"]["dash"] for trace in over_bytes["data"]}, {"dash"})

    def test_published_times_give_the_error_of_each_machine_without_the_doubtful(self):
        body = self.body("validation")
        self.assertIn("<td>all</td><td>2</td><td>18%</td><td>25%</td>", body)
        self.assertIn("<td>dgx-a100</td><td>1</td><td>10%</td><td>10%</td><td>30%</td>", body)
        self.assertIn("a note (doubtful)", body)
        (figure,) = self.drawn("validation")
        symbols = {trace["name"]: trace["marker"]["symbol"] for trace in figure["data"]}
        self.assertEqual([symbol.endswith("-open") for symbol in symbols["dgx-a100"]], [False, True])

    def test_doubts_are_counted_by_their_kind(self):
        results = [made_up.allreduce(size=4**n, stop="budget", flags=["load"]) for n in range(5, 8)]
        text = render(*results, made_up.allreduce(nature="simulated"), made_up.link())
        self.assertIn("4 of 5 results to read with care", text)
        self.assertIn("<td>3</td><td>out of their time before the interval of the median was within 2%</td>", text)
        self.assertIn("<td>3</td><td>taken while others used the machine</td>", text)
        self.assertIn("<td>1</td><td>simulated, not measured</td>", text)

    def test_several_runs_have_their_machines_beside_each_other(self):
        gpus = {"cpu": {"model": "A", "usable_cores": 8}, "devices": 4 * [{"kind": "cuda", "model": "H"}], "load": 3}
        runs = made_up.loaded(made_up.run([made_up.link()], machine=gpus), made_up.run([made_up.link()], machine=None))
        text = report.render(runs, "")
        self.assertIn("<td>A</td><td>8</td><td>4 x H</td><td>3</td><td>abc123</td>", text)

    def test_a_topology_shows_its_busiest_link(self):
        self.assertIn("The busiest: switch0 to host PCIe, 90% of the time.", self.body("topology"))
        figure = self.drawn("topology")[0]
        widths = {trace["text"][0].split(":")[0]: trace["line"]["width"] for trace in figure["data"][:-1]}
        self.assertEqual(max(widths, key=widths.get), "switch0 to host PCIe")
        self.assertEqual(set(figure["data"][-1]["text"]), {"gpu0", "gpu1", "gpu2", "gpu3", "switch0", "host"})

    def test_the_timeline_has_a_lane_for_each_device_and_a_bar_for_each_part(self):
        figure = self.drawn("timeline")[0]
        self.assertEqual(len(figure["layout"]["yaxis"]["ticktext"]), 4)
        bars = {trace["name"]: trace for trace in figure["data"]}
        self.assertEqual(set(bars), {"forward", "backward", "all_reduce", "update"})
        self.assertEqual(bars["all_reduce"]["base"], [0.002, 0.0035, 0.002, 0.0035])
        self.assertEqual(bars["all_reduce"]["text"], ["bucket 0", "bucket 1"] * 2)
        self.assertIn("bucket 1<br>all_reduce on cpu:0 communication", bars["all_reduce"]["hovertext"][1])

    def test_a_forecast_shows_its_phases_and_its_buckets(self):
        bucket = {"bytes": 1048576, "layers": ["fc2", "fc1"], "ready_seconds": 0.03, "begin_seconds": 0.03}
        train = made_up.train(2, 0.05, nature="simulated", buckets=[{**bucket, "end_seconds": 0.048}])
        (figure,) = [one for one in figures_of(render(train)) if one["layout"].get("barmode") == "overlay"]
        bars = {trace["name"]: trace for trace in figure["data"]}
        self.assertEqual((bars["backward"]["base"], bars["backward"]["x"]), ([0.015], [0.025]))
        self.assertEqual((bars["all_reduce"]["base"], bars["all_reduce"]["x"]), ([0.03], [0.018]))
        self.assertEqual(bars["all_reduce"]["text"], ["1 MiB of fc2, fc1"])
        self.assertEqual(bars["all_reduce"]["marker"]["pattern"]["shape"], "/")

    def test_other_collectives_have_panels_and_bandwidths_of_their_own(self):
        body = self.body("collectives")
        for word in (
            "broadcast · 4 ranks · f32",
            "all-gather · 4 ranks · f32",
            "<td>broadcast · root 0 · ring</td><td>64 KiB</td>",
        ):
            self.assertIn(word, body)
        self.assertNotIn("broadcast", self.body("alone"))

    def test_all_reduce_alone_stands_beside_all_reduce_inside_for_the_same_bytes(self):
        train = made_up.train(2, 0.06, 0.01)
        train["metrics"]["parameter_bytes"] = 2097152
        alone = [made_up.allreduce("ring", 2, size, size / 1e9) for size in (1048576, 4194304)]
        self.assertIn("<td>2.10 ms</td><td>4 ms</td><td>10 ms</td>", render(made_up.train(1), train, *alone))
        runs = [
            made_up.run([train]),
            made_up.run(alone),
            made_up.run([made_up.link()], machine={"cpu": {"model": "B"}}),
        ]
        self.assertIn("<td>2.10 ms</td><td>4 ms</td><td>10 ms</td>", report.render(made_up.loaded(*runs), ""))
        runs[1]["run"]["machine"] = {"cpu": {"model": "C"}}
        self.assertIn("<td>n/a</td><td>4 ms</td><td>10 ms</td>", report.render(made_up.loaded(*runs), ""))

    def test_efficiency_is_speed_up_over_devices(self):
        speed, efficiency = self.drawn("scaling")[:2]
        for one, other in zip(speed["data"], efficiency["data"]):
            for count, value, share in zip(one["x"], one["y"], other["y"]):
                self.assertAlmostEqual(value / count, share, places=4)

    def test_no_raw_samples_and_at_most_32_quantiles_are_in_the_page(self):
        text = render(made_up.allreduce(samples=[1.25e-4 + n * 1e-9 for n in range(500)]))
        self.assertLessEqual(len(re.findall(r"12\d\.?\d* µs", text)), 32)
        self.assertNotIn("0.000125", text)

    def test_long_tables_are_data_and_lose_nothing(self):
        body = [[f"row {n}", "same", ("bad", f"no {n % 3}")] for n in range(500)]
        page = Page()
        self.assertNotIn("row 1", page.table(["a", "b", "c"], body))
        found = [[column["cells"][index] for index in column["row"]] for column in page.tables[0]["columns"]]
        self.assertEqual([list(row) for row in zip(*found)], [[a, b, list(c)] for a, b, c in body])
        self.assertEqual(columns([["x"], ["x", "y"]])[1], {"row": [0, 1], "cells": ["", "y"]})

    def test_ten_thousand_results_are_under_six_megabytes_beside_the_library(self):
        self.assertLess(len(report.render(made_up.loaded(made_up.many()), "").encode()), 6e6)

    def test_commands_are_as_a_shell_takes_them(self):
        text = render(made_up.link(), command=["bench_link", "--output=a b.json"])
        self.assertIn("bench_link &#x27;--output=a b.json&#x27;", text)


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
        computed = made_up.run([made_up.allreduce(nature="simulated", stop=None)], machine=machine("B"))
        self.assertEqual(labels(link, model, computed), ["", "", ""])

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
        self.assertLess(len(text.encode()), 10e6)
        self.assertRegex(text, r"Copyright [0-9-]+, Plotly, Inc\.")
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
