#!/usr/bin/python3
"""What the router costs: alone on one core, mock workers and the load generator on the other.

    bench/router_cost.py [--bin build/dev] [--model MODEL.gguf] [--seconds 4] [--json FILE] [CASE...]

Cases: `requests` (short requests/s), `tokens` (streamed tokens/s), `workers` (cost per request with 2, 20, 200 and 1,000
workers), `waiting` (memory of a waiting request). Each is a run of its own. CPU time is the router's own (user and system),
less what it takes with its workers and no requests, so that it says the same on a machine with other guests. A report in FILE
keeps the cases that are not measured again."""
import argparse
import json
import pathlib
import subprocess
import time

from serving import ROOT, mock_serving

CASES = ("requests", "tokens", "workers", "waiting")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", default=str(ROOT / "tests/data/tokenizer/smollm2-vocab.gguf"))
    parser.add_argument("--seconds", type=float, default=4, help="that are measured in each run")
    parser.add_argument("--fleet", type=int, nargs="*", default=[2, 20, 200, 1000], help="numbers of workers")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("case", nargs="*", choices=[*CASES, []], default=[])
    return parser.parse_args()


SHORT = ("--input-len=32", "--output-len=8")


def only(report):
    return report["classes"]["all"]


def requests(args):
    """As many short requests as it takes: 64 clients, each with one after the other."""
    with mock_serving(args.bin, args.model, 4) as router:
        row = only(router.load(args.seconds, "--max-concurrency=64", *SHORT))
    return {"requests_per_s": row["completed_per_s"], "failed": row["failed"],
            "ttft_p50_ms": row["ttft_ms"]["p50"],
            "ttft_p99_ms": row["ttft_ms"]["p99"]}


def tokens(args):
    """Streams of 2,000 tokens whose workers give more than the router takes."""
    with mock_serving(args.bin, args.model, 4, ["--between-tokens=2ms"]) as router:
        report = router.load(args.seconds, "--max-concurrency=256", "--input-len=32", "--output-len=4000", warmup=2.0)
    row = only(report)
    return {"tokens_per_s": row["tokens_per_s"], "messages_per_s": row["itl_ms"]["samples"] / args.seconds,
            "itl_p50_ms": row["itl_ms"]["p50"], "itl_p99_ms": row["itl_ms"]["p99"],
            "router_cpu_share": report["cpu_s"] / report["wall_s"], "generator_cpu_share": report["generator_cpu_share"]}


def workers(args):
    """CPU time of the router per request at 300 requests/s, for each size of the fleet."""
    rows = []
    for count in args.fleet:
        with mock_serving(args.bin, args.model, count) as router:
            time.sleep(1)
            idle = idle_share(router, 2)
            samples, p99 = [], []
            for _ in range(2):
                row = router.load(args.seconds, "--request-rate=300", *SHORT, warmup=0.0)
                done = only(row)["completed"]
                samples.append((row["cpu_s"] - idle * args.seconds) / done * 1e6)
                p99.append(only(row)["ttft_ms"]["p99"])
        rows.append({"workers": count, "idle_cpu_share": idle, "cpu_us_per_request": min(samples),
                     "ttft_p99_ms": min(p99)})
    return rows


def idle_share(router, seconds):
    """CPU time per second with no requests."""
    before, begin = router.cpu_s(), time.monotonic()
    time.sleep(seconds)
    return (router.cpu_s() - before) / (time.monotonic() - begin)


def waiting(args):
    """1,000 requests of 1,000 tokens that no worker takes: what each costs while it waits."""
    with mock_serving(args.bin, args.model, 2, ["--per-prompt-token=1s"], ["--max-waiting-requests=2000"]) as router:
        router.load(0.5, "--max-concurrency=4", *SHORT, "--timeout=1s")
        before = router.resident_mb()
        load = subprocess.Popen(router.load_command(4, "--max-concurrency=1000", "--input-len=1000", warmup=0),
                                stdout=subprocess.DEVNULL)
        time.sleep(3)
        per_request = (router.resident_mb() - before) * 1e3 / 1000
        load.wait()
    return {"prompt_tokens": 1000, "kb_per_waiting_request": per_request}


def main():
    args = parse()
    results = {}
    if args.json is not None and args.json.exists():
        results = json.loads(args.json.read_text(encoding="utf-8"))
    for case in args.case or CASES:
        results[case] = globals()[case](args)
        print(case, json.dumps(results[case]), flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
