# SPDX-License-Identifier: Apache-2.0
"""Training as a user of a GPU machine meets it, on the fake one."""
import json
import unittest

from fake_case import ROOT, FakeCase


class Train(FakeCase):
    binary = "bench_train"

    def setUp(self):
        probe = ["--device=cuda:0", "--data=synthetic", "--steps=1", "--batch=1", "--iterations=1", "--warmup=0"]
        if "built without cuDNN" in self.run_bench(*probe).stderr:
            self.skipTest("this build has no cuDNN")

    def test_lenet_reproduces_pytorch_by_every_strategy_on_one_two_and_four_gpus(self):
        golden = json.loads((ROOT / "tests/models/golden/lenet_he_B64_lr0.1.json").read_text())
        steps = 10
        strategies = ["scratch", "distributed", "data_parallel", "sharded", "pipeline", "tensor"]
        rows = self.results("--model=lenet", "--device=cuda:0,cuda:1,2,cuda:0,1,2,3",
                            f"--strategy={','.join(strategies)}", "--algorithm=ring", "--scaling=strong", "--batch=64",
                            f"--steps={steps}", "--lr=0.1", "--init=he", f"--seed={golden['seed']}",
                            "--order=sequential", "--iterations=1", "--warmup=0")
        found = {(row["point"]["ranks"], row["point"]["strategy"]) for row in rows}
        self.assertEqual(found, {(ranks, name) for ranks in (1, 2, 4) for name in strategies})
        for row in rows:
            self.assertEqual((row["status"], row["nature"], row["point"]["backend"]), ("ok", "emulated", "cudnn"),
                             row["reason"])
            for loss, expected in zip(row["losses"], golden["loss_mean"][:steps], strict=True):
                self.assertAlmostEqual(loss, expected, delta=1e-5 * expected)

    def test_lenet_in_tf32_and_bf16_stays_near_pytorch_by_rounding_alone(self):
        golden = json.loads((ROOT / "tests/models/golden/lenet_he_B64_lr0.1.json").read_text())
        rows = self.results("--model=lenet", "--device=cuda:1,2", "--math=f32,tf32,bf16",
                            "--strategy=distributed,pipeline", "--algorithm=ring", "--scaling=strong", "--batch=64",
                            "--steps=10", "--lr=0.1", "--init=he", f"--seed={golden['seed']}", "--order=sequential",
                            "--iterations=1", "--warmup=0")
        self.assertEqual(len(rows), 3 * 2)
        at_first = {"f32": 1e-5, "tf32": 1e-3, "bf16": 1e-2}  # of four steps; after that small differences grow
        of_one = {"f32": set(), "tf32": set(), "bf16": set()}
        for row in rows:
            self.assertEqual((row["status"], row["point"]["backend"]), ("ok", "cudnn"), row["reason"])
            distances = [abs(loss / expected - 1) for loss, expected in zip(row["losses"], golden["loss_mean"])]
            math = row["point"]["math"]
            of_one[math].add(distances[0])
            self.assertLess(max(distances[:4]), at_first[math], row["point"])
            self.assertLess(max(distances), 1e-5 if math == "f32" else 0.1, row["point"])
        self.assertLess(10 * max(of_one["f32"]), min(of_one["tf32"]))
        self.assertLess(2 * max(of_one["tf32"]), min(of_one["bf16"]))

    def test_resnet18_in_tf32_and_bf16_is_near_pytorch_at_first(self):
        golden = json.loads((ROOT / "tests/models/golden/resnet18_he_B8_lr0.0005.json").read_text())
        rows = self.results("--model=resnet18", "--device=cuda:0", "--math=tf32,bf16", "--strategy=scratch",
                            "--batch=8", "--lr=0.0005", "--init=he", f"--seed={golden['seed']}", "--order=sequential",
                            "--iterations=1", "--warmup=0", "--steps=2")
        for row, tolerance in zip(rows, (1e-2, 5e-2), strict=True):
            for loss, expected in zip(row["losses"], golden["loss_mean"], strict=False):
                self.assertAlmostEqual(loss, expected, delta=tolerance * expected)
                self.assertNotAlmostEqual(loss, expected, delta=1e-5 * expected)

    def test_an_arithmetic_that_a_device_has_not_is_one_line(self):
        options = ["--model=lenet", "--data=synthetic", "--steps=1"]
        for math, device, words in (("bf16", "cpu:1", "has: f32"), ("tf32", "cpu:1", "has: f32"),
                                    ("winograd", "cuda:0", "has: f32, tf32, bf16")):
            done = self.run_bench(*options, f"--math={math}", f"--device={device}")
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            self.assertIn(f"--math={math}", done.stderr)
            self.assertIn(words, done.stderr)
        with self.on_machine(CAPABILITY=7):
            done = self.run_bench(*options, "--math=bf16", "--device=cuda:1")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertIn("cuda:1 is of compute capability 7", done.stderr)

    def test_what_reduces_is_nccl_or_kernels_that_read_their_peers(self):
        options = ["--model=lenet", "--device=cuda:0,1,2", "--strategy=scratch,distributed", "--algorithm=ring",
                   "--engine=streams,nccl,direct", "--scaling=strong", "--batch=12", "--steps=4", "--data=synthetic",
                   "--iterations=2", "--warmup=0", "--bucket=64K"]
        for seed in (1, 2, 3):
            for launch in ("eager", "graph"):
                with self.on_machine(SEED=seed):
                    rows = self.results(*options, f"--launch={launch}")
                self.assertEqual([row["point"]["engine"] for row in rows],
                                 ["streams", "nccl", "direct", "direct"] * 2)
                for row in rows:
                    self.assertEqual((row["status"], row["check"]), ("ok", "exact"), row["reason"])
                    self.assertEqual(row["metrics"]["bytes_moved"] is None, row["point"]["engine"] != "streams")
                    for loss, expected in zip(row["losses"], rows[0]["losses"], strict=True):
                        self.assertAlmostEqual(loss, expected, delta=1e-5 * expected)

    def test_what_an_engine_cannot_do_is_refused_in_its_row(self):
        rows = self.results("--model=lenet", "--device=cuda:0*2", "--strategy=sharded", "--engine=nccl,direct,streams",
                            "--batch=4", "--steps=1", "--data=synthetic", "--iterations=1", "--warmup=0")
        self.assertEqual([row["status"] for row in rows], ["refused"] * 3 + ["ok"])
        self.assertIn("one rank per GPU", rows[0]["reason"])
        self.assertIn("all-reduce only", rows[1]["reason"])

    def test_a_step_that_is_one_graph_gives_the_losses_of_its_ops_to_the_bit(self):
        strategies = ["scratch", "distributed", "data_parallel", "sharded", "pipeline", "tensor"]
        options = ["--model=lenet", "--device=cuda:0,cuda:0,1,2", f"--strategy={','.join(strategies)}",
                   "--algorithm=ring", "--scaling=strong", "--batch=12", "--steps=4", "--momentum=0.9",
                   "--iterations=2", "--warmup=0", "--data=synthetic"]
        for peers, seed in (("all", 1), ("0-1", 2)):
            with self.on_machine(PEERS=peers, SEED=seed):
                eager, graph = self.results(*options), self.results(*options, "--launch=graph")
            for one, other in zip(eager, graph, strict=True):
                self.assertEqual((other["status"], other["point"]["launch"]), ("ok", "graph"), other["reason"])
                self.assertEqual(other["losses"], one["losses"], other["point"])
                self.assertEqual(other["checksums"], one["checksums"])
                self.assertEqual(set(other["phases"]), set(one["phases"]))

    def test_a_step_is_recorded_for_each_division_of_a_batch_and_launched_as_one(self):
        options = ["--model=mlp", "--data=synthetic", "--device=cuda:0,1,2", "--strategy=distributed",
                   "--algorithm=ring", "--scaling=strong", "--iterations=1", "--warmup=0"]
        for batch in (4990, 4999):  # of 10000 images: the last batch is of 20, or of 2, which is one too few
            epochs = [*options, f"--batch={batch}", "--epochs=2"]
            (eager,), (graph,) = self.results(*epochs), self.results(*epochs, "--launch=graph")
            self.assertEqual(len(graph["losses"]), 6)
            self.assertEqual(graph["losses"], eager["losses"])
        for call, words in (("cudaGraphLaunch:3", "launching a recorded graph"),
                            ("cudaGraphInstantiate:1", "making a recorded graph executable")):
            with self.on_machine(FAIL=f"{call}:999"):
                report, said = self.fails(*options, "--batch=7", "--steps=6", "--launch=graph")
            self.assertTrue(report["run"]["complete"])
            self.assertIn(words, report["results"][0]["reason"])
            self.assertIn(words, said)

    def test_a_step_in_which_the_host_waits_cannot_be_recorded(self):
        done = self.run_bench("--model=lenet", "--data=synthetic", "--device=cuda:0,1", "--accumulate=2",
                              "--launch=graph")
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
        self.assertIn("--launch=graph: with --accumulate", done.stderr)

    def test_the_smallest_model_trains_too(self):
        rows = self.results("--model=mlp", "--device=cuda:0,1,2", "--data=synthetic", "--steps=3", "--batch=7",
                            "--iterations=1")
        self.assertTrue(all(row["check"] == "exact" for row in rows))

    def test_half_as_many_bytes_are_sent_as_bf16_as_on_cpu_devices(self):
        options = ["--model=lenet", "--device=cuda:0,1,2,cpu:3", "--strategy=scratch,distributed,sharded",
                   "--algorithm=ring", "--scaling=strong", "--batch=24", "--lr=0.01", "--steps=3", "--iterations=1",
                   "--warmup=0"]
        halves = self.results(*options, "--grad-dtype=bf16")
        for full, half in zip(self.results(*options), halves, strict=True):
            self.assertEqual(half["status"], "ok", half["reason"])
            self.assertLess(half["metrics"]["bytes_moved"], full["metrics"]["bytes_moved"])
            self.assertNotEqual(half["losses"], full["losses"])
            self.assertEqual(len(set(half["checksums"])), 1)
        for on_gpus, on_cpus in zip(halves[:3], halves[3:], strict=True):
            self.assertEqual((on_gpus["point"]["strategy"], on_gpus["metrics"]["bytes_moved"]),
                             (on_cpus["point"]["strategy"], on_cpus["metrics"]["bytes_moved"]))
            for loss, expected in zip(on_gpus["losses"], on_cpus["losses"], strict=True):
                self.assertAlmostEqual(loss, expected, delta=1e-3 * expected)

    def test_a_gpu_is_made_slow_by_work_that_changes_no_loss(self):
        options = ["--model=lenet", "--device=cuda:0,1", "--data=synthetic", "--strategy=scratch,pipeline,data_parallel",
                   "--algorithm=ring", "--scaling=strong", "--batch=8", "--steps=2", "--iterations=1", "--warmup=0"]
        for even, slow in zip(self.results(*options), self.results(*options, "--slow=1:3"), strict=True):
            self.assertEqual((slow["status"], slow["point"]["slow"]), ("ok", "1:3"), slow["reason"])
            self.assertEqual(slow["losses"], even["losses"])
            self.assertEqual(even["metrics"]["planted_seconds"], 0)
            self.assertGreater(slow["metrics"]["planted_seconds"], 0)

    def test_gradients_of_earlier_micro_batches_are_kept_on_each_gpu(self):
        options = ["--model=lenet", "--device=cuda:0,1,cpu:2", "--strategy=scratch,distributed,sharded",
                   "--algorithm=ring", "--scaling=strong", "--batch=24", "--steps=2", "--iterations=1", "--warmup=0"]
        whole = self.results(*options)
        for once, thrice in zip(whole, self.results(*options, "--accumulate=3"), strict=True):
            self.assertEqual(thrice["status"], "ok", thrice["reason"])
            for loss, expected in zip(thrice["losses"], once["losses"], strict=True):
                self.assertAlmostEqual(loss, expected, delta=1e-4 * expected)

    def test_resnet18_reproduces_pytorch_on_one_gpu_and_on_two_and_cpu_devices_on_four(self):
        train = ["--model=resnet18", "--strategy=distributed", "--algorithm=ring", "--scaling=strong", "--batch=8",
                 "--lr=0.0005", "--init=he", "--order=sequential", "--iterations=1", "--warmup=0", "--steps=2"]
        for device, name in (("cuda:0", "resnet18_he_B8_lr0.0005"), ("cuda:1,2", "resnet18_he_B8_lr0.0005_k2")):
            golden = json.loads((ROOT / f"tests/models/golden/{name}.json").read_text())
            (row,) = self.results(*train, f"--device={device}", f"--seed={golden['seed']}")
            self.assertEqual((row["status"], row["nature"], row["point"]["backend"]), ("ok", "emulated", "cudnn"))
            for loss, expected in zip(row["losses"], golden["loss_mean"], strict=False):
                self.assertAlmostEqual(loss, expected, delta=2e-3 * expected)
        on_gpus, on_cpus = self.results(*train, "--device=cuda:0,1,2,3,cpu:4")
        self.assertEqual(len(on_gpus["losses"]), 2)
        for loss, expected in zip(on_gpus["losses"], on_cpus["losses"], strict=True):
            self.assertAlmostEqual(loss, expected, delta=2e-3 * expected)

    def test_a_failed_call_fails_what_it_is_part_of_and_the_rest_goes_on(self):
        options = ["--model=mlp", "--data=synthetic", "--device=cuda:0,1", "--steps=2", "--batch=6", "--iterations=1",
                   "--warmup=0", "--algorithm=ring", "--strategy=scratch,distributed,sharded", "--momentum=0.9"]
        for call in ("cudaStreamCreateWithFlags:20", "cudaEventRecord:60", "cudaStreamWaitEvent:60",
                     "cudaEventElapsedTime:1", "cudaMemcpyPeerAsync:20", "cudaHostAlloc:1", "cublasCreate:1",
                     "cublasGemmEx:9"):
            with self.on_machine(FAIL=f"{call}:999"):
                report, said = self.fails(*options)
            self.assertTrue(report["run"]["complete"], call)
            rows = report["results"]
            self.assertEqual(len(rows), 3)
            self.assertIn("failed", {row["status"] for row in rows}, call)
            for row in rows:
                self.assertIn(row["status"], ("ok", "failed"))
                if row["status"] == "failed":
                    self.assertIn(row["reason"], said)
                    self.assertRegex(row["reason"], "error 999|failure of the fake machine")

    def test_what_failed_on_a_gpu_is_said_with_its_name(self):
        options = ["--model=mlp", "--data=synthetic", "--device=cuda:1", "--steps=1", "--batch=6", "--iterations=1",
                   "--warmup=0", "--strategy=scratch"]
        found = set()
        for call in [*(f"cudaLaunchKernel:{number}" for number in range(1, 5)), "cublasGemmEx:1", "cudnnAddTensor:1"]:
            with self.on_machine(FAIL=f"{call}:999"):
                report, said = self.fails(*options)
            (row,) = report["results"]
            self.assertIn(row["reason"], said)
            found.add(row["reason"].rpartition(": cu")[0])
        self.assertEqual(found, {f"cuda:1: {what}" for what in (
            "loss", "sum of the losses", "gradient of the loss", "step", "linear layer", "adding a bias")})

    def test_pinned_memory_that_is_not_there_is_told_with_its_bytes(self):
        with self.on_machine(FAIL="cudaHostAlloc:1:2"):
            (row,) = self.results("--model=mlp", "--data=synthetic", "--device=cuda:0", "--steps=1", "--batch=6",
                                  "--iterations=1", "--warmup=0", "--strategy=scratch")
        self.assertEqual(row["status"], "skipped")
        self.assertRegex(row["reason"], "taking 16 bytes of pinned host memory")

    def test_a_lost_gpu_ends_the_training_after_its_report_is_written(self):
        options = ["--model=mlp", "--data=synthetic", "--device=cuda:0,1", "--steps=2", "--batch=6", "--iterations=1",
                   "--warmup=0", "--algorithm=ring", "--strategy=scratch"]
        for call in ("cudaLaunchKernel:4", "cudaStreamQuery:30", "cudaMemcpyAsync:40", "cublasGemmEx:2", "cudnnAddTensor:2",
                     "cublasCreate:2"):
            with self.on_machine(FAIL=f"{call}:700"):
                report, said = self.fails(*options)
            self.assertFalse(report["run"]["complete"], call)
            self.assertEqual([row["status"] for row in report["results"]], ["failed"], call)
            self.assertIn("cudaErrorIllegalAddress", said)

    def test_a_copy_that_never_ends_times_out_and_is_in_the_report(self):
        for copy in (40, 90):
            with self.on_machine(HANG=copy):
                report, said = self.fails("--model=mlp", "--data=synthetic", "--device=cuda:0,1", "--steps=3",
                                          "--batch=6", "--iterations=1", "--strategy=scratch", "--algorithm=ring",
                                          "--timeout=0.3s")
            self.assertEqual([row["status"] for row in report["results"]], ["timed_out"], copy)
            self.assertIn("within 0.3", said)

    def test_a_pair_that_corrupts_is_staged_and_replicas_stay_equal(self):
        options = ["--model=mlp", "--data=synthetic", "--device=cuda:0,1", "--steps=3", "--batch=6", "--iterations=1",
                   "--strategy=scratch,data_parallel", "--algorithm=ring"]
        sound = self.results(*options)
        with self.on_machine(CORRUPT="1>0"):
            self.assertIn("arrives wrong", self.run_bench(*options).stderr)
            staged = self.results(*options)
        self.assertEqual([row["losses"] for row in staged], [row["losses"] for row in sound])
        self.assertEqual({row["check"] for row in staged}, {"exact"})

    def test_replicas_that_do_not_fit_are_skipped_with_the_bytes_and_the_rest_goes_on(self):
        with self.on_machine(MEMORY=2 << 20):
            rows = self.results("--model=lenet,mlp", "--data=synthetic", "--device=cuda:0,1", "--steps=1",
                                "--batch=64", "--iterations=1", "--strategy=scratch", "--algorithm=ring")
        self.assertEqual([row["status"] for row in rows], ["skipped", "ok"])
        self.assertRegex(rows[0]["reason"], r"has \d+ bytes of memory free, and \d+ are needed")

    def test_a_gpu_that_cannot_be_opened_is_a_line_and_one_that_is_lost_is_not_called_absent(self):
        for fail, words in (("cudaSetDevice:1:999", "choosing GPU 0"), ("cudaFree:3:700", "error 700")):
            with self.on_machine(FAIL=fail):
                done = self.run_bench("--model=mlp", "--data=synthetic", "--device=cuda:0,1", "--steps=1")
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
            self.assertIn(words, done.stderr)
        # The set that is measured is opened once the report is there.
        with self.on_machine(FAIL="cudaMalloc:17:999"):
            report, said = self.fails("--model=mlp", "--data=synthetic", "--device=cuda:0,1", "--steps=1")
        self.assertIn("error 999", said)
        self.assertEqual((report["run"]["complete"], report["results"]), (False, []))

    def test_resnet18_is_tested_with_its_running_statistics(self):
        on_gpu, on_cpu = self.results("--model=resnet18", "--device=cuda:0,cpu:1", "--strategy=scratch",
                                      "--data=synthetic", "--batch=50", "--steps=1", "--iterations=1", "--warmup=0",
                                      "--eval")
        self.assertAlmostEqual(on_gpu["metrics"]["test_accuracy"], on_cpu["metrics"]["test_accuracy"], delta=0.01)


class Model(FakeCase):
    binary = "bench_model"

    def test_both_networks_layer_by_layer_with_gradients_held_against_plain_loops(self):
        probe = self.run_bench("--backend=cudnn", "--batch=1", "--list")
        if "built without cuDNN" in probe.stderr:
            self.skipTest("this build has no cuDNN")
        rows = self.results("--device=cuda:1", "--model=lenet,resnet18", "--math=f32,tf32,bf16", "--batch=3",
                            "--iterations=2", "--time-budget=10ms")
        self.assertEqual([(row["point"]["model"], row["point"]["math"]) for row in rows],
                         [(model, math) for model in ("lenet", "resnet18") for math in ("f32", "tf32", "bf16")])
        distances = [row["metrics"]["gradient_distance"] for row in rows]
        self.assertEqual(distances[:3], sorted(distances[:3]))
        for row in rows:
            self.assertEqual((row["status"], row["check"], row["nature"], row["point"]["backend"]),
                             ("ok", "tolerance", "emulated", "cudnn"), row["reason"])
            self.assertTrue(row["layers"])
        done = self.run_bench("--device=cuda:1", "--backend=plain", "--batch=3")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertIn("--backend", done.stderr)


if __name__ == "__main__":
    unittest.main()
