# SPDX-License-Identifier: Apache-2.0
"""results/schema.json accepts what the benches write and nothing else."""

import copy
import json
import os
import unittest

import made_up

try:
    import jsonschema
except ImportError:
    jsonschema = None


@unittest.skipIf(jsonschema is None, "python3-jsonschema is not installed")
class Schema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(os.path.join(made_up.ROOT, "results", "schema.json"), encoding="utf-8") as file:
            schema = json.load(file)
        jsonschema.Draft202012Validator.check_schema(schema)
        cls.validator = jsonschema.Draft202012Validator(schema)

    def complaints(self, *results, **changes):
        return [error.message for error in self.validator.iter_errors(made_up.run(list(results), **changes))]

    def refuses(self, result, word):
        complaints = self.complaints(result)
        self.assertTrue(any(word in complaint for complaint in complaints), f"{word} not in {complaints}")

    def test_it_accepts_a_bit_of_everything(self):
        self.assertEqual([error.message for error in self.validator.iter_errors(made_up.whole())], [])

    def test_it_accepts_what_later_benches_add(self):
        later = {
            "transport": "peer",
            "rank_order": [0, 2, 1, 3],
            "software": "nccl",
            "nccl": {"algo": "Ring", "channels": 8},
        }
        extra = {
            "busiest_link": {"from": "gpu0", "to": "switch", "bytes": 10, "utilisation": 0.9},
            "chosen": {"algorithm": "ring", "why": "the fastest simulated"},
        }
        self.assertEqual(self.complaints(made_up.allreduce(point=later, **extra)), [])
        self.assertEqual(
            self.complaints(
                made_up.train(2, strategy="data_parallel", root=0, phases={"scatter": 0.001, "gather": None})
            ),
            [],
        )
        self.assertEqual(
            self.complaints(
                made_up.result("topology", {"topology": "dgx-a100"}, {"nodes": 20, "bisection_bandwidth": 1e12}),
                made_up.result("validate", {"topology": "dgx-a100", "bytes": 8}, {"ratio": 1.1}),
                made_up.result(
                    "collective",
                    {**made_up.allreduce()["point"], "collective": "broadcast", "root": 0},
                    made_up.allreduce()["metrics"],
                ),
            ),
            [],
        )

    def test_it_accepts_points_that_did_not_run(self):
        refused = made_up.allreduce(status="refused", reason="two ranks on one GPU", check="off", stop=None, samples=[])
        self.assertEqual(self.complaints({**refused, "metrics": {}}), [])

    def test_it_refuses_a_field_it_does_not_name(self):
        self.refuses(made_up.allreduce(sped="up"), "sped")
        self.refuses(made_up.allreduce(point={"bites": 1}), "bites")
        metrics = made_up.allreduce()
        metrics["metrics"]["gigabytes"] = 1
        self.refuses(metrics, "gigabytes")
        self.assertTrue(self.complaints(hostage="name"))

    def test_it_refuses_a_field_of_another_bench(self):
        self.refuses(made_up.allreduce(point={"global_batch": 256}), "global_batch")

    def test_it_refuses_each_missing_field(self):
        for field in made_up.allreduce():
            result = made_up.allreduce()
            del result[field]
            self.refuses(result, field)

    def test_it_refuses_words_that_are_none_of_the_choices(self):
        for field, word in (
            ("status", "fine"),
            ("nature", "guessed"),
            ("check", "maybe"),
            ("stop", "bored"),
            ("bench", "sort"),
        ):
            self.refuses({**made_up.allreduce(), field: word}, word)
        self.refuses(made_up.allreduce(flags=["noisy"]), "noisy")

    def test_a_timed_point_needs_its_time(self):
        result = made_up.allreduce()
        del result["metrics"]["seconds"]
        self.refuses(result, "seconds")

    def test_what_is_not_ok_needs_a_reason_and_what_is_ok_has_none(self):
        self.assertTrue(self.complaints(made_up.allreduce(status="skipped")))
        self.assertTrue(self.complaints(made_up.allreduce(reason="why not")))

    def test_a_failed_check_cannot_be_ok(self):
        wrong = {"count": 1, "first_index": 7, "expected": 4.0, "got": None, "rank": 2}
        self.assertTrue(self.complaints(made_up.allreduce(check="failed", wrong=wrong)))
        self.assertEqual(
            self.complaints(made_up.allreduce(status="failed", reason="1 wrong", check="failed", wrong=wrong)), []
        )

    def test_it_refuses_another_schema_and_text_for_numbers(self):
        content = copy.deepcopy(made_up.whole())
        content["schema"] = 2
        self.assertFalse(self.validator.is_valid(content))
        self.assertTrue(self.complaints(made_up.allreduce(samples=["0.1"])))


if __name__ == "__main__":
    unittest.main()
