#!/usr/bin/python3
"""Whether workers that are divided as the router advises serve a load that moves from prompts to answers as well as the best fixed
division of each part of it.

    bench/planner.py [--bin build/dev] [--seconds 60] [--static-seconds 30] [--all] [--json FILE]

Twelve mock workers of fixed rates, real servers behind a real router. Of eleven prefill and eleven decode workers that run, the
workers file names twelve. While a part lasts, the file follows `baton_router_balanced_workers`; a worker whose role the advice
changes is named --start-seconds later, as one that has to be started. Then each part is played again with fixed divisions: the one
that the rates say is best and its neighbours, or with --all every one. Said to be right when each part keeps 0.9 of its best."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

from serving import ROOT, Serving

MACHINES = 12
PROMPT_TOKEN_US, ALONE_MS, MORE_MS = 500, 40, 2  # 2,000 prompt tokens/s; 250 tokens/s with 20 sequences
KNEE_TOKENS_PER_S = 1e3 / (2 * MORE_MS)
OBJECTIVE = "ttft=2s,tpot=100ms"
GOAL = 0.9
# Name, requests/s, prompt tokens, output tokens: about 0.6 of what twelve workers can do.
PARTS = [("prompts", 16, 800, 16), ("both", 18, 400, 50), ("answers", 17, 100, 100)]
ADVICE = re.compile(r'^baton_router_balanced_workers\{[^}]*worker_role="prefill"[^}]*\} (\S+)$', re.MULTILINE)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", default=str(ROOT / "tests/data/tokenizer/smollm2-vocab.gguf"))
    parser.add_argument("--seconds", type=float, default=60, help="of each part with advice")
    parser.add_argument("--static-seconds", type=float, default=30, help="of each part with a fixed division")
    parser.add_argument("--start-seconds", type=float, default=3, help="until a worker of another role is there")
    parser.add_argument("--window", default="8s", help="--advice-window of the router")
    parser.add_argument("--all", action="store_true", help="all fixed divisions")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


class Fleet:
    """Eleven workers of each role, of which the router's workers file names some."""

    def __init__(self, serving):
        self.serving, self.scratch = serving, pathlib.Path(serving.scratch.name)
        everyone = self.scratch / "everyone"
        command = [str(serving.build / "tests/mock_workers"), f"--model={serving.model}", f"--workers-file={everyone}",
                   f"--prefill={MACHINES - 1}", f"--decode={MACHINES - 1}", f"--per-prompt-token={PROMPT_TOKEN_US}us",
                   f"--between-tokens={ALONE_MS}ms", f"--per-sequence={MORE_MS}ms", "--kv-blocks=100000"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=serving.log, text=True)
        serving.workers.append(process)
        if process.stdout.readline() != "ready\n":
            raise SystemExit("the mock workers do not start:\n" + serving.log_text())
        lines = everyone.read_text(encoding="utf-8").splitlines()
        self.of_role = {role: [line for line in lines if line.startswith(role)] for role in ("prefill", "decode")}
        self.file = self.scratch / "workers"
        serving.router_args.append(f"--workers-file={self.file}")
        serving.expected = MACHINES
        self.name(MACHINES // 2, MACHINES // 2)

    def name(self, prefill, decode):
        lines = self.of_role["prefill"][:prefill] + self.of_role["decode"][:decode]
        new = self.file.with_suffix(".new")
        new.write_text("\n".join(lines) + "\n", encoding="utf-8")
        os.replace(new, self.file)

    def divide(self, prefill):
        self.name(prefill, MACHINES - prefill)
        deadline = time.monotonic() + 15
        while self.serving.ready_workers() != MACHINES and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(2.5)  # the file is read every 2 s


class Follower:
    """Divides the workers as the router advises, until the end of the `with`."""

    def __init__(self, fleet, prefill, start_seconds):
        self.fleet, self.prefill, self.start_seconds = fleet, prefill, start_seconds
        self.changes, self.stopped = 0, threading.Event()
        self.thread = threading.Thread(target=self.follow)

    def follow(self):
        while not self.stopped.wait(1):
            told = ADVICE.search(self.fleet.serving.metrics())
            advised = int(float(told[1])) if told else self.prefill
            if advised == self.prefill:
                continue
            self.fleet.name(min(self.prefill, advised), MACHINES - max(self.prefill, advised))
            self.stopped.wait(self.start_seconds)
            self.fleet.name(advised, MACHINES - advised)
            self.prefill, self.changes = advised, self.changes + 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join()


def play(serving, part, seconds, seed, warmup):
    _, rate, prompt, output = part
    row = serving.load(seconds, f"--request-rate={rate}", f"--input-len={prompt}", f"--output-len={output}", f"--seed={seed}",
                       f"--objective={OBJECTIVE}", warmup=warmup)["classes"]["all"]
    return row["good_share"]


def promising(part, everything):
    """Numbers of prefill workers."""
    if everything:
        return range(1, MACHINES)
    _, _, prompt, output = part
    prefill, decode = prompt * PROMPT_TOKEN_US / 1e6, output / KNEE_TOKENS_PER_S
    middle = min(MACHINES - 2, max(2, round(MACHINES * prefill / (prefill + decode))))
    return range(middle - 1, middle + 2)


def main():
    args = parse()
    serving = Serving(args.bin, args.model, ["--disaggregate=always", f"--advice-window={args.window}",
                                             f"--advice-workers={MACHINES}"])
    fleet = Fleet(serving)
    rows = []
    with serving:
        play(serving, PARTS[1], 8, 99, 1)  # makes connections
        follower = Follower(fleet, MACHINES // 2, args.start_seconds)
        with follower:
            for seed, part in enumerate(PARTS):
                share = play(serving, part, args.seconds, seed, 0.1)
                rows.append({"part": part[0], "advised": follower.prefill, "good_share": share})
                print(json.dumps(rows[-1]), flush=True)
        for seed, (part, row) in enumerate(zip(PARTS, rows)):
            shares = {}
            for prefill in promising(part, args.all):
                fleet.divide(prefill)
                shares[prefill] = play(serving, part, args.static_seconds, seed, 1)
            row["fixed"] = shares
            print(json.dumps(row), flush=True)
    print(f"{follower.changes} changes; objective {OBJECTIVE}")
    missed = 0
    for row in rows:
        best = max(row["fixed"], key=row["fixed"].get)
        ratio = row["good_share"] / row["fixed"][best] if row["fixed"][best] > 0 else 0
        missed += ratio < GOAL
        print(f"  {'kept  ' if ratio >= GOAL else 'MISSED'} {row['part']:8} {row['advised']}:{MACHINES - row['advised']} at last, "
              f"{row['good_share']:.3f} good; best fixed {best}:{MACHINES - best}, {row['fixed'][best]:.3f}: {ratio:.3f}")
    if args.json is not None:
        args.json.write_text(json.dumps({"parts": rows, "changes": follower.changes, "objective": OBJECTIVE}, indent=2) + "\n",
                             encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
