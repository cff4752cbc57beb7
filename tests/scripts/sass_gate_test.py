"""scripts/sass_gate.py reads machine code and holds it to the committed figures, as its head and those of scripts/sass/ say."""

import contextlib
import dataclasses
import io
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import sass_gate  # noqa: E402
from sass import budget, figures, listing, loops, model, names  # noqa: E402

# What kernels may spill in all. Only ever lower these, when the lines of tests/gpu/sass_budget.txt become better.
MOST_SPILLING_KERNELS = 3
MOST_LOCAL_ACCESSES = 37


def excerpts():
    """The functions of the excerpts by their names in the source."""
    text = (ROOT / "tests/data/sass/excerpts.sass").read_text(encoding="utf-8")
    functions = listing.parse(text.splitlines())
    found = dict(zip(names.short_names(function.name for function in functions).values(), functions))
    return {name.partition("(")[0]: function for name, function in found.items()}


def figures_of(function):
    return figures.figures_of(function, threads=256, registers=32, shared_bytes=1024)


def function_of(text):
    """A function of instructions and labels, one a line."""
    lines = ['\t.section\t.text.F,"ax",@progbits']
    lines += [line if line.endswith(":") else f"        /*0000*/    {line} ;" for line in text.split("\n")]
    function, = listing.parse(lines)
    return function


def kernel(**changes):
    made = figures.Figures(threads=256, registers=64, blocks=4, local=0, inner=0, instructions=200, stream_bytes=2048, tensor=100,
                           moves=100, wide_ldg=100, narrow_ldg=100, wide_lds=100, narrow_lds=100, wide_ldgsts=100, narrow_ldgsts=100)
    return dataclasses.replace(made, **changes)


class Excerpts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.functions = excerpts()

    def test_a_spill_in_a_loop_is_found(self):
        self.assertGreater(figures_of(self.functions["SpillSums"]).local, 20)
        self.assertEqual(figures_of(self.functions["StreamRows"]).local, 0)
        for spill in ("STL [R1], R2", "LDL R2, [R1]"):
            self.assertEqual(figures_of(function_of(f".L_x_0:\n{spill}\n@P0 BRA `(.L_x_0)\nEXIT")).local, 1, spill)

    def test_a_spill_outside_of_loops_is_none_of_them(self):
        function = function_of("STL [R1], R2\n.L_x_0:\nFADD R2, R2, R3\n@P0 BRA `(.L_x_0)\nLDL R2, [R1]\nEXIT")
        self.assertEqual(figures_of(function).local, 0)

    def test_a_narrower_access_is_found(self):
        wide, narrow = (figures_of(self.functions[name]) for name in ("StreamRows", "StreamNarrow"))
        self.assertEqual((wide.wide_ldg, wide.stream_bytes), (1, 512))
        self.assertEqual((narrow.wide_ldg, narrow.narrow_ldg, narrow.stream_bytes), (0, 1, 128))

    def test_the_hot_loop_is_the_one_that_streams_and_not_the_one_around_it(self):
        function = self.functions["StreamRows"]
        outer, = loops.loops_of(loops.blocks_of(function))
        self.assertEqual(len(outer.inner), 1)
        hot = figures_of(function)
        self.assertLess(hot.instructions, 25)
        self.assertAlmostEqual(hot.per_kb, hot.instructions * 2)

    def test_tensor_core_operations_of_an_exception_are_not_on_the_hot_path(self):
        function = self.functions["Multiply"]
        self.assertEqual(sum(step.op.is_tensor for step in function.instructions), 5)
        self.assertEqual(figures_of(function).tensor, 4)

    def test_a_kernel_without_a_loop_counts_whole(self):
        self.assertEqual(loops.loops_of(loops.blocks_of(self.functions["AddOne"])), [])
        self.assertEqual(figures_of(self.functions["AddOne"]).wide_ldg, 1)


class ControlFlow(unittest.TestCase):
    def test_threads_that_have_met_go_on_at_the_place_that_bssy_names(self):
        function = function_of("BSSY B0, `(.L_x_1)\n@P0 BRA `(.L_x_0)\nMOV R0, R1\n.L_x_0:\nBSYNC B0\n.L_x_1:\nEXIT")
        blocks = loops.blocks_of(function)
        self.assertEqual([block.next for block in blocks], [[1, 2], [2], [3], []])

    def test_a_branch_with_its_second_predicate_may_go_on(self):
        blocks = loops.blocks_of(function_of(".L_x_0:\nBRA P1, `(.L_x_0)\nEXIT"))
        self.assertEqual([block.next for block in blocks], [[0, 1], []])

    def test_a_jump_through_a_table_goes_to_each_of_its_places(self):
        function = function_of('BRXU UR8 -0x10 (*"BRANCH_TARGETS .L_x_0,.L_x_1"*)\n.L_x_0:\nEXIT\n.L_x_1:\nEXIT')
        self.assertEqual(loops.blocks_of(function)[0].next, [1, 2])

    def test_what_lanes_do_that_have_gone_apart_does_not_count(self):
        function = function_of(".L_x_0:\nBRA.DIV UR4, `(.L_x_1)\nFADD R0, R0, R1\n@P0 BRA `(.L_x_0)\nEXIT\n"
                               ".L_x_1:\nLDL R0, [R1]\nBRA `(.L_x_0)")
        self.assertEqual(figures_of(function).local, 0)

    def test_a_loop_inside_counts_once_around_if_the_way_leads_through_it(self):
        function = function_of(".L_x_0:\nHMMA.16816.F32 R0, R4, R8, R0\n.L_x_1:\nLDGSTS.E.BYPASS.128 [R2], [R4]\n"
                               "@P0 BRA `(.L_x_1)\n@P1 BRA `(.L_x_0)\nEXIT")
        hot = figures_of(function)
        self.assertEqual((hot.tensor, hot.wide_ldgsts, hot.instructions, hot.inner), (1, 1, 4, 1))

    def test_a_loop_inside_counts_as_often_as_its_code_says_that_it_goes_around(self):
        for begin, compare, rounds in (("IMAD.MOV.U32 R7, RZ, RZ, RZ", "ISETP.NE.AND P0, PT, R7, 0x4, PT", 4),
                                       ("UMOV UR7, URZ", "UISETP.NE.AND UP0, UPT, UR7, 0x4, UPT", 4),
                                       ("MOV R7, R8", "ISETP.NE.AND P0, PT, R7, 0x4, PT", None),
                                       ("MOV R7, RZ", "ISETP.NE.AND P1, PT, R7, 0x4, PT", None),
                                       ("MOV R7, RZ", "ISETP.NE.AND P0, PT, R7, R8, PT", None)):
            uniform = "U" if begin.startswith("U") else ""
            text = (f".L_x_0:\nFADD R1, R1, R2\n{begin}\n.L_x_1:\nHMMA.16816.F32 R0, R4, R8, R0\n"
                    f"{uniform}IADD3 {uniform}R7, {uniform}R7, 0x1, {uniform}RZ\n{compare}\n"
                    + ("PLOP3.LUT P0, PT, PT, PT, UP0, 0x80, 0x0\n" if uniform else "MOV R20, R21\n")
                    + "@P0 BRA `(.L_x_1)\n@P1 BRA `(.L_x_0)\nEXIT")
            hot = figures_of(function_of(text))
            # The outer loop has three instructions of its own; without known rounds the inner one is the hot loop.
            self.assertEqual((hot.tensor, hot.instructions, hot.inner), (4, 3 + 4 * 5, 0) if rounds else (1, 5, 0), (begin, compare))

    def test_a_counter_that_is_compared_before_its_step_goes_around_once_more(self):
        function = function_of(".L_x_0:\nMOV R7, RZ\n.L_x_1:\nHMMA.16816.F32 R0, R4, R8, R0\nISETP.NE.AND P0, PT, R7, 0x6, PT\n"
                               "VIADD R7, R7, 0x2\n@P0 BRA `(.L_x_1)\n@P1 BRA `(.L_x_0)\nEXIT")
        self.assertEqual(figures_of(function).tensor, 4)

    def test_tensor_core_operations_that_are_switched_off_in_place_do_not_count(self):
        hot = figures_of(function_of(".L_x_0:\nHMMA.16816.F32 R0, R4, R8, R0\n@P1 HMMA.16816.F32 R0, R4, R8, R0\n"
                                     "@P0 BRA `(.L_x_0)\nEXIT"))
        self.assertEqual((hot.tensor, hot.per_tensor), (1, 3))


class Occupancy(unittest.TestCase):
    def test_is_what_the_programming_guide_says(self):
        self.assertEqual(figures.occupancy(threads=512, registers=64, shared_bytes=1024), 2)
        self.assertEqual(figures.occupancy(threads=512, registers=65, shared_bytes=1024), 1)
        self.assertEqual(figures.occupancy(threads=128, registers=168, shared_bytes=1024), 3)
        self.assertEqual(figures.occupancy(threads=128, registers=168, shared_bytes=100 * 1024), 2)
        self.assertEqual(figures.occupancy(threads=32, registers=8, shared_bytes=0), 32)


class Names(unittest.TestCase):
    def test_are_short(self):
        values = ["F32", "F16", "Bf16"]
        for long, short in {
            "void baton::VectorProductKernel<baton::VectorTile<(baton::CudaElement)2, 15, 4, 1, 1> >(baton::VectorArgs)":
                "VectorProductKernel<Bf16, 15, 4, 1, 1>",
            "void baton::ProductTermsKernel<(baton::VectorInput::Kind)1>(baton::TermArgs)": "ProductTermsKernel<1>",
            "baton::(anonymous namespace)::Nothing()": "Nothing",
            "void baton::ConvertKernel<__nv_bfloat16, 4>(float const*, unsigned long, __nv_bfloat16*)": "ConvertKernel<bf16, 4>",
        }.items():
            self.assertEqual(names.shorten(long, values), short)


class Budget(unittest.TestCase):
    def differences(self, **changes):
        return budget.differences({"K": kernel()}, {"K": kernel(**changes)})

    def test_a_growth_of_six_percent_fails_and_one_of_four_passes(self):
        for field in ("instructions", "moves", "narrow_ldg", "narrow_lds", "narrow_ldgsts"):
            value = getattr(kernel(), field)
            self.assertEqual(self.differences(**{field: value * 104 // 100}), [], field)
            self.assertIn("a loss", "\n".join(self.differences(**{field: value * 106 // 100})), field)
        self.assertEqual(self.differences(registers=67), [])
        self.assertEqual(self.differences(registers=68), ["K: registers: 64 -> 68 (+6.2 %): a loss"])

    def test_two_small_changes_that_together_cost_more_than_five_percent_fail(self):
        self.assertEqual(self.differences(instructions=208, stream_bytes=1968),
                         ["K: instructions for each streamed KB: 100 -> 108.228 (+8.2 %): a loss"])

    def test_fewer_blocks_on_a_multiprocessor_fail(self):
        self.assertEqual(self.differences(blocks=3), ["K: blocks on a multiprocessor: 4 -> 3 (-25.0 %): a loss"])

    def test_an_improvement_fails_until_the_line_says_so(self):
        self.assertEqual(self.differences(registers=56), ["K: registers: 64 -> 56 (-12.5 %): tighten the line"])

    def test_a_kernel_without_a_line_and_a_line_without_a_kernel_fail(self):
        self.assertEqual(budget.differences({"Old": kernel()}, {"New": kernel()}),
                         ["New: a kernel without a line", "Old: a line without a kernel"])

    def test_one_more_access_to_local_memory_in_a_loop_fails(self):
        old, new = {"K": kernel(local=100)}, {"K": kernel(local=101)}
        self.assertIn("a spill", budget.differences(old, new)[0])
        self.assertEqual(len(budget.spills_added(old, new)), 1)
        self.assertEqual(len(budget.spills_added({}, new)), 1)

    def test_fewer_of_them_fail_until_the_line_says_so(self):
        old, new = {"K": kernel(local=100)}, {"K": kernel(local=99)}
        self.assertIn("tighten", budget.differences(old, new)[0])
        self.assertEqual(budget.spills_added(old, new), [])

    def test_its_text_reads_as_it_was_written(self):
        kernels = {"A<bf16, 1>": kernel(), "B": kernel(tensor=0, stream_bytes=0)}
        text = budget.format_text("13.0.88", kernels)
        self.assertEqual(budget.parse(text), ("13.0.88", kernels))

    def test_a_line_that_contradicts_itself_is_malformed(self):
        text = budget.format_text("13.0.88", {"A": kernel()})
        for broken in (text.replace("100.0", " 90.0"), text.replace(" 256 ", " many "), text.replace("# nvcc 13.0.88", "# nvcc")):
            self.assertNotEqual(broken, text)
            self.assertRaises(budget.Malformed, budget.parse, broken)

    def test_code_of_another_compiler_is_not_compared(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(sass_gate.compare("13.0.88", {}, "13.1.5", {"K": kernel()}), sass_gate.SKIPPED)
        self.assertIn("nvcc 13.0.88", out.getvalue())


class Committed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        _, cls.kernels = budget.parse(budget.PATH.read_text(encoding="utf-8"))

    def test_the_page_is_what_the_script_makes_of_the_figures(self):
        self.assertEqual(model.PATH.read_text(encoding="utf-8"), model.page(self.kernels))

    def test_no_more_kernels_spill_than_ever(self):
        local = [figures.local for figures in self.kernels.values() if figures.local]
        self.assertEqual((len(local), sum(local)), (MOST_SPILLING_KERNELS, MOST_LOCAL_ACCESSES),
                         "lower the constants, never raise them")

    def test_the_model_says_which_kernel_it_misses(self):
        kernels = {name: figures for name, figures in self.kernels.items() if not name.startswith("DecodeAttention")}
        self.assertRaisesRegex(model.Unknown, "DecodeAttentionKernel<bf16, 128>", model.page, kernels)

    def test_the_model_takes_the_longest_of_three_times(self):
        step = model.Step(self.kernels, model.Q4_0, 16)
        for part in step.parts():
            self.assertEqual(part.seconds, max(part.issue_s, part.memory_s, part.tensor_s))
        self.assertEqual(step.dequantisation("down", 10**9).bound, "issue")

    def test_the_vector_kernel_for_these_rows_is_modelled(self):
        for rows in (1, 3):
            self.assertIn(f"Bf16, {rows},", model.Step(self.kernels, model.BF16, rows).vector_kernel())

    def test_products_are_modelled_by_the_kernel_that_the_backend_takes(self):
        for weights in (model.BF16, model.Q4_0):
            vector, two, parts, tiles = model.product_rows(weights)
            for rows, kernel in ((vector, "VectorProductKernel"), (two, "TwoRowKernel"), (parts, "InvariantPartsKernel"),
                                 (tiles if tiles > parts else 0, "TileProductKernel"), (tiles + 1, "cuBLASLt")):
                if rows == 0:
                    continue
                self.assertEqual(self.products_kernels(weights, rows), {kernel}, (weights.name, rows))

    def products_kernels(self, weights, rows):
        parts = model.Step(self.kernels, weights, rows).parts()
        return {part.kernel.partition("<")[0] for part in parts if part.name.startswith("product")}

    def test_a_product_too_small_for_tiles_is_modelled_by_parts(self):
        step = model.Step(self.kernels, model.Q4_0, 64)
        # Each block has at least two of 32 column tiles: 3 tiles by 16 parts are too few blocks, 4 are enough.
        self.assertEqual([step.takes_tiles(outputs, 4096) for outputs in (3 * 128, 4 * 128)], [False, True])
        # So many tiles that their columns are whole.
        self.assertTrue(step.takes_tiles(200 * 128, 128))

    def test_a_tile_multiplies_all_of_its_rows_with_each_weight(self):
        part = model.Step({"TileProductKernel<Q4_0, 64>": kernel(tensor=64, instructions=640)}, model.Q4_0, 40).tiles("down", 2**20)
        self.assertAlmostEqual(part.tensor_s, 2**20 * 64 * 2 / model.MMA_FLOPS)
        self.assertAlmostEqual(part.issue_s * model.MULTIPROCESSORS * model.CLOCK_HZ * model.INSTRUCTIONS_A_CLOCK, 2**20 / 32 * 10)

    def test_a_kernel_goes_through_the_weights_for_each_block_of_its_rows(self):
        kernels = {f"InvariantPartsKernel<Q4_0, {tiles}, 2, 2>": kernel(tensor=tiles) for tiles in (1, 4)}
        found = [model.Step(kernels, model.Q4_0, rows).parts_kernel() for rows in (8, 9, 32, 33, 65)]
        self.assertEqual([(name[27], blocks) for name, blocks in found], [("1", 1), ("4", 1), ("4", 1), ("4", 2), ("4", 3)])


if __name__ == "__main__":
    unittest.main()
