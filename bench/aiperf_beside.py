#!/usr/bin/python3
"""What `baton bench serve` measures beside what aiperf does, in turns on one server at half of its load.

    bench/aiperf_beside.py --packages FOLDER --tokenizer FOLDER [--bin build/dev] [--rounds 3] [--requests 400] [--json FILE]

The server is a router with mock workers, which takes a fixed time for each token of a prompt and each of an answer and leaves the
CPUs to the two programs; and both replay one trace by /v1/completions, the lengths of Mooncake's conversations at times drawn once
for a round. So what differs is how they measure. `--packages`: aiperf's, as tests/support/pypi_packages.py fetches them from
tests/support/aiperf_requirements.txt; `--tokenizer`: what scripts/hugging_face_folder.py writes. Figures are medians of the rounds.
Said to be right when p50 agrees to 5 % and p99 to 20 %."""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

from serving import ROOT, free_port, mock_serving

LENGTHS = ROOT / "tests/data/traces/mooncake_conversation_scaled.csv"
PROMPT_TOKEN_US, BETWEEN_TOKENS_MS = 250, 10
LOAD = 0.5  # share of the time in which the one prefill worker has a prompt
# aiperf's name of a figure, and ours.
COMPARED = [("time_to_first_token", "ttft_from_sent_ms"), ("inter_token_latency", "tpot_ms"), ("request_latency", "e2e_from_sent_ms")]
GOALS = {"p50": 0.05, "p99": 0.2}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", default=str(ROOT / "tests/data/tokenizer/smollm2-vocab.gguf"))
    parser.add_argument("--packages", type=pathlib.Path, required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=400, help="in each round of each")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def write_trace(path, requests, seed):
    """Mooncake's lines, of which each prompt is new to the server."""
    draw = random.Random(seed)
    lines = [line.split(",") for line in LENGTHS.read_text(encoding="utf-8").splitlines() if line[:1].isdigit()]
    lengths = [(int(prompt), int(output)) for prompt, output, *_ in draw.sample(lines, requests)]
    mean_s = sum(prompt for prompt, _ in lengths) / requests * PROMPT_TOKEN_US / 1e6
    at_s = 0.0
    with path.open("w", encoding="utf-8") as file:
        for prompt, output in lengths:
            file.write(json.dumps({"timestamp": round(1000 * at_s), "input_length": prompt, "output_length": output}) + "\n")
            at_s += draw.expovariate(LOAD / mean_s)


def by_baton(args, url, trace, seed):
    done = subprocess.run(
        [str(args.bin / "bin/baton"), "bench", "serve", f"--http={url}", f"--trace={trace}", f"--seed={seed}", "--json"],
        stdout=subprocess.PIPE, text=True, check=True)
    row = json.loads(done.stdout)["classes"]["all"]
    if row["completed"] != args.requests:
        raise SystemExit(f"requests were lost: {row}")
    return {aiperf: {percentile: row[ours][percentile] for percentile in GOALS} for aiperf, ours in COMPARED}


def by_aiperf(args, url, trace, seed):
    with tempfile.TemporaryDirectory(prefix="baton-aiperf-") as folder:
        done = subprocess.run(
            [sys.executable, "-m", "aiperf", "profile", "--model", "mock", "--url", url, "--endpoint-type", "completions",
             "--streaming", "--tokenizer", args.tokenizer, "--input-file", str(trace), "--custom-dataset-type", "mooncake_trace",
             "--fixed-schedule", "--extra-inputs", "ignore_eos:true", "--random-seed", str(seed), "--use-server-token-count",
             "--workers-max", "1", "--ui", "none", "--artifact-dir", f"{folder}/out"],
            cwd=folder, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "PYTHONPATH": str(args.packages), "HF_HOME": folder, "HOME": folder, "PYTHONDONTWRITEBYTECODE": "1"})
        if done.returncode != 0:
            raise SystemExit(done.stdout[-4000:])
        report = json.loads(next(pathlib.Path(folder, "out").rglob("profile_export_aiperf.json")).read_text(encoding="utf-8"))
    if report["request_count"]["avg"] != args.requests:
        raise SystemExit(f"aiperf counted {report['request_count']} requests")
    return {name: {percentile: report[name][percentile] for percentile in GOALS} for name, _ in COMPARED}


def main():
    args = parse()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    serving = mock_serving(args.bin, args.model, 2, [f"--per-prompt-token={PROMPT_TOKEN_US}us",
                                                     f"--between-tokens={BETWEEN_TOKENS_MS}ms"],
                           [f"--http-listen=127.0.0.1:{port}", "--served-model-name=mock"])
    rounds = {"baton": [], "aiperf": []}
    trace = pathlib.Path(serving.scratch.name) / "trace.jsonl"
    with serving:
        for seed in range(1, args.rounds + 1):
            write_trace(trace, args.requests, seed)
            rounds["baton"].append(by_baton(args, url, trace, seed))
            rounds["aiperf"].append(by_aiperf(args, url, trace, seed))
            print(json.dumps({name: of[-1] for name, of in rounds.items()}), flush=True)
    missed = 0
    print(f"| {'':25} | {'baton':>9} | {'aiperf':>9} | ratio |")
    for name, _ in COMPARED:
        for percentile, goal in GOALS.items():
            ours, theirs = (statistics.median(one[name][percentile] for one in rounds[who]) for who in ("baton", "aiperf"))
            kept = abs(ours / theirs - 1) <= goal
            missed += not kept
            print(f"| {name + ' ' + percentile:25} | {ours:9.2f} | {theirs:9.2f} | {ours / theirs:5.3f} | {'kept' if kept else 'MISSED'}")
    if args.json is not None:
        args.json.write_text(json.dumps(rounds, indent=2) + "\n", encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
