#!/usr/bin/python3
"""What happens at three times the load that the workers can bear: an open loop of short requests on a router and its workers.

    bench/overload.py [--bin build/dev] [--seconds 8] [--json FILE]                 mock workers of a fixed speed
    bench/overload.py --model MODEL.gguf --real [...]                               a prefill and a decode worker with one core each

First the load is raised until goodput (requests that keep the objective) no longer follows: the last rate that it followed is
the knee, its best value the peak. Then three times the knee. Said to be right when goodput stays at 90 % of the peak, the p99
of accepted requests stays inside the objective, refusals' p99 is within 10 ms and the router takes at most 64 MB more than idle.
Refusals are timed at the client, from the moment at which the request was to be sent."""
import argparse
import json
import pathlib
import sys
import threading
import time

from serving import ROOT, Serving, mock_serving

OBJECTIVE = {"ttft": 500, "itl": 100}  # ms
FOLLOWS = 0.95  # least goodput, as a share of the offered rate, up to the knee


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", default=str(ROOT / "tests/data/tokenizer/smollm2-vocab.gguf"))
    parser.add_argument("--real", action="store_true", help="real workers, which need the whole model")
    parser.add_argument("--seconds", type=float, default=8, help="that are measured at three times the knee")
    parser.add_argument("--probe-seconds", type=float, default=4, help="that are measured at each rate before")
    parser.add_argument("--rates", type=float, nargs="*", help="requests/s to find the knee with")
    parser.add_argument("--max-queue-time", default="250ms", help="of the router: half of what the objective allows")
    parser.add_argument("--input-len", type=int, default=0, help="tokens of a prompt")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


class Peak:
    """The router's largest resident memory while it lives."""

    def __init__(self, router):
        self.mb, self.stop = router.resident_mb(), threading.Event()
        self.thread = threading.Thread(target=self.watch, args=(router,))

    def watch(self, router):
        while not self.stop.wait(0.02):
            self.mb = max(self.mb, router.resident_mb())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def measure(router, rate, seconds, warmup, lengths):
    objective = ",".join(f"{name}={ms}ms" for name, ms in OBJECTIVE.items())
    report = router.load(seconds, f"--request-rate={rate}", f"--objective={objective}", *lengths, warmup=warmup)
    row = report["classes"]["all"]
    reasons = [line.removeprefix("baton_router_refusals_total") for line in router.metrics().splitlines()
               if line.startswith("baton_router_refusals_total")]  # counted since the router started
    return {"rate": rate, "offered_per_s": row["offered_per_s"], "goodput_per_s": row["goodput_per_s"],
            "completed_per_s": row["completed_per_s"], "refused": row["refused"], "failed": row["failed"],
            "ttft_p50_ms": row["ttft_ms"]["p50"], "ttft_p99_ms": row["ttft_ms"]["p99"], "itl_p99_ms": row["itl_ms"]["p99"],
            "refusal_p50_ms": row["refusal_ms"]["p50"],
            "refusal_p90_ms": row["refusal_ms"]["p90"], "refusal_p99_ms": row["refusal_ms"]["p99"], "refusals": reasons,
            "send_lag_p99_ms": row["send_lag_ms"]["p99"], "failures": row["failures"],
            "generator_cpu_share": report["generator_cpu_share"]}


def main():
    args = parse()
    queue_time = f"--max-queue-time={args.max_queue_time}"
    if args.real:
        # One core for each worker: about 1,500 prompt tokens/s.
        rates, tokens, output = args.rates or [10, 15, 20, 24, 28, 32, 36], args.input_len or 50, 16
        router = Serving(args.bin, args.model, ["--disaggregate=always", queue_time])
        router.add_worker("prefill", "--threads=1", "--cpu-set=0")
        router.add_worker("decode", "--threads=1", "--cpu-set=1")
    else:
        # Two prefill workers that take 10 ms for a prompt each: 200 requests/s.
        rates, tokens, output = args.rates or [100, 140, 160, 180, 190, 200, 220], args.input_len or 100, 16
        router = mock_serving(args.bin, args.model, 4, [f"--per-prompt-token={10_000 / tokens:g}us", "--between-tokens=5ms"],
                              [queue_time])
    lengths = (f"--input-len={tokens}", f"--output-len={output}")
    with router:
        measure(router, rates[0], 1, 0.5, lengths)  # makes connections, and workers learn their own speed
        time.sleep(0.5)
        idle_mb = router.resident_mb()
        rows = []
        for rate in rates:
            rows.append(measure(router, rate, args.probe_seconds, 1, lengths))
            print(json.dumps(rows[-1]), flush=True)
            time.sleep(0.5)
            if rows[-1]["goodput_per_s"] < 0.8 * rows[-1]["offered_per_s"]:
                break
        knee = max((row["rate"] for row in rows if row["goodput_per_s"] >= FOLLOWS * row["offered_per_s"]), default=rates[0])
        peak = max(row["goodput_per_s"] for row in rows)
        with Peak(router) as memory:
            over = measure(router, 3 * knee, args.seconds, 3, lengths)
    over["mb_above_idle"] = memory.mb - idle_mb
    print(json.dumps(over), flush=True)
    goals = {
        "goodput at 3x the knee, share of the peak": (over["goodput_per_s"] / peak, ">=", 0.9),
        "p99 time to first token of accepted, ms": (over["ttft_p99_ms"], "<=", OBJECTIVE["ttft"]),
        "p99 inter-token latency of accepted, ms": (over["itl_p99_ms"], "<=", OBJECTIVE["itl"]),
        "p99 of refusals, ms": (over["refusal_p99_ms"], "<=", 10),
        "router's memory above idle, MB": (over["mb_above_idle"], "<=", 64),
    }
    print(f"knee {knee:g} requests/s, peak goodput {peak:.1f}/s, idle router {idle_mb:.0f} MB")
    missed = 0
    for name, (value, relation, goal) in goals.items():
        kept = value >= goal if relation == ">=" else value <= goal
        missed += not kept
        print(f"  {'kept  ' if kept else 'MISSED'} {name:45} {value:9.2f} {relation} {goal:g}")
    if args.json is not None:
        result = {"workers": "real" if args.real else "mock", "objective_ms": OBJECTIVE, "prompt_tokens": tokens,
                  "output_tokens": output, "knee_per_s": knee, "peak_goodput_per_s": peak, "idle_mb": idle_mb, "rates": rows,
                  "over": over}
        args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
