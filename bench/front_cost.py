#!/usr/bin/python3
"""What the front (deploy/haproxy) adds to the latency of a token: one client, by turns directly and through the front with TLS.

    bench/front_cost.py [--bin build/dev] [--runs 7] [--tokens 1000] [--requests 1000] [--json FILE]

A token's way alone, from worker to client: the mock worker makes a token of a stream whenever the machine's steady clock reaches
a multiple of 5 ms, so the client sees by the same clock how late it comes. Then the way there and back: one request of one token
after the other. Each run has both, each by both ways; p50 of a run, and the median of the runs. The router on one core, mock
workers, the front and the client on the other, so that nothing else waits for the router's. For a quiet machine: a run lasts
10 s and the requests' time."""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from serving import ROOT, free_port, mock_serving

GOAL_MS = 0.3  # of a token
STEP_MS = 5
UNLIMITED = dict.fromkeys(("BATON_FRONT_REQUESTS_PER_10S", "BATON_FRONT_REQUESTS_PER_S"), "1000000000")
FIRST_TOKENS = 10  # of a stream, which come from the prefill worker and while the stream begins: they are left out


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", default=str(ROOT / "tests/data/tokenizer/smollm2-vocab.gguf"))
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=1000, help="of each way in a run")
    parser.add_argument("--requests", type=int, default=1000, help="of each way in a run")
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


def summary(rows):
    added = [row["front"] - row["direct"] for row in rows]
    return {"runs": rows, "added_p50_ms": {"median": statistics.median(added), "least": min(added), "most": max(added)}}


def main():
    args = parse()
    os.sched_setaffinity(0, {1})
    os.environ.setdefault("BATON_BIN", str(args.bin / "bin"))
    os.environ.setdefault("BATON_STUBS", str(args.bin / "python_stubs"))
    sys.path.insert(0, str(ROOT / "tests/integration"))
    import grpc
    from programs import bearer, new_key
    from stubs import pb, rpc  # modules that the build generates

    def request(tokens):
        made = pb.GenerateRequest(stream=True)
        made.prompt_token_ids.ids.extend(range(20, 28))
        made.sampling_params.max_tokens, made.sampling_params.ignore_eos = tokens, True
        return made

    one, many = request(1), request(args.tokens + FIRST_TOKENS)
    with tempfile.TemporaryDirectory(prefix="baton-front-") as name:
        folder = pathlib.Path(name)
        files = certificates(args.bin, folder)
        router_socket = folder / "front.sock"
        # A router behind a front asks who calls.
        metadata = bearer(new_key(folder / "keys.toml", "--tenant=bench"))
        serving = mock_serving(args.bin, args.model, 2, mock_args=[f"--between-tokens={STEP_MS}ms"],
                               router_args=[f"--front-socket={router_socket}", f"--front-uid={os.getuid()}",
                                            f"--api-keys={folder}/keys.toml"])
        with serving:
            front, port = start_front(folder, router_socket)
            try:
                secure = grpc.ssl_channel_credentials(files["ca.crt"], files["client.key"], files["client.crt"])
                ways = {"direct": rpc.GenerationServiceStub(grpc.insecure_channel(f"127.0.0.1:{serving.port}")),
                        "front": rpc.GenerationServiceStub(grpc.secure_channel(
                            f"127.0.0.1:{port}", secure, [("grpc.ssl_target_name_override", "localhost")]))}
                tokens, requests = [], []
                for stub in ways.values():
                    request_p50_ms(stub, one, metadata, 50)
                for _ in range(args.runs):
                    tokens.append({way: token_p50_ms(stub, many, metadata) for way, stub in ways.items()})
                    requests.append({way: request_p50_ms(stub, one, metadata, args.requests) for way, stub in ways.items()})
            finally:
                front.terminate()
                front.wait(10)
    result = {"token": {**summary(tokens), "goal_ms": GOAL_MS}, "request": summary(requests)}
    print(json.dumps(result))
    if args.json is not None:
        args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
