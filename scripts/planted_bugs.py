#!/usr/bin/env python3
"""Plants the bugs of tests/planted_bugs, one at a time, in a copy of the tree and asks whether the tests notice.

    scripts/planted_bugs.py [--check] [--scratch DIR] [--jobs N] [--write] [NAME...]

A bug is a file: what it is, the source file, the tests that should fail, a text that occurs there exactly once, and what takes
its place. A text that does not occur any more ends the run: the bug has to be written anew. --check builds nothing: it only
looks at the texts. NAME may be a part of names: all that begin with it. --write puts the result into docs/planted_bugs.md; of
bugs that were not tried the row stays as it is. The copy and its build stay in DIR (default build/planted), so that a second
run is quick.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUGS = ROOT / "tests" / "planted_bugs"
TIMEOUT_S = 300
# Enough seeds of the simulation to notice a bug; the whole thousand would take longer than the build.
ENVIRONMENT = {"BATON_SIM_SEEDS": "300"}


class Bug:
    def __init__(self, path):
        text = path.read_text()
        head, rest = text.split("--- find\n")
        self.find, rest = rest.split("\n--- replace\n")
        self.replace = rest.split("\n--- end\n")[0]
        self.name = path.stem
        fields = dict(line.split(": ", 1) for line in head.splitlines() if not line.startswith("#"))
        self.what = head.splitlines()[0].removeprefix("# ")
        self.file = fields["file"]
        self.tests = fields["tests"].split()

    def outdated(self):
        """Why it cannot be planted any more; None if it can."""
        path = ROOT / self.file
        if not path.is_file():
            return f"{self.name}: there is no {self.file}; write the bug anew"
        count = path.read_text().count(self.find)
        if count != 1:
            return f"{self.name}: its text occurs {count} times in {self.file}, not once; write the bug anew"
        return None


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


def try_bug(bug, scratch, jobs):
    """The tests that notice it; None when it does not even compile."""
    path = scratch / bug.file
    original = path.read_text()
    path.write_text(original.replace(bug.find, bug.replace))
    try:
        if build(scratch, bug.tests, jobs).returncode != 0:
            return None
        return [test for test in bug.tests if run(scratch, test)]
    finally:
        path.write_text(original)


def row(bug, noticed):
    missed = [test for test in bug.tests if test not in noticed]
    return (f"| {bug.name} | {bug.what} | `{bug.file}` | {', '.join(noticed) or '**nobody**'} "
            f"| {', '.join(missed) or '-'} |")


def table(rows, bug_count):
    lines = ["# Planted bugs", "",
             "`scripts/planted_bugs.py --write` changes one line of a copy of the tree at a time and runs the tests that should",
             "notice. Each must be noticed by one test at least. The simulation runs 300 of its seeds here.", "",
             "| bug | what it does | where | noticed by | not by |", "|---|---|---|---|---|"]
    lines += [rows[name] for name in sorted(rows)]
    caught = sum("**nobody**" not in text for text in rows.values())
    untried = bug_count - len(rows)
    lines += ["", f"{caught} of {len(rows)} noticed{f'; {untried} were not tried yet' if untried else ''}.", ""]
    return "\n".join(lines)


def write(bugs, results):
    """The rows of these results, and of the other bugs those that the page has."""
    page = ROOT / "docs" / "planted_bugs.md"
    old = (line.split(" | ")[0].removeprefix("| ") for line in page.read_text().splitlines())
    rows = dict(zip(old, page.read_text().splitlines()))
    rows = {bug.name: rows[bug.name] for bug in bugs if bug.name in rows}
    rows |= {bug.name: row(bug, noticed) for bug, noticed in results}
    page.write_text(table(rows, len(bugs)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--scratch", type=pathlib.Path, default=ROOT / "build" / "planted")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    every = [Bug(path) for path in sorted(BUGS.glob("*.bug"))]
    bugs = [bug for bug in every if bug.name.startswith(tuple(options.names or [""]))]
    outdated = [why for bug in bugs if (why := bug.outdated())]  # before time is spent on building
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
        noticed = try_bug(bug, scratch, options.jobs)
        if noticed is None:
            sys.exit(f"{bug.name}: does not compile; write the bug anew")
        results.append((bug, noticed))
        print(f"{bug.name}: {', '.join(noticed) or 'NOBODY NOTICED'} ({time.monotonic() - start:.0f} s)", flush=True)
    if options.write:
        write(every, results)
    missed = [bug.name for bug, noticed in results if not noticed]
    print(f"{len(results) - len(missed)} of {len(results)} noticed")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
