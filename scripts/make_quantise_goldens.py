#!/usr/bin/env python3
"""Writes tests/data/quantise/goldens.bin: blocks of 32 floats and what PyPI's gguf quantises them to at the version that
scripts/requantise_model.py uses.

For each block: 128 bytes of float32, 34 of Q8_0, 18 of Q4_0. The blocks have zeros, ties, subnormals, powers of two, huge and
tiny scales, and random weights as models have them.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import pypi_packages  # noqa: E402

pypi_packages.install(ROOT / "scripts/requantise_requirements.txt")
import gguf  # noqa: E402
import numpy  # noqa: E402

OUT = ROOT / "tests/data/quantise/goldens.bin"
BLOCK = 32


def blocks():
    random = numpy.random.default_rng(20261123)
    ramp = numpy.arange(BLOCK, dtype=numpy.float32)
    yield numpy.zeros(BLOCK)
    yield -numpy.zeros(BLOCK)
    yield numpy.eye(1, BLOCK, 31)[0]
    yield -numpy.eye(1, BLOCK, 5)[0]
    yield numpy.where(ramp % 2 == 0, 1.0, -1.0)  # the first of equal magnitudes counts
    yield numpy.where(ramp % 2 == 0, -1.0, 1.0)
    yield (ramp - 16) * 0.5  # halves between two codes, with a scale of 1 for Q4_0
    yield (ramp * 8 + 0.5) * numpy.where(ramp % 2 == 0, 1, -1) / 254 * 127  # ties of Q8_0
    yield numpy.concatenate([[127.0], ramp[:31] - 15.5])
    yield numpy.concatenate([[-8.0], (ramp[:31] - 15) * 0.5])
    for exponent in (-149, -140, -133, -128, -127, -126, -120, -24, -14, 10, 15, 16, 17, 100, 127):
        yield (random.standard_normal(BLOCK) * 0.3).clip(-1, 1) * 2.0**exponent
        yield random.integers(-8, 8, BLOCK) / 8 * 2.0**exponent
    for deviation in (1e-4, 0.02, 1.0, 300.0):
        for _ in range(20):
            yield random.standard_normal(BLOCK) * deviation
    for _ in range(20):  # what BF16 and F16 can hold
        yield (random.standard_normal(BLOCK) * 0.05).astype(numpy.float16)


def main():
    out = bytearray()
    for block in blocks():
        row = numpy.asarray(block, dtype=numpy.float32).reshape(1, BLOCK)
        out += row.tobytes()
        for kind in (gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0):
            with numpy.errstate(all="ignore"):
                out += gguf.quants.quantize(row, kind).tobytes()
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_bytes(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
