#!/usr/bin/env python3
"""Runs the fuzz targets of tests/fuzz until each has had its runs or its CPU time, and prints how far each came.

    scripts/fuzz.py [--build build/fuzz] [--runs 10000000] [--cpu-seconds 7200] [--seconds N] [--jobs N] [--state FOLDER] [TARGET...]

The build folder is that of preset `fuzz` (`cmake --preset fuzz && ninja -C build/fuzz fuzz_targets`). Corpora, counts and inputs
that end a target stay in the state folder, by default in the cache folder beside the models: so a target's runs may be had in many
calls. A count belongs to one state of the sources only as far as you say: remove the folder to begin anew. Targets take turns of five
minutes (each begins with the whole corpus), those with the least CPU time first; one with a finding has none. --seconds ends this
call, whatever is left then. Exits 1 if there is a finding.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("BATON_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "baton")
TURN_S = 300
# A target that allocates more, or thinks longer about one input, has a finding; a file of it is written for no other reason.
LIMITS = ["-rss_limit_mb=4096", "-timeout=30", "-report_slow_units=30"]
# The targets of events reach 20,000 features. To keep statistics of each, as libFuzzer does by default, took two thirds of their time.
SCHEDULE = ["-entropic=0"]
# An input that ends a target is kept: whoever replays it has the whole stacks of its allocations.
ENVIRONMENT = os.environ | {"ASAN_OPTIONS": "malloc_context_size=1"}


class Target:
    def __init__(self, program, state):
        self.program, self.name = program, program.name
        self.folder = state / self.name
        self.corpus, self.findings = self.folder / "corpus", self.folder / "findings"
        self.counts = self.folder / "counts.json"
        if not self.corpus.is_dir():
            self.copy_seeds()
        self.findings.mkdir(exist_ok=True)
        counts = json.loads(self.counts.read_text()) if self.counts.exists() else {"runs": 0, "cpu_seconds": 0.0}
        self.runs, self.cpu_seconds = counts["runs"], counts["cpu_seconds"]

    def copy_seeds(self):
        self.corpus.mkdir(parents=True)
        for path in self.program.with_suffix(".seeds").read_text().split():
            seed = pathlib.Path(path)
            for file in [seed] if seed.is_file() else (one for one in seed.rglob("*") if one.is_file()):
                shutil.copy(file, self.corpus / file.name)

    def found(self):
        return sorted(path.name for path in self.findings.iterdir())

    def turn(self, runs, seconds):
        """One turn with bounds of its runs and seconds."""
        log = self.folder / "log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [self.program, f"-runs={runs}", f"-max_total_time={max(1, round(seconds))}", "-print_final_stats=1", *LIMITS, *SCHEDULE,
                 f"-artifact_prefix={self.findings}/", self.corpus],
                stdout=output, stderr=subprocess.STDOUT, env=ENVIRONMENT, cwd=ROOT)
            _, status, usage = os.wait4(process.pid, 0)
        done = re.search(r"number_of_executed_units: (\d+)", log.read_text(errors="replace"))
        if done is None and not self.found():
            sys.exit(f"{self.name} ended with status {status} and told nothing: see {log}")
        self.runs += int(done[1]) if done else 0
        self.cpu_seconds += usage.ru_utime + usage.ru_stime
        self.counts.write_text(json.dumps({"runs": self.runs, "cpu_seconds": round(self.cpu_seconds, 1)}))


def fuzz(targets, args):
    """Lets --jobs targets have turns until none has any left."""
    for one in targets:
        for name in one.found():
            print(f"{one.name} has no turns while this finding is there: {one.program} {one.findings / name} replays it; remove it if "
                  "it is none (a unit counts as slow that waited for its CPU)")
    lock, running = threading.Lock(), set()
    end = time.monotonic() + args.seconds

    def next_target():
        with lock:
            waiting = [one for one in targets if one not in running and not one.found() and one.runs < args.runs and
                       one.cpu_seconds < args.cpu_seconds]
            if not waiting or time.monotonic() >= end:
                return None
            chosen = min(waiting, key=lambda one: one.cpu_seconds)
            running.add(chosen)
            return chosen

    def work():
        while (target := next_target()) is not None:
            target.turn(args.runs - target.runs, min(TURN_S, end - time.monotonic()))
            print(f"{target.name}: {target.runs:,} runs, {target.cpu_seconds:,.0f} s" +
                  "".join(f", FOUND {name}" for name in target.found()), flush=True)
            with lock:
                running.remove(target)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for worker in [pool.submit(work) for _ in range(args.jobs)]:
            worker.result()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/fuzz")
    parser.add_argument("--runs", type=int, default=10_000_000, help="enough for a target")
    parser.add_argument("--cpu-seconds", type=float, default=7200, help="enough for a target")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of this call")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--state", type=pathlib.Path, default=CACHE / "fuzz")
    parser.add_argument("target", nargs="*", help="all by default")
    args = parser.parse_args()
    args.build, args.state = args.build.absolute(), args.state.absolute()  # the targets run in ROOT, if their data is
    programs = sorted(path.with_suffix("") for path in (args.build / "tests").glob("*_fuzz.seeds"))
    unknown = set(args.target) - {program.name for program in programs}
    if unknown or not programs:
        parser.error(f"no such target in {args.build}/tests: {', '.join(sorted(unknown)) or '*_fuzz'}")
    targets = [Target(program, args.state) for program in programs if not args.target or program.name in args.target]
    fuzz(targets, args)
    print("| target | runs | CPU seconds | findings |\n|---|---:|---:|---|")
    for one in targets:
        print(f"| `{one.name}` | {one.runs:,} | {one.cpu_seconds:,.0f} | {', '.join(one.found()) or 'none'} |")
    return any(one.found() for one in targets)


if __name__ == "__main__":
    sys.exit(main())
