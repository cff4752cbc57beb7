#!/usr/bin/python3
"""What the front (deploy/haproxy) adds to the latency of a token: one client, by turns directly and through the front with TLS.

    bench/front_cost.py [--bin build/dev] [--runs 7] [--tokens 1000] [--requests 1000] [--cancels 100 --served FILE] [--json FILE]

A token's way alone, from worker to client: the mock worker makes a token of a stream whenever the machine's steady clock reaches
a multiple of 5 ms, so the client sees by the same clock how late it comes. Then the way there and back: one request of one token
after the other. Each run has both, each by both ways; p50 of a run, and the median of the runs. The router on one core, mock
workers, the front and the client on the other, so that nothing else waits for the router's. For a quiet machine: a run lasts
10 s and the requests' time.

With --served, a GGUF file: the time from a client's cancel until real workers with that model compute nothing more, by both ways;
the decode worker's metrics tell it, which are asked again and again, and the worker's step that runs ends first."""
import argparse
import contextlib
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from serving import ROOT, Serving, free_port, mock_serving, scrape

GOAL_MS = 0.3  # added to each token
CANCEL_GOAL_MS = 50
STEP_MS = 5
UNLIMITED = dict.fromkeys(("BATON_FRONT_REQUESTS_PER_10S", "BATON_FRONT_REQUESTS_PER_S"), "1000000000")
FIRST_TOKENS = 10  # tokens at a stream's start that are left out: the prefill worker's, and while the stream begins


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", default=str(ROOT / "tests/data/tokenizer/smollm2-vocab.gguf"))
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=1000, help="of each way in a run")
    parser.add_argument("--requests", type=int, default=1000, help="of each way in a run")
    parser.add_argument("--cancels", type=int, default=100, help="of each way")
    parser.add_argument("--served", help="a GGUF file for real workers; without it nothing is cancelled")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def certificates(bin_folder, folder):
    for asked in (["init"], ["issue", "front"], ["issue", "client"]):
        subprocess.run([str(bin_folder / "bin/baton"), "certs", *asked, f"--folder={folder}"], check=True, stdout=subprocess.DEVNULL)
    return {name: (folder / name).read_bytes() for name in ("ca.crt", "client.crt", "client.key")}


def start_front(folder, router_socket):
    port = free_port()
    front = subprocess.Popen(
        ["taskset", "-c", "1", str(ROOT / "deploy/haproxy/start.sh"), f"127.0.0.1:{port}", str(folder / "front.crt"),
         str(folder / "ca.crt"), str(router_socket)], env={**os.environ, **UNLIMITED})
    deadline = time.monotonic() + 10
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return front, port
        if front.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("the front does not start")
        time.sleep(0.05)


def request_p50_ms(stub, request, metadata, count):
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        for _ in stub.Generate(request, timeout=10, metadata=metadata):
            pass
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def token_p50_ms(stub, request, metadata):
    """How late the tokens of one stream come."""
    late = [time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1e6 % STEP_MS
            for response in stub.Generate(request, timeout=600, metadata=metadata) if response.HasField("chunk")]
    return statistics.median(late[FIRST_TOKENS:])


def cancel_ms(stub, request, metadata, metrics_port):
    """From a cancel until the decode worker has no sequence any more."""
    def running():
        (sample,) = re.findall(r"^baton_requests_running\{.*\} (\d+)$", scrape(metrics_port), re.MULTILINE)
        return sample != "0"

    call = stub.Generate(request, timeout=600, metadata=metadata)
    for _ in range(FIRST_TOKENS):
        next(call)
    assert running()
    begin = time.perf_counter()
    call.cancel()
    while running():
        pass
    return (time.perf_counter() - begin) * 1e3


def summary(rows):
    added = [row["front"] - row["direct"] for row in rows]
    return {"runs": rows, "added_p50_ms": {"median": statistics.median(added), "least": min(added), "most": max(added)}}


def spread(times):
    return {"p50_ms": statistics.median(times), "most_ms": max(times)}


def made_request(tokens):
    from stubs import pb  # a module that the build generates
    made = pb.GenerateRequest(stream=True)
    made.prompt_token_ids.ids.extend(range(20, 28))
    made.sampling_params.max_tokens, made.sampling_params.ignore_eos = tokens, True
    made.sampling_params.temperature, made.sampling_params.top_p = 1, 1
    return made


class Ways:
    """A stub that calls the router directly, and one that does by a front. `folder` has the certificates and what the
    router is started with, `router_args`. `metadata` says who calls, which a router behind a front asks."""

    def __init__(self, args, folder):
        from programs import bearer, new_key
        self.folder, self.files = folder, certificates(args.bin, folder)
        self.metadata = bearer(new_key(folder / "keys.toml", "--tenant=bench"))
        self.router_args = [f"--front-socket={folder}/front.sock", f"--front-uid={os.getuid()}", f"--api-keys={folder}/keys.toml"]

    @contextlib.contextmanager
    def stubs(self, router_port):
        import grpc
        from stubs import rpc
        front, port = start_front(self.folder, self.folder / "front.sock")
        try:
            secure = grpc.ssl_channel_credentials(self.files["ca.crt"], self.files["client.key"], self.files["client.crt"])
            yield {"direct": rpc.GenerationServiceStub(grpc.insecure_channel(f"127.0.0.1:{router_port}")),
                   "front": rpc.GenerationServiceStub(grpc.secure_channel(
                       f"127.0.0.1:{port}", secure, [("grpc.ssl_target_name_override", "localhost")]))}
        finally:
            front.terminate()
            front.wait(10)


def measure_latency(args, ways):
    """The rows of tokens and of requests."""
    one, many = made_request(1), made_request(args.tokens + FIRST_TOKENS)
    tokens, requests = [], []
    with mock_serving(args.bin, args.model, 2, mock_args=[f"--between-tokens={STEP_MS}ms"],
                      router_args=ways.router_args) as serving, ways.stubs(serving.port) as stubs:
        for stub in stubs.values():
            request_p50_ms(stub, one, ways.metadata, 50)
        for _ in range(args.runs):
            tokens.append({way: token_p50_ms(stub, many, ways.metadata) for way, stub in stubs.items()})
            requests.append({way: request_p50_ms(stub, one, ways.metadata, args.requests) for way, stub in stubs.items()})
    return tokens, requests


def measure_cancels(args, ways):
    """The times of each way."""
    serving = Serving(args.bin, args.served, ["--disaggregate=always", *ways.router_args], router_cpu=0)
    serving.add_worker("prefill", "--threads=1", cpu=0)
    metrics_port = serving.add_worker("decode", "--threads=1", cpu=0)
    with serving, ways.stubs(serving.port) as stubs:
        rows = [{way: cancel_ms(stub, made_request(4000), ways.metadata, metrics_port) for way, stub in stubs.items()}
                for _ in range(args.cancels)]
    return {way: [row[way] for row in rows] for way in ("direct", "front")}


def main():
    args = parse()
    os.sched_setaffinity(0, {1})
    os.environ.setdefault("BATON_BIN", str(args.bin / "bin"))
    os.environ.setdefault("BATON_STUBS", str(args.bin / "python_stubs"))
    sys.path.insert(0, str(ROOT / "tests/integration"))
    result = {}
    with tempfile.TemporaryDirectory(prefix="baton-front-") as name:
        ways = Ways(args, pathlib.Path(name))
        if args.runs > 0:
            tokens, requests = measure_latency(args, ways)
            result |= {"token": {**summary(tokens), "goal_ms": GOAL_MS}, "request": summary(requests)}
        if args.served is not None:
            result["cancel"] = {**{way: spread(times) for way, times in measure_cancels(args, ways).items()},
                                "goal_ms": CANCEL_GOAL_MS}
    print(json.dumps(result))
    if args.json is not None:
        args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
