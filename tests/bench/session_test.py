# SPDX-License-Identifier: Apache-2.0
"""What every bench promises: a deadline, too little memory or a signal loses no result and leaves a valid file."""
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import jsonschema
from bench_case import ROOT, BenchCase

LONG = {"bench_allreduce": ["--device=cpu:2", "--bytes=1M:16M:x2"],
        "bench_link": ["--device=cpu:2", "--bytes=4,16M"],
        "bench_model": ["--device=cpu:1", "--batch=256"],
        "bench_train": ["--device=cpu:2", "--data=synthetic", "--steps=100000"]}


class Sessions(BenchCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.output = pathlib.Path(folder.name) / "result.json"

    def valid_report(self):
        report = json.loads(self.output.read_text())
        jsonschema.validate(report, json.loads((ROOT / "results/schema.json").read_text()))
        return report

    def test_a_wait_that_passes_its_deadline_ends_the_run_with_a_valid_report(self):
        for self.binary, options in LONG.items():
            with self.subTest(self.binary):
                done = self.run_bench(*options, "--timeout=10us", f"--output={self.output}")
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("within 0.00001", done.stderr)
                report = self.valid_report()
                self.assertFalse(report["run"]["complete"])
                last = report["results"][-1]
                self.assertEqual(last["status"], "timed_out")
                self.assertIn(last["reason"], done.stderr)

    def test_a_point_without_memory_is_skipped_with_the_numbers_and_the_rest_goes_on(self):
        for self.binary, options in (
                ("bench_allreduce", ["--bytes=4000G,1K", "--algorithm=ring", "--iterations=1"]),
                ("bench_link", ["--bytes=4,4000G"])):
            with self.subTest(self.binary):
                done = self.run_bench("--device=cpu:2", *options, f"--output={self.output}")
                self.assertEqual(done.returncode, 0, done.stderr)
                first, *rest = self.valid_report()["results"]
                self.assertEqual(first["status"], "skipped")
                self.assertIn(str(4000 << 30), first["reason"])
                self.assertIn(first["reason"], done.stderr)
                self.assertIn("skipped", done.stdout)
                self.assertEqual([row["status"] for row in rest], ["ok" if "allreduce" in self.binary else "skipped"])

    def start(self, *options, **more):
        """A long run, once its file is there."""
        running = subprocess.Popen(self.command(*options, f"--output={self.output}"), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True, **more)
        self.addCleanup(running.stderr.close)
        self.addCleanup(running.wait)
        self.addCleanup(running.kill)
        until = time.monotonic() + 60
        while not self.output.exists() and running.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        return running

    def test_of_two_runs_that_write_one_file_the_second_is_refused(self):
        self.binary = "bench_allreduce"
        first = self.start(*LONG[self.binary])
        for self.binary in LONG:
            with self.subTest(self.binary):
                done = self.run_bench("--device=cpu:2", f"--output={self.output}")
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn("another run is writing it", done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)
        first.kill()
        first.wait()
        self.binary = "bench_allreduce"
        done = self.run_bench("--device=cpu:2", "--bytes=1K", "--iterations=1", f"--output={self.output}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(self.valid_report()["run"]["complete"])

    def test_a_folder_that_vanishes_ends_the_run_with_a_line_that_names_the_file(self):
        self.binary = "bench_allreduce"
        running = self.start(*LONG[self.binary])
        shutil.rmtree(self.output.parent)
        errors = running.communicate(timeout=60)[1]
        self.output.parent.mkdir()
        self.assertEqual(running.returncode, 1)
        self.assertIn(f"cannot write {self.output}: No such file", errors)

    def test_a_full_disk_ends_the_run_and_keeps_what_fitted(self):
        self.binary = "bench_allreduce"
        limit = 20000
        running = self.start("--device=cpu:2", "--bytes=4:64K:+4", "--iterations=1", "--algorithm=ring",
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        errors = running.communicate(timeout=60)[1]
        self.assertEqual(running.returncode, 1, errors)
        self.assertIn(f"cannot write {self.output}: File too large", errors)
        report = self.valid_report()
        self.assertFalse(report["run"]["complete"])
        self.assertGreater(len(report["results"]), 1)
        self.assertLessEqual(self.output.stat().st_size, limit)
        self.assertEqual([path.name for path in self.output.parent.iterdir()], [self.output.name])

    def test_signals_at_random_moments_leave_a_valid_file_or_none(self):
        self.binary = "bench_allreduce"
        chance = random.Random(9)
        command = self.command("--device=cpu:2", "--bytes=4:64K:+4", "--iterations=1", f"--output={self.output}")
        began = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as first:
            while not self.output.exists() and first.poll() is None:
                time.sleep(0.01)
            until_written = time.monotonic() - began
            first.kill()
        self.output.unlink()
        rows = 0
        for _ in range(20):
            deadly = chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
            running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            time.sleep(chance.uniform(0, 3 * until_written))
            running.send_signal(deadly)
            self.assertEqual(running.wait(timeout=60), -deadly)
            if self.output.exists():
                rows += len(self.valid_report()["results"])
        self.assertGreater(rows, 0)

    def test_neither_secrets_nor_the_host_name_are_in_the_file(self):
        self.binary = "bench_allreduce"
        names = ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "WANDB_API_KEY", "MY_PASSWORD", "NCCL_API_KEY", "CUDA_TOKEN",
                 "OMP_SECRET", "OMPI_MCA_password"]
        run = [*self.command("--device=cpu:2", "--bytes=1K", "--iterations=1", f"--output={self.output}")]
        environment = {**os.environ, **{name: "correct-horse-battery" for name in names}, "NCCL_DEBUG": "WARN"}
        subprocess.run(run, env=environment, capture_output=True, check=True)
        text = self.output.read_text()
        self.assertNotIn("correct-horse-battery", text)
        self.assertNotIn("hostname", text)
        self.assertEqual(self.valid_report()["run"]["machine"]["environment"].get("NCCL_DEBUG"), "WARN")
        subprocess.run([*run, "--with-hostname"], capture_output=True, check=True)
        self.assertEqual(self.valid_report()["run"]["machine"]["hostname"], socket.gethostname())

    def test_a_run_that_was_broken_off_goes_on_where_it_was(self):
        for self.binary, options in (
                ("bench_allreduce", ["--device=cpu:2", "--bytes=1K,2K,4K", "--iterations=3"]),
                ("bench_link", ["--device=cpu:2", "--bytes=4,1K", "--iterations=3"]),
                ("bench_model", ["--device=cpu:1", "--model=mlp", "--batch=4,8", "--iterations=3"]),
                ("bench_train", ["--device=cpu:1,cpu:2", "--model=mlp", "--data=synthetic", "--steps=2",
                                 "--iterations=3"])):
            with self.subTest(self.binary):
                self.output.unlink(missing_ok=True)
                self.assertEqual(self.run_bench(*options, f"--output={self.output}").returncode, 0)
                whole = self.valid_report()
                self.assertEqual(self.run_bench(*options, f"--continue={self.output}").returncode, 0)
                again = self.valid_report()
                self.assertEqual(again["results"], whole["results"])  # samples and all: nothing was measured
                self.assertEqual(again["run"]["continues"], whole["run"]["started"])
        self.binary = "bench_allreduce"
        options = ["--device=cpu:2", "--bytes=1K,2K,4K", "--iterations=3"]
        self.assertEqual(self.run_bench(*options, f"--output={self.output}").returncode, 0)
        whole = self.valid_report()
        cut = json.loads(json.dumps(whole))
        cut["run"]["complete"] = False
        del cut["results"][5:]  # of three points with three rows each: in the midst of the second
        self.output.write_text(json.dumps(cut))
        done = self.run_bench(*options, f"--continue={self.output}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("# 3 rows were taken over", done.stdout)
        rows = self.valid_report()["results"]
        self.assertEqual(rows[:3], whole["results"][:3])
        self.assertEqual([row["point"] for row in rows], [row["point"] for row in whole["results"]])
        for row, before in zip(rows[3:], whole["results"][3:], strict=True):
            self.assertNotEqual(row["samples"], before["samples"])

    def test_what_another_machine_or_build_measured_is_not_taken_over(self):
        self.binary = "bench_allreduce"
        options = ["--device=cpu:2", "--bytes=1K", "--iterations=1", f"--continue={self.output}"]
        self.assertEqual(self.run_bench(*options[:3], f"--output={self.output}").returncode, 0)
        whole = self.output.read_text()
        for change, said in (
                (lambda run: run["machine"]["cpu"].update(model="Other"), 'cpu.model was "Other", here it is'),
                (lambda run: run.update(revision="0123456789ab"), 'revision was "0123456789ab", here it is'),
                (lambda run: run.update(seed=2), "seed was 2, here it is 1"),
                (lambda run: run["machine"]["environment"].update(OMP_PLACES="cores"), "environment.OMP_PLACES was")):
            report = json.loads(whole)
            change(report["run"])
            self.output.write_text(json.dumps(report))
            before = self.output.read_text()
            done = self.run_bench(*options)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(said, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertEqual(self.output.read_text(), before)
        for text in ("", "{}", "[1]", whole[:100], '{"schema": 1, "run": 3, "results": 4}'):
            self.output.write_text(text)
            done = self.run_bench(*options)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertIn(f"--continue={self.output}", done.stderr)

    def test_a_killed_run_leaves_what_it_measured(self):
        for self.binary, options in LONG.items():
            for deadly in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                with self.subTest(self.binary, signal=deadly):
                    self.output.unlink(missing_ok=True)
                    running = subprocess.Popen(self.command(*options, f"--output={self.output}"),
                                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    until = time.monotonic() + 60
                    while not self.output.exists() and time.monotonic() < until:
                        time.sleep(0.01)
                    time.sleep(0.2)
                    running.send_signal(deadly)
                    self.assertNotEqual(running.wait(timeout=60), 0)
                    report = self.valid_report()
                    self.assertFalse(report["run"]["complete"])
                    self.assertGreater(len(report["results"]), 0)


if __name__ == "__main__":
    unittest.main()
