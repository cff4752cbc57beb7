#!/usr/bin/env python3
"""Plants the bugs of tests/planted_bugs, one at a time, in a copy of the tree and asks whether the tests notice.

    scripts/planted_bugs.py [--check] [--scratch DIR] [--jobs N] [--write] [NAME...]

A bug is a file: what it does, the tests that should fail, and one edit or several. An edit has an anchor, a fragment of code, and the
code that takes the fragment's place; docs/testing.md shows one. The anchor is a comment in the product. The fragment must occur
exactly once in the statement, block or function below the anchor; comments, blanks and line breaks do not count. If an anchor or a
fragment is missing, the run ends before it builds anything.

--check builds nothing: it looks for all anchors and fragments, and for anchors without a bug. NAME may be the beginning of several
names. --write puts the result into docs/planted_bugs.md; the rows of bugs that were not tried stay as they are. The copy and its
build stay in DIR (default build/planted), so that a second run is quick.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

from cpp_outline import code_tokens

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUGS = "tests/planted_bugs"
PRODUCT = ("bench", "client", "common", "decode_worker", "prefill_worker", "router")
ANCHOR = re.compile(r"^[ \t]*// tests/planted_bugs: (\w+)\n", re.MULTILINE)
EDIT = re.compile(r"^--- at (\w+)\n(.*?)^--- replace\n(.*?)^--- end\n", re.MULTILINE | re.DOTALL)
# A statement that has come to a closing brace goes on if one of these follows, as in `if (a) {} else {}` and `A() : b_{1} {}`.
AFTER_BRACE = frozenset(("else", "catch", ";", ",", "{", ".", "->", "?", ":", "&&", "||"))
TIMEOUT_S = 300
# Enough seeds of the simulation to notice a bug; the whole thousand would take longer than the build.
ENVIRONMENT = {"BATON_SIM_SEEDS": "300"}


class Outdated(Exception):
    """A bug that cannot be planted any more, or an anchor without a bug."""


class Tree:
    """The product's sources and their anchors."""

    def __init__(self, root):
        self.texts = {}  # by path
        self.anchors = {}  # name -> (path, where the code behind the anchor begins) of each place
        for folder in PRODUCT:
            for path in sorted((root / folder).rglob("*.*")):
                if path.suffix in (".h", ".cc", ".cu"):
                    self.add(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))

    def add(self, path, text):
        self.texts[path] = text
        for match in ANCHOR.finditer(text):
            self.anchors.setdefault(match[1], []).append((path, match.end()))

    def place(self, anchor):
        places = self.anchors.get(anchor, [])
        if not places:
            raise Outdated(f"no source has the anchor {anchor}; write `// tests/planted_bugs: {anchor}` above the code of the bug")
        if len(places) > 1:
            files = ", ".join(path for path, _ in places)
            raise Outdated(f"the anchor {anchor} stands at {len(places)} places ({files}); give each place its own name")
        return places[0]


class Bug:
    def __init__(self, path):
        text = path.read_text(encoding="utf-8")
        head, _, blocks = text.partition("\n--- ")
        head, blocks = head.splitlines(), f"--- {blocks}"
        self.name = path.stem
        self.what = head[0].removeprefix("# ")
        fields = dict(line.split(": ", 1) for line in head if not line.startswith("#"))
        self.tests = fields["tests"].split()
        self.edits = [tuple(part.rstrip("\n") for part in edit) for edit in EDIT.findall(blocks)]  # anchor, find, replace
        self.is_whole = bool(self.edits) and not EDIT.sub("", blocks).strip()

    def plant(self, tree):
        """The changed files, as path -> text."""
        if not self.is_whole:
            raise Outdated(f"{self.name}: each of its edits must have the lines `--- at ANCHOR`, `--- replace` and `--- end`")
        changes = []
        for anchor, find, replace in self.edits:
            try:
                path, begin = tree.place(anchor)
            except Outdated as why:
                raise Outdated(f"{self.name}: {why}") from None
            if any(find[first] == '"' and " " in find[first:end] for first, end in code_tokens(find)):
                raise Outdated(f"{self.name}: `{' '.join(find.split())}` contains the text of a message; leave it out of the fragment")
            found = matches(tree.texts[path], begin, find)
            if len(found) != 1:
                raise Outdated(f"{self.name}: `{' '.join(find.split())}` occurs {len(found)} times, not once, in the statement below the "
                               f"anchor {anchor} in {path}; correct {BUGS}/{self.name}.bug, or move the anchor")
            changes.append((path, *found[0], replace))
        planted = {}
        for path, begin, end, replace in sorted(changes, reverse=True):  # the last one first: places before it stay as they are
            text = planted.get(path, tree.texts[path])
            planted[path] = text[:begin] + replace + text[end:]
        return planted

    def files(self, tree):
        return sorted({tree.place(anchor)[0] for anchor, _, _ in self.edits})


def statement(text, begin):
    """(begin, end) of each token of the statement, block, function or member that begins at `begin`."""
    found, depth, goes_on = [], 0, None
    for span in code_tokens(text, begin):
        token = text[slice(*span)]
        if goes_on is not None and token not in goes_on:
            break
        goes_on = None
        if token in ("(", "[", "{"):
            depth += 1
        elif token in (")", "]", "}"):
            depth -= 1
            if depth < 0:
                break
        if depth == 0 and token == "}":
            goes_on = AFTER_BRACE
        elif depth == 0 and token == ";":
            goes_on = ("else",)
        found.append(span)
    return found


def matches(text, begin, fragment):
    """(begin, end) of each place in the statement at `begin` that has the fragment's tokens; an empty fragment has none."""
    wanted = [fragment[slice(*span)] for span in code_tokens(fragment)]
    spans = statement(text, begin)
    tokens = [text[slice(*span)] for span in spans]
    return [(spans[at][0], spans[at + len(wanted) - 1][1])
            for at in range(len(tokens) - len(wanted) + 1)
            if wanted and tokens[at : at + len(wanted)] == wanted]


def read_bugs(root):
    return [Bug(path) for path in sorted((root / BUGS).glob("*.bug"))]


def faults(bugs, tree, every):
    """Returns why bugs of `bugs` cannot be planted, and which anchors no bug of `every` names."""
    found = []
    for bug in bugs:
        try:
            bug.plant(tree)
        except Outdated as why:
            found.append(str(why))
    named = {anchor for bug in every for anchor, _, _ in bug.edits}
    for anchor in sorted(set(tree.anchors) - named):
        files = ", ".join(path for path, _ in tree.anchors[anchor])
        found.append(f"{files}: no bug names the anchor {anchor}; remove it")
    return found


def copy_tree(scratch):
    """What git knows or would add, as it is in the working tree; unchanged files keep their time."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().splitlines():
        source, target = ROOT / name, scratch / name
        if not source.is_file():
            continue
        content = source.read_bytes()
        if target.exists() and target.read_bytes() == content:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(source.stat().st_mode)  # the build runs scripts


def build(scratch, tests, jobs):
    return subprocess.run(["ninja", "-C", scratch / "build", f"-j{jobs}", *tests], capture_output=True, text=True)


def run(scratch, test):
    """Whether the test fails: a crash and a time-out are failures too."""
    try:
        done = subprocess.run([scratch / "build" / "tests" / test, "--gtest_brief=1"], cwd=scratch, capture_output=True,
                              env=os.environ | ENVIRONMENT, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def try_bug(bug, tree, scratch, jobs):
    """The tests that notice it; None when it does not even compile."""
    planted = bug.plant(tree)
    for path, text in planted.items():
        (scratch / path).write_text(text)
    try:
        if build(scratch, bug.tests, jobs).returncode != 0:
            return None
        return [test for test in bug.tests if run(scratch, test)]
    finally:
        for path in planted:
            (scratch / path).write_text(tree.texts[path])


def row(bug, tree, noticed):
    missed = [test for test in bug.tests if test not in noticed]
    where = ", ".join(f"`{path}`" for path in bug.files(tree))
    return f"| {bug.name} | {bug.what} | {where} | {', '.join(noticed) or '**nobody**'} | {', '.join(missed) or '-'} |"


def table(rows, bug_count):
    lines = ["# Planted bugs", "",
             "`scripts/planted_bugs.py --write` plants one bug at a time in a copy of the tree and runs the tests that should notice it.",
             "At least one test must notice each bug. The simulation runs 300 of its seeds here. [testing.md](testing.md#planted-bugs)",
             "says how a bug is written.", "",
             "| bug | what it does | where | noticed by | not by |", "|---|---|---|---|---|"]
    lines += [rows[name] for name in sorted(rows)]
    caught = sum("**nobody**" not in text for text in rows.values())
    untried = bug_count - len(rows)
    lines += ["", f"{caught} of {len(rows)} noticed{f'; {untried} were not tried yet' if untried else ''}.", ""]
    return "\n".join(lines)


def write(bugs, tree, results):
    """The rows of these results, and of the other bugs those that the page has."""
    page = ROOT / "docs" / "planted_bugs.md"
    old = (line.split(" | ")[0].removeprefix("| ") for line in page.read_text().splitlines())
    rows = dict(zip(old, page.read_text().splitlines()))
    rows = {bug.name: rows[bug.name] for bug in bugs if bug.name in rows}
    rows |= {bug.name: row(bug, tree, noticed) for bug, noticed in results}
    page.write_text(table(rows, len(bugs)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--scratch", type=pathlib.Path, default=ROOT / "build" / "planted")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    tree, every = Tree(ROOT), read_bugs(ROOT)
    bugs = [bug for bug in every if bug.name.startswith(tuple(options.names or [""]))]
    outdated = faults(bugs, tree, every)  # before time is spent on building
    if outdated:
        sys.exit("\n".join(outdated))
    if options.check:
        return

    scratch = options.scratch.resolve()
    scratch.mkdir(parents=True, exist_ok=True)
    copy_tree(scratch)
    subprocess.run(["cmake", "-S", scratch, "-B", scratch / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo"],
                   check=True, stdout=subprocess.DEVNULL)
    tests = sorted({test for bug in bugs for test in bug.tests})
    built = build(scratch, tests, options.jobs)
    if built.returncode != 0:
        sys.exit((built.stdout + built.stderr)[-4000:])
    failing = [test for test in tests if run(scratch, test)]
    if failing:
        sys.exit(f"without any bug these fail: {', '.join(failing)}")

    results = []
    for bug in bugs:
        start = time.monotonic()
        noticed = try_bug(bug, tree, scratch, options.jobs)
        if noticed is None:
            sys.exit(f"{bug.name}: does not compile; write the bug anew")
        results.append((bug, noticed))
        print(f"{bug.name}: {', '.join(noticed) or 'NOBODY NOTICED'} ({time.monotonic() - start:.0f} s)", flush=True)
    if options.write:
        write(every, tree, results)
    missed = [bug.name for bug, noticed in results if not noticed]
    print(f"{len(results) - len(missed)} of {len(results)} noticed")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
