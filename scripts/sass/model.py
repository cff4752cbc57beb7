"""What the committed figures let one expect of a step of an 8B model on an H200: docs/benchmarks/gpu_model.md.

A kernel takes at least the longest of three times: to issue its instructions, to read its bytes from memory, to do its tensor-core
operations. Its instructions are those of the hot path for each KB that it streams, or for each tensor-core operation.
"""

import pathlib
import re
from dataclasses import dataclass

from . import model_text

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATH = ROOT / "docs/benchmarks/gpu_model.md"
DISPATCH = ROOT / "common/backend/cuda/product/product_dispatch.h"
TILES = ROOT / "common/backend/cuda/product/tiles/tile_product_launch.h"
DEQUANTISER = ROOT / "common/backend/cuda/product/library/dequantise.cu"

# An H200, and what the model supposes of it.
MULTIPROCESSORS = 132
CLOCK_HZ = 1.755e9
INSTRUCTIONS_A_CLOCK = 2.5  # issued by a multiprocessor, of 4 possible
COPY_BYTES_A_SECOND = 4.25e12
READ_BYTES_A_SECOND = 0.92 * COPY_BYTES_A_SECOND
MMA_FLOPS = 620e12  # what mma.sync does at most
LIBRARY_FLOPS = 700e12  # what cuBLASLt does in large products
TILE_OUTPUTS, TILE_COLUMNS = 128, 128  # those of TileProductKernel
MMA_FLOP = 2 * 16 * 8 * 16  # one tensor-core operation, m16n8k16


class Unknown(Exception):
    """The model needs a kernel that the budget does not have."""


@dataclass(frozen=True)
class Shape:
    """Llama 3.1 8B."""

    layers: int = 32
    hidden: int = 4096
    feed_forward: int = 14336
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    vocabulary: int = 128256

    @property
    def kv_columns(self):
        return self.kv_heads * self.head_dim

    def products(self):
        """(name, weights of a layer or of the whole model, how often)."""
        return [("q, k, v", self.hidden * (self.hidden + 2 * self.kv_columns), self.layers),
                ("attention's output", self.hidden * self.hidden, self.layers),
                ("gate, up", self.hidden * 2 * self.feed_forward, self.layers),
                ("down", self.hidden * self.feed_forward, self.layers),
                ("logits", self.hidden * self.vocabulary, 1)]


@dataclass(frozen=True)
class Weights:
    name: str  # as in the kernels' names
    bytes: float  # in memory, for a weight
    streamed: float  # those that come in loads of 16 bytes

    @property
    def quantised(self):
        return self.bytes < 2


BF16 = Weights("Bf16", 2, 2)
Q4_0 = Weights("Q4_0", 18 / 32, 0.5)
CONTEXT = 1024  # keys of each sequence in a decode step
SEGMENT = 256  # keys of a thread block of decode attention
KEY_BYTES = 4  # K and V in bf16, for each column


@dataclass(frozen=True)
class Part:
    """Launches of one kernel in a step, together."""

    name: str
    kernel: str
    issue_s: float
    memory_s: float
    tensor_s: float

    @property
    def seconds(self):
        return max(self.issue_s, self.memory_s, self.tensor_s)

    @property
    def bound(self):
        return {self.issue_s: "issue", self.memory_s: "memory", self.tensor_s: "tensor"}[self.seconds]


class Step:
    """The parts of a step of `rows` rows. `figures` are those of the budget."""

    def __init__(self, figures, weights, rows, prompt=False, shape=Shape()):
        self.figures, self.weights, self.rows, self.prompt, self.shape = figures, weights, rows, prompt, shape

    def parts(self):
        vector, two, parts, tiles = product_rows(self.weights)
        products = (self.vector_products() if self.rows <= vector else self.two_row_products() if self.rows <= two
                    else self.parts_products() if self.rows <= parts else self.tile_products() if self.rows <= tiles
                    else self.library_products())
        return [*products, self.attention()] if self.appends() else [*products, self.rotation(), self.attention()]

    def appends(self):
        """Whether attention rotates and appends itself (AppendAttentionTakes)."""
        blocks = self.rows * CONTEXT // SEGMENT * self.shape.kv_heads
        return not self.prompt and blocks <= 3 * MULTIPROCESSORS

    def kernel(self, name):
        if name not in self.figures:
            raise Unknown(f"the model of docs/benchmarks/gpu_model.md needs {name}, which has no line (scripts/sass/model.py)")
        return self.figures[name]

    def own(self, name, kernel, instructions, memory_bytes, tensor=0.0):
        return Part(name, kernel, instructions / (MULTIPROCESSORS * CLOCK_HZ * INSTRUCTIONS_A_CLOCK),
                    memory_bytes / READ_BYTES_A_SECOND, tensor * MMA_FLOP / MMA_FLOPS)

    def streaming(self, name, kernel, streamed_bytes, memory_bytes):
        """A kernel that streams the given bytes."""
        f = self.kernel(kernel)
        ways = streamed_bytes / f.stream_bytes
        return self.own(name, kernel, ways * f.instructions, memory_bytes, ways * f.tensor)

    def vector_products(self):
        kernel = self.vector_kernel()
        for name, count, times in self.shape.products():
            weights = count * times
            yield self.streaming(f"product: {name}", kernel, weights * self.weights.streamed, weights * self.weights.bytes)
        blocks = 2 if self.rows == 1 else 1
        if self.rows * self.shape.feed_forward * blocks > 16384:  # MakeGatesFirst
            yield self.gates("GatedKernel<float, 4>", 4)

    def vector_kernel(self):
        """The one for the fewest rows that takes these."""
        names = re.compile(rf"VectorProductKernel<{self.weights.name}, (\d+), ")
        rows = {int(match.group(1)): name for name in self.figures if (match := names.match(name))}
        fitting = [most for most in rows if most >= self.rows]
        if not fitting:
            raise Unknown(f"no VectorProductKernel<{self.weights.name}, ...> takes {self.rows} rows (scripts/sass/model.py)")
        return rows[min(fitting)]

    def two_row_products(self):
        kernel = next((name for name in self.figures if name.startswith(f"TwoRowKernel<{self.weights.name}, ")), None)
        if kernel is None:
            raise Unknown(f"no TwoRowKernel<{self.weights.name}, ...> (scripts/sass/model.py)")
        for name, count, times in self.shape.products():
            weights = count * times
            yield self.streaming(f"product: {name}", kernel, weights * self.weights.streamed, weights * self.weights.bytes)
        yield from self.term_inputs()

    def parts_products(self):
        for name, count, times in self.shape.products():
            yield self.parts_product(name, count * times)
        yield from self.term_inputs()

    def parts_product(self, name, weights):
        kernel, row_blocks = self.parts_kernel()
        return self.streaming(f"product: {name}", kernel, row_blocks * weights * self.weights.streamed, weights * self.weights.bytes)

    def tile_products(self):
        for name, count, times in self.shape.products():
            columns = self.shape.feed_forward if name == "down" else self.shape.hidden
            product = self.tiles if self.takes_tiles(count // columns, columns) else self.parts_product
            yield product(name, count * times)
        yield from self.term_inputs()

    def takes_tiles(self, outputs, columns):
        """Whether there are enough thread blocks, after few tiles' columns are divided (LaunchTiles)."""
        tiles = -(-outputs // TILE_OUTPUTS) * -(-self.rows // self.tile_rows())
        wanted, least = tile_division()
        column_tiles = -(-columns // TILE_COLUMNS)
        parts = max(1, min(wanted * MULTIPROCESSORS // tiles, column_tiles // least))
        blocks = tiles * -(-column_tiles // -(-column_tiles // parts))
        return 5 * blocks >= 2 * MULTIPROCESSORS

    def tile_rows(self):
        return 32 if self.rows <= 32 else 64

    def tiles(self, name, weights):
        rows = self.tile_rows()
        kernel = f"TileProductKernel<{self.weights.name}, {rows}>"
        tensor = weights * -(-self.rows // rows) * rows / (MMA_FLOP / 2)
        return self.own(f"product: {name}", kernel, tensor * self.kernel(kernel).per_tensor, weights * self.weights.bytes, tensor)

    def parts_kernel(self):
        """The one for the fewest rows that takes these, or else the most, and how many blocks of its rows these are."""
        names = re.compile(rf"InvariantPartsKernel<{self.weights.name}, (\d+), \d+, \d+(?:, 1)?>")  # kernels for an input of one term
        tiles = {int(match.group(1)): name for name in self.figures if (match := names.fullmatch(name))}
        if not tiles:
            raise Unknown(f"no InvariantPartsKernel<{self.weights.name}, ...> for one term (scripts/sass/model.py)")
        count = min((count for count in tiles if 8 * count >= self.rows), default=max(tiles))
        return tiles[count], -(-self.rows // (8 * count))

    def library_products(self):
        for name, count, times in self.shape.products():
            last = self.prompt and name == "logits"  # only the last row of a prompt has logits
            if self.weights.quantised:
                yield self.dequantisation(name, count * times)
            flops = 2 * count * times * (1 if last else self.rows)
            yield Part(f"product: {name}", "cuBLASLt", 0.0, count * times * 2 / READ_BYTES_A_SECOND, flops / LIBRARY_FLOPS)
        yield from self.inputs("NormRowsKernel<bf16, 4>", "GatedKernel<bf16, 4>", "ConvertKernel<bf16, 4>")

    def term_inputs(self):
        return self.inputs("NormTermsKernel<4>", "ProductTermsKernel<2>", "ProductTermsKernel<0>")

    def inputs(self, norms, gates, contexts):
        """What makes the products' inputs, by the kernels of these names; they are written in bf16."""
        shape = self.shape
        size = (2 * shape.layers + 1) * self.rows * shape.hidden
        # A row is read twice, the second time with the gain; from memory once.
        yield self.streaming("norms", norms, size * 4 * 2, size * (4 + 2))
        yield self.gates(gates, 2)
        size = shape.layers * self.rows * shape.hidden
        yield self.streaming("contexts to bf16", contexts, size * 4, size * (4 + 2))

    def dequantisation(self, name, count):
        kernel = f"DequantiseKernel<{self.weights.name}, bf16>"
        around = count / (dequantised_weights() * 32)
        return self.own(f"to bf16: {name}", kernel, around * self.kernel(kernel).instructions, count * self.weights.bytes)

    def gates(self, kernel, written_bytes):
        size = self.shape.layers * self.rows * self.shape.feed_forward
        return self.streaming("gates", kernel, size * 8, size * (8 + written_bytes))

    def rotation(self):
        shape = self.shape
        size = shape.layers * self.rows * (shape.hidden + 2 * shape.kv_columns)
        kernel = "RotateAndAppendKernel<bf16, false, 4>"
        # A lane has eight elements; the queries are written back, keys and values go into the cache.
        return self.own("rotation, append", kernel, size / (8 * 32) * self.kernel(kernel).instructions, size * (4 + 4))

    def attention(self):
        shape = self.shape
        if not self.prompt:
            read = shape.layers * self.rows * CONTEXT * shape.kv_columns * KEY_BYTES
            kernel = "AppendAttentionKernel" if self.appends() else "DecodeAttentionKernel"
            return self.streaming("attention", f"{kernel}<bf16, {shape.head_dim}>", read, read)
        kernel = f"PrefillAttentionKernel<bf16, {shape.head_dim}>"
        f = self.kernel(kernel)
        # Two products, each over half of the square of all rows by all keys.
        tensor = shape.layers * 2 * 2 * shape.heads * shape.head_dim * (self.rows * self.rows / 2) / MMA_FLOP
        return self.own("attention", kernel, tensor * f.per_tensor, shape.layers * self.rows * shape.kv_columns * KEY_BYTES, tensor)


def product_rows(weights):
    """The most rows that the vector kernel takes with such weights, the one for two rows, the parts kernel, and tiles."""
    name = "kQuantisedRows" if weights.quantised else "kHalfRows"
    pattern = rf"{name} = \{{\.vector = (\d+), \.two = (\d+), \.parts = (\d+), \.tiles = (\d+)\}};"
    return tuple(map(int, _found(pattern, DISPATCH)))


def tile_division():
    """The thread blocks wanted for each multiprocessor, and the fewest column tiles of one."""
    return tuple(int(_found(rf"{name} = (\d+);", TILES)[0]) for name in ("kTileBlocksWanted", "kLeastPartTiles"))


def dequantised_weights():
    """The weights of a lane once around the loop of DequantiseKernel."""
    return int(_found(r"kLaneColumns = (\d+);", DEQUANTISER)[0])


def _found(pattern, path):
    match = re.search(pattern, path.read_text(encoding="utf-8"))
    if match is None:
        raise Unknown(f"{path.relative_to(ROOT)} has no {pattern} (scripts/sass/model.py)")
    return match.groups()


def page(figures):
    """The text of docs/benchmarks/gpu_model.md."""
    steps = []
    for batch in (1, 4, 8, 12, 16, 32, 64):
        for weights in (BF16, Q4_0):
            steps.append((f"decode, batch {batch}, {weights.name.lower()}", list(Step(figures, weights, batch).parts())))
    for weights in (BF16, Q4_0):
        steps.append((f"prefill, 8,192 tokens, {weights.name.lower()}", list(Step(figures, weights, 8192, prompt=True).parts())))
    return model_text.page(steps)
