"""Short names of kernels: DecodeAttentionKernel<bf16, 128>."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
ELEMENTS = ROOT / "common/backend/cuda/device/operands.h"
# Types that only carry the parameters of a kernel.
WRAPPERS = re.compile(r"\b(?:VectorTile|InvariantBlock|SegmentShape)<([^<>]*?)\s*>")
NUMBERED = re.compile(r"\((?:\w+::)*(\w+)\)(\d+)")


def elements():
    """The names of CudaElement's values, in their order."""
    values = re.search(r"enum class CudaElement \{([^}]*)\}", ELEMENTS.read_text(encoding="utf-8")).group(1)
    return [value.strip().removeprefix("k") for value in values.split(",")]


def short_names(mangled):
    """Short name by mangled name."""
    mangled = list(mangled)
    out = subprocess.run(["c++filt"], input="\n".join(mangled), check=True, capture_output=True, text=True).stdout
    values = elements()
    return dict(zip(mangled, [shorten(name, values) for name in out.splitlines()]))


def shorten(name, element_values):
    """The short form of a demangled name."""
    name = _without_arguments(name.removeprefix("void "))
    name = name.replace("(anonymous namespace)::", "").replace("baton::", "")
    name = name.replace("__nv_bfloat16", "bf16").replace("__half", "f16")
    name = NUMBERED.sub(lambda match: element_values[int(match.group(2))] if match.group(1) == "CudaElement"
                        else match.group(2), name)
    return WRAPPERS.sub(r"\1", name.replace(" >", ">"))


def _without_arguments(name):
    """Without the function's arguments, the last pair of brackets outside of angles."""
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if depth == 0:
            return name[:at] if name[at] == "(" else name
    return name
