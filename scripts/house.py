#!/usr/bin/env python3
"""Prints how the code stands against the habits of the house: figures and their goals. It refuses nothing.

    scripts/house.py               the table
    scripts/house.py --details     and what counts towards each figure

How it counts:
- Product is what stands outside tests/. Lines are those of C++, CUDA, Python and shell sources.
- A class counts whole: its body and all definitions of its members and nested classes, in whatever files.
- A function counts from its first line (the template's, if it is one) to its closing brace.
- A product source x/y.cc or x/y.cu has a test where tests/x/y_test.cc exists, or another tests/x/*_test.cc includes x/y.h.
- Turns of phrase are counted as scripts/voice.py does, which lists them with its --list KIND.
- Two numbers are those of the product and of tests. Only a product figure has a goal, except for turns of phrase, whose goal is for
  the sum.
"""

import argparse
import collections
import os
import pathlib
import re
import sys
from dataclasses import dataclass, field

import voice
from cpp_outline import includes, outline, own_tests

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPP = (".h", ".cc", ".cu")
COMPILED = (".cc", ".cu")
SOURCES = (*CPP, ".py", ".sh")

MOST_CLASS_LINES = 300
MOST_FUNCTION_LINES = 70
MOST_FILE_LINES = 400
MOST_FOLDER_FILES = 40
MOST_UNTESTED_PERCENT = 30
MOST_PAGE_WORDS = {"README.md": 900, "docs/architecture.md": 1200}
MOST_WORDS_OF_ALL_PAGES = 45000
MOST_CLASSES = 12
VOICE_GOALS = {"of": "< 20", "headless": "0", "where": "< 40", "told": "< 20", "he": "0", "check": "< 5"}


@dataclass
class Figure:
    name: str
    now: str
    goal: str = ""
    details: list[str] = field(default_factory=list)


def read_tree(root):
    """The text of each source, of README.md and of each page of docs/, by path."""
    files = {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")) and name != "build")
        for name in sorted(names):
            path = pathlib.Path(folder, name).relative_to(root).as_posix()
            if name.endswith((*SOURCES, *voice.SUFFIXES)) or re.fullmatch(r"docs/[^/]*\.md|README\.md", path):
                files[path] = (root / path).read_text(encoding="utf-8")
    return files


def folder_of(path):
    """The folder; "tests/." for tests at the top, so that each folder of tests begins with "tests/"."""
    folder = path.rpartition("/")[0] or "."
    return "tests/." if folder == "tests" else folder


def is_test(path):
    return path.startswith("tests/")


def class_lines(files, outlines):
    """Lines of each class at namespace scope: (name, path of its body) -> lines."""
    bodies = collections.defaultdict(list)
    for path, definitions in outlines.items():
        for definition in definitions:
            if definition.is_class:
                bodies[definition.owner].append(path)
    lines = collections.Counter()
    for path, definitions in outlines.items():
        # If several classes have one name, a definition belongs to the nearest.
        near = dict.fromkeys(includes(files[path]), 1) | {path.rpartition(".")[0] + ".h": 2, path: 3}
        for definition in definitions:
            places = bodies.get(definition.owner, [])
            if places and (len(places) == 1 or any(place in near for place in places)):
                body = max(places, key=lambda place: near.get(place, 0))
                lines[definition.owner, body] += definition.lines
    return lines


def untested(files):
    """All product sources, and those without a test."""
    tests = [path for path in files if is_test(path) and path.endswith("_test.cc")]
    sources = [path for path in files if path.endswith(COMPILED) and not is_test(path) and not path.endswith(("/main.cc", "_main.cc"))]
    return sources, [path for path in sources if not own_tests(path, tests, files.get)]


def over(limit, sizes):
    """One line for each of (name, size) with a size over the limit, the largest first."""
    return [f"{size:5}  {name}" for name, size in sorted(sizes, key=lambda item: (-item[1], item[0])) if size > limit]


def apart(name, goal, limit, sizes):
    """The figure of what is over the limit in the product, and of what is over it in tests. `sizes`: (path, name, size)."""
    product, tests = ([], [])
    for path, label, size in sizes:
        (tests if is_test(path) else product).append((label, size))
    product, tests = over(limit, product), over(limit, tests)
    return Figure(name, f"{len(product)} / {len(tests)}", goal, product + tests)


def size_figures(files):
    outlines = {path: outline(text) for path, text in files.items() if path.endswith(CPP)}
    return [
        apart(f"classes over {MOST_CLASS_LINES} lines", f"<= {MOST_CLASSES}", MOST_CLASS_LINES,
              [(path, f"{name} ({path})", lines) for (name, path), lines in class_lines(files, outlines).items()]),
        apart(f"functions over {MOST_FUNCTION_LINES} lines", "0", MOST_FUNCTION_LINES,
              [(path, f"{path}:{definition.first_line}", definition.lines) for path, definitions in outlines.items()
               for definition in definitions if definition.is_function]),
        apart(f"files over {MOST_FILE_LINES} lines", "0", MOST_FILE_LINES,
              [(path, path, text.count("\n")) for path, text in files.items() if path.endswith(SOURCES)]),
    ]


def folder_figures(files):
    """The folders with too many files, and the lines of each folder beside those of its tests."""
    count, lines = collections.Counter(), collections.Counter()
    for path, text in files.items():
        if path.endswith(SOURCES):
            folder = folder_of(path)
            count[folder] += 1
            lines[folder] += text.count("\n")
    product = sum(number for folder, number in lines.items() if not is_test(folder))
    figures = [
        apart(f"folders with over {MOST_FOLDER_FILES} files", "0", MOST_FOLDER_FILES,
              [(folder, folder, number) for folder, number in count.items()]),
        Figure("lines of product / of tests", f"{product:,} / {sum(lines.values()) - product:,}"),
    ]
    for folder in sorted({folder.removeprefix("tests/") for folder in lines}):
        figures.append(Figure(f"  {folder}", f"{lines[folder]:,} / {lines[f'tests/{folder}']:,}"))
    return figures


def voice_figures(files):
    found = [hit for path, text in files.items() if voice.ours(path) for hit in voice.hits(path, text)]
    figures = []
    for kind, marker in voice.MARKERS.items():
        own = [hit for hit in found if hit.kind == kind]
        tests = sum(is_test(hit.path) for hit in own)
        figures.append(Figure(marker.title, f"{len(own) - tests} / {tests}", VOICE_GOALS.get(kind, ""), [str(hit) for hit in own]))
    return figures


def page_figures(files):
    words = {path: len(text.split()) for path, text in files.items() if path.endswith(".md")}
    total = sum(number for path, number in words.items() if path.startswith("docs/") and path not in voice.GENERATED_PAGES)
    figures = [Figure("words of docs/*.md, generated pages left out", f"{total:,}", f"<= {MOST_WORDS_OF_ALL_PAGES:,}")]
    for path, number in words.items():
        most = MOST_PAGE_WORDS.get(path)
        figures.append(Figure(f"words of {path}", f"{number:,}", f"<= {most:,}" if most else ""))
    return figures


def test_figures(files):
    sources, without = untested(files)
    percent = 100 * len(without) / max(1, len(sources))
    return [Figure("product sources without a test of theirs", f"{len(without)} of {len(sources)} = {percent:.0f} %",
                   f"< {MOST_UNTESTED_PERCENT} %", without)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--details", action="store_true", help="list what counts towards each figure")
    arguments = parser.parse_args()
    files = read_tree(ROOT)
    figures = size_figures(files) + test_figures(files) + voice_figures(files) + page_figures(files) + folder_figures(files)
    width = max(len(figure.name) for figure in figures)
    for figure in [Figure("figure", "now", "goal"), *figures]:
        print(f"{figure.name:{width}}  {figure.now:>18}  {figure.goal}".rstrip())
        if arguments.details:
            print("".join(f"    {line}\n" for line in figure.details), end="")


if __name__ == "__main__":
    sys.exit(main())
