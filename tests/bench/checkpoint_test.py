# SPDX-License-Identifier: Apache-2.0
"""Training that is broken off and goes on: --save and --resume, with the very same losses as without the break."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from bench_case import BenchCase

QUICK = ["--data=synthetic", "--warmup=0", "--iterations=1", "--momentum=0.9", "--lr=0.01"]


def header_of(path):
    data = path.read_bytes()
    return json.loads(data[8:8 + int.from_bytes(data[:8], "little")])


def tensors_of(path):
    data, header = path.read_bytes(), header_of(path)
    begin = 8 + int.from_bytes(data[:8], "little")
    return {name: (entry["shape"], data[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]])
            for name, entry in header.items() if name != "__metadata__"}


class Checkpoints(BenchCase):
    binary = "bench_train"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def refusal(self, *options):
        done = self.run_bench(*options)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        return done.stderr

    def test_a_run_that_is_killed_goes_on_as_if_it_had_not_been(self):
        file = self.folder / "run.safetensors"
        options = [*QUICK, "--model=mlp", "--batch=100", "--device=cpu:2", "--strategy=distributed", "--epochs=60",
                   "--eval"]
        (whole,) = self.results(*options)
        with subprocess.Popen(self.command(*options, f"--save={file}"), stdout=subprocess.DEVNULL) as run:
            while not file.exists():
                time.sleep(0.001)
            run.send_signal(signal.SIGKILL)
        self.assertEqual(run.returncode, -signal.SIGKILL)
        before = header_of(file)["__metadata__"]
        self.assertGreater(int(before["epoch"]), 0)
        self.assertLess(int(before["epoch"]), 60)
        (rest,) = self.results(*options, f"--save={file}", f"--resume={file}")
        self.assertEqual(rest["losses"], whole["losses"])
        self.assertEqual(rest["checksums"], whole["checksums"])
        self.assertEqual(rest["metrics"]["test_accuracy"], whole["metrics"]["test_accuracy"])
        self.assertEqual([epoch["epoch"] for epoch in rest["epochs"]], list(range(int(before["epoch"]) + 1, 61)))
        for one, other in zip(reversed(rest["epochs"]), reversed(whole["epochs"])):
            self.assertEqual(one["train_loss"], other["train_loss"])
        self.assertEqual(header_of(file)["__metadata__"]["epoch"], "60")
        self.assertEqual(os.listdir(self.folder), [file.name])

    def test_in_the_middle_of_an_epoch_every_bit_is_kept(self):
        for options in (["--model=lenet", "--batch=9", "--device=cpu:2", "--strategy=data_parallel"],
                        ["--model=lenet", "--batch=9", "--device=cpu:3", "--strategy=distributed"],
                        ["--model=lenet", "--batch=9", "--device=cpu:3", "--strategy=sharded"],
                        ["--model=resnet18", "--batch=2", "--device=cpu:1", "--strategy=scratch"]):
            with self.subTest(options):
                whole, parts = self.folder / "whole", self.folder / "parts"
                self.results(*QUICK, *options, "--steps=5", f"--save={whole}")
                self.results(*QUICK, *options, "--steps=2", f"--save={parts}")
                metadata = header_of(parts)["__metadata__"]
                self.assertEqual([metadata[key] for key in ("step", "epoch", "step_of_epoch")], ["2", "0", "2"])
                (row,) = self.results(*QUICK, *options, "--steps=5", f"--save={parts}", f"--resume={parts}")
                self.assertEqual(row["point"]["resume"], str(parts))
                self.assertEqual(len(row["losses"]), 5)
                self.assertEqual(parts.read_bytes(), whole.read_bytes())

    def test_of_pieces_it_is_the_network_that_they_make(self):
        whole, parts = self.folder / "whole", self.folder / "parts"
        for options in (["--model=lenet", "--device=cpu:3", "--strategy=pipeline", "--microbatches=2"],
                        ["--model=lenet", "--device=cpu:3", "--strategy=tensor", "--algorithm=tree"],
                        ["--model=resnet18", "--device=cpu:2", "--strategy=pipeline"]):
            with self.subTest(options):
                steps = [*QUICK, "--batch=6", "--steps=2"]
                (row,) = self.results(*options, *steps, "--eval", f"--save={whole}")
                self.results(*options, *QUICK, "--batch=6", "--steps=1", f"--save={parts}")
                (rest,) = self.results(*options, *steps, f"--save={parts}", f"--resume={parts}")
                self.assertEqual(rest["losses"], row["losses"])
                self.assertEqual(tensors_of(parts), tensors_of(whole))
                (one,) = self.results(options[0], *steps, "--device=cpu:1", "--strategy=scratch", "--eval",
                                      f"--save={parts}", f"--resume={whole}")
                self.assertEqual(tensors_of(parts), tensors_of(whole))
                self.assertEqual(one["metrics"]["test_accuracy"], row["metrics"]["test_accuracy"])

    def test_it_holds_what_pytorch_names_and_where_the_run_was(self):
        file = self.folder / "run"
        self.results(*QUICK, "--model=lenet", "--device=cpu:2", "--strategy=scratch", "--batch=9", "--steps=1",
                     "--seed=7", f"--save={file}")
        header = header_of(file)
        metadata = header.pop("__metadata__")
        self.assertEqual(len(json.loads(metadata.pop("losses"))), 1)
        self.assertEqual(metadata, {"model": "lenet", "data": "synthetic", "seed": "7", "order": "shuffled",
                                    "batch": "9", "step": "1", "epoch": "0", "step_of_epoch": "1"})
        names = [f"{layer}.{kind}" for layer in ("conv1", "conv2", "fc1", "fc2") for kind in ("weight", "bias")]
        self.assertEqual(set(header), {*names, *(f"momentum_buffer.{name}" for name in names)})

    def test_another_training_is_refused_in_one_line(self):
        file = self.folder / "run"
        options = ["--data=synthetic", "--warmup=0", "--iterations=1", "--model=mlp", "--strategy=scratch",
                   "--device=cpu:2", "--batch=10"]
        self.results(*options, "--steps=4", f"--save={file}")
        resume = f"--resume={file}"

        def changed(name, value):
            return [*(option for option in options if not option.startswith(f"--{name}=")), f"--{name}={value}"]

        for others, reason in ((changed("model", "lenet"), "its model is mlp, that of this run lenet"),
                               ([*options, "--seed=2"], "its seed is 1, that of this run 2"),
                               (changed("batch", 11), "its batch is 10, that of this run 11"),
                               ([*options, "--scaling=weak"], "its batch is 10, that of this run 20"),
                               ([*options, "--order=sequential"], "its order is shuffled"),
                               ([*options, "--momentum=0.9"], "lacks the tensor momentum_buffer."),
                               ([*options, "--steps=3"], "it is at step 4, this run ends at 3"),
                               (changed("device", "cpu:1,cpu:2"), "of one point, and these are 2")):
            said = self.refusal(*others, resume)
            self.assertIn("--resume=", said)
            self.assertIn(reason, said)
        self.assertIn("--save=", self.refusal(*changed("strategy", "scratch,distributed"), f"--save={file}.2"))
        self.assertFalse(pathlib.Path(f"{file}.2").exists())
        file.write_bytes(file.read_bytes()[:-1])
        self.assertIn("--resume=", self.refusal(*options, resume))

    def test_what_has_come_to_its_end_has_nothing_left_to_do(self):
        file = self.folder / "run"
        options = [*QUICK, "--model=mlp", "--strategy=scratch", "--device=cpu:2", "--steps=4"]
        (first,), (again,) = self.results(*options, f"--save={file}"), self.results(*options, f"--resume={file}")
        self.assertEqual(again["losses"], first["losses"])
        self.assertEqual(again["checksums"], first["checksums"])


if __name__ == "__main__":
    unittest.main()
