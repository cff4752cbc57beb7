"""The table of bench/compare_peers.py: what each row compares, how it is judged, and that nothing missing passes."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import compare_peers  # noqa: E402
from peer_goals import (BATON, LLAMA, OPENVINO, SHAPES, Goal, Samples, Test, format_table, judge,  # noqa: E402
                        make_goals, make_shape_goals)

PREFILL = Test("Q4_1", "pp512")
DECODE = Test("Q4_1", "tg64")
GOAL = Goal("row", "a row", PREFILL, at_least=2, aim=4, peers={LLAMA: PREFILL, OPENVINO: Test("Q8_0", "pp512")})


def samples_of(*entries):
    samples = Samples()
    for participant, setting, test, values in entries:
        for value in values:
            samples.add(participant, setting, test, value)
    return samples


class Judge(unittest.TestCase):
    def test_the_ratio_is_of_medians_and_against_the_best_peer_in_its_best_setting(self):
        row = judge(GOAL, samples_of(
            (BATON, "", PREFILL, [900, 600, 10]),
            (LLAMA, "off", PREFILL, [100, 100, 5000]),
            (LLAMA, "on", PREFILL, [150, 150, 1]),
            (OPENVINO, "", Test("Q8_0", "pp512"), [200]),
            (OPENVINO, "", PREFILL, [10000]),  # from another file, which the row does not compare
        ))
        self.assertEqual(row.ratio, 3)
        self.assertEqual((row.peers[LLAMA].value, row.peers[LLAMA].setting), (150, "on"))
        self.assertEqual(row.verdict, "yes")

    def test_a_ratio_on_the_line_is_met_and_one_below_is_not(self):
        for ours, verdict, met in ((199, "no", False), (200, "yes", True), (399, "yes", True), (400, "aim", True)):
            row = judge(GOAL, samples_of((BATON, "", PREFILL, [ours]), (LLAMA, "", PREFILL, [100])))
            self.assertEqual((row.verdict, row.met), (verdict, met), ours)

    def test_what_is_not_measured_is_not_met(self):
        for samples in (samples_of((BATON, "", PREFILL, [100])), samples_of((LLAMA, "", PREFILL, [100])), Samples()):
            row = judge(GOAL, samples)
            self.assertEqual((row.verdict, row.met), ("not measured", False))

    def test_a_peer_that_does_not_read_the_type_leaves_the_other_to_compare_with(self):
        row = judge(GOAL, samples_of((BATON, "", PREFILL, [300]), (LLAMA, "", PREFILL, [100])))
        self.assertEqual(row.ratio, 3)
        self.assertIn("| 300 | 100 | - | 3.00 |", format_table([row]))

    def test_a_row_without_peers_judges_the_share_and_never_the_speed(self):
        goal = Goal("share", "share", DECODE, at_least=0.7, aim=0.88)
        samples = samples_of((BATON, "", DECODE, [400]))
        self.assertFalse(judge(goal, samples).met)
        samples.add(BATON, "", DECODE, 0.75, share=True)
        row = judge(goal, samples)
        self.assertEqual((row.ratio, row.verdict), (0.75, "yes"))
        self.assertIn("| 0.75 | - | - | 0.75 | 0.7 | 0.88 | yes |", format_table([row]))


class Goals(unittest.TestCase):
    def test_every_weight_type_has_its_rows(self):
        goals = {goal.key: goal for goal in make_goals()}
        self.assertEqual(len(goals), len(make_goals()))
        for model in ("Q8_0", "Q4_0", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "F16", "BF16"):
            self.assertEqual(goals[f"{model.lower()}-prefill"].ours, Test(model, "pp512"))
            self.assertEqual(goals[f"{model.lower()}-decode"].ours, Test(model, "tg64"))
        self.assertEqual((goals["bf16-prefill"].at_least, goals["bf16-decode"].aim), (0.5, 1.1))
        for goal in goals.values():
            self.assertLess(goal.at_least, goal.aim)

    def test_the_plan_measures_everything_that_a_row_compares(self):
        goals = make_goals()
        plan = compare_peers.plan(goals)
        for goal in goals:
            for participant, test in [(BATON, goal.ours), *goal.peers.items()]:
                self.assertEqual(plan[(test.model, participant)].count(test), 1)

    def test_participants_take_turns_within_a_model(self):
        order = list(compare_peers.plan(make_goals()))
        self.assertEqual([who for model, who in order if model == "Q8_0"], [BATON, LLAMA, OPENVINO])
        models = [model for model, _ in order]
        self.assertEqual(len(set(models)), 1 + sum(a != b for a, b in zip(models, models[1:])))

    def test_an_unknown_row_is_refused_by_name(self):
        with self.assertRaisesRegex(compare_peers.PeerError, "decoed"):
            compare_peers.select("decode,decoed")


class Shapes(unittest.TestCase):
    def test_every_type_of_a_shape_has_a_prefill_and_a_decode_of_the_same_file_beside_llama_cpp(self):
        goals = {goal.key: goal for goal in make_shape_goals(list(SHAPES))}
        self.assertEqual(len(goals), 2 * sum(map(len, SHAPES.values())))
        for shape, types in SHAPES.items():
            for weights in types:
                for name, test in (("prefill", "pp512"), ("decode", "tg64")):
                    goal = goals[f"{shape}-{weights.lower()}-{name}"]
                    self.assertEqual(goal.ours, Test(f"{shape} {weights}", test))
                    self.assertEqual(goal.peers, {LLAMA: goal.ours})
                    self.assertLess(goal.at_least, goal.aim)
        self.assertEqual(goals["qwen3-30b-a3b-4-layers-q8_0-prefill"].at_least, 1.5)
        self.assertEqual(goals["qwen3-0.6b-q8_0-prefill"].at_least, 2)

    def test_a_test_knows_its_shape_and_its_weights(self):
        self.assertEqual((Test("qwen3-0.6b Q8_0", "pp512").shape, Test("qwen3-0.6b Q8_0", "pp512").weights),
                         ("qwen3-0.6b", "Q8_0"))
        self.assertEqual((PREFILL.shape, PREFILL.weights), ("", "Q4_1"))

    def test_rows_are_chosen_within_the_shapes_and_an_unknown_one_is_refused_by_name(self):
        keys = [goal.key for goal in compare_peers.select("gemma-3-1b-bf16-decode", "qwen3-0.6b,gemma-3-1b")]
        self.assertEqual(keys, ["gemma-3-1b-bf16-decode"])
        with self.assertRaisesRegex(compare_peers.PeerError, "qwen9"):
            compare_peers.select(None, "qwen3-0.6b,qwen9")
        with self.assertRaisesRegex(compare_peers.PeerError, "q4_1-decode"):
            compare_peers.select("q4_1-decode", "qwen3-0.6b")


if __name__ == "__main__":
    unittest.main(verbosity=2)
