#!/usr/bin/python3
"""What clients that do not read do to those that do: paced streams alone, then beside streams whose clients stopped reading.

    bench/stalled_readers.py [--bin build/dev] [--stalled 1000] [--seconds 15] [--json FILE]

Router on one core; mock workers, the paced streams and the clients that stall on the other. Said to be right when the paced
streams' p99 inter-token latency is at most 1.2 times what it was alone, and nobody failed."""
import argparse
import json
import os
import pathlib
import sys
import time

from serving import ROOT, mock_serving

FILL_TIMEOUT_S = 600
STEADY = "--class=steady:concurrency=16,input=32,output=400"


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", default=str(ROOT / "tests/data/tokenizer/smollm2-vocab.gguf"))
    parser.add_argument("--stalled", type=int, default=1000, help="streams that are not read")
    parser.add_argument("--seconds", type=float, default=15, help="of each measurement")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def gauge(router, name):
    return next(float(line.split()[-1]) for line in router.metrics().splitlines() if line.startswith(name))


def measure(router, seconds):
    row = router.load(seconds, STEADY, warmup=2)["classes"]["steady"]
    return {"itl_ms": row["itl_ms"], "failed": row["failed"], "completed": row["completed"]}


def stall(args, router):
    """Opens the calls that nobody reads. gRPC buffers as little of them as it can."""
    os.environ.setdefault("BATON_STUBS", str(args.bin / "python_stubs"))
    sys.path.insert(0, str(ROOT / "tests/integration"))
    from stubs import pb, rpc  # modules that the build generates
    import grpc

    made = pb.GenerateRequest(stream=True)
    made.prompt_token_ids.ids.extend(range(20, 28))
    made.sampling_params.max_tokens, made.sampling_params.ignore_eos = 7000, True
    made.sampling_params.temperature, made.sampling_params.top_p = 1, 1

    calls = []
    for number in range(args.stalled):
        if number % 50 == 0:  # the router's limit of streams on one connection
            channel = grpc.insecure_channel(f"127.0.0.1:{router.port}", [
                ("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1024), ("grpc.use_local_subchannel_pool", 1)])
        calls.append(rpc.GenerationServiceStub(channel).Generate(made))
    deadline = time.monotonic() + FILL_TIMEOUT_S
    while gauge(router, "baton_router_streams_behind") < args.stalled:
        if time.monotonic() > deadline:
            raise SystemExit(f"only {gauge(router, 'baton_router_streams_behind'):g} streams are behind:\n{router.log_text()}")
        time.sleep(1)
    return calls  # the calls keep their channels open


def main():
    args = parse()
    router = mock_serving(args.bin, args.model, 16, ["--between-tokens=20ms"], ["--stall-timeout=1h", "--max-queue-time=10m"])
    with router:
        measure(router, 1)  # makes the connections
        alone, idle_mb = measure(router, args.seconds), router.resident_mb()
        begin = time.monotonic()
        calls = stall(args, router)
        print(f"all {args.stalled} are behind", file=sys.stderr, flush=True)
        filled_s, full_mb = time.monotonic() - begin, router.resident_mb()
        beside = measure(router, args.seconds)
        behind = gauge(router, "baton_router_streams_behind")
        for call in calls:
            call.cancel()
    ratio = beside["itl_ms"]["p99"] / alone["itl_ms"]["p99"]
    failed = alone["failed"] + beside["failed"]
    result = {"stalled": args.stalled, "alone": alone, "beside": beside, "ratio": ratio, "filled_s": filled_s,
              "kb_each": 1e3 * (full_mb - idle_mb) / args.stalled}
    print(json.dumps(result, indent=2))
    if args.json is not None:
        args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    right = ratio <= 1.2 and failed == 0 and behind == args.stalled
    print(f"{'kept' if right else 'MISSED'}: p99 {alone['itl_ms']['p99']:.1f} ms alone, {beside['itl_ms']['p99']:.1f} ms beside "
          f"{behind:g} stalled streams, x{ratio:.2f}; {failed} failed")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
