# SPDX-License-Identifier: Apache-2.0
"""bench_train as a user meets it: the same losses on any number of devices, valid files, clear refusals."""
import os
import json
import unittest
import unittest.mock

from bench_case import ROOT, BenchCase

SMALL = ["--data=synthetic", "--batch=10", "--warmup=1", "--steps=3"]
QUICK = [*SMALL, "--iterations=1"]


class Training(BenchCase):
    binary = "bench_train"

    def test_devices_strategies_and_algorithms_train_alike(self):
        rows = self.results(*QUICK, "--device=cpu:1,cpu:2,cpu:3", "--scaling=strong", "--algorithm=all",
                            "--strategy=scratch,data_parallel,distributed,sharded", "--bucket=64K", "--overlap=on,off")
        # Data parallel takes no algorithm, sharded those of other collectives; on one device one stands for all.
        algorithms, of_sharded = (len({row["point"]["algorithm"] for row in rows if row["point"]["strategy"] == strategy
                                       and row["point"]["ranks"] > 1}) for strategy in ("scratch", "sharded"))
        self.assertGreaterEqual(algorithms, 3)
        self.assertEqual(of_sharded, 3)
        self.assertEqual(len(rows), (1 + 1 + 2 + 2) + 2 * (algorithms + 1 + 2 * algorithms + 2 * of_sharded))
        for row in rows:
            self.assertEqual(len(row["losses"]), 3)
            for loss, first in zip(row["losses"], rows[0]["losses"]):
                self.assertAlmostEqual(loss, first, delta=1e-5 * first)
            self.assertEqual(len(set(row["checksums"])), 1)
            self.assertEqual(row["check"], "off" if row["point"]["ranks"] == 1 else "exact")
            self.assertEqual(len(row["checksums"]), row["point"]["ranks"])
            for part in row["memory"]:
                self.assertEqual(part["bytes"], sum(part[kind] for kind in ("parameters", "gradients", "activations",
                                                                            "optimizer", "scratch")))

    def test_the_same_run_gives_the_same_bits(self):
        options = [*QUICK, "--device=cpu:2", "--strategy=distributed"]
        first, second = (self.results(*options)[0] for _ in range(2))
        self.assertEqual(first["losses"], second["losses"])
        self.assertEqual(first["checksums"], second["checksums"])

    def test_measuring_leaves_no_trace_in_training(self):
        few = self.results(*QUICK, "--device=cpu:2", "--strategy=distributed")[0]
        many = self.results(*SMALL, "--device=cpu:2", "--strategy=distributed", "--iterations=4")[0]
        self.assertEqual(few["checksums"], many["checksums"])

    def test_the_smallest_model_learns_from_numbers(self):
        options = ["--model=mlp", "--batch=64", "--iterations=1", "--warmup=1", "--steps=200", "--lr=0.5", "--eval",
                   "--scaling=strong"]
        rows = self.results(*options, "--data=synthetic", "--device=cpu:1,cpu:2", "--strategy=distributed")
        self.assertEqual([row["metrics"]["parameters"] for row in rows], [22, 22])
        for row in rows:
            self.assertGreater(row["metrics"]["test_accuracy"], 0.9)
        refused = self.run_bench(*options, "--data=fashion_mnist")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--data", refused.stderr)

    def test_a_step_is_told_apart(self):
        one, two = self.results(*QUICK, "--device=cpu:1,cpu:2", "--strategy=scratch", "--scaling=weak")
        metrics = two["metrics"]
        self.assertAlmostEqual(metrics["exposed_seconds"], metrics["step_seconds"] - metrics["compute_seconds"])
        self.assertAlmostEqual(metrics["hidden_seconds"],
                               metrics["communication_seconds"] - metrics["exposed_seconds"])
        for nothing in ("communication_seconds", "exposed_seconds", "hidden_seconds", "bytes_moved"):
            self.assertEqual(one["metrics"][nothing], 0)
        self.assertEqual(two["metrics"]["bytes_moved"], 2 * metrics["parameter_bytes"])  # a ring of two: half, four times
        self.assertEqual(set(two["phases"]), {"forward", "backward", "all_reduce", "update"})
        self.assertEqual((one["point"]["global_batch"], two["point"]["global_batch"]), (10, 20))
        self.assertAlmostEqual(two["point"]["lr"], 2 * one["point"]["lr"])
        self.assertEqual(len(two["buckets"]), 8)  # one a parameter tensor
        self.assertEqual(sum(bucket["bytes"] for bucket in two["buckets"]), metrics["parameter_bytes"])
        self.assertAlmostEqual(metrics["speedup"],
                               metrics["images_per_second"] / one["metrics"]["images_per_second"])

    def test_data_parallel_passes_everything_through_its_root(self):
        row = self.results(*QUICK, "--device=cpu:3", "--strategy=data_parallel", "--scaling=weak")[0]
        self.assertEqual(set(row["phases"]), {"replicate", "scatter", "forward", "gather", "loss", "scatter_gradients",
                                              "backward", "reduce", "update"})
        self.assertEqual(row["root"], 0)
        metrics = row["metrics"]
        images = (28 * 28 + 2 * 10) * 4  # an image out, its logits in, their gradient out
        self.assertEqual(metrics["root_bytes"], 2 * 2 * metrics["parameter_bytes"] + (10 + 10) * images)
        self.assertEqual(metrics["bytes_moved"], metrics["root_bytes"])
        root, *others = [part["bytes"] for part in row["memory"]]
        self.assertGreater(root, max(others))
        self.assertGreater(metrics["root_seconds"], 0)

    def test_speed_up_is_against_the_first_point_of_one_device(self):
        rows = self.results(*QUICK, "--device=cpu:2,cpu:1,cpu:3", "--algorithm=ring,tree")
        first = next(row for row in rows if row["point"]["ranks"] == 1)["metrics"]["images_per_second"]
        for row in rows:
            metrics = row["metrics"]
            self.assertEqual(row["baseline"], "cpu:1")
            self.assertEqual(row["point"]["scaling"], "weak")
            self.assertAlmostEqual(metrics["speedup"], metrics["images_per_second"] / first)
            self.assertAlmostEqual(metrics["scaling_efficiency"], metrics["speedup"] / row["point"]["ranks"])

    def test_a_row_is_repeated_by_its_command(self):
        row = self.results(*QUICK, "--device=cpu:2", "--algorithm=tree,ring", "--lr=0.01")[-1]
        again = self.results("--warmup=1", "--iterations=1", *row["command"][1:])[0]
        self.assertEqual(again["point"], row["point"])
        self.assertEqual(again["losses"], row["losses"])

    def test_where_a_step_is_long_fewer_of_them_are_trained_by_default(self):
        options = ["--model=mlp", "--data=synthetic", "--iterations=1", "--warmup=0", "--strategy=distributed"]
        (fast,) = self.results(*options, "--device=cpu:1")
        self.assertEqual((fast["point"]["steps"], len(fast["losses"])), (None, 50))
        # Of the two the one with the slow link takes about a second.
        with unittest.mock.patch.dict(os.environ, {"RINGMARK_SLOW_LINK": "100"}):
            rows = self.results(*options, "--device=cpu:1,cpu:2")
        steps = [len(row["losses"]) for row in rows]
        self.assertEqual(steps[0], steps[1])
        self.assertTrue(2 <= steps[0] < 20, steps)
        self.assertEqual(rows[0]["losses"], fast["losses"][:steps[0]])

    def test_accuracy_is_the_same_on_one_device_and_on_three(self):
        rows = self.results("--data=synthetic", "--batch=64", "--iterations=1", "--steps=4", "--device=cpu:1,cpu:3",
                            "--scaling=strong", "--strategy=distributed", "--eval", "--lr=0.05")
        accuracies = [row["epochs"][-1]["test_accuracy"] for row in rows]
        self.assertAlmostEqual(accuracies[0], accuracies[1], delta=0.003)
        self.assertGreater(accuracies[0], 0)

    def test_the_update_is_shared_out_for_the_bytes_of_an_all_reduce(self):
        rows = self.results(*QUICK, "--device=cpu:2,cpu:3", "--strategy=distributed,sharded", "--momentum=0.9",
                            "--lr=0.01")
        for whole, sharded in (rows[:2], rows[2:]):
            self.assertEqual(sharded["metrics"]["bytes_moved"], whole["metrics"]["bytes_moved"])
            self.assertEqual(set(sharded["phases"]), {"forward", "backward", "reduce_scatter", "update", "all_gather"})
        # A sum of two numbers has one order only.
        self.assertEqual(rows[1]["losses"], rows[0]["losses"])
        self.assertEqual(rows[1]["checksums"], rows[0]["checksums"])

    def test_the_update_is_shared_out_bucket_by_bucket(self):
        options = [*QUICK, "--device=cpu:3", "--strategy=sharded", "--momentum=0.9", "--lr=0.01"]
        one = self.results(*options)[0]
        on, off = self.results(*options, "--bucket=64K", "--overlap=on,off")
        self.assertEqual(len(one["buckets"]), 1)
        self.assertGreater(len(on["buckets"]), 2)
        self.assertEqual(on["losses"], off["losses"])
        for loss, expected in zip(on["losses"], one["losses"], strict=True):
            self.assertAlmostEqual(loss, expected, delta=1e-5 * expected)
        kinds = [span["kind"] for span in on["timeline"] if span["lane"].endswith("communication")]
        self.assertEqual({kind: kinds.count(kind) for kind in kinds},
                         dict.fromkeys(("reduce_scatter", "all_gather"), 3 * len(on["buckets"])))

    def test_micro_batches_change_nothing(self):
        options = [*QUICK, "--device=cpu:2"]
        whole, parts = (self.results(*options, f"--accumulate={parts}") for parts in (1, 3))
        for one, other in zip(whole, parts):
            for loss, same in zip(one["losses"], other["losses"]):
                self.assertAlmostEqual(loss, same, delta=1e-5 * loss)
            self.assertEqual(one["metrics"]["bytes_moved"], other["metrics"]["bytes_moved"])
            self.assertIn("accumulate", other["phases"])

    def test_momentum_and_weight_decay_change_training_alike_on_any_devices(self):
        options = [*QUICK, "--scaling=strong", "--strategy=data_parallel,distributed,sharded", "--lr=0.01"]
        plain = self.results(*options, "--device=cpu:1")
        other = self.results(*options, "--device=cpu:1,cpu:3", "--momentum=0.9", "--weight-decay=0.01")
        self.assertNotEqual(plain[0]["losses"], other[0]["losses"])
        for row in other:
            for loss, first in zip(row["losses"], other[0]["losses"]):
                self.assertAlmostEqual(loss, first, delta=1e-5 * first)
            optimizer = [part["optimizer"] for part in row["memory"]]
            if row["point"]["strategy"] == "sharded":  # each device keeps the momentum of its share
                self.assertEqual(sum(optimizer), row["metrics"]["parameter_bytes"])
                self.assertLessEqual(max(optimizer) - min(optimizer), 4)
            else:
                self.assertEqual(set(optimizer), {row["metrics"]["parameter_bytes"]})

    def test_a_network_in_pieces_trains_as_on_one_device(self):
        rows = self.results(*QUICK, "--device=cpu:1,cpu:2,cpu:3", "--scaling=strong", "--algorithm=ring,tree",
                            "--strategy=distributed,pipeline,tensor", "--microbatches=3", "--momentum=0.9", "--lr=0.01")
        self.assertEqual(len(rows), 3 + 2 * 5)
        for row in rows:
            for loss, first in zip(row["losses"], rows[0]["losses"], strict=True):
                self.assertAlmostEqual(loss, first, delta=1e-5 * first)
            ranks, metrics = row["point"]["ranks"], row["metrics"]
            self.assertEqual(len(metrics["idle_seconds"]), ranks)
            for idle in metrics["idle_seconds"]:
                self.assertLess(idle, metrics["step_seconds"])
            self.assertEqual(metrics["parameters"], rows[0]["metrics"]["parameters"])
            self.assertEqual(metrics["bytes_moved"] > 0, ranks > 1)
            held = [part["parameters"] for part in row["memory"]]
            optimizer = [part["optimizer"] for part in row["memory"]]
            self.assertEqual(optimizer, held)
            if row["point"]["strategy"] == "pipeline":
                self.assertEqual(sum(held), metrics["parameter_bytes"])
                self.assertEqual(row["check"], "off")  # no two devices have the same
                self.assertEqual(len(set(row["checksums"])), ranks)
            if row["point"]["strategy"] == "tensor" and ranks > 1:
                self.assertLess(max(held), metrics["parameter_bytes"])
                self.assertGreater(sum(held), metrics["parameter_bytes"])
                self.assertEqual(row["check"], "exact")  # of what all devices have

    def test_a_pipeline_sends_each_image_once_forward_and_once_back(self):
        row = self.results(*QUICK, "--device=cpu:4", "--strategy=pipeline", "--microbatches=4")[0]
        # As many devices as LeNet has layers with parameters, so it is known where it was cut.
        self.assertEqual([stage["first"] for stage in row["stages"]], ["conv1", "conv2", "fc1", "fc2"])
        self.assertEqual([stage["last"] for stage in row["stages"]], ["pool1", "pool2", "relu3", "cross_entropy"])
        self.assertEqual(row["metrics"]["bytes_moved"], 2 * 10 * 4 * (20 * 13 * 13 + 50 * 4 * 4 + 128))
        self.assertEqual(set(row["phases"]),
                         {"send_activations", "forward", "send_gradients", "backward", "update"})
        for stage in row["stages"]:
            own = [span for span in row["timeline"] if span["lane"].startswith(f"rank {stage['rank']},")]
            for kind in ("forward", "backward"):
                self.assertEqual([span["name"] for span in own if span["kind"] == kind],
                                 [f"micro-batch {number}" for number in (1, 2, 3, 4)])

    def test_tensor_parallelism_joins_activations_twice(self):
        row = self.results(*QUICK, "--device=cpu:2", "--strategy=tensor")[0]
        # A ring of two sends every element twice: the logits, and the gradients of what fc1 reads.
        self.assertEqual(row["metrics"]["bytes_moved"], 2 * 10 * 4 * (10 + 50 * 4 * 4))
        self.assertEqual(set(row["phases"]),
                         {"forward", "reduce_activations", "backward", "reduce_gradients", "update"})

    def test_tensor_parallelism_gives_pytorchs_numbers(self):
        golden = json.loads((ROOT / "tests/models/golden/lenet_he_B64_lr0.1.json").read_text())
        rows = self.results("--device=cpu:2,cpu:4", "--scaling=strong", "--strategy=tensor", "--warmup=0",
                            "--iterations=1", f"--steps={len(golden['loss_mean'])}", f"--batch={golden['batch']}",
                            f"--lr={golden['lr']}", f"--seed={golden['seed']}", "--init=he", "--order=sequential")
        for row in rows:
            for loss, expected in zip(row["losses"], golden["loss_mean"], strict=True):
                self.assertAlmostEqual(loss, expected, delta=1e-4 * expected)

    def test_batch_norm_sees_the_micro_batches_of_a_pipeline(self):
        options = ["--data=synthetic", "--model=resnet18", "--batch=4", "--lr=0.0001", "--warmup=0",
                   "--iterations=1", "--steps=2", "--scaling=strong"]
        one = self.results(*options, "--device=cpu:1", "--strategy=distributed")[0]
        whole, parts = (self.results(*options, "--device=cpu:2", "--strategy=pipeline", f"--microbatches={parts}")[0]
                        for parts in (1, 2))
        for loss, expected in zip(whole["losses"], one["losses"], strict=True):
            self.assertAlmostEqual(loss, expected, delta=1e-3 * expected)
        self.assertGreater(abs(parts["losses"][0] - one["losses"][0]), 1e-3 * one["losses"][0])

    def test_half_as_many_bytes_are_sent_as_bf16(self):
        options = [*QUICK, "--device=cpu:3", "--lr=0.01"]
        for full, half in zip(self.results(*options), self.results(*options, "--grad-dtype=bf16")):
            self.assertEqual(half["metrics"]["bytes_moved"] * 2, full["metrics"]["bytes_moved"])
            self.assertEqual(half["losses"][0], full["losses"][0])
            self.assertNotEqual(half["losses"], full["losses"])
            self.assertAlmostEqual(half["losses"][-1], full["losses"][-1], delta=0.02 * full["losses"][-1])
            self.assertEqual(len(set(half["checksums"])), 1)

    def test_the_fastest_of_the_bucket_sizes_is_taken(self):
        row = self.results(*QUICK, "--device=cpu:2", "--strategy=distributed", "--find-bucket")[0]
        self.assertGreater(len(row["bucket_sizes"]), 1)
        fastest = min(row["bucket_sizes"], key=lambda size: size["step_seconds"])
        self.assertEqual(row["point"]["bucket_bytes"], fastest["bytes"])
        self.assertIn(f"--bucket={fastest['bytes']}", row["command"])
        self.assertNotIn("--find-bucket", row["command"])

    def test_everybody_waits_for_what_makes_the_slowest_slow(self):
        # So slow that a device which another program keeps from its work is no match for it.
        options = ["--data=synthetic", "--batch=16", "--warmup=1", "--steps=1", "--iterations=7", "--device=cpu:2"]
        for row in self.results(*options, "--strategy=scratch,data_parallel", "--slow=1:25"):
            metrics = row["metrics"]
            self.assertEqual(row["point"]["slow"], "1:25")
            waiting, slow = metrics["waiting_seconds"]
            self.assertEqual(slow, 0)
            # The delay is told by who plants it, the waiting by the marks in the devices' streams.
            self.assertGreater(metrics["planted_seconds"], 0)
            self.assertAlmostEqual(waiting, metrics["planted_seconds"], delta=0.1 * metrics["planted_seconds"])
        even = self.results(*options, "--strategy=scratch")[0]["metrics"]
        self.assertEqual(even["planted_seconds"], 0)

    def test_winograd_stands_beside_direct_convolutions_where_the_library_has_it(self):
        options = ["--data=synthetic", "--model=resnet18", "--batch=2", "--device=cpu:1", "--strategy=scratch",
                   "--lr=0.0001", "--warmup=0", "--iterations=1", "--steps=2"]
        done = self.run_bench(*options, "--math=winograd")
        if done.returncode == 2:
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1))
            self.assertIn("--math=winograd", done.stderr)
            self.skipTest("this oneDNN has no Winograd convolutions for this processor")
        direct, winograd = self.results(*options, "--math=f32,winograd")
        self.assertEqual([row["point"]["math"] for row in (direct, winograd)], ["f32", "winograd"])
        self.assertNotEqual(direct["losses"], winograd["losses"])
        self.assertAlmostEqual(direct["losses"][0], winograd["losses"][0], delta=1e-3 * direct["losses"][0])
        self.assertEqual([row["metrics"]["speedup"] for row in (direct, winograd)], [1, 1])

    def test_every_epoch_is_told_and_the_last_line_is_the_textbooks(self):
        done = self.run_bench("--data=synthetic", "--batch=500", "--iterations=1", "--warmup=1", "--device=cpu:2",
                              "--strategy=distributed", "--epochs=2", "--eval")
        self.assertEqual(done.returncode, 0, done.stderr)
        for epoch in (1, 2):
            self.assertRegex(done.stdout, rf"epoch {epoch} of 2, loss [0-9.]+, test accuracy [0-9.]+, [0-9.]+ m?s")
        self.assertRegex(done.stdout, r"test acc: [0-9.]+, [0-9.]+ sec/epoch on \[.+, .+\]")

    def test_bad_input_is_one_line_and_status_two(self):
        for option in ("--model=alexnet", "--strategy=magic", "--algorithm=rings", "--batch=0", "--scaling=most",
                       "--lr=fast", "--bucket=0", "--overlap=maybe", "--data=cifar", "--data-dir=/no/such/folder",
                       "--accumulate=0", "--grad-dtype=f16", "--slow=1", "--slow=1:0.5", "--slow=x:2", "--slow=7:2",
                       "--find-bucket=perhaps", "--momentum=2", "--weight-decay=-1", "--launch=later", "--init=zero", "--order=random", "--steps=-1", "--epochs=0", "--eval=perhaps", "--device=gpu",
                       "--output=/no/such/folder/x.json"):
            with self.subTest(option):
                done = self.run_bench("--iterations=1", option)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(self.run_bench("--steps=2", "--epochs=2").returncode, 2)
        self.assertEqual(self.run_bench("--strategy=data_parallel", "--accumulate=2").returncode, 2)
        for strategy, option in (("pipeline", "--grad-dtype=bf16"), ("sharded", "--find-bucket"), ("tensor", "--accumulate=2"), ("tensor", "--microbatches=2")):
            done = self.run_bench(f"--strategy={strategy}", option, "--momentum=0.9")
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertIn(option.split("=")[0], done.stderr)
        done = self.run_bench(*QUICK, "--device=cpu:5", "--strategy=pipeline,tensor")
        self.assertEqual(done.returncode, 1)
        self.assertIn("can be cut into 4 stages", done.stderr)
        for strategies, algorithms in (("sharded", "tree"), ("scratch", "direct"), ("scratch,sharded", "tree"),
                                       ("scratch,distributed", "ring,direct")):
            done = self.run_bench(f"--strategy={strategies}", f"--algorithm={algorithms}")
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))
            self.assertIn("--algorithm=", done.stderr)


if __name__ == "__main__":
    unittest.main()
