#!/usr/bin/python3
"""Requests/s within objectives of two CPUs under a trace's prompts and answers: a prefill and a decode worker, two workers that do
both, one that does both with both CPUs, and llama-server.

    bench/goodput.py --model MODEL.gguf --trace conversation.jsonl [--bin build/dev] [--rates 0.5 1 ...] [--seconds 30] [--json FILE]

All answer OpenAI's HTTP to one client, which shares their CPUs. Requests come as a Poisson process at each of the rates, with the
lengths and the shared prefixes of the trace divided by --divide. First each participant is tried with several settings at
--tune-rate and keeps the best. Before the rates, `baton plan` says from the engine's own speed which division will be the best.
A participant's figure is its best rate's. Said to be right when 1P1D has at least twice llama-server's figure, and at least that of
the better of the two that do both, or the plan had said that it would not."""
import argparse
import contextlib
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import peer_server
import plan_check
from serving import ROOT, Serving, free_port

OBJECTIVE = "ttft=2s,itl_p95=100ms"
CONTEXT = 8192  # SmolLM2's, which the longest requests are cut to
LONGEST = ["--max-input-len=7600", "--max-output-len=500"]
SLOTS = 16
# Flags of the workers, and how long a request may wait for one: who would be late is refused, where that helps the others.
WAITS = ("10s", "1s")
BATON_SETTINGS = [(f"--max-num-batched-tokens={chunk}", f"--max-queue-time={wait}")
                  for wait, chunk in itertools.product(WAITS, (512, 128))]
LLAMA_SETTINGS = [("--batch-size", str(batch), "--ubatch-size", str(batch)) for batch in (64, 128, 256)]
LLAMA = "llama-server"
# For each participant: its workers as (role, threads, CPUs), and when the router hands off.
FLEETS = {
    "1P1D": ([("prefill", 1, "0"), ("decode", 1, "1")], "always"),
    "two that do both": ([("decode", 1, "0"), ("decode", 1, "1")], "never"),
    "one that does both": ([("decode", 2, "0,1")], "never"),
}
BEYOND_ANY_PROMPT = str(1 << 20)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", required=True)
    parser.add_argument("--trace", required=True)
    parser.add_argument("--divide", type=float, default=16, help="the lengths of the trace")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.5, 1, 1.5, 2, 3])
    parser.add_argument("--seconds", type=float, default=30, help="that are measured at each rate")
    parser.add_argument("--tune-rate", type=float, default=1)
    parser.add_argument("--tune-seconds", type=float, default=20)
    parser.add_argument("--repetitions", type=int, default=2, help="of each test of the engine")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def lengths(args):
    return [f"--trace={args.trace}", f"--input-scale={1 / args.divide:g}", f"--output-scale={1 / args.divide:g}", *LONGEST]


@contextlib.contextmanager
def baton(args, name, setting):
    """The port of HTTP of a router in front of the fleet."""
    workers, disaggregate = FLEETS[name]
    chunk, wait = setting
    port = free_port()
    serving = Serving(args.bin, args.model, [f"--disaggregate={disaggregate}", wait, f"--http-listen=127.0.0.1:{port}"])
    for role, threads, cpus in workers:
        serving.add_worker(role, f"--threads={threads}", f"--cpu-set={cpus}", f"--kv-cache-memory-bytes={2 << 30}", chunk)
    with serving:
        yield port


def llama_server(args, setting):
    return peer_server.running(args.llama, args.model, "--threads", "2", "--parallel", str(SLOTS), "--ctx-size",
                               str(SLOTS * CONTEXT), *setting)


def served(args, name, setting, rate, seconds):
    """What the client saw of one participant at one rate, from its start on."""
    with (llama_server(args, setting) if name == LLAMA else baton(args, name, setting)) as port:
        done = subprocess.run(
            [str(args.bin / "bin/baton"), "bench", "serve", f"--http=http://127.0.0.1:{port}", "--json", f"--request-rate={rate}",
             f"--duration={seconds}s", "--warmup=5s", f"--objective={OBJECTIVE}", *lengths(args)],
            stdout=subprocess.PIPE, text=True, check=True)
    row = json.loads(done.stdout)["classes"]["all"]
    return {"rate": rate, **{field: row[field] for field in ("offered_per_s", "goodput_per_s", "completed", "refused", "failed")},
            "ttft_p50_ms": row["ttft_ms"]["p50"], "ttft_p99_ms": row["ttft_ms"]["p99"], "itl_p95_ms": row["itl_ms"]["p95"]}


def tuned(args):
    """The best setting of each."""
    best = {}
    for name in (*FLEETS, LLAMA):
        tries = []
        for setting in LLAMA_SETTINGS if name == LLAMA else BATON_SETTINGS:
            figures = served(args, name, setting, args.tune_rate, args.tune_seconds)
            tries.append((figures["goodput_per_s"], setting))
            print(f"{name} {' '.join(setting)}: {figures['goodput_per_s']:.2f}/s of {args.tune_rate:g}", flush=True)
        best[name] = max(tries, key=lambda one: one[0])[1]
    return best


def engine_rates(args, folder):
    """Files of what the engine does: with one CPU as a "prefill" or a "decode" worker or "either", and with "both" CPUs."""
    both = subprocess.run(
        [str(args.bin / "bin/baton"), "bench", "engine", f"--model={args.model}", "--threads=2", "-r", str(args.repetitions),
         "--json", "-p", "64,256,512", "-d", "0,512", "-n", "16", "-b", "1,2,4,8,16"], stdout=subprocess.PIPE, text=True, check=True)
    alone = plan_check.measure_rates(args)
    prefill, decode = alone[plan_check.PREFILL_CPU], alone[plan_check.DECODE_CPU]
    # A worker that does both needs the prompts of one measurement and the answers of the other.
    either = {**prefill, "results": prefill["results"] + decode["results"]}
    texts = {"prefill": json.dumps(prefill), "decode": json.dumps(decode), "either": json.dumps(either), "both": both.stdout}
    files = {name: folder / f"{name}.json" for name in texts}
    for name, text in texts.items():
        files[name].write_text(text, encoding="utf-8")
    return files


def plan_flags(name, files):
    """The fleet as `baton plan` has it, which wants a prefill worker and knows no "never"."""
    workers, disaggregate = FLEETS[name]
    decode = [threads for role, threads, _ in workers if role == "decode"]
    fleet = ["--prefill-workers=1", f"--decode-workers={len(decode)}"]
    if disaggregate == "always":
        return [*fleet, f"--rates={files['prefill']}", f"--decode-rates={files['decode']}", "--disaggregate=always"]
    return [*fleet, f"--rates={files['either' if decode[0] == 1 else 'both']}", f"--disaggregate={BEYOND_ANY_PROMPT}"]


def planned(args):
    """What the model of the fleet says of the best rate of each, before anybody is asked."""
    with tempfile.TemporaryDirectory(prefix="baton-goodput-") as folder:
        files = engine_rates(args, pathlib.Path(folder))
        best = {}
        for name in FLEETS:
            goodputs = []
            for rate, wait in itertools.product(args.rates, WAITS):
                done = subprocess.run(
                    [str(args.bin / "bin/baton"), "plan", "--json", *plan_flags(name, files), f"--request-rate={rate}",
                     f"--max-queue-time={wait}", f"--duration={args.seconds}s", f"--objective={OBJECTIVE}", *lengths(args)],
                    stdout=subprocess.PIPE, text=True, check=True)
                goodputs.append(json.loads(done.stdout)["goodput_per_s"])
            best[name] = max(goodputs)
            print(f"planned: {name}: {best[name]:.2f}/s of {goodputs}", flush=True)
    return best


def main():
    args = parse()
    args.llama = peer_server.server()
    expected = planned(args)
    settings = tuned(args)
    rows = {name: [] for name in settings}
    for rate in args.rates:
        for name, setting in settings.items():
            if rows[name] and rows[name][-1]["goodput_per_s"] < 0.2 * rows[name][-1]["offered_per_s"]:
                continue  # it will not keep more of a higher rate
            rows[name].append(served(args, name, setting, rate, args.seconds))
            print(name, json.dumps(rows[name][-1]), flush=True)
    best = {name: max(row["goodput_per_s"] for row in of) for name, of in rows.items()}
    for name, value in best.items():
        print(f"{name:20} {value:6.2f}/s  {' '.join(settings[name])}")
    colocated = max(value for name, value in best.items() if name not in ("1P1D", LLAMA))
    expected_colocated = max(value for name, value in expected.items() if name != "1P1D")
    share, planned_share = best["1P1D"] / colocated, expected["1P1D"] / expected_colocated
    goals = [("of llama-server, 2 at least", best["1P1D"] / best[LLAMA] >= 2, best["1P1D"] / best[LLAMA]),
             (f"of those that do both, 1 at least unless planned ({planned_share:.2f})", share >= 1 or planned_share < 1, share)]
    for what, kept, value in goals:
        print(f"  {'kept  ' if kept else 'MISSED'} 1P1D {what}: {value:.2f}")
    if args.json is not None:
        args.json.write_text(json.dumps({"objective": OBJECTIVE, "settings": settings, "planned": expected, "rows": rows},
                                        indent=2) + "\n", encoding="utf-8")
    return 0 if all(kept for _, kept, _ in goals) else 1


if __name__ == "__main__":
    sys.exit(main())
