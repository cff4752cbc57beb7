#!/usr/bin/env python3
"""Prints how the code stands against the habits of the house: figures and their goals. It refuses nothing.

    scripts/house.py               the table
    scripts/house.py --details     and what counts towards each figure

How it counts:
- Product is what stands outside tests/. Lines are those of C++, CUDA, Python and shell sources.
- A class counts whole: its body and all definitions of its members and nested classes, in whatever files.
- A function counts from its first line (the template's, if it is one) to its closing brace.
- A product source x/y.cc or x/y.cu has a test where tests/x/y_test.cc exists, or another tests/x/*_test.cc includes x/y.h.
- A comment's beginning is behind // or #; a line that continues the comment above it begins none.
"""

import argparse
import collections
import os
import pathlib
import re
import sys
from dataclasses import dataclass, field

from cpp_outline import includes, line_comments, outline, own_tests

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPP = (".h", ".cc", ".cu")
COMPILED = (".cc", ".cu")
SOURCES = (*CPP, ".py", ".sh")
HASH_COMMENT = re.compile(r"(?:^|\s)#\s(.*)$")

MOST_CLASS_LINES = 300
MOST_FUNCTION_LINES = 70
MOST_FILE_LINES = 400
MOST_FOLDER_FILES = 20
MOST_UNTESTED_PERCENT = 30
MOST_OF_COMMENTS = 20
MOST_PAGE_WORDS = {"docs/architecture.md": 1200}


@dataclass
class Figure:
    name: str
    now: str
    goal: str = ""
    details: list[str] = field(default_factory=list)


def read_tree(root):
    """The text of each source and of each page of docs/, by path."""
    files = {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")) and name != "build")
        for name in sorted(names):
            path = pathlib.Path(folder, name).relative_to(root).as_posix()
            if name.endswith(SOURCES) or re.fullmatch(r"docs/[^/]*\.md", path):
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


def comment_beginnings(path, text):
    """(line, words) of each comment: the lines below that go on with it are left out."""
    lines = text.split("\n")
    if path.endswith(CPP):
        comments = line_comments(text)
    else:
        found = {number: HASH_COMMENT.search(line) for number, line in enumerate(lines, start=1)}
        comments = {number: match.group(1) for number, match in found.items() if match}
    return [
        (number, words.strip())
        for number, words in comments.items()
        if number - 1 not in comments or not lines[number - 1].lstrip().startswith(("//", "#"))
    ]


def over(limit, sizes):
    """One line for each of (name, size) with a size over the limit, the largest first."""
    return [f"{size:5}  {name}" for name, size in sorted(sizes, key=lambda item: (-item[1], item[0])) if size > limit]


def size_figures(files):
    outlines = {path: outline(text) for path, text in files.items() if path.endswith(CPP)}
    classes = over(MOST_CLASS_LINES, ((f"{name} ({path})", lines)
                                      for (name, path), lines in class_lines(files, outlines).items()))
    functions = over(MOST_FUNCTION_LINES, ((f"{path}:{definition.first_line}", definition.lines)
                                           for path, definitions in outlines.items()
                                           for definition in definitions if definition.is_function))
    long_files = over(MOST_FILE_LINES, ((path, text.count("\n")) for path, text in files.items()
                                        if path.endswith(SOURCES)))
    return [
        Figure(f"classes over {MOST_CLASS_LINES} lines", str(len(classes)), "0", classes),
        Figure(f"functions over {MOST_FUNCTION_LINES} lines", str(len(functions)), "0", functions),
        Figure(f"files over {MOST_FILE_LINES} lines", str(len(long_files)), "0", long_files),
    ]


def folder_figures(files):
    """The folders with too many files, and the lines of each folder beside those of its tests."""
    count, lines = collections.Counter(), collections.Counter()
    for path, text in files.items():
        if path.endswith(SOURCES):
            folder = folder_of(path)
            count[folder] += 1
            lines[folder] += text.count("\n")
    full = over(MOST_FOLDER_FILES, count.items())
    product = sum(number for folder, number in lines.items() if not is_test(folder))
    figures = [
        Figure(f"folders with over {MOST_FOLDER_FILES} files", str(len(full)), "0", full),
        Figure("lines of product / of tests", f"{product:,} / {sum(lines.values()) - product:,}"),
    ]
    for folder in sorted({folder.removeprefix("tests/") for folder in lines}):
        figures.append(Figure(f"  {folder}", f"{lines[folder]:,} / {lines[f'tests/{folder}']:,}"))
    return figures


def word_figures(files):
    found = [f"{path}:{line}: {words}" for path, text in files.items() if path.endswith(SOURCES)
             for line, words in comment_beginnings(path, text) if re.match(r"[Oo]f\b", words)]
    figures = [Figure('comments that begin with "of"', str(len(found)), f"< {MOST_OF_COMMENTS}", found)]
    for path, text in files.items():
        if path.endswith(".md"):
            most = MOST_PAGE_WORDS.get(path)
            figures.append(Figure(f"words of {path}", f"{len(text.split()):,}", f"<= {most:,}" if most else ""))
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
    figures = size_figures(files) + test_figures(files) + word_figures(files) + folder_figures(files)
    width = max(len(figure.name) for figure in figures)
    for figure in [Figure("figure", "now", "goal"), *figures]:
        print(f"{figure.name:{width}}  {figure.now:>18}  {figure.goal}".rstrip())
        if arguments.details:
            print("".join(f"    {line}\n" for line in figure.details), end="")


if __name__ == "__main__":
    sys.exit(main())
