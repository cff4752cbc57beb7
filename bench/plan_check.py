#!/usr/bin/python3
"""What `baton plan` predicts beside what is measured: a prefill and a decode worker with one CPU each.

    bench/plan_check.py --model MODEL.gguf [--bin build/dev] [--request-rate 3] [--seconds 60] [--json FILE]
    bench/plan_check.py --model MODEL.gguf --trace conversation.jsonl --trace-args="--time-scale=4 --input-scale=0.05 ..."

`baton bench engine` measures the rates of both CPUs, one thread each, before the load and after it: the speed of a machine that
others share changes within minutes. `baton bench serve` and `baton plan` get the same load: the lengths and shared prefixes of a
trace, at a rate, or with --request-rate 0 at the trace's own times. The router and the load generator are on the prefill worker's
CPU. Tokens are not guessed, because the model of the fleet does not guess. The KV caches are small and were full once before the
load, so that no block's memory is new to the system: that costs once, and is in no rate.

Said to be right where p50 and p90 of the time to first token and of the inter-token latency are predicted to 20 %."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from serving import ROOT, Serving, pinned

GOAL = 0.2
PREFILL_CPU, DECODE_CPU = 0, 1
MEASURES = {PREFILL_CPU: ["-p", "64,256,512", "-d", "0,512", "-n", "8", "-b", "1,2"],
            DECODE_CPU: ["-p", "64", "-d", "0,512", "-n", "32", "-b", "1,2,4,8,16"]}
COMPARED = [(series, percentile) for series in ("ttft_ms", "itl_ms") for percentile in ("p50", "p90")]
KV_CACHE_BYTES = 192 << 20
WARM_UP = ["--request-rate=2", "--input-len=600", "--output-len=20", "--seed=999"]  # its prompts fill the caches, 13.8 MB each
WARM_UP_S = 12
TOLD = [("ttft_ms", "mean"), ("itl_ms", "mean"), ("tpot_ms", "p50"), ("e2e_ms", "p50"), ("e2e_ms", "p90")]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", required=True)
    parser.add_argument("--trace", default=str(ROOT / "tests/data/traces/mooncake_conversation_scaled.csv"))
    parser.add_argument("--trace-args", default="", help="more flags of the trace, for both")
    parser.add_argument("--request-rate", type=float, default=3, help="requests/s; 0: the trace's own times")
    parser.add_argument("--seconds", type=float, default=60, help="of the load at a rate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=2, help="of each test of the engine")
    parser.add_argument("--plan-args", default="", help="more flags of `baton plan`")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def measure_rates(args):
    """What `baton bench engine` says of each CPU. Both are measured at once, since both workers run at once: they share caches and
    memory."""
    running = []
    for cpu, tests in MEASURES.items():
        command = [str(args.bin / "bin/baton"), "bench", "engine", f"--model={args.model}", "--threads=1", f"--cpu-set={cpu}",
                   "-r", str(args.repetitions), "--json", *tests]
        running.append(subprocess.Popen(pinned(cpu, command), stdout=subprocess.PIPE, text=True))
    rates = {}
    for cpu, process in zip(MEASURES, running):
        text, _ = process.communicate()
        if process.returncode != 0:
            raise SystemExit("baton bench engine failed")
        rates[cpu] = json.loads(text)
    return rates


def between(before, after):
    """The rates with the mean of both times of each test."""
    def mean(earlier, later):
        return {**earlier, "tokens_per_s": 2 / (1 / earlier["tokens_per_s"] + 1 / later["tokens_per_s"])}

    return {**before, "results": list(map(mean, before["results"], after["results"]))}


def load_of(args):
    """The flags that both have."""
    rate = [f"--request-rate={args.request_rate:g}", f"--duration={args.seconds:g}s"] if args.request_rate > 0 else []
    return [f"--trace={args.trace}", *args.trace_args.split(), *rate]


def measure(args):
    serving = Serving(args.bin, args.model, ["--disaggregate=always", "--max-queue-time=1h"], router_cpu=PREFILL_CPU,
                      load_cpu=PREFILL_CPU)
    flags = ["--threads=1", "--speculative=none", f"--kv-cache-memory-bytes={KV_CACHE_BYTES}"]
    serving.add_worker("prefill", *flags, f"--cpu-set={PREFILL_CPU}", cpu=PREFILL_CPU)
    serving.add_worker("decode", *flags, f"--cpu-set={DECODE_CPU}", cpu=DECODE_CPU)
    with serving:
        # Connections are made, and the workers learn their speed. The prompts are others than those that count.
        serving.load(WARM_UP_S, *WARM_UP, warmup=0)
        command = [str(args.bin / "bin/baton"), "bench", "serve", f"--server=127.0.0.1:{serving.port}", "--json", "--timeout=1h",
                   "--warmup=0s", f"--seed={args.seed}", *load_of(args)]
        done = subprocess.run(pinned(PREFILL_CPU, command), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)["classes"]["all"]


def predict(args, rates):
    with tempfile.TemporaryDirectory(prefix="baton-plan-") as folder:
        files = {cpu: pathlib.Path(folder) / f"rates-{cpu}.json" for cpu in rates}
        for cpu, file in files.items():
            file.write_text(json.dumps(rates[cpu]), encoding="utf-8")
        command = [str(args.bin / "bin/baton"), "plan", f"--rates={files[PREFILL_CPU]}", f"--decode-rates={files[DECODE_CPU]}",
                   "--prefill-workers=1", "--decode-workers=1", "--disaggregate=always", "--max-queue-time=1h",
                   f"--kv-cache-memory-bytes={KV_CACHE_BYTES}", f"--seed={args.seed}", "--json", *load_of(args),
                   *args.plan_args.split()]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def main():
    args = parse()
    before, measured, after = measure_rates(args), measure(args), measure_rates(args)
    predicted = predict(args, {cpu: between(before[cpu], after[cpu]) for cpu in MEASURES})
    measured_rates = {name: {"before": before[cpu]["results"], "after": after[cpu]["results"]}
                      for name, cpu in (("prefill", PREFILL_CPU), ("decode", DECODE_CPU))}
    print(f"{predicted['model']}; {measured['completed']} of {measured['offered']} requests completed; the model has the prefill "
          f"worker busy for {100 * predicted['prefill']['busy']:.0f} % of the time, the decode worker for "
          f"{100 * predicted['decode']['busy']:.0f} %")
    print(f"| {'':14} | {'predicted':>10} | {'measured':>10} | {'ratio':>6} |")
    missed = 0
    for series, statistic in COMPARED + TOLD:
        expected, seen = predicted[series][statistic], measured[series][statistic]
        ratio = expected / seen
        wrong = (series, statistic) in COMPARED and abs(ratio - 1) > GOAL
        missed += wrong
        print(f"| {series} {statistic:{13 - len(series)}} | {expected:10.2f} | {seen:10.2f} | {ratio:6.2f} |"
              + ("  MISSED: not within 20 %" if wrong else ""))
    if args.json is not None:
        result = {"request_rate": args.request_rate, "predicted": predicted, "measured": measured, "rates": measured_rates}
        args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
