"""The goals of the CPU engine against its peers: the rows of the table, how a ratio is formed, how it is judged."""

from dataclasses import dataclass, field
from statistics import median

BATON = "Baton"
LLAMA = "llama.cpp"
OPENVINO = "OpenVINO GenAI"


@dataclass(frozen=True)
class Test:
    """One figure of one model file: tokens/s of `name` (pp512: prefill of 512 tokens, tg64: 64 steps of decode)."""

    __test__ = False  # not a test case of pytest

    model: str  # weight type of the file, "Q4_1"; of random weights after their shape, "qwen3-0.6b Q8_0"
    name: str
    depth: int = 0  # tokens in the KV cache before the test
    batch: int = 1  # sequences computed together; the figure is their sum

    @property
    def shape(self) -> str:
        """The shape of random weights; empty for SmolLM2-135M, and for the 1B shape of the K-quants."""
        return self.model.rpartition(" ")[0]

    @property
    def weights(self) -> str:
        return self.model.rpartition(" ")[2]

    def __str__(self) -> str:
        at = f" at depth {self.depth}" if self.depth else ""
        return f"{self.model} {self.name}{at}" + (f", {self.batch} sequences" if self.batch > 1 else "")


@dataclass(frozen=True)
class Goal:
    """One row. With `peers` the ratio is our tokens/s over the best peer's; without, it is our share of a limit."""

    key: str  # name of the row in --rows
    what: str
    ours: Test
    at_least: float
    aim: float
    peers: dict[str, Test] = field(default_factory=dict)  # peer -> the test that it is compared by


@dataclass(frozen=True)
class Figure:
    """The median of one participant's samples, in the setting that gave it the highest."""

    value: float
    setting: str = ""  # such as "flash attention on"; empty for a participant with one setting


@dataclass(frozen=True)
class Row:
    goal: Goal
    ours: Figure | None  # None: not measured
    peers: dict[str, Figure]  # figures of the peers that can read this weight type
    ratio: float | None

    @property
    def verdict(self) -> str:
        if self.ratio is None:
            return "not measured"
        if self.ratio >= self.goal.aim:
            return "aim"
        return "yes" if self.ratio >= self.goal.at_least else "no"

    @property
    def met(self) -> bool:
        return self.verdict in ("yes", "aim")


class Samples:
    """What was measured: tokens/s (for ours, if `share` is set, parts of the machine's limit), one per turn."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str, Test, bool], list[float]] = {}

    def add(self, participant: str, setting: str, test: Test, value: float, share: bool = False) -> None:
        self.values.setdefault((participant, setting, test, share), []).append(value)

    def best(self, participant: str, test: Test, share: bool = False) -> Figure | None:
        figures = [
            Figure(median(values), setting)
            for (who, setting, what, is_share), values in self.values.items()
            if (who, what, is_share) == (participant, test, share)
        ]
        return max(figures, key=lambda figure: figure.value, default=None)


def judge(goal: Goal, samples: Samples) -> Row:
    """REQUIRES nothing: what is missing makes a row that is not met."""
    ours = samples.best(BATON, goal.ours, share=not goal.peers)
    found = {peer: samples.best(peer, test) for peer, test in goal.peers.items()}
    peers = {peer: figure for peer, figure in found.items() if figure is not None}
    if ours is None or (goal.peers and not peers):
        return Row(goal, ours, peers, None)
    ratio = ours.value / max(figure.value for figure in peers.values()) if peers else ours.value
    return Row(goal, ours, peers, ratio)


def make_goals() -> list[Goal]:
    q4_1 = Test("Q4_1", "pp512")
    long_prompt = Test("Q4_1", "pp2048")
    decode = Test("Q4_1", "tg64")
    deep = Test("Q4_1", "tg64", depth=4096)
    batched = Test("Q4_1", "tg64", batch=16)
    goals = [
        Goal("prefill", "Q4_1: prefill, 512 tokens, same file", q4_1, 5, 9, {LLAMA: q4_1}),
        Goal("prefill-openvino", "Q4_1: prefill, 512 tokens, against Q8_0", q4_1, 1.2, 1.9,
             {OPENVINO: Test("Q8_0", "pp512")}),
        Goal("prefill-2048", "Q4_1: prefill, 2048 tokens, same file", long_prompt, 5, 7, {LLAMA: long_prompt}),
        Goal("decode", "Q4_1: decode, 64 tokens, same file", decode, 1.7, 2.3, {LLAMA: decode}),
        Goal("decode-4-bit", "Q4_1: decode, 64 tokens, against Q4_0", decode, 1.3, 1.8, {LLAMA: Test("Q4_0", "tg64")}),
        Goal("decode-4096", "Q4_1: decode at depth 4096, same file", deep, 2.2, 3, {LLAMA: deep}),
        Goal("decode-batch", "Q4_1: decode, 16 sequences at once, same file", batched, 3, 6, {LLAMA: batched}),
        Goal("bandwidth", "Q4_1: decode, bytes read of the read bandwidth", decode, 0.70, 0.88),
        Goal("gemm", "Q4_1: products of 512 rows, of a register-only loop", Test("Q4_1", "gemm512"), 0.65, 0.85),
    ]
    for model in ("Q8_0", "Q4_0", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "F16", "BF16"):
        prefill, decode = FILE_GOALS[model]
        for name, tokens, test, (at_least, aim) in (
            ("prefill", "512 tokens", Test(model, "pp512"), prefill),
            ("decode", "64 tokens", Test(model, "tg64"), decode),
        ):
            shape = ", 1B shape" if model.endswith("_K") else ""
            goals.append(Goal(f"{model.lower()}-{name}", f"{model}{shape}: {name}, {tokens}", test, at_least, aim,
                              {LLAMA: test, OPENVINO: test}))
    return goals


# The weight types that each shape of `baton bench engine --shape` is measured with. Q4_K's blocks do not divide
# gemma-3-1b's width.
SHAPES = {
    "qwen3-0.6b": ("Q8_0", "Q4_0", "Q4_K", "F16", "BF16"),
    "gemma-3-1b": ("Q8_0", "Q4_0", "F16", "BF16"),
    "llama-3.2-1b": ("Q8_0", "Q4_0", "Q4_K", "Q6_K", "F16", "BF16"),
    "qwen3-30b-a3b-4-layers": ("Q8_0", "Q4_0", "Q4_K"),
}
EXPERTS = ("qwen3-30b-a3b-4-layers",)
# "At least" and aim of prefill, then of decode.
SHAPE_GOALS = {
    "Q8_0": ((2, 3), (1.1, 1.5)),
    "Q4_0": ((2, 3), (1.1, 1.5)),
    "Q4_K": ((1.3, 2), (1.2, 1.5)),
    "Q6_K": ((1.67, 2), (1.29, 1.5)),
    "F16": ((1.3, 1.5), (0.95, 1.1)),
    "BF16": ((1.3, 1.5), (0.95, 1.1)),
}
EXPERT_GOALS = ((1.5, 2), (1.2, 1.5))
# The same of the rows without a shape.
FILE_GOALS = dict.fromkeys(("Q8_0", "Q4_0", "Q5_0", "Q5_1", "Q5_K"), ((0.95, 1.5), (0.95, 1.5)))
FILE_GOALS |= {"Q4_K": SHAPE_GOALS["Q4_K"], "Q6_K": SHAPE_GOALS["Q6_K"]}
FILE_GOALS |= dict.fromkeys(("F16", "BF16"), ((0.5, 0.8), (0.95, 1.1)))


def make_shape_goals(shapes: list[str]) -> list[Goal]:
    """The rows of --shape: random weights in the shapes of known models, beside llama.cpp on the same file."""
    goals = []
    for shape in shapes:
        for weights in SHAPES[shape]:
            model = f"{shape} {weights}"
            limits = EXPERT_GOALS if shape in EXPERTS else SHAPE_GOALS[weights]
            for (name, test, tokens), (at_least, aim) in zip(
                (("prefill", "pp512", 512), ("decode", "tg64", 64)), limits, strict=True
            ):
                ours = Test(model, test)
                goals.append(Goal(f"{shape}-{weights.lower()}-{name}", f"{model}: {name}, {tokens} tokens", ours,
                                  at_least, aim, {LLAMA: ours}))
    return goals


def _cell(figure: Figure | None, is_share: bool = False) -> str:
    if figure is None:
        return "-"
    if is_share:
        return f"{figure.value:.2f}"
    setting = f" ({figure.setting})" if figure.setting else ""
    return f"{figure.value:,.0f}{setting}"


def format_table(rows: list[Row]) -> str:
    """A Markdown table; tokens/s, and a ratio for each row."""
    lines = [
        f"| what | {BATON} | {LLAMA} | {OPENVINO} | ratio | at least | aim | met |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        lines.append(
            f"| {row.goal.what} | {_cell(row.ours, not row.goal.peers)} | {_cell(row.peers.get(LLAMA))} "
            f"| {_cell(row.peers.get(OPENVINO))} | {ratio} | {row.goal.at_least:g} | {row.goal.aim:g} "
            f"| {row.verdict} |"
        )
    return "\n".join(lines) + "\n"
