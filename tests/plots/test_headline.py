# SPDX-License-Identifier: Apache-2.0
"""Opposite results must give opposite sentences."""

import unittest

import made_up
from plots import headline


def training(*results):
    return " ".join(headline.training(made_up.loaded(made_up.run(list(results)))))


class TrainingSentence(unittest.TestCase):
    def test_two_devices_with_a_short_step_are_faster_and_computing_is_not_blamed_alone(self):
        said = training(made_up.train(1, 0.050), made_up.train(2, 0.052, exposed=0.0015))
        self.assertIn("LeNet on 2 devices (cpu:2) is 1.92 times as fast as on 1", said)
        self.assertIn("weak scaling", said)
        self.assertIn("1.50 ms (2.9%) waits for communication", said)
        self.assertIn("mostly communication", said)
        self.assertNotIn("slower", said)

    def test_two_devices_that_wait_for_each_other_are_slower_because_of_communication(self):
        said = training(made_up.train(1, 0.050), made_up.train(2, 0.130, exposed=0.079, communication=0.08))
        self.assertIn("slower than on 1: 0.77 times its speed", said)
        self.assertIn("mostly communication", said)
        self.assertNotIn("mostly computing", said)

    def test_two_devices_on_the_same_cores_are_slower_because_of_computing(self):
        said = training(made_up.train(1, 0.050, threads=2), made_up.train(2, 0.130, exposed=0.001, oversubscribed=True))
        self.assertIn("slower than on 1", said)
        self.assertIn("mostly computing itself", said)
        self.assertIn("share the same cores", said)
        self.assertIn("Oversubscribed", said)

    def test_what_does_not_overlap_hides_nothing(self):
        said = training(made_up.train(1, 0.050), made_up.train(2, 0.06, exposed=0.001, strategy="scratch"))
        self.assertIn("none of it hidden behind computing", said)
        said = training(made_up.train(1, 0.050), made_up.train(2, 0.06, exposed=0.001))
        self.assertIn("another 3 ms of communication hides behind computing", said)

    def test_communication_that_costs_more_than_was_lost_is_named_alone(self):
        said = training(made_up.train(1, 0.050), made_up.train(2, 0.054, exposed=0.009, communication=0.01))
        self.assertIn("is communication alone: it costs more than the 4 ms lost in each step", said)

    def test_a_topology_from_a_file_has_the_name_of_the_file(self):
        where = {"engine": "simulated", "device": "some/where/my-box.json", "topology": "some/where/my-box.json"}
        computed = {"point": where, "nature": "simulated"}
        said = training(made_up.train(1, 0.050, **computed), made_up.train(2, 0.054, **computed))
        self.assertIn("Simulated on my-box, not measured: LeNet on 2 devices (my-box)", said)
        self.assertNotIn("some/where", said)

    def test_a_difference_inside_the_intervals_is_none(self):
        said = training(made_up.train(1, 0.050), made_up.train(2, 0.0985))
        self.assertIn("no difference that can be told", said)
        self.assertNotIn("slower", said)

    def test_the_same_cores_split_in_two_are_named_as_such(self):
        said = training(made_up.train(1, 0.050, threads=2), made_up.train(2, 0.1, threads=1))
        self.assertIn("100% of the 1.00 times that this hardware allows", said)
        self.assertIn("there is 1.00 times the hardware, not 2 times", said)

    def test_more_than_the_hardware_allows_is_called_a_disturbed_run(self):
        said = training(made_up.train(1, 0.050), made_up.train(2, 0.03))
        self.assertIn("167% of the ideal 2 times, more than can be", said)
        self.assertNotIn("next to nothing", said)

    def test_strong_scaling_is_compared_with_the_same_global_batch(self):
        wrong = made_up.train(1, 0.010, batch=64, scaling="strong")
        said = training(made_up.train(1, 0.050, scaling="strong"), wrong, made_up.train(2, 0.026, scaling="strong"))
        self.assertIn("1.92 times as fast", said)
        self.assertIn("strong scaling, 256 images a step in all", said)

    def test_all_strategies_are_held_against_the_fastest_single_device(self):
        slow = made_up.train(1, 0.08, strategy="scratch")
        said = training(made_up.train(1, 0.05), slow, made_up.train(2, 0.055, strategy="scratch"))
        self.assertIn("1.82 times as fast", said)

    def test_without_a_baseline_nothing_is_compared(self):
        self.assertEqual(training(made_up.train(2, 0.05)), "")

    def test_a_failed_baseline_is_no_baseline(self):
        broken = made_up.train(1, 0.05, status="failed", reason="wrong sum", check="failed")
        self.assertEqual(training(broken, made_up.train(2, 0.05)), "")

    def test_a_simulated_step_is_not_compared_with_a_measured_one(self):
        self.assertEqual(training(made_up.train(1, 0.05), made_up.train(2, 0.05, nature="simulated")), "")

    def test_simulated_sentences_say_so_first(self):
        said = training(*(made_up.train(n, 0.05, nature="simulated", point={"topology": "dgx-a100"}) for n in (1, 2)))
        self.assertTrue(said.startswith("Simulated on dgx-a100, not measured:"), said)

    def test_the_fastest_way_is_told_and_the_others_are_ranked(self):
        said = training(
            made_up.train(1, 0.05),
            made_up.train(2, 0.06, strategy="scratch"),
            made_up.train(2, 0.055, algorithm="tree"),
        )
        self.assertIn("at best 1.82 times as fast", said)
        self.assertIn("distributed with tree (1.00", said)
        self.assertIn("scratch with ring (0.92", said)

    def test_whether_to_share_out_the_batch_or_to_cut_the_network_follows_the_numbers(self):
        def ways(pipeline_step):
            rows = [made_up.train(1, 0.05, scaling="strong")]
            for strategy, algorithm, step, idle, moved in (
                ("distributed", "ring", 0.03, [0.003, 0.003], 1048576),
                ("pipeline", None, pipeline_step, [0.03, 0.006], 2097152),
            ):
                row = made_up.train(2, step, strategy=strategy, algorithm=algorithm, scaling="strong")
                row["metrics"].update(idle_seconds=idle, bytes_moved=moved)
                rows.append(row)
            return training(*rows)

        said = ways(0.06)
        self.assertIn("distributed with ring 1 MiB, 10%, 30 ms", said)
        self.assertIn("pipeline 2 MiB, 30%, 60 ms", said)
        self.assertIn("the batch is what to share out, 2.00 times as fast", said)
        self.assertIn("the network is what to cut, 1.50 times as fast", ways(0.02))
        self.assertNotIn("in pieces", training(made_up.train(1, 0.05), made_up.train(2, 0.06)))

    def test_exposed_time_below_zero_is_not_called_waiting(self):
        said = training(made_up.train(1, 0.05), made_up.train(2, 0.05, exposed=-0.001))
        self.assertIn("no longer with communication than without", said)


class AllReduceSentence(unittest.TestCase):
    def said(self, *results):
        return " ".join(headline.allreduce(made_up.loaded(made_up.run(list(results)))))

    def test_the_fastest_algorithm_follows_the_numbers(self):
        def both(ring, tree):
            return self.said(
                made_up.allreduce("ring", seconds=ring), made_up.allreduce("tree", seconds=tree, link_speed=False)
            )

        self.assertIn("fastest: ring", both(1e-4, 2e-4))
        self.assertIn("fastest: tree", both(2e-4, 1e-4))

    def test_busbw_of_a_tree_is_said_to_be_no_link_speed(self):
        self.assertIn("not link speed", self.said(made_up.allreduce("tree", link_speed=False)))
        self.assertNotIn("not link speed", self.said(made_up.allreduce("ring")))

    def test_a_failed_check_takes_a_result_out_of_the_race(self):
        said = self.said(
            made_up.allreduce("ring"), made_up.allreduce("tree", seconds=1e-5, status="failed", check="failed")
        )
        self.assertNotIn("tree", said)

    def test_one_rank_is_no_all_reduce(self):
        self.assertEqual(self.said(made_up.allreduce(ranks=1)), "")


class OtherSentences(unittest.TestCase):
    def all(self, *results, **changes):
        return " ".join(headline.sentences(made_up.loaded(made_up.run(list(results), **changes))))

    def test_failures_and_interrupted_runs_are_told(self):
        said = self.all(made_up.allreduce(status="failed", check="failed", reason="element 7 is wrong"), complete=False)
        self.assertIn("1 of 1 result FAILED; the first says: element 7 is wrong", said)
        self.assertIn("not complete", said)

    def test_a_loss_that_is_no_number_is_divergence(self):
        self.assertIn("diverged: the loss of step 1 is no number", self.all(made_up.train(losses=[2.3, None])))
        self.assertNotIn("diverged", self.all(made_up.train()))

    def test_the_accuracy_reached_is_the_last_and_the_best_is_named(self):
        epochs = [{"epoch": 1, "test_accuracy": 0.8}, {"epoch": 2, "test_accuracy": 0.75}]
        self.assertIn("0.750 after 2 epochs", self.all(made_up.train(epochs=epochs)))
        self.assertIn("best 0.800 after epoch 1", self.all(made_up.train(epochs=epochs)))

    def test_what_was_expected_of_the_machine_is_held_against_what_was_measured(self):
        def row(ratio, verdict, link=None):
            expected = {"topology": "dgx-1v", "seconds": 1e-4, "ratio": ratio, "verdict": verdict, "link": link}
            return made_up.allreduce(seconds=ratio * 1e-4, expected={**expected, "critical_path": ""})

        usual = self.all(row(1.0, "as expected"), row(1.1, "as expected"))
        self.assertIn("Held against dgx-1v as simulated: 2 of 2 results as expected.", usual)
        link = {"from": "gpu0", "to": "gpu3", "kind": "nvlink"}
        rates = {"bytes_per_second": 1e10, "expected_bytes_per_second": 3e10}
        slow = self.all(row(1.0, "as expected"), row(3.0, "slow", {**link, **rates}), row(1.5, "slow"))
        self.assertIn("1 of 3 results as expected; 2 slow, the most ring at 1 MiB, with 3.0", slow)
        self.assertIn("gpu0 to gpu3, carried 10 GB/s where 30 GB/s were expected", slow)
        self.assertIn("1 fast, the most ring at 1 MiB, with 0.5", self.all(row(0.5, "fast")))
        self.assertNotIn("Held against", self.all(made_up.allreduce(), made_up.allreduce(expected="dgx-1v")))

    def test_a_pair_that_corrupts_data_is_named(self):
        bad = made_up.link("cuda:0", "cuda:1", status="failed", check="failed", reason="bytes differ")
        self.assertIn("1 pair did not pass: cuda:0 to cuda:1", self.all(made_up.link(), bad))


if __name__ == "__main__":
    unittest.main()
