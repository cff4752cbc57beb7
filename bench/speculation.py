#!/usr/bin/python3
"""What guessed tokens gain: answers that copy, prose, and 16 answers at once, with guesses and without, on two cores.

    bench/speculation.py [--bin build/dev] --model MODEL.gguf [--draft-model DRAFT.gguf] [--llama-server PROGRAM] [--runs 7]
                         [--json FILE] [CASE...]

One decode worker with all cores serves both modes; each run has both, and the mode that comes first changes from run to run.
With a draft model, the mode with guesses asks it where n-grams have none. llama.cpp's server is measured in the same way after
Baton, with n-grams (its ngram-simple) or the draft model alone (draft-simple); peer_server.py builds it and prints PROGRAM.
A figure is tokens a second of the decode, as the answers' timelines have it: median, least and most of the runs. All of Baton's
answers of a case have to be equal; of llama.cpp, "changed" counts those that are not. Takes a minute or two with SmolLM2-135M."""
import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import urllib.request

from peer_server import running
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


class Baton:
    """A router and one decode worker."""

    name = "baton"

    def __init__(self, args):
        self.program = args.bin / "bin/baton"
        self.modes = ("none", "auto")
        self.serving = Serving(args.bin, args.model, ["--disaggregate=never"])
        self.serving.add_worker("decode", *([f"--draft-model={args.draft_model}"] if args.draft_model else []))

    def __enter__(self):
        self.serving.__enter__()
        return self

    def __exit__(self, *reason):
        self.serving.__exit__(*reason)

    def ask(self, prompt, mode):
        command = [str(self.program), "run", f"--server=127.0.0.1:{self.serving.port}", "--json", f"--max-tokens={TOKENS}",
                   "--temperature=0", f"--speculative={mode}", prompt]
        done = json.loads(subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout)
        usage = done["usage"]
        return {"answer": done["token_ids"], "tokens": usage["completion_tokens"], "decode_ms": done["timings"]["decode_ms"],
                "accepted": usage["accepted_prediction_tokens"], "rejected": usage["rejected_prediction_tokens"]}


class LlamaServer:
    """llama.cpp's server twice, with guesses and without; one of them idles."""

    name = "llama.cpp"

    def __init__(self, args):
        self.program, self.model = args.llama_server, args.model
        # A draft model has threads of its own there: if both sets polled for work, it would lose more than half its speed.
        guesses = (["--spec-type", "draft-simple", "--spec-draft-model", args.draft_model, "--poll", "0"] if args.draft_model
                   else ["--spec-type", "ngram-simple"])
        self.modes = ("none", guesses[1])
        self.arguments = dict(zip(self.modes, ([], guesses)))
        self.ports = {}
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        for mode, arguments in self.arguments.items():
            self.ports[mode] = self.stack.enter_context(running(
                self.program, self.model, "--threads", str(os.cpu_count()), "--parallel", "16", "--ctx-size", "32768", "--jinja",
                *arguments))
        return self

    def __exit__(self, *reason):
        self.stack.close()

    def ask(self, prompt, mode):
        body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": TOKENS, "temperature": 0}
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports[mode]}/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            done = json.load(answer)
        timings = done["timings"]
        accepted = timings.get("draft_n_accepted", 0)
        return {"answer": done["choices"][0]["message"]["content"], "tokens": done["usage"]["completion_tokens"],
                "decode_ms": timings["predicted_ms"], "accepted": accepted, "rejected": timings.get("draft_n", 0) - accepted}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", required=True)
    parser.add_argument("--draft-model", default="")
    parser.add_argument("--llama-server", default="")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("case", nargs="*", choices=[*CASES, []], default=[])
    return parser.parse_args()


def run(server, prompts, mode):
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        answers = list(pool.map(lambda prompt: server.ask(prompt, mode), prompts))
    seconds = max(answer["decode_ms"] for answer in answers) / 1e3
    return {"tokens_per_s": sum(answer["tokens"] - 1 for answer in answers) / seconds,
            "answers": [answer["answer"] for answer in answers],
            **{key: sum(answer[key] for answer in answers) for key in ("tokens", "accepted", "rejected")}}


def spread(samples):
    return {"median": statistics.median(samples), "min": min(samples), "max": max(samples)}


def measure(server, case, count):
    run(server, CASES[case], "none")  # the prompts are in the prefix cache from here on
    runs = {mode: [] for mode in server.modes}
    for i in range(count):
        for mode in server.modes if i % 2 == 0 else reversed(server.modes):
            runs[mode].append(run(server, CASES[case], mode))
    without, guessed = runs.values()
    changed = sum(one["answers"] != without[0]["answers"] for one in [*without, *guessed])
    if changed and isinstance(server, Baton):
        raise SystemExit(f"{case}: an answer changed")
    result = {mode: spread([one["tokens_per_s"] for one in runs[mode]]) for mode in server.modes}
    # Pairs of neighbouring runs, so that what else the machine did concerns both.
    result["ratio"] = spread([two["tokens_per_s"] / one["tokens_per_s"] for one, two in zip(without, guessed)])
    return {**result, "changed": changed, **{key: guessed[-1][key] for key in ("tokens", "accepted", "rejected")}}


def main():
    args = parse()
    results = {}
    for server in [Baton(args), *([LlamaServer(args)] if args.llama_server else [])]:
        with server:
            for case in args.case or CASES:
                measured = results[f"{server.name}, {case}"] = measure(server, case, args.runs)
                row = {key: {name: round(number, 2) for name, number in value.items()} if isinstance(value, dict) else value
                       for key, value in measured.items()}
                print(f"{server.name}, {case}", json.dumps(row), flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
