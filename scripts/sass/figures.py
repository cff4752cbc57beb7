"""What the gate counts of a kernel, most of it on the hot path.

The hot path is a way once around the hot loop: of all ways, one that streams the most bytes; among these, if the kernel has
tensor-core operations, one with the fewest instructions per tensor-core operation, otherwise one with the most float32
arithmetic, and among these the one with the fewest instructions. So rows that a batch may not have count as there, while
exceptions (a mask, a sum to be scaled, the end of a row) do not. A loop inside counts with its own hot path if the way leads
through it: as often as it goes around, where the code tells, and otherwise once. `inner` says how many loops of the latter kind
there are, and unless that is 0, instructions and whatever follows from them are fewer than what runs. The hot loop is the one whose hot path,
without the loops inside, has the most tensor-core operations, then the most streamed bytes, float32 arithmetic, instructions. A
kernel without a loop that streams or has tensor-core operations is measured from its beginning to its end.

Streamed is what the kernel has of the first of these: loads past the L1 cache (.NA, by which weights are read), asynchronous
copies (LDGSTS, by which attention reads the KV cache), other loads from global memory. Scales of quantised weights count as
instructions, not as bytes.
"""

from dataclasses import dataclass

from . import loops
from .listing import WIDE


@dataclass(frozen=True)
class Figures:
    threads: int  # the most of a block, as the kernel declares it
    registers: int
    blocks: int  # blocks that fit on a multiprocessor, by threads, registers and static shared memory
    local: int  # accesses to local memory, which are spills, within loops
    inner: int  # loops inside, through which the hot path leads, counted once around
    instructions: int  # on the hot path, as all that follow
    stream_bytes: int  # for a warp
    tensor: int  # tensor-core operations that always run; if none does, all
    moves: int
    wide_ldg: int  # 16 bytes a lane; narrow: fewer
    narrow_ldg: int
    wide_lds: int
    narrow_lds: int
    wide_ldgsts: int
    narrow_ldgsts: int

    @property
    def per_kb(self):
        """Instructions for each KB of streamed bytes."""
        return self.instructions * 1024 / self.stream_bytes if self.stream_bytes else 0.0

    @property
    def per_tensor(self):
        return self.instructions / self.tensor if self.tensor else 0.0

    @property
    def moves_per_tensor(self):
        return self.moves / self.tensor if self.tensor else 0.0


# A multiprocessor of compute capability 9.0 (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
REGISTERS, THREADS, MOST_BLOCKS, SHARED_BYTES = 65536, 2048, 32, 228 * 1024
KEPT_SHARED_BYTES = 1024  # what the device keeps of each block
WARP_REGISTERS_STEP = 256  # registers are allocated to a warp in such steps


def occupancy(threads, registers, shared_bytes):
    """Thread blocks on a multiprocessor. `shared_bytes` are a block's, with those that the device keeps."""
    warps = -(-threads // 32)
    warp_registers = -(-max(registers, 1) * 32 // WARP_REGISTERS_STEP) * WARP_REGISTERS_STEP
    # Each of the four schedulers has a quarter of the registers, and a warp stays with its scheduler.
    by_registers = REGISTERS // 4 // warp_registers * 4 // warps
    return min(MOST_BLOCKS, THREADS // (warps * 32), by_registers, SHARED_BYTES // max(shared_bytes, KEPT_SHARED_BYTES))


STREAMS = (lambda op: op.name == "LDG" and ".NA" in op.text, lambda op: op.name == "LDGSTS", lambda op: op.name == "LDG")


def streams_of(steps):
    """Which loads stream, of these instructions."""
    ops = {step.op for step in steps}
    return next((rule for rule in STREAMS if any(rule(op) for op in ops)), lambda op: False)


@dataclass(frozen=True)
class Work:
    """What a piece of code does, as far as the choice of the hot path looks at it."""

    stream_bytes: int
    tensor: int
    math: int
    instructions: int

    @staticmethod
    def of(steps, streamed):
        ops = [step.op for step in steps]
        return Work(sum(op.bytes for op in ops if streamed(op)), sum(op.is_tensor for op in ops), sum(op.is_math for op in ops),
                    len(ops))


class HotPath:
    def __init__(self, blocks):
        self.blocks = blocks
        outer = loops.loops_of(blocks)
        nodes = loops.reachable(blocks)
        in_loops = {node for loop in outer for node in loop.blocks}
        self.in_loops = [step for node in sorted(in_loops) for step in blocks[node].instructions]
        places = loops.every(outer)
        if not any(step.op.is_tensor or any(rule(step.op) for rule in STREAMS) for step in self.in_loops):
            places = [loops.Loop(0, nodes, outer)]  # the whole kernel
        self.streamed = streams_of([step for place in places for node in place.blocks for step in blocks[node].instructions])
        self.work = {node: Work.of(blocks[node].instructions, self.streamed) for node in nodes}
        ways = [self.around(place) for place in places]
        self.steps, _, self.inner = max(ways, key=lambda way: self._greatness(way[1]))

    def _greatness(self, steps):
        work = Work.of(steps, self.streamed)
        return work.tensor, work.stream_bytes, work.math, work.instructions

    def around(self, loop):
        """The instructions of the best way around the loop, those of them that are in no loop inside of unknown rounds, and the
        number of such loops that it leads through."""
        rounds = {min(inner.blocks): loops.rounds_of(self.blocks, inner) for inner in loop.inner}
        ways = {min(inner.blocks): self.around(inner) for inner in loop.inner}
        inside = {node: way[0] * (rounds[node] or 1) for node, way in ways.items()}
        own = {node: way[1] * rounds[node] if rounds[node] else [] for node, way in ways.items()}
        owner = {node: min(inner.blocks) for inner in loop.inner for node in inner.blocks}
        edges, ends = {}, set()
        for node in loop.blocks:
            at = owner.get(node, node)
            places = self.blocks[node].next
            edges.setdefault(at, set()).update(
                {owner.get(place, place) for place in places if place in loop.blocks and place != loop.header} - {at})
            if loop.header in places or not places:
                ends.add(at)
        work = {node: Work.of(inside[node], self.streamed) if node in inside else self.work[node] for node in edges}
        # What such a loop computes is no reason to pass through it.
        math = {node: Work.of(own[node], self.streamed).math if node in own else work[node].math for node in edges}
        start = owner.get(loop.header, loop.header)
        path = self._best(edges, ends, start, work, math)
        return ([step for node in path for step in inside.get(node, self.blocks[node].instructions)],
                [step for node in path for step in own.get(node, self.blocks[node].instructions)],
                sum((0 if rounds[node] else 1) + ways[node][2] for node in path if node in ways))

    def _best(self, edges, ends, start, work, math):
        if not any(piece.tensor for piece in work.values()):
            return loops.best_path(edges, ends, start, {
                node: (piece.stream_bytes, math[node], -piece.instructions) for node, piece in work.items()})
        # Dinkelbach's method: the path with the largest tensor - instructions * (ratio so far), until the ratio stays.
        tensor, instructions = 0, 1
        while True:
            path = loops.best_path(edges, ends, start, {
                node: (piece.stream_bytes, piece.tensor * instructions - piece.instructions * tensor)
                for node, piece in work.items()})
            now = sum(work[node].tensor for node in path), sum(work[node].instructions for node in path)
            if now[0] * instructions <= tensor * now[1]:
                return path
            tensor, instructions = now


def figures_of(function, threads, registers, shared_bytes):
    hot = HotPath(loops.blocks_of(function))
    steps = hot.steps
    tensor = sum(step.op.is_tensor and not step.predicated for step in steps) or sum(step.op.is_tensor for step in steps)

    def count(name, wide):
        return sum(step.op.name == name and (step.op.bytes == WIDE) == wide for step in steps)

    return Figures(
        threads=threads, registers=registers, blocks=occupancy(threads, registers, shared_bytes),
        local=sum(step.op.is_local for step in hot.in_loops), inner=hot.inner, instructions=len(steps),
        stream_bytes=sum(step.op.bytes for step in steps if hot.streamed(step.op)), tensor=tensor,
        moves=sum(step.op.is_move for step in steps), wide_ldg=count("LDG", True), narrow_ldg=count("LDG", False),
        wide_lds=count("LDS", True), narrow_lds=count("LDS", False), wide_ldgsts=count("LDGSTS", True),
        narrow_ldgsts=count("LDGSTS", False))
