"""The words and tables of docs/benchmarks/gpu_model.md."""

from . import model

# What the best of others do on the same hardware, by their publications or by arithmetic from them, in ms; None: no anchor.
ANCHORS = {
    "decode, batch 1, bf16": (3.9, "0.90 of copy bandwidth, which persistent kernels reach; vLLM about 4.7"),
    "decode, batch 1, q4_0": (1.6, "dp4a, or mma on codes: about one instruction a weight"),
    "decode, batch 16, bf16": (5.3, "the products by cuBLASLt"),
    "decode, batch 16, q4_0": (2.2, "Marlin, 2.0 to 2.3"),
    "decode, batch 64, bf16": (6.9, "vLLM, 1k of context"),
    "decode, batch 64, bf16: attention": (2.25, "FlashInfer, 0.90 of copy bandwidth or more"),
    "prefill, 8,192 tokens, bf16: attention": (28.7, "FlashAttention-3, 614 TFLOP/s; FlashAttention-2 about 50"),
}
LEAST_SHARE = 0.005  # smaller parts are summed up


def page(steps):
    """`steps`: (name, parts of it)."""
    return "\n".join([INTRODUCTION.format(
        multiprocessors=model.MULTIPROCESSORS, clock=model.CLOCK_HZ / 1e9, issue=model.INSTRUCTIONS_A_CLOCK,
        copy=model.COPY_BYTES_A_SECOND / 1e12, mma=model.MMA_FLOPS / 1e12, library=model.LIBRARY_FLOPS / 1e12,
        context=model.CONTEXT), *_summary(steps), "", *(line for step in steps for line in _table(*step))])


def _ms(seconds):
    return f"{seconds * 1e3:.3g}" if seconds >= 5e-7 else "0"


def _summary(steps):
    yield "| step, or part of it | model, ms | bound by issue / memory / tensor cores | anchor, ms | the anchor is |"
    yield "|---|---|---|---|---|"
    attention = [(f"{name}: attention", [part for part in parts if part.name == "attention"]) for name, parts in steps]
    for name, parts in [*steps, *(item for item in attention if item[0] in ANCHORS)]:
        total = sum(part.seconds for part in parts)
        shares = " / ".join(f"{100 * sum(part.seconds for part in parts if part.bound == bound) / total:.0f} %"
                            for bound in ("issue", "memory", "tensor"))
        anchor, words = ANCHORS.get(name, ("", ""))
        yield f"| {name} | {_ms(total)} | {shares} | {anchor} | {words} |"


def _table(name, parts):
    total = sum(part.seconds for part in parts)
    yield f"## {name[0].upper()}{name[1:]}: {_ms(total)} ms in the model"
    yield ""
    yield "| part | kernel | issue, ms | memory, ms | tensor cores, ms | bound | share |"
    yield "|---|---|---|---|---|---|---|"
    rest = [part for part in parts if part.seconds < LEAST_SHARE * total]
    for part in sorted(parts, key=lambda part: -part.seconds):
        if part not in rest:
            yield (f"| {part.name} | `{part.kernel}` | {_ms(part.issue_s)} | {_ms(part.memory_s)} | {_ms(part.tensor_s)} "
                   f"| {part.bound} | {100 * part.seconds / total:.0f} % |")
    if rest:
        yield f"| {'; '.join(part.name for part in rest)} | | | | | | {100 * sum(part.seconds for part in rest) / total:.1f} % |"
    yield ""


INTRODUCTION = """\
# What the kernels' code lets one expect of a GPU

Nothing on this page is a measurement. It is a model, computed from the machine code of the kernels; [gpu.md](gpu.md) is for what was
measured, and says [how far a GPU was from this model](gpu.md#the-model-beside-it). `scripts/sass_gate.py --write` writes the page,
and a test holds it equal to what that script makes of the committed figures in `tests/gpu/sass_budget.txt`.

The model takes a step apart into its kernels. A kernel takes the longest of three times:

- issue: the instructions of the kernel's hot path (`scripts/sass/figures.py`), for all its bytes or tensor-core operations;
- memory: weights, KV cache and activations, each once between the kernel and the memory;
- tensor cores: the arithmetic.

What it supposes:

- an H200: {multiprocessors} multiprocessors at {clock} GHz, memory that is copied at {copy} TB/s, and read at 92 % of that;
- a multiprocessor issues {issue} of at most 4 instructions a clock;
- `mma.sync` does at most {mma:.0f} TFLOP/s, which is 62 % of `wgmma`'s peak (Luo et al., arXiv 2501.12084);
- cuBLASLt does {library:.0f} TFLOP/s, or reads BF16 weights at the speed of memory; that is an assumption about another's code;
- Llama 3.1 8B, a KV cache in bf16, {context:,} tokens of context in each sequence of a decode step, one prompt of 8,192 tokens in
  one chunk;
- each product by the kernel that `common/backend/cuda/product/product_dispatch.h` names;
- weights are read from memory once, also by a kernel that goes through them for each of several blocks of rows; weights that
  were converted to bf16 for cuBLASLt are read from memory again.

It leaves out what makes a real step longer: gaps between kernels, the end of a kernel when only some of its blocks are left,
latency that too few bytes in flight do not hide, conflicts in shared memory and the rate of its pipe (near its limit in prefill
attention), the rate of the L2 cache (a block of `InvariantPartsKernel` has 16 outputs, so that at 32
rows the rows' input is more bytes there than the weights; thread blocks that share a tile's columns leave their sums there), the merge
of a long sequence's parts in decode attention, embedding, and sampling. Shares are of the sum of the parts.

The anchors are what others reach on the same hardware, as published or by arithmetic from that. Nobody measured them here.
"""
