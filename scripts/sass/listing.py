"""What nvdisasm prints of a cubin (`nvdisasm -c`): functions, their instructions and labels."""

import functools
import re
from dataclasses import dataclass, field
from typing import NamedTuple

SECTION = re.compile(r"^\s*\.section\s+(?:\.text\.([^\s,]+))?")
LABEL = re.compile(r"^(\.L_x_\d+):")
INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]+\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;?\s*$")
TARGET = re.compile(r"\.L_x_\d+")
ALSO_PREDICATE = re.compile(r"!?U?P[0-9]\b")

# What a lane reads or writes, by a part of the opcode; 4 bytes where it names no width.
WIDTHS = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
LANES = 32
WIDE = 16 * LANES
TENSOR = ("HMMA", "IMMA", "QMMA", "DMMA", "HGMMA", "IGMMA", "QGMMA")
MOVES = ("MOV", "IMAD.MOV", "UMOV", "CS2R", "R2UR")
FLOAT_MATH = ("FFMA", "FMUL", "FADD")
BRANCHES = ("BRA", "BRX", "BRXU")


@dataclass(frozen=True)
class Opcode:
    text: str  # with its modifiers: LDG.E.NA.128.CONSTANT
    name: str  # without them
    bytes: int  # what the whole warp loads or stores
    is_tensor: bool
    is_move: bool
    is_math: bool  # float32 arithmetic
    is_local: bool  # it spills, or brings back


@functools.cache
def opcode(text):
    name, *modifiers = text.split(".")
    width = next((WIDTHS[part] for part in modifiers if part in WIDTHS), 4)
    return Opcode(text, name, width * LANES, name in TENSOR, (text + ".").startswith(tuple(move + "." for move in MOVES)),
                  name in FLOAT_MATH, name in ("LDL", "STL"))


class Instruction(NamedTuple):
    op: Opcode
    operands: str
    predicate: str  # it is switched off unless this holds; "" if it never is

    @property
    def predicated(self):
        return self.predicate != ""

    def targets(self):
        return TARGET.findall(self.operands)

    def goes_on(self):
        """Whether the next instruction may follow. A branch may have a second predicate among its operands."""
        if self.op.name == "BRA":
            return (self.predicated or ALSO_PREDICATE.match(self.operands) is not None
                    or self.op.text in ("BRA.DIV", "BRA.CONV", "BRA.U.ANY"))
        return self.predicated or self.op.name not in ("EXIT", "RET", "BRX", "BRXU", "JMP", "KILL")


@dataclass
class Function:
    name: str  # mangled
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)  # label -> index of the instruction behind it


def parse(lines):
    """The functions of a listing, in its order. What lies outside code sections is passed over."""
    functions = []
    function = None
    for line in lines:
        if function is not None and (match := INSTRUCTION.match(line)) is not None:
            predicate, text, operands = match.groups()
            predicate = "" if predicate in (None, "PT", "UPT") else predicate
            function.instructions.append(Instruction(opcode(text), operands, predicate))
        elif function is not None and (match := LABEL.match(line)) is not None:
            function.labels[match.group(1)] = len(function.instructions)
        elif (match := SECTION.match(line)) is not None:
            function = Function(match.group(1)) if match.group(1) else None
            functions += [function] if function else []
    return functions
