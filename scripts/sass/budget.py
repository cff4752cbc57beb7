"""The committed figures, one line for each kernel (tests/gpu/sass_budget.txt), and what differs from them."""

import pathlib
import re

from . import cubins
from .figures import Figures

PATH = pathlib.Path(__file__).resolve().parents[2] / "tests/gpu/sass_budget.txt"
TOLERANCE = 0.05

HEAD = """\
# What every kernel may cost: scripts/sass_gate.py compares the build's kernels with these lines, and --write writes them anew.
# thr, regs, blk: threads of a block, registers of a thread, blocks on a multiprocessor (by both, and static shared memory).
# local: accesses to local memory (spills) within loops. They may become fewer, never more.
# inner: loops inside the hot path. All of one counts once, however often it goes around, so that the rest is too little.
# The rest is counted once around the hot path (scripts/sass/figures.py says what that is): instructions; streamed bytes of a
# warp; tensor-core operations; moves; instructions for each KB; instructions, and moves, for each tensor-core operation; loads of
# 16 bytes a lane + narrower ones from global memory (LDG), from shared memory (LDS), from global to shared memory (LDGSTS).
"""
COLUMNS = ("thr", "regs", "blk", "local", "inner", "instr", "bytes", "tensor", "moves", "/KB", "/tens", "mov/t", "LDG", "LDS", "LDGSTS")
WIDTHS = (5, 5, 4, 6, 6, 6, 6, 7, 6, 7, 6, 6, 8, 8, 8)
COMPILER = re.compile(rf"# nvcc ([\d.]+), {cubins.ARCHITECTURE}$", re.MULTILINE)

# What is compared: its name, and whether more of it is worse (+1), less (-1), or either only needs a new line (0).
COMPARED = (
    ("registers", "registers", 1), ("threads", "threads of a block", 0), ("blocks", "blocks on a multiprocessor", -1),
    ("inner", "loops inside the hot path", 1),
    ("instructions", "instructions of the hot path", 1), ("stream_bytes", "streamed bytes of the hot path", 0),
    ("tensor", "tensor-core operations of the hot path", 0), ("moves", "moves of the hot path", 1),
    ("per_kb", "instructions for each streamed KB", 1), ("per_tensor", "instructions for each tensor-core operation", 1),
    ("moves_per_tensor", "moves for each tensor-core operation", 1),
    ("wide_ldg", "LDG of 16 bytes", 0), ("narrow_ldg", "LDG narrower than 16 bytes", 1),
    ("wide_lds", "LDS of 16 bytes", 0), ("narrow_lds", "LDS narrower than 16 bytes", 1),
    ("wide_ldgsts", "LDGSTS of 16 bytes", 0), ("narrow_ldgsts", "LDGSTS narrower than 16 bytes", 1))


class Malformed(Exception):
    """The budget's text is not what this module writes."""


def format_line(name, f, width):
    cells = (f.threads, f.registers, f.blocks, f.local, f.inner, f.instructions, f.stream_bytes, f.tensor, f.moves,
             f"{f.per_kb:.1f}", f"{f.per_tensor:.2f}", f"{f.moves_per_tensor:.2f}", f"{f.wide_ldg}+{f.narrow_ldg}",
             f"{f.wide_lds}+{f.narrow_lds}", f"{f.wide_ldgsts}+{f.narrow_ldgsts}")
    return name.ljust(width) + "".join(str(cell).rjust(size) for cell, size in zip(cells, WIDTHS))


def format_text(compiler, kernels):
    width = max((len(name) for name in kernels), default=0) + 1
    title = "# kernel".ljust(width) + "".join(column.rjust(size) for column, size in zip(COLUMNS, WIDTHS))
    lines = [format_line(name, kernels[name], width) for name in sorted(kernels)]
    return "\n".join([f"{HEAD}# nvcc {compiler}, {cubins.ARCHITECTURE}", title, *lines]) + "\n"


def parse(text):
    """(version of nvcc, Figures by kernel). Raises Malformed."""
    compiler = COMPILER.search(text)
    if compiler is None:
        raise Malformed(f"no line '# nvcc VERSION, {cubins.ARCHITECTURE}'")
    kernels = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("#") or not line.strip():
            continue
        cells = line.rsplit(maxsplit=len(COLUMNS))
        try:
            counts = [int(cell) for cell in cells[1:10]]
            widths = [int(part) for cell in cells[-3:] for part in cell.split("+")]
            kernels[cells[0].strip()] = Figures(*counts, *widths)
        except (ValueError, TypeError) as error:
            raise Malformed(f"line {number} does not have the columns: kernel, {', '.join(COLUMNS)}") from error
    if format_text(compiler.group(1), kernels) != text:
        raise Malformed("its lines are not sorted, a column that follows from others is wrong, or its head is another's")
    return compiler.group(1), kernels


def differences(old, new):
    """What the kernels `new` do that the budget `old` does not allow, one line each; both by name."""
    found = [f"{name}: a kernel without a line" for name in sorted(set(new) - set(old))]
    found += [f"{name}: a line without a kernel" for name in sorted(set(old) - set(new))]
    for name in sorted(set(old) & set(new)):
        found += _kernel_differences(name, old[name], new[name])
    return found


def _kernel_differences(name, old, new):
    if new.local > old.local:
        yield f"{name}: {new.local} accesses to local memory in loops, {old.local} are allowed: a spill"
    elif new.local < old.local:
        yield f"{name}: {new.local} accesses to local memory in loops, {old.local} are allowed: tighten the line"
    for field, words, worse in COMPARED:
        before, now = getattr(old, field), getattr(new, field)
        if abs(now - before) <= TOLERANCE * before:
            continue
        change = f"{100 * (now - before) / before:+.1f} %" if before else "new"
        verdict = "a loss" if worse and (now > before) == (worse > 0) else "tighten the line" if worse else "another loop"
        yield f"{name}: {words}: {before:.6g} -> {now:.6g} ({change}): {verdict}"


def spills_added(old, new):
    """What may not be written into the budget: more accesses to local memory than before."""
    return [f"{name}: {figures.local} accesses to local memory in loops, {old[name].local if name in old else 0} before"
            for name, figures in sorted(new.items()) if figures.local > (old[name].local if name in old else 0)]
