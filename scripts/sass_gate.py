#!/usr/bin/env python3
"""Holds the machine code of the CUDA kernels to the committed figures of tests/gpu/sass_budget.txt. Needs no GPU.

    scripts/sass_gate.py [OBJECT...]           compares; ends with 1 if anything differs by more than 5 %
    scripts/sass_gate.py --write [OBJECT...]   writes the figures and docs/benchmarks/gpu_model.md anew
    scripts/sass_gate.py --write-page          writes only the page, which follows from the committed figures

OBJECT: those of the CUDA build's library baton_cuda; by default those in build/cuda. Their code for sm_90a is looked at.

A kernel without a line fails, and a line without a kernel. So does a figure that became better by more than 5 %: with a line
that allows more than the kernel needs, the next change could lose it again unseen. The remedy is --write, in the same commit, so
that the commit shows what it costs or gains. Accesses to local memory in loops are compared exactly, and --write only ever writes
fewer of them. Another nvcc than the one that the figures are of makes other code: then nothing is compared, and the program ends
with 77.
"""

import argparse
import concurrent.futures
import os
import pathlib
import sys

from sass import budget, cubins, model, names

ROOT = pathlib.Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "scripts/sass/requirements.txt"
BUILD = ROOT / "build/cuda"
OBJECTS = BUILD / "common/backend/cuda/CMakeFiles/baton_cuda.dir"
SKIPPED = 77


def tools():
    """The folder of cuobjdump and nvdisasm. Ends the program as skipped if they cannot be had."""
    sys.path.insert(0, str(ROOT / "tests/support"))
    import pypi_packages

    return pypi_packages.or_end(pypi_packages.fetch, REQUIREMENTS) / "nvidia/cu13/bin"


def built_objects():
    """Those of the default build, without what it has kept of sources that are gone."""
    rules = BUILD / "build.ninja"
    text = rules.read_text(encoding="utf-8") if rules.is_file() else ""
    return [str(path) for path in sorted(OBJECTS.rglob("*.cu.o")) if str(path.relative_to(BUILD)) in text]


def read_kernels(objects):
    """(version of nvcc, Figures by short name) of all objects."""
    folder = tools()
    objects = sorted(objects, key=os.path.getsize, reverse=True)  # the longest work first
    with concurrent.futures.ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        contents = list(pool.map(cubins.read, objects, [folder] * len(objects)))
    mangled = {name: figures for content in contents for name, figures in content.kernels.items()}
    short = names.short_names(mangled)
    kernels = {short[name]: figures for name, figures in mangled.items()}
    if len(kernels) != len(mangled):
        raise cubins.Unusable("two kernels have one short name (scripts/sass/names.py)")
    compilers = sorted({content.compiler for content in contents})
    if len(compilers) != 1:
        raise cubins.Unusable(f"the objects are of several versions of nvcc, {', '.join(compilers)}: build them anew")
    return compilers[0], kernels


def write(old, compiler, kernels):
    """The new budget and page; nothing where spills were added."""
    if old and (added := budget.spills_added(old, kernels)):
        print("sass_gate: kernels may not spill more than before (where one only has another name, rename its line first):", *added,
              sep="\n  ", file=sys.stderr)
        return 1
    budget.PATH.write_text(budget.format_text(compiler, kernels), encoding="utf-8")
    model.PATH.write_text(model.page(kernels), encoding="utf-8")
    return 0


def compare(budgets_compiler, old, compiler, kernels):
    if compiler != budgets_compiler:
        print(f"skipped: the figures are of nvcc {budgets_compiler}, and this is code of nvcc {compiler}")
        return SKIPPED
    found = budget.differences(old, kernels)
    if found:
        print(f"sass_gate: {len(found)} differences from {budget.PATH.relative_to(ROOT)}:", *found, sep="\n  ", file=sys.stderr)
        print("sass_gate: undo them, or commit with the change what `scripts/sass_gate.py --write` writes", file=sys.stderr)
        return 1
    print(f"{len(kernels)} kernels are within 5 % of their figures; {sum(f.local > 0 for f in kernels.values())} spill in loops")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the figures and the page")
    parser.add_argument("--write-page", action="store_true", help="write the page from the committed figures")
    parser.add_argument("objects", nargs="*", metavar="OBJECT")
    arguments = parser.parse_args()
    try:
        exists = budget.PATH.is_file()
        budgets_compiler, old = budget.parse(budget.PATH.read_text(encoding="utf-8")) if exists else ("", {})
        if arguments.write_page:
            model.PATH.write_text(model.page(old), encoding="utf-8")
            return 0
        given = arguments.objects or built_objects()
        objects = [path for path in given if path.endswith(".cu.o")]
        if not objects:
            raise cubins.Unusable(f"no objects of nvcc: build the preset cuda ({OBJECTS.relative_to(ROOT)}), or name them")
        compiler, kernels = read_kernels(objects)
        if arguments.write:
            return write(old, compiler, kernels)
        return compare(budgets_compiler, old, compiler, kernels)
    except (budget.Malformed, cubins.Unusable, model.Unknown, OSError) as error:
        print(f"sass_gate: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
