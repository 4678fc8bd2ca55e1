# SPDX-License-Identifier: Apache-2.0
"""bench_model as a user meets it: valid files, layers that make up the model, clear refusals."""
import os
import unittest

from bench_case import BenchCase

SANITIZED = bool(os.environ.get("RINGMARK_SANITIZE"))
QUICK = ["--batch=3", "--threads=1", "--warmup=1", "--iterations=2"]


class Model(BenchCase):
    binary = "bench_model"

    def test_the_layers_make_up_the_model(self):
        (row,) = self.results(*QUICK)
        self.assertEqual(row["status"], "ok")
        self.assertEqual(row["check"], "tolerance")
        self.assertEqual([layer["name"] for layer in row["layers"]],
                         ["conv1", "relu1", "pool1", "conv2", "relu2", "pool2", "fc1", "relu3", "fc2", "cross_entropy"])
        metrics = row["metrics"]
        self.assertEqual(metrics["parameters"], 129068)
        self.assertEqual(sum(layer["parameters"] for layer in row["layers"]), metrics["parameters"])
        self.assertEqual(sum(layer["flops"] or 0 for layer in row["layers"]), metrics["flops"])
        # conv1 2 passes over 180 weights at 26x26 pixels, conv2 3 over 25000 at 9x9, and the linear layers.
        self.assertEqual(metrics["flops"], 3 * 2 * (2 * 180 * 676 + 3 * (25000 * 81 + 102400 + 1280)))
        for name in ("forward_seconds", "backward_seconds", "optimizer_seconds", "step_seconds"):
            self.assertGreater(metrics[name], 0)

    def test_every_model_agrees_with_plain_loops(self):
        parameters = {"lenet": 129068, "resnet18": 11175818, "mlp": 22}
        if SANITIZED:
            del parameters["resnet18"]  # minutes, by plain loops
        rows = self.results(f"--model={','.join(parameters)}", "--batch=2", "--threads=1", "--warmup=0",
                            "--iterations=1")
        self.assertEqual([row["check"] for row in rows], ["tolerance"] * len(parameters))
        self.assertEqual([row["metrics"]["parameters"] for row in rows], list(parameters.values()))

    @unittest.skipIf(SANITIZED, "ResNet-18 by plain loops takes minutes; tests/models run Winograd's convolutions")
    def test_winograd_is_a_way_of_its_own_where_the_library_has_it(self):
        options = ["--model=resnet18", "--batch=2", "--threads=1", "--warmup=0", "--iterations=1"]
        done = self.run_bench(*options, "--math=winograd", "--backend=plain")
        self.assertEqual((done.returncode, done.stderr.count("--math=winograd")), (2, 1))
        if self.run_bench(*options, "--math=winograd").returncode == 2:
            self.skipTest("this oneDNN has no Winograd convolutions for this processor")
        (direct,), (winograd,) = self.results(*options), self.results(*options, "--math=winograd")
        self.assertEqual(winograd["check"], "tolerance")
        self.assertGreater(winograd["metrics"]["gradient_distance"], 0)
        self.assertNotEqual(winograd["metrics"]["gradient_distance"], direct["metrics"]["gradient_distance"])

    def test_devices_compute_at_once_and_add_up(self):
        rows = self.results(*QUICK, "--device=cpu:1,cpu:2")
        self.assertEqual([row["point"]["ranks"] for row in rows], [1, 2])
        self.assertEqual(rows[1]["metrics"]["flops"], 2 * rows[0]["metrics"]["flops"])
        for row in rows:
            rate = row["metrics"]["images_per_second"]
            self.assertAlmostEqual(rate * row["metrics"]["step_seconds"], 3 * row["point"]["ranks"])

    def test_a_point_can_be_run_again_alone(self):
        (row,) = self.results(*QUICK)
        (again,) = self.results(*row["command"][1:], "--iterations=1")
        self.assertEqual(row["point"], again["point"])

    def test_bad_options_are_one_line_and_exit_2(self):
        for option in ("--batch=0", "--batch=x", "--backend=magic", "--math=f16", "--model=alexnet", "--init=zero",
                       "--device=cpu:0", "--cache=cold", "--lr=1"):
            done = self.run_bench(option)
            self.assertEqual(done.returncode, 2, option)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(option.split("=")[0], done.stderr)


if __name__ == "__main__":
    unittest.main()
