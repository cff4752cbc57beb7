#!/usr/bin/python3
"""What long prompts do to streams that run: 8 steady streams while prompts of 2,000 tokens arrive in an open loop, on two cores.

    bench/isolation.py [--bin build/dev] --model MODEL.gguf [--json FILE] [SYSTEM...]

Systems, each with the same two cores: `disaggregated` (a prefill worker on one core, a decode worker on the other), `never`
(`--disaggregate never`: one worker on both cores, which is what one would run without disaggregation, and what llama-server
does), `two` (`--disaggregate never` with a worker on each core), `llama-server` (both cores; bench/peer_server.py builds it).
Router and load generator run beside them, with `disaggregated` on the prefill worker's core. First the streams run alone,
then with the prompts; a report in FILE keeps the systems that are not measured again. Takes half a minute for each system."""
import argparse
import json
import pathlib

from http_load import HttpLoad
from peer_server import running, server
from serving import ROOT, Serving

SYSTEMS = ("disaggregated", "never", "two", "llama-server")
STREAMS, STEADY, LONG = 8, (64, 300), (2000, 2)  # number of streams; (prompt tokens, output tokens)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", required=True)
    parser.add_argument("--seconds", type=float, default=12, help="that are measured in each of the two runs")
    parser.add_argument("--rate", type=float, default=0.3, help="long prompts/s")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("system", nargs="*", choices=[*SYSTEMS, []], default=[])
    return parser.parse_args()


def baton(args, system):
    never = system != "disaggregated"
    beside = 0 if system == "disaggregated" else None  # leaves the decode worker its core alone
    serving = Serving(args.bin, args.model, [f"--disaggregate={'never' if never else 'always'}"], beside, beside)
    if system == "disaggregated":
        serving.add_worker("prefill", "--threads=1", "--cpu-set=0", cpu=0)
        serving.add_worker("decode", "--threads=1", "--cpu-set=1", cpu=1)
    elif system == "never":
        serving.add_worker("decode", "--threads=2", "--cpu-set=0-1")
    else:
        for cpu in range(2):
            serving.add_worker("decode", "--threads=1", f"--cpu-set={cpu}", cpu=cpu)
    classes = [f"--class=steady:concurrency={STREAMS},input={STEADY[0]},output={STEADY[1]}",
               f"--class=long:rate={args.rate},input={LONG[0]},output={LONG[1]}"]
    result = {}
    with serving:
        serving.load(1, classes[0])  # lets the workers learn their own speed
        for name, loads in {"idle": classes[:1], "loaded": classes}.items():
            report = serving.load(args.seconds, *loads, warmup=2)
            steady, long = report["classes"]["steady"], report["classes"].get("long")
            result[name] = {"itl_ms": steady["itl_ms"], "failed": steady["failed"] + (long or steady)["failed"],
                            "generator_cpu_share": report["generator_cpu_share"]}
            if long is not None:
                result[name]["long_ttft_ms"] = long["ttft_ms"]
                expected = long["completed"] if never else 0
                if long["local_prefills"] != expected:
                    raise SystemExit(f"{long['local_prefills']} prompts were computed on the decode worker, not {expected}")
    return result


def llama_server(args, _system):
    slots, context = STREAMS + 4, 2304
    with running(server(), args.model, "-t", "2", "-tb", "2", "-C", "0x3", "--cpu-strict", "1", "-np", str(slots),
                 "-c", str(slots * context), "--no-kv-unified", "-fa", "on", "--no-webui") as port:
        HttpLoad(port, STREAMS, STEADY, 0, LONG).run(0, 1)
        return {name: HttpLoad(port, STREAMS, STEADY, rate, LONG).run(2, args.seconds)
                for name, rate in (("idle", 0), ("loaded", args.rate))}


def main():
    args = parse()
    report = {"systems": {}}
    if args.json is not None and args.json.exists():
        report = json.loads(args.json.read_text(encoding="utf-8"))
    report |= {"streams": STREAMS, "steady_tokens": STEADY, "long_tokens": LONG, "long_per_s": args.rate}
    for system in args.system or SYSTEMS:
        result = (llama_server if system == "llama-server" else baton)(args, system)
        result["p99_ratio"] = result["loaded"]["itl_ms"]["p99"] / result["idle"]["itl_ms"]["p99"]
        report["systems"][system] = result
        idle, loaded = result["idle"]["itl_ms"], result["loaded"]["itl_ms"]
        print(f"{system:14} ITL alone p50 {idle['p50']:.1f} p99 {idle['p99']:.1f} ms; with prompts p50 {loaded['p50']:.1f} "
              f"p99 {loaded['p99']:.1f} max {loaded['max']:.1f} ms; p99 x{result['p99_ratio']:.2f}; long prompts' TTFT p50 "
              f"{result['loaded']['long_ttft_ms']['p50']:.0f} p99 {result['loaded']['long_ttft_ms']['p99']:.0f} ms; "
              f"failed {result['loaded']['failed']}", flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
