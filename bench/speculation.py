#!/usr/bin/python3
"""What guessed tokens gain: answers that copy, prose, and 16 answers at once, with guesses and without, on two cores.

    bench/speculation.py [--bin build/dev] --model MODEL.gguf [--runs 7] [--json FILE] [CASE...]

One decode worker with all cores serves both modes; each run has both, and the mode that comes first changes from run to run.
A figure is tokens a second of the decode, as the answers' timelines have it: median, least and most of the runs. All answers of
a case have to be equal. Takes a minute or two with SmolLM2-135M."""
import argparse
import concurrent.futures
import json
import pathlib
import statistics
import subprocess

from serving import ROOT, Serving

CODE = """def total(prices, rate):
    result = 0
    for price in prices:
        if price < 0:
            raise ValueError("a price is negative")
        result += price * (1 + rate)
    return round(result, 2)


def cheapest(prices):
    best = None
    for price in prices:
        if best is None or price < best:
            best = price
    return best
"""
RECORDS = """{"records": [
  {"id": 1, "name": "Ada", "city": "London", "active": true, "score": 17},
  {"id": 2, "name": "Grace", "city": "New York", "active": true, "score": 21},
  {"id": 3, "name": "Edsger", "city": "Rotterdam", "active": false, "score": 19},
  {"id": 4, "name": "Barbara", "city": "Boston", "active": true, "score": 23}
"""
LETTER = """The committee met on the ninth of March to consider the repair of the bridge. It heard two engineers, who agreed that
the eastern pier had sunk by four inches since the flood, and that the arch above it would not bear another winter. The estimate
for a new pier was read aloud and approved. The clerk was asked to write to the owners of both mills, whose carts use the bridge
every day, and to ask each of them for a tenth of the cost. The work is to begin in May and to end before the harvest."""
PROSE = "Write a long story about a lighthouse keeper who finds a strange bottle on the beach."
# Each case: the prompts of the answers that run at once.
CASES = {
    "edit a file": [f"Repeat this file exactly, but rename the function total to total_price:\n```python\n{CODE}```"],
    "mend JSON": [f"This JSON lacks its closing brackets. Print it again, complete:\n{RECORDS}"],
    "quote a document": [f"Quote this document word for word:\n\n{LETTER}"],
    "prose": [PROSE],
    "prose, 16 at once": [f"{PROSE} The keeper is {20 + i} years old." for i in range(16)],
}
TOKENS = 200
MODES = ("none", "auto")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", required=True)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("case", nargs="*", choices=[*CASES, []], default=[])
    return parser.parse_args()


def ask(args, port, prompt, mode):
    command = [str(args.bin / "bin/baton"), "run", f"--server=127.0.0.1:{port}", "--json", f"--max-tokens={TOKENS}",
               "--temperature=0", f"--speculative={mode}", prompt]
    return json.loads(subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout)


def run(args, port, prompts, mode):
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        answers = list(pool.map(lambda prompt: ask(args, port, prompt, mode), prompts))
    tokens = sum(answer["usage"]["completion_tokens"] - 1 for answer in answers)
    seconds = max(answer["timings"]["decode_ms"] for answer in answers) / 1e3
    return {"tokens_per_s": tokens / seconds, "ids": [answer["token_ids"] for answer in answers],
            "accepted": sum(answer["usage"]["accepted_prediction_tokens"] for answer in answers),
            "rejected": sum(answer["usage"]["rejected_prediction_tokens"] for answer in answers)}


def spread(samples):
    return {"median": statistics.median(samples), "min": min(samples), "max": max(samples)}


def measure(args, port, case):
    run(args, port, CASES[case], "none")  # the prompts are in the prefix cache from here on
    runs = {mode: [] for mode in MODES}
    for i in range(args.runs):
        for mode in MODES if i % 2 == 0 else reversed(MODES):
            runs[mode].append(run(args, port, CASES[case], mode))
    every = [one for mode in MODES for one in runs[mode]]
    if any(one["ids"] != every[0]["ids"] for one in every):
        raise SystemExit(f"{case}: an answer changed")
    result = {mode: spread([one["tokens_per_s"] for one in runs[mode]]) for mode in MODES}
    # Pairs of neighbouring runs, so that what else the machine did concerns both.
    result["ratio"] = spread([auto["tokens_per_s"] / none["tokens_per_s"]
                              for none, auto in zip(runs["none"], runs["auto"])])
    last = runs["auto"][-1]
    return {**result, "tokens": sum(map(len, last["ids"])), "accepted": last["accepted"], "rejected": last["rejected"]}


def main():
    args = parse()
    serving = Serving(args.bin, args.model, ["--disaggregate=never"])
    serving.add_worker("decode")
    results = {}
    with serving:
        for case in args.case or CASES:
            results[case] = measure(args, serving.port, case)
            row = {key: {name: round(number, 2) for name, number in value.items()} if isinstance(value, dict) else value
                   for key, value in results[case].items()}
            print(case, json.dumps(row), flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
