#!/usr/bin/python3
"""What a stream of events by HTTP costs beside one of gRPC: the router's memory and CPU time, and the gaps between tokens.

    bench/http_streams.py [--bin build/dev] [--seconds 10] [--rounds 2] [--json FILE] [CASE...]

Cases: `open`, 2,000 streams with a token every 200 ms, one in ten of whose readers is slow; `cpu`, 256 streams with a token every
20 ms. Router on one core; mock workers and the readers on the other. Each door has a router of its own, in turn in each round; the
numbers are the medians of the rounds. Memory is resident memory beyond that of a router that has served some streams; CPU time is
user and system time of the whole process.

Said to be right when a stream by HTTP takes at most 40 KB, its p99 gap is at most 1.2 times gRPC's, and its tokens take at most 5 %
more CPU time."""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import threading
import time

from serving import ROOT, free_port, mock_serving, pinned

CASES = {"open": {"streams": 2000, "slow": 200, "between": "200ms", "warmup": 6},
         "cpu": {"streams": 256, "slow": 0, "between": "20ms", "warmup": 3}}
DOORS = ("grpc", "http")
STREAMS_OF_CONNECTION = 40
SLOW_S = 2
MOST_KB, MOST_GAP, MOST_CPU = 40, 1.2, 1.05


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", default=str(ROOT / "tests/data/tokenizer/smollm2-vocab.gguf"))
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("case", nargs="*", choices=[*CASES, []], default=[])
    return parser.parse_args()


class SlowCalls:
    """gRPC streams that are read one message every two seconds."""

    def __init__(self, port, count):
        from stubs import pb, rpc  # modules that the build generates
        import grpc

        made = pb.GenerateRequest(stream=True)
        made.prompt_token_ids.ids.extend(range(20, 52))
        made.sampling_params.max_tokens, made.sampling_params.ignore_eos = 8000, True
        made.sampling_params.temperature, made.sampling_params.top_p = 1, 1
        options = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1024), ("grpc.use_local_subchannel_pool", 1)]
        self.channels, self.calls, self.ended = [], [], threading.Event()
        for number in range(count):
            if number % STREAMS_OF_CONNECTION == 0:
                self.channels.append(grpc.insecure_channel(f"127.0.0.1:{port}", options))
            self.calls.append(rpc.GenerationServiceStub(self.channels[-1]).Generate(made))
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        while not self.ended.wait(SLOW_S):
            for call in self.calls:
                next(call)

    def close(self):
        self.ended.set()
        self.reader.join()
        for call in self.calls:
            call.cancel()
        for channel in self.channels:
            channel.close()


def command(router, door, case, streams, slow, warmup, seconds):
    """The load of a door, which prints its report. Slow calls of gRPC are SlowCalls."""
    if door == "http":
        return pinned(router.load_cpu, [sys.executable, str(ROOT / "bench/http_readers.py"), f"--port={router.http_port}",
                                        f"--streams={streams}", f"--slow={slow}", f"--warmup={warmup}", f"--duration={seconds}"])
    return router.load_command(seconds, f"--max-concurrency={streams - slow}", "--input-len=32", "--output-len=8000",
                               f"--connections={-(-streams // STREAMS_OF_CONNECTION)}", warmup=warmup)


def loaded(router, door, case, streams, slow, warmup, seconds):
    """The report of a load, with the router's CPU time of the measured seconds and its memory at their end."""
    calls = SlowCalls(router.port, slow) if door == "grpc" and slow else None
    begin = time.monotonic()
    load = subprocess.Popen(command(router, door, case, streams, slow, warmup, seconds), stdout=subprocess.PIPE, text=True)
    time.sleep(max(0, begin + warmup + 0.5 - time.monotonic()))
    cpu_s, from_s = router.cpu_s(), time.monotonic()
    time.sleep(max(0, begin + warmup + seconds - 0.5 - time.monotonic()))
    cpu_s, measured_s, resident_mb = router.cpu_s() - cpu_s, time.monotonic() - from_s, router.resident_mb()
    report = json.loads(load.communicate()[0])
    if calls is not None:
        calls.close()
    row = report if door == "http" else report["classes"]["all"]
    if row["tokens_per_s"] == 0:
        raise SystemExit(f"no tokens by {door}; {row['failed']} failed\n{router.log_text()}")
    return {"tokens_per_s": row["tokens_per_s"], "itl_ms": row["itl_ms"], "failed": row["failed"],
            "cpu_share": cpu_s / measured_s, "resident_mb": resident_mb}


def measure(args, door, case):
    http_port = free_port()
    router = mock_serving(args.bin, args.model, 8, [f"--between-tokens={case['between']}"],
                          [f"--http-listen=127.0.0.1:{http_port}", "--max-waiting-requests=4000", "--max-queue-time=10m",
                           "--stall-timeout=1h"])
    router.http_port = http_port
    with router:
        idle_mb = loaded(router, door, case, 16, 0, 1, 2)["resident_mb"]
        row = loaded(router, door, case, case["streams"], case["slow"], case["warmup"], args.seconds)
    return {**row, "kb_of_stream": (row["resident_mb"] - idle_mb) * 1e3 / case["streams"],
            "cpu_us_of_token": row["cpu_share"] / row["tokens_per_s"] * 1e6}


def numbers(rows):
    return {"kb_of_stream": statistics.median(row["kb_of_stream"] for row in rows),
            "p99_gap_ms": statistics.median(row["itl_ms"]["p99"] for row in rows),
            "tokens_per_s": statistics.median(row["tokens_per_s"] for row in rows),
            "cpu_us_of_token": statistics.median(row["cpu_us_of_token"] for row in rows),
            "failed": sum(row["failed"] for row in rows)}


def judged(name, result):
    """What is wrong with the numbers of a case."""
    grpc, http = result["grpc"], result["http"]
    missed = []
    if http["failed"] + grpc["failed"] > 0:
        missed.append(f"{http['failed']} and {grpc['failed']} failed")
    if name == "open" and http["kb_of_stream"] > MOST_KB:
        missed.append(f"{http['kb_of_stream']:.1f} KB a stream")
    if name == "open" and http["p99_gap_ms"] > MOST_GAP * grpc["p99_gap_ms"]:
        missed.append(f"p99 gap x{http['p99_gap_ms'] / grpc['p99_gap_ms']:.2f}")
    if name == "cpu" and http["cpu_us_of_token"] > MOST_CPU * grpc["cpu_us_of_token"]:
        missed.append(f"CPU time of a token x{http['cpu_us_of_token'] / grpc['cpu_us_of_token']:.2f}")
    return missed


def main():
    args = parse()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.environ.setdefault("BATON_STUBS", str(args.bin / "python_stubs"))
    sys.path.insert(0, str(ROOT / "tests/integration"))
    os.sched_setaffinity(0, {1})
    results = json.loads(args.json.read_text(encoding="utf-8")) if args.json is not None and args.json.exists() else {}
    right = True
    for name in args.case or CASES:
        rounds = [{door: measure(args, door, CASES[name]) for door in DOORS} for _ in range(args.rounds)]
        results[name] = {**CASES[name], **{door: numbers([row[door] for row in rounds]) for door in DOORS}}
        print(name, json.dumps(results[name], indent=2), flush=True)
        missed = judged(name, results[name])
        print(f"{name}: {'MISSED: ' + ', '.join(missed) if missed else 'kept'}", flush=True)
        right = right and not missed
    if args.json is not None:
        args.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
