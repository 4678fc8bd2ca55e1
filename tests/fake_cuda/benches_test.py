# SPDX-License-Identifier: Apache-2.0
"""The benches as a user of a GPU machine meets them, on the fake one: the very binaries of the build, with the fake
CUDA libraries first in the loader's path."""
import unittest

from fake_case import FakeCase


class Allreduce(FakeCase):
    binary = "bench_allreduce"

    def test_all_gpus_are_taken_and_every_row_is_exact_and_emulated(self):
        with self.on_machine(GPUS=4):
            report = self.report("--bytes=0,4,1000,70000", "--mode=check", "--dtype=f32,bf16", "--op=sum,avg",
                                 "--launch=eager,graph", "--placement=in_place,out_of_place", "--direction=pull,push",
                                 "--fused=on,off")
        for row in report["results"]:
            self.assertEqual((row["status"], row["check"], row["nature"]), ("ok", "exact", "emulated"), row["point"])
            self.assertEqual((row["point"]["device"], row["point"]["ranks"]), ("cuda", 4))
        machine = report["run"]["machine"]
        self.assertEqual([device["name"] for device in machine["devices"]], [f"cuda:{gpu}" for gpu in range(4)])
        self.assertEqual(len(machine["links"]), 12)

    def test_points_of_some_gpus_and_of_one_that_is_shared(self):
        rows = self.results("--device=cuda:0,2,cuda:0*8,cpu:2", "--bytes=1K", "--iterations=2", "--algorithm=ring")
        self.assertEqual([(row["point"]["ranks"], row["oversubscribed"], row["nature"]) for row in rows],
                         [(2, False, "emulated"), (8, True, "emulated"), (2, rows[2]["oversubscribed"], "measured")])

    def test_ranks_take_the_order_that_the_machine_likes(self):
        simulated = ["--engine=simulated", "--topology=dgx-1v", "--algorithm=ring", "--bytes=1M"]
        (row,) = self.results(*simulated, "--rank-order=best")
        best = row["point"]["rank_order"]
        self.assertNotEqual(best, sorted(best))
        for order in ("best", ",".join(map(str, best))):
            (row,) = self.results("--topology=dgx-1v", f"--rank-order={order}", "--mode=check", "--algorithm=ring",
                                  "--bytes=1M")
            self.assertEqual((row["check"], row["point"]["device"]), ("exact", "cuda:" + ",".join(map(str, best))))
            self.assertIn("--device=" + row["point"]["device"], row["command"])
        (row,) = self.results("--device=cuda:2,1,0", "--topology=dgx-1v:3", "--rank-order=2,0,1", "--mode=check",
                              "--algorithm=ring", "--bytes=1M")
        self.assertEqual(row["point"]["device"], "cuda:0,2,1")
        for options in (["--rank-order=0,0"], ["--rank-order=best", "--device=cuda:0*8"],
                        ["--rank-order=best", "--device=cpu:2"]):
            done = self.run_bench("--topology=dgx-1v", "--bytes=4", *options)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            self.assertIn("--rank-order", done.stderr)

    def test_fused_is_refused_with_a_reason_where_peers_cannot_be_read(self):
        with self.on_machine(PEERS="0-1"):
            rows = self.results("--device=cuda:0,2", "--bytes=1K", "--mode=check", "--algorithm=ring",
                                "--fused=on,off")
        self.assertEqual([row["status"] for row in rows], ["refused", "ok"])
        self.assertIn("cuda:2", rows[0]["reason"])

    def test_a_transport_that_is_not_there_is_one_line(self):
        with self.on_machine(PEERS="none"):
            done = self.run_bench("--device=cuda:0,1", "--transport=peer")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertIn("--transport=peer", done.stderr)
        (row,) = self.results("--device=cuda:0,1", "--transport=staged", "--bytes=3M", "--mode=check",
                              "--algorithm=ring")
        self.assertEqual((row["check"], row["point"]["transport"]), ("exact", "staged"))

    def test_a_size_that_does_not_fit_is_skipped_with_the_bytes_and_the_rest_goes_on(self):
        with self.on_machine(MEMORY=1 << 20):
            rows = self.results("--device=cuda:0,1", "--bytes=4M,64K", "--mode=check", "--algorithm=ring")
        self.assertEqual([row["status"] for row in rows], ["skipped", "ok"])
        self.assertIn("4194304 are needed", rows[0]["reason"])

    def test_a_pair_that_corrupts_is_staged_with_a_warning(self):
        with self.on_machine(CORRUPT="0>1"):
            done = self.run_bench("--device=cuda:0,1", "--bytes=1K", "--mode=check")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("arrives wrong", done.stderr)

    def test_kernels_that_meet_stand_beside_streams_exact_for_every_dtype_and_op(self):
        rows = self.results("--device=cuda:0,1,2,3", "--engine=streams,direct", "--bytes=0,4,7000",
                            "--launch=eager,graph", "--mode=check", "--dtype=f32,f64,f16,bf16,i32",
                            "--op=sum,avg,min,max,prod", "--placement=in_place,out_of_place", "--algorithm=two_shot,one_shot")
        self.assertEqual(len(rows), 3 * 5 * 5 * 2 * 2 * (2 + 2))
        for row in rows:
            self.assertEqual((row["status"], row["check"]), ("ok", "exact"), row["point"])
        (again,) = self.results("--mode=check", *rows[-1]["command"][1:])
        self.assertEqual((again["point"], again["point"]["engine"]), (rows[-1]["point"], "direct"))

    def test_kernels_that_meet_are_timed_and_refused_with_the_reason(self):
        rows = self.results("--device=cuda:0,1", "--engine=direct", "--bytes=1K", "--iterations=3")
        self.assertEqual([(row["point"]["algorithm"], len(row["samples"])) for row in rows],
                         [("one_shot", 3), ("two_shot", 3)])
        two = ["--device=cuda:0,1", "--bytes=1K"]
        for options, reason in (([*two, "--algorithm=ring"], "one_shot and two_shot only"),
                                ([*two, "--transport=staged"], "cannot read the memory of cuda:1"),
                                ([*two, "--collective=broadcast"], "all-reduce only"),
                                (["--device=cpu:2", "--bytes=1K"], "GPUs only"),
                                (["--device=cuda:0*9", "--bytes=1K"], "up to 8 ranks"),
                                (["--device=cuda:0*8", "--bytes=1M"], "do not fit")):
            for row in self.results("--engine=direct", "--mode=check", *options):
                self.assertEqual(row["status"], "refused")
                self.assertIn(reason, row["reason"])

    def test_a_rank_whose_kernel_does_not_come_fails_the_point_by_name(self):
        with self.on_machine(LATE=5):
            report, _ = self.fails("--device=cuda:0,1,2", "--engine=direct", "--algorithm=one_shot", "--bytes=1K,2K",
                                   "--mode=check")
        self.assertEqual([row["status"] for row in report["results"]], ["failed", "ok"])
        self.assertIn("rank 0 (cuda:0) waited 10 s for rank 1", report["results"][0]["reason"])

    def test_a_lost_device_ends_the_run_after_its_report_is_written(self):
        with self.on_machine(FAIL="cudaLaunchKernel:3:700"):
            report, said = self.fails("--device=cuda:0,1", "--bytes=1K,2K", "--mode=check", "--algorithm=ring")
        self.assertFalse(report["run"]["complete"])
        self.assertEqual([row["status"] for row in report["results"]], ["failed"])
        self.assertIn("cudaErrorIllegalAddress", said)

    def test_a_failed_call_fails_its_point_alone(self):
        with self.on_machine(FAIL="cudaLaunchKernel:3:999"):
            report, _ = self.fails("--device=cuda:0,1", "--bytes=1K,2K", "--mode=check", "--algorithm=ring")
        self.assertEqual([row["status"] for row in report["results"]], ["failed", "ok"])

    def test_a_copy_that_never_ends_times_out_and_the_report_says_so(self):
        with self.on_machine(HANG=14):
            report, said = self.fails("--device=cuda:0,1", "--bytes=1K", "--mode=check", "--algorithm=ring",
                                      "--timeout=0.3s")
        self.assertEqual(report["results"][-1]["status"], "timed_out")
        self.assertIn("within 0.3", said)


class Nccl(FakeCase):
    binary = "bench_allreduce"

    @classmethod
    def setUpClass(cls):
        if "has no NCCL" in cls().run_bench("--engine=nccl", "--device=cpu:1", "--bytes=4", "--mode=check").stderr:
            raise unittest.SkipTest("this build has no NCCL")

    def test_each_of_its_algorithms_is_a_row_beside_ours_exact_for_every_dtype_and_op(self):
        rows = self.results("--device=cuda:0,1,2,3", "--engine=streams,nccl", "--algorithm=ring", "--bytes=0,4,7000",
                            "--nccl-algo=auto,ring,tree", "--launch=eager,graph", "--mode=check",
                            "--dtype=f32,f64,f16,bf16,i32", "--op=sum,avg,min,max,prod",
                            "--placement=in_place,out_of_place")
        self.assertEqual(len(rows), 3 * 5 * 5 * 2 * (2 + 6))
        for row in rows:
            self.assertEqual((row["status"], row["check"]), ("ok", "exact"), row["point"])
        theirs = [row["point"] for row in rows if row["point"]["engine"] == "nccl"]
        self.assertEqual({point["nccl"]["algo"] for point in theirs}, {"auto", "ring", "tree"})
        self.assertTrue(all(point["algorithm"] is None and point["nccl"]["version"] for point in theirs))

    def test_its_other_collectives_stand_beside_ours_too(self):
        for collective in ("reduce_scatter", "all_gather", "broadcast", "reduce"):
            root = ["--root=2"] if collective in ("broadcast", "reduce") else []
            ops = ["--op=sum,avg,max"] if "reduce" in collective else []
            rows = self.results("--device=cuda:0,1,2,3", "--engine=streams,nccl", f"--collective={collective}", *root,
                                *ops, "--bytes=0,16,8000", "--launch=eager,graph", "--mode=check", "--dtype=f32,bf16",
                                "--placement=in_place,out_of_place", "--direction=pull,push", "--fused=on,off")
            self.assertEqual(len(rows), 3 * 2 * 2 * (3 if ops else 1) * (3 * 2 * 4 + 2))
            for row in rows:
                self.assertEqual((row["status"], row["check"]), ("ok", "exact"), row["point"])
            again = self.results("--mode=check", *rows[-1]["command"][1:])
            self.assertEqual(again[0]["point"], rows[-1]["point"])

    def test_slices_of_different_sizes_are_refused(self):
        for collective in ("reduce_scatter", "all_gather"):
            rows = self.results("--device=cuda:0,1,2", "--engine=nccl", f"--collective={collective}", "--bytes=12,16",
                                "--mode=check")
            self.assertEqual([row["status"] for row in rows], ["ok", "refused"])
            self.assertIn("4 elements are none for 3 ranks", rows[1]["reason"])

    def test_ranks_send_to_all_and_to_the_next_exactly(self):
        for collective in ("all_to_all", "send_recv"):
            rows = self.results("--device=cuda:0,cuda:0,1,2,3", "--engine=nccl", f"--collective={collective}",
                                "--bytes=0,16,8000", "--launch=eager,graph", "--mode=check", "--dtype=f32,bf16",
                                "--placement=out_of_place")
            self.assertEqual(len(rows), 2 * 3 * 2 * 2)
            for row in rows:
                self.assertEqual((row["status"], row["check"]), ("ok", "exact"), (row["point"], row["reason"]))
            again = self.results("--mode=check", *rows[-1]["command"][1:])
            self.assertEqual(again[0]["point"], rows[-1]["point"])
        for collective, factor in (("all_to_all", 0.75), ("send_recv", 1)):
            (row,) = self.results("--device=cuda:0,1,2,3", "--engine=nccl", f"--collective={collective}",
                                  "--bytes=4K", "--placement=out_of_place", "--iterations=2")
            self.assertAlmostEqual(row["metrics"]["busbw"], factor * row["metrics"]["algbw"])
            (row,) = self.results("--device=cuda:0,1", "--engine=nccl", f"--collective={collective}", "--bytes=4K")
            self.assertEqual(row["status"], "refused")
            self.assertIn("--placement=out_of_place", row["reason"])
            done = self.run_bench("--device=cuda:0,1", "--engine=nccl,streams", f"--collective={collective}")
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            self.assertIn(f"--engine=streams: there are no schedules of {collective}", done.stderr)

    def test_vectors_are_registered_where_that_is_asked_for(self):
        rows = self.results("--device=cuda:0,1", "--engine=streams,nccl", "--algorithm=ring", "--bytes=0,4K",
                            "--register=off,on", "--launch=eager,graph", "--placement=in_place,out_of_place",
                            "--iterations=2")
        theirs = [row["point"]["nccl"]["register"] for row in rows if row["point"]["engine"] == "nccl"]
        self.assertEqual(theirs, 2 * 2 * 2 * [False, True])
        self.assertEqual({(row["status"], row["check"]) for row in rows}, {("ok", "exact")})
        self.assertIn("--register=on", rows[-1]["command"])
        with self.on_machine(MEMORY=1 << 20):
            rows = self.results("--device=cuda:0,1", "--engine=nccl", "--bytes=4M,64K", "--mode=check",
                                "--register=on")
        self.assertEqual([row["status"] for row in rows], ["skipped", "ok"])
        self.assertIn("4194304 are needed", rows[0]["reason"])
        for call in ("ncclMemAlloc", "ncclCommRegister"):
            with self.on_machine(FAIL=f"{call}:1:999"):
                _, said = self.fails("--device=cuda:0,1", "--engine=nccl", "--bytes=1K", "--register=on")
            self.assertIn("NCCL: failure", said)

    def test_an_average_over_three_has_no_exact_answer_and_is_refused(self):
        rows = self.results("--device=cuda:0,1,2", "--engine=nccl", "--bytes=4K", "--mode=check", "--op=avg,sum")
        self.assertEqual([row["status"] for row in rows], ["refused", "ok"])

    def test_is_timed_in_the_same_rounds_and_its_command_repeats_it(self):
        rows = self.results("--device=cuda:0,1", "--engine=streams,nccl", "--algorithm=ring", "--bytes=1K",
                            "--iterations=3", "--nccl-algo=ring")
        self.assertEqual([len(row["samples"]) for row in rows], [3, 3])
        (again,) = self.results("--mode=check", *rows[1]["command"][1:])
        self.assertEqual(again["point"], rows[1]["point"])

    def test_refuses_ranks_on_one_gpu_and_what_is_no_gpu(self):
        rows = self.results("--device=cuda:0*2,cpu:2", "--engine=nccl", "--bytes=1K", "--mode=check")
        self.assertEqual([row["status"] for row in rows], ["refused", "refused"])
        self.assertIn("one rank per GPU", rows[0]["reason"])
        self.assertIn("GPUs only", rows[1]["reason"])

    def test_its_failure_is_a_failed_point_with_its_words(self):
        for call in ("ncclCommInitAll", "ncclAllReduce", "ncclCommGetAsyncError"):
            with self.on_machine(FAIL=f"{call}:1:999"):
                done = self.run_bench("--device=cuda:0,1", "--engine=nccl", "--bytes=1K", "--mode=check")
            self.assertEqual(done.returncode, 1, call)
            self.assertIn("NCCL: failure", done.stderr)

    def test_gpus_that_are_lost_inside_it_end_the_run(self):
        with self.on_machine(FAIL="ncclAllReduce:2:700"):
            report, said = self.fails("--device=cuda:0,1", "--engine=nccl", "--bytes=1K,2K", "--iterations=2")
        self.assertFalse(report["run"]["complete"])
        self.assertEqual([row["status"] for row in report["results"]], ["failed"])
        self.assertRegex(report["results"][0]["reason"], "NCCL: failure.*cudaErrorIllegalAddress")
        self.assertIn(report["results"][0]["reason"], said)


class Link(FakeCase):
    binary = "bench_link"

    def test_every_pair_is_checked_and_says_whether_it_has_peer_access(self):
        with self.on_machine(GPUS=3, PEERS="0-1"):
            rows = self.results("--bytes=4,3M", "--iterations=2")
        self.assertEqual([row["metrics"]["peer_access"] for row in rows], [True, False, True, False, False, False])
        self.assertTrue(all(row["metrics"]["checked"] and row["nature"] == "emulated" for row in rows))


if __name__ == "__main__":
    unittest.main()
