#!/usr/bin/python3
"""What the front (deploy/haproxy) adds to the latency of a token: one client, one request of one token after the other, by turns
directly and through the front with TLS.

    bench/front_cost.py [--bin build/dev] [--runs 7] [--requests 1000] [--json FILE]

What is printed bounds the token's part from above, since the request passes the front too. The router on one core, mock workers,
the front and the client on the other, so that nothing else waits for the router's."""
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

GOAL_MS = 0.3


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", default=str(ROOT / "tests/data/tokenizer/smollm2-vocab.gguf"))
    parser.add_argument("--runs", type=int, default=7)
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
         str(folder / "ca.crt"), str(router_socket)], env={**os.environ, "BATON_FRONT_REQUESTS_PER_10S": "1000000000"})
    deadline = time.monotonic() + 10
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return front, port
        if front.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("the front does not start")
        time.sleep(0.05)


def p50_ms(stub, request, metadata, count):
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        for _ in stub.Generate(request, timeout=10, metadata=metadata):
            pass
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def main():
    args = parse()
    os.sched_setaffinity(0, {1})
    os.environ.setdefault("BATON_BIN", str(args.bin / "bin"))
    os.environ.setdefault("BATON_STUBS", str(args.bin / "python_stubs"))
    sys.path.insert(0, str(ROOT / "tests/integration"))
    import grpc
    from programs import bearer, new_key
    from stubs import pb, rpc  # modules that the build generates

    request = pb.GenerateRequest(stream=True)
    request.prompt_token_ids.ids.extend(range(20, 28))
    request.sampling_params.max_tokens = 1
    with tempfile.TemporaryDirectory(prefix="baton-front-") as name:
        folder = pathlib.Path(name)
        files = certificates(args.bin, folder)
        router_socket = folder / "front.sock"
        # A router behind a front asks who calls.
        metadata = bearer(new_key(folder / "keys.toml", "--tenant=bench"))
        serving = mock_serving(args.bin, args.model, 2,
                               router_args=[f"--front-socket={router_socket}", f"--front-uid={os.getuid()}",
                                            f"--api-keys={folder}/keys.toml"])
        with serving:
            front, port = start_front(folder, router_socket)
            try:
                secure = grpc.ssl_channel_credentials(files["ca.crt"], files["client.key"], files["client.crt"])
                ways = {"direct": rpc.GenerationServiceStub(grpc.insecure_channel(f"127.0.0.1:{serving.port}")),
                        "front": rpc.GenerationServiceStub(grpc.secure_channel(
                            f"127.0.0.1:{port}", secure, [("grpc.ssl_target_name_override", "localhost")]))}
                for stub in ways.values():
                    p50_ms(stub, request, metadata, 50)
                rows = [{way: p50_ms(stub, request, metadata, args.requests) for way, stub in ways.items()} for _ in range(args.runs)]
            finally:
                front.terminate()
                front.wait(10)
    added = [row["front"] - row["direct"] for row in rows]
    result = {"runs": rows, "added_p50_ms": {"median": statistics.median(added), "least": min(added), "most": max(added)},
              "goal_ms": GOAL_MS}
    print(json.dumps(result))
    if args.json is not None:
        args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
