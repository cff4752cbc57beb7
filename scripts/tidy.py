#!/usr/bin/env python3
"""Runs clang-tidy with the checks of .clang-tidy and prints what it objects to.

    scripts/tidy.py                the C++ files that differ from the merge base with main; on main, from the commit before
    scripts/tidy.py --base REF     those that differ from REF
    scripts/tidy.py --all          every file (an hour on 2 cores)

A header is seen through one source that includes it. A source that passed is not looked at again until it, a file of ours
that it includes, .clang-tidy or its compiler command changes. Needs build/lint, configured and with the generated headers.
Exit code: 1 if there is something to mend.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import subprocess
import sys

import cpp_outline

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "lint"
# Things that clang 14 cannot read: std::source_location, which the CUDA shim uses, a newer CPU's name, a constant fma.
CUDA_SHIM = "tests/support/cuda_shim/include"
NOT_FOR_CLANG_14 = ("tests/common/base/float_types_test.cc", "tests/common/backend/sampling_math_test.cc")


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True)
    return done.stdout.split() if done.returncode == 0 else []


def default_base():
    """Where this branch left main; on main the commit before, and where history ends there, the one itself."""
    head = git("rev-parse", "HEAD")
    left = git("merge-base", "HEAD", "main")
    if left and left != head:
        return left[0]
    return next(iter(git("rev-parse", "--verify", "--quiet", "HEAD~1") or head), "HEAD")


def changed_files(base):
    """The files that differ from the commit or are not tracked yet, in order of their names."""
    if not git("rev-parse", "--verify", "--quiet", f"{base}^{{commit}}"):
        sys.exit(f"tidy: --base {base}: git knows no such commit")
    names = git("diff", "--name-only", "--diff-filter=d", base) + git("ls-files", "--others", "--exclude-standard")
    return sorted(names)


def read_database():
    """Compiler command by source, without what clang 14 cannot read."""
    path = BUILD / "compile_commands.json"
    if not path.exists():
        sys.exit(f"tidy: {path} is missing; scripts/lint.sh makes it")
    commands = {}
    for entry in json.loads(path.read_text()):
        name = os.path.relpath(entry["file"], ROOT)
        if not name.startswith(("build/", *NOT_FOR_CLANG_14)) and CUDA_SHIM not in entry["command"]:
            commands[name] = entry["command"]
    return commands


@functools.cache
def includes(name):
    """Our own files that `name` includes, by their path from the root."""
    return [found for found in cpp_outline.includes((ROOT / name).read_text(encoding="utf-8")) if (ROOT / found).exists()]


def sources_to_check(changed, commands):
    """The sources among `changed`, and for each header one that includes it: the one of its name if there is one."""
    chosen = set()
    for name in changed:
        if name in commands:
            chosen.add(name)
            continue
        stem = name.rpartition(".")[0]
        own = [source for source in (f"{stem}.cc", f"tests/{stem}_test.cc") if source in commands]
        users = own or [source for source in sorted(commands) if name in includes(source)]
        chosen.update(users[:1])
    return sorted(chosen)


def digest(source, command):
    """A digest of all that the answer depends on, except headers of the system and generated ones."""
    seen, waiting = set(), [source, ".clang-tidy"]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += includes(name)
    total = hashlib.sha256(command.encode())
    for name in sorted(seen):
        total.update(name.encode() + (ROOT / name).read_bytes())
    return total.hexdigest()


def check(source):
    """What clang-tidy says about `source`; nothing if it has no objection."""
    done = subprocess.run(["clang-tidy", "--quiet", "-p", str(BUILD), source], cwd=ROOT, check=False,
                          capture_output=True, text=True)
    if done.returncode == 0:
        return ""
    return done.stdout or f"{source}: clang-tidy failed: {done.stderr}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="the commit to compare with")
    parser.add_argument("--all", action="store_true", help="every file")
    arguments = parser.parse_args()

    commands = read_database()
    if arguments.all:
        chosen = sorted(commands)
    else:
        changed = [name for name in changed_files(arguments.base or default_base()) if name.endswith((".h", ".cc", ".cu"))]
        chosen = sources_to_check(changed, commands)
    passed = BUILD / "tidy"
    passed.mkdir(exist_ok=True)
    stamps = {source: passed / digest(source, commands[source]) for source in chosen}
    left = [source for source in chosen if not stamps[source].exists()]
    print(f"clang-tidy: {len(left)} of {len(chosen)} sources to look at", flush=True)
    objections = False
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = {pool.submit(check, source): source for source in left}
        for answer in concurrent.futures.as_completed(answers):
            if answer.result():
                objections = True
                print(answer.result(), flush=True)
            else:
                stamps[answers[answer]].touch()
    return 1 if objections else 0


if __name__ == "__main__":
    sys.exit(main())
