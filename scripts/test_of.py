#!/usr/bin/env python3
"""Builds and runs the tests of changed files.

    scripts/test_of.py [PATH...]          without a path: the files that differ from the last commit
    scripts/test_of.py --list [PATH...]   only prints the tests

The tests of a product source or header x/y are tests/x/y_test.cc and every other tests/x/*_test.cc that includes x/y.h; if there is
none, all tests in the nearest folder of tests/ that has some. The tests of a header in tests/ are those that include it. A test is
its own. A Python script's test is tests/scripts/<name>_test.py, a document's tests/docs_test.py. GoogleTest programs run with a
filter for the tests of the files that were found. Builds build/dev, which it configures if need be. Exit code: 0 if all tests
passed, 1 if one failed or none was found, 2 if something did not build.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field

from cpp_outline import own_tests
from tidy import changed_files

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "dev"
SOURCES = (".h", ".cc", ".cu")
PROGRAM = re.compile(r"baton_test\(\s*(\w+)\s+SRCS\s+(.*?)\s+DEPS\b", re.DOTALL)
TEST = re.compile(r"^\s*(TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P)\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
# The names under which GoogleTest lists a test of each kind: {0} is the suite, {1} the test.
PATTERNS = {"TEST": "{0}.{1}", "TEST_F": "{0}.{1}", "TEST_P": "*{0}.{1}/*", "TYPED_TEST": "{0}/*.{1}", "TYPED_TEST_P": "*{0}/*.{1}"}


@dataclass
class Found:
    """What to run: the test sources of GoogleTest programs, and Python tests. `unknown` has no test."""

    programs: dict[str, set[str]] = field(default_factory=dict)
    scripts: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)


def read_programs(root):
    """The GoogleTest program of each test source."""
    programs = {}
    for lists in sorted(root.glob("tests/**/CMakeLists.txt")):
        folder = lists.parent.relative_to(root)
        for name, sources in PROGRAM.findall(lists.read_text()):
            for source in sources.split():
                if not source.startswith("$"):
                    programs.setdefault((folder / source).as_posix(), name)
    return programs


def tests_of_source(root, path, programs):
    """The test sources of a C++ file: a test itself, else its own tests, else all in the nearest folder of tests/ that has some."""
    if path in programs:
        return {path}
    own = own_tests(path, programs, lambda name: (root / name).read_text())
    folder = os.path.dirname(path if path.startswith("tests/") else f"tests/{path}")
    while not own and folder:
        own = {name for name in programs if name.startswith(f"{folder}/")}
        folder = os.path.dirname(folder)
    return own


def find(root, paths):
    """The tests of these files, which are named from the root."""
    programs, found = read_programs(root), Found()
    for path in paths:
        name = pathlib.PurePosixPath(path)
        if name.suffix in SOURCES:
            for source in tests_of_source(root, path, programs):
                found.programs.setdefault(programs[source], set()).add(source)
        elif path.startswith("tests/") and re.fullmatch(r"test_.*[.]py|.*_test[.]py", name.name):
            found.scripts.add(path)
        elif name.suffix == ".md":
            found.scripts.add("tests/docs_test.py")
        elif (root / "tests" / "scripts" / f"{name.stem}_test.py").is_file():
            found.scripts.add(f"tests/scripts/{name.stem}_test.py")
        else:
            found.unknown.append(path)
    return found


def filter_of(root, sources):
    """Returns GoogleTest's filter for the tests in these sources."""
    tests = [test for source in sorted(sources) for test in TEST.findall((root / source).read_text())]
    return ":".join(dict.fromkeys(PATTERNS[kind].format(suite, name) for kind, suite, name in tests))


def build(targets):
    if not (BUILD / "build.ninja").is_file():
        subprocess.run(["cmake", "--preset", "dev"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    if targets and subprocess.run(["ninja", "-C", BUILD, *targets], cwd=ROOT, check=False).returncode != 0:
        sys.exit(2)


def environment():
    model = subprocess.run([ROOT / "scripts" / "fetch_model.sh"], check=True, capture_output=True, text=True).stdout.strip()
    return os.environ | {"BATON_TEST_MODEL": model, "BATON_BIN": str(BUILD / "bin"),
                         "BATON_STUBS": str(BUILD / "python_stubs"), "PYTHONDONTWRITEBYTECODE": "1"}


def run_script(path, variables):
    """Runs an integration test by pytest, and any other by CTest, which knows its arguments."""
    if path.startswith("tests/integration/"):
        command = ["/usr/bin/python3", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", path]
    else:
        command = ["ctest", "--test-dir", str(BUILD), "--output-on-failure", "--no-tests=error", "-R",
                   f"^(deploy_|openai_)?{pathlib.PurePosixPath(path).stem}$"]
    return subprocess.run(command, cwd=ROOT, check=False, env=variables).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="only print the tests")
    parser.add_argument("paths", nargs="*", metavar="PATH")
    arguments = parser.parse_args()
    paths = [os.path.relpath(path, ROOT) for path in arguments.paths] or changed_files("HEAD")
    for path in paths:
        if not (ROOT / path).is_file():
            parser.error(f"there is no file {path}")

    begin = time.monotonic()
    found = find(ROOT, paths)
    filters = {program: filter_of(ROOT, sources) for program, sources in sorted(found.programs.items())}
    for program, chosen in filters.items():
        print(f"build/dev/tests/{program} --gtest_filter='{chosen}'")
    for script in sorted(found.scripts):
        print(script)
    for path in found.unknown:
        print(f"no test known of {path}: scripts/test.sh has them all")
    if arguments.list:
        return 0
    if not filters and not found.scripts:
        print("nothing to run")
        return 1

    integration = any(script.startswith("tests/integration/") for script in found.scripts)
    build([*filters, *(["programs"] if integration else [])])
    variables = environment()
    failed = [program for program, chosen in filters.items()
              if subprocess.run([BUILD / "tests" / program, f"--gtest_filter={chosen}", "--gtest_brief=1"], cwd=ROOT, check=False,
                                env=variables).returncode != 0]
    failed += [script for script in sorted(found.scripts) if not run_script(script, variables)]
    print(f"{'failed: ' + ', '.join(failed) if failed else 'passed'} ({time.monotonic() - begin:.0f} s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
