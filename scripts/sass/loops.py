"""The control flow of a function: basic blocks, loops, and the best way around a loop.

A loop is a strongly connected part of the blocks; its header is where it is entered; without the edges back to the header it
falls apart into the loops inside it. So whatever leads back to a header is a back edge, and a loop that is entered at two places
is one too. Slow paths do not count: what only BRA.DIV reaches, which a warp takes when its lanes have gone apart, and functions
that are called.
"""

import re
from dataclasses import dataclass, field

from . import listing

BARRIER = re.compile(r"B\d+")
# A loop with a constant number of rounds: compare(counter, bound), counter += step, and before the loop counter = first.
COMPARE = re.compile(r"(?P<predicate>U?P\d), U?PT, (?P<counter>U?R\d+)(?:\.reuse)?, (?P<bound>0x[0-9a-f]+), U?PT")
STEP = re.compile(r"U?R\d+, (?P<counter>U?R\d+)(?:\.reuse)?, (?P<step>0x[0-9a-f]+)(?:, U?RZ)?")
COPY = re.compile(r"(?P<predicate>P\d), PT, PT, PT, (?P<of>UP\d), 0x80, 0x0")  # PLOP3: of a predicate that all lanes share
WRITTEN = re.compile(r"(U?R\d+)\b")
ZERO = {("IMAD.MOV.U32", "RZ, RZ, RZ"), ("MOV", "RZ"), ("UMOV", "URZ"), ("IMAD.MOV.U32", "RZ, RZ, 0x0"), ("MOV", "0x0"), ("UMOV", "0x0"),
        ("HFMA2.MMA", "-RZ, RZ, 0, 0"), ("HFMA2", "-RZ, RZ, 0, 0")}


@dataclass
class Block:
    instructions: list[listing.Instruction]
    next: list[int] = field(default_factory=list)


@dataclass
class Loop:
    header: int
    blocks: set[int]
    inner: list["Loop"]


def blocks_of(function):
    """The basic blocks, the entry first, with the edges of the likely paths."""
    code = function.instructions
    leaders = {0, *function.labels.values()}
    leaders.update(i + 1 for i, step in enumerate(code) if step.op.name in (*listing.BRANCHES, "EXIT", "RET", "BSYNC"))
    starts = sorted(start for start in leaders if start < len(code))
    index = {start: number for number, start in enumerate(starts)}
    meets = _meeting_places(function)
    blocks = []
    for start, end in zip(starts, [*starts[1:], len(code)]):
        last = code[end - 1]
        places = [meets[end - 1]] if end - 1 in meets else _jumps(function, last)
        if last.goes_on() and end - 1 not in meets:
            places.append(end)
        blocks.append(Block(code[start:end], sorted({index[place] for place in places if place in index})))
    return blocks


def _jumps(function, step):
    if step.op.name not in listing.BRANCHES or step.op.text == "BRA.DIV":
        return []
    return [function.labels[label] for label in step.targets() if label in function.labels]


def _meeting_places(function):
    """Index of a BSYNC -> where the threads go on that have met there. The BSSY before it names the place, which mostly is
    the next instruction."""
    meets, named = {}, {}
    for at, step in enumerate(function.instructions):
        if step.op.name == "BSSY":
            named.setdefault(BARRIER.match(step.operands).group(), []).append(function.labels.get(step.targets()[0], at + 1))
        elif step.op.name == "BSYNC":
            places = named.get(BARRIER.match(step.operands).group(), [])
            meets[at] = at + 1 if at + 1 in places or not places else places[-1]
    return meets


def reachable(blocks):
    seen, open_ends = {0}, [0]
    while open_ends:
        for place in blocks[open_ends.pop()].next:
            if place not in seen:
                seen.add(place)
                open_ends.append(place)
    return seen


def loops_of(blocks):
    """The outermost loops, each with those inside it."""
    return _loops(blocks, reachable(blocks), set())


def every(loops):
    """The loops and all inside them."""
    return [found for loop in loops for found in (loop, *every(loop.inner))]


def rounds_of(blocks, loop):
    """How often the loop goes around, if its code shows it: it ends at one place, where a counter that begins at 0 and has one step
    has reached a constant. None otherwise."""
    ends = [node for node in loop.blocks if loop.header in blocks[node].next]
    steps = [step for node in sorted(loop.blocks) for step in blocks[node].instructions]
    before = [node for node in reachable(blocks) - loop.blocks if loop.header in blocks[node].next]
    if len(ends) != 1 or len(before) != 1:
        return None
    predicate = blocks[ends[0]].instructions[-1].predicate
    copies = [match["of"] for step in steps if (match := COPY.fullmatch(step.operands)) and match["predicate"] == predicate]
    compares = [(step, match) for step in steps if step.op.text in ("ISETP.NE.AND", "UISETP.NE.AND")
                and (match := COMPARE.fullmatch(step.operands)) and match["predicate"] in (predicate, *copies)]
    if len(compares) != 1:
        return None
    compare, match = compares[0]
    counter, bound = match["counter"], int(match["bound"], 16)
    writes = [step for step in steps if _writes(step, counter)]
    step = STEP.fullmatch(writes[0].operands) if len(writes) == 1 and writes[0].op.name in ("VIADD", "IADD3", "UIADD3") else None
    first = [step for step in blocks[before[0]].instructions if _writes(step, counter)]
    if step is None or step["counter"] != counter or not first:
        return None
    if (first[-1].op.text, first[-1].operands.partition(", ")[2]) not in ZERO:
        return None
    stepped_first = steps.index(writes[0]) < steps.index(compare)
    size = int(step["step"], 16)
    return bound // size + (0 if stepped_first else 1) if bound % size == 0 else None


def _writes(step, register):
    match = WRITTEN.match(step.operands)
    return match is not None and match[1] == register and step.op.name not in ("STS", "STG", "STL", "ST", "BRA")


def _loops(blocks, nodes, cut):
    entered = {}
    for node in nodes:
        for place in blocks[node].next:
            entered.setdefault(place, set()).add(node)
    found = []
    for part in _strong_parts(blocks, nodes, cut):
        node = next(iter(part))
        if len(part) == 1 and (node in cut or node not in blocks[node].next):
            continue
        outside = [place for place in part if place == 0 or entered.get(place, set()) - part]
        header = min(outside or part)
        found.append(Loop(header, part, _loops(blocks, part, {header}) if len(part) > 1 else []))
    return found


def _strong_parts(blocks, nodes, cut):
    """Tarjan's algorithm without recursion. Edges to `cut` do not count."""
    order, low, stack, on_stack, parts = {}, {}, [], set(), []

    def begin(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        on_stack.add(node)
        return node, iter([place for place in blocks[node].next if place in nodes and place not in cut])

    for root in sorted(nodes):
        work = [] if root in order else [begin(root)]
        while work:
            node, rest = work[-1]
            place = next(rest, None)
            if place is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    at = stack.index(node)
                    parts.append(set(stack[at:]))
                    on_stack.difference_update(stack[at:])
                    del stack[at:]
            elif place not in order:
                work.append(begin(place))
            elif place in on_stack:
                low[node] = min(low[node], order[place])
    return parts


def best_path(edges, ends, start, weights):
    """The nodes of the path from `start` to one of `ends` with the largest sum of weights, which are tuples of equal length
    and compare as tuples do. REQUIRES: no edge leads back, and a path leads to an end."""
    zero = (0,) * len(weights[start])
    best = {}  # node -> (sum from the node to the end, next node)
    for node in _last_first(edges, start):
        follow = [(best[place][0], place) for place in sorted(edges[node]) if place in best]
        if node in ends:
            follow.append((zero, None))
        if follow:
            total, place = max(follow, key=lambda item: item[0])
            best[node] = (tuple(a + b for a, b in zip(weights[node], total)), place)
    path, node = [], start
    while node is not None:
        path.append(node)
        node = best[node][1]
    return path


def _last_first(edges, root):
    """The nodes from `root` on, each behind all that follow it."""
    seen, order, work = {root}, [], [(root, iter(sorted(edges[root])))]
    while work:
        node, rest = work[-1]
        place = next(rest, None)
        if place is None:
            order.append(node)
            work.pop()
        elif place not in seen:
            seen.add(place)
            work.append((place, iter(sorted(edges[place]))))
    return order
