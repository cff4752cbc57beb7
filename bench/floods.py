#!/usr/bin/python3
"""What floods of HTTP/2 and of TLS handshakes cost the servers and the others who use them.

    bench/floods.py [--bin build/dev] --model MODEL.gguf [--seconds 60] [--at PORT...] [FLOOD...]

Router, prefill and decode worker with mutual TLS, and the front of deploy/haproxy. The floods (all, or those named) go one after
another to the ports (all, or those named): to the front from a client's certificate, to the servers' own ports from a peer
without a certificate and from one with a client's. Meanwhile one client asks for short answers through the front, one after
another, the resident memory of every server is read every 50 ms, and the router's /metrics and each server's health are asked
ten times a second. The rows `nothing` and `burning` are without a flood, and beside a process that only computes. Prints the
table of docs/benchmarks/security.md. 86 runs: with 60 s each they take an hour and a half."""
import argparse
import contextlib
import itertools
import multiprocessing
import os
import pathlib
import re
import socket
import ssl
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONNECTIONS = 4
SAMPLE_S, PROBE_S = 0.05, 0.1
MOST_STREAMS = 1 << 30  # a connection has no more
PORTS = ("front", "router", "prefill", "decode")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", required=True)
    parser.add_argument("--seconds", type=float, default=60, help="of each flood")
    parser.add_argument("--at", nargs="+", choices=PORTS, default=PORTS)
    parser.add_argument("flood", nargs="*", help="their names; all by default")
    return parser.parse_args()


args = parse()
os.environ.update(BATON_BIN=str(args.bin / "bin"), BATON_STUBS=str(args.bin / "python_stubs"), BATON_TEST_MODEL=args.model)
sys.path.insert(0, str(ROOT / "tests/integration"))
import grpc  # noqa: E402  (the paths above come first)
from cluster import is_serving, request  # noqa: E402
from front import FrontedCluster  # noqa: E402
from http2_floods import FLOODS, HELLO  # noqa: E402
from programs import channel_credentials  # noqa: E402
from stubs import rpc  # noqa: E402


def connect(port, folder, certificate):
    """A TLS connection from another address than the clients'."""
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    if certificate:
        context.load_cert_chain(folder / f"{certificate}.crt", folder / f"{certificate}.key")
    plain = socket.create_connection(("127.0.0.1", port), timeout=1, source_address=("127.0.0.2", 0))
    return context.wrap_socket(plain)


def attack(kind, port, folder, certificate):
    """Floods until it is ended. A connection that is closed, or takes no more, is followed by another."""
    while True:
        with contextlib.suppress(OSError), connect(port, folder, certificate) as connection:
            if kind == "handshakes":
                continue
            connection.sendall(HELLO)
            for part in FLOODS[kind](range(1, MOST_STREAMS, 2)):
                connection.sendall(part)


def burn():
    for _ in itertools.count():
        pass


class Repeated(threading.Thread):
    """Does something every `interval_s` until the end of the `with`, and keeps how long each time took, in ms."""

    def __init__(self, action, interval_s=0.0):
        super().__init__(daemon=True)
        self.action, self.interval_s, self.stop = action, interval_s, threading.Event()
        self.took_ms, self.failed = [], 0

    def run(self):
        while not self.stop.wait(self.interval_s):
            began = time.monotonic()
            try:
                self.action()
            except Exception:  # a connection that fails is a result
                self.failed += 1
            self.took_ms.append((time.monotonic() - began) * 1e3)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.join()

    def percentile(self, part):
        ordered = sorted(self.took_ms)
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else float("nan")


def resident_mb(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s*(\d+) kB", status)[1]) / 1024


def check_health(cluster):
    assert all(is_serving(server.health_port, "liveness") for server in cluster.servers)


def ask(stub):
    made = request(prompt="The capital of France is", temperature=0, max_tokens=4)
    assert list(stub.Generate(made, timeout=30))[0].complete.text.startswith(" Paris")


def measure(cluster, stub, processes):
    """A row of the table: what happens while the processes run."""
    before = {server: resident_mb(server) for server in cluster.servers}
    most = dict(before)

    def sample():
        for server in cluster.servers:
            most[server] = max(most[server], resident_mb(server))

    for process in processes:
        process.start()
    try:
        with Repeated(sample, SAMPLE_S), Repeated(lambda: ask(stub)) as asked, \
                Repeated(cluster.router.metrics, PROBE_S) as metrics, \
                Repeated(lambda: check_health(cluster), PROBE_S) as health:
            time.sleep(args.seconds)
    finally:
        for process in processes:
            process.kill()
            process.join()
    growth = [most[server] - before[server] for server in cluster.servers]  # prefill, decode, router
    return (f"{growth[2]:.0f} | {growth[0]:.0f} | {growth[1]:.0f} | {len(asked.took_ms)} | {asked.percentile(0.5):.0f} | "
            f"{asked.percentile(0.99):.0f} | {asked.failed} | {metrics.percentile(1):.0f} | {health.percentile(1):.0f} | "
            f"{metrics.failed + health.failed}")


def main():
    processes = multiprocessing.get_context("spawn")  # gRPC's threads do not survive a fork
    kinds = args.flood or [*FLOODS, "handshakes"]
    unknown = set(kinds) - {*FLOODS, "handshakes"}
    if unknown:
        raise SystemExit(f"no flood {', '.join(sorted(unknown))}; there are {', '.join([*FLOODS, 'handshakes'])}")
    with tempfile.TemporaryDirectory() as folder, FrontedCluster(pathlib.Path(folder), secured=True) as cluster:
        ports = {"front": cluster.front_host_port[1], "router": cluster.router.port, "prefill": cluster.prefill[0].port,
                 "decode": cluster.decode[0].port}
        with grpc.secure_channel(cluster.front_address, channel_credentials(cluster.ours)) as channel:
            stub = rpc.GenerationServiceStub(channel)
            for _ in range(3):
                ask(stub)
            print("| at | by | flood | router +MB | prefill +MB | decode +MB | requests | p50 ms | p99 ms | failed "
                  "| /metrics at most, ms | health at most, ms | probes failed |\n" + "|---" * 13 + "|", flush=True)

            def row(at, by, kind, processes):
                print(f"| {at} | {by} | {kind} | {measure(cluster, stub, processes)} |", flush=True)

            row("", "", "nothing", [])
            row("", "", "burning", [processes.Process(target=burn, daemon=True)])
            for at in args.at:
                for certificate in ("client",) if at == "front" else ("", "client"):
                    for kind in kinds:
                        row(at, certificate or "nobody", kind,
                            [processes.Process(target=attack, args=(kind, ports[at], cluster.ours, certificate), daemon=True)
                             for _ in range(CONNECTIONS)])


if __name__ == "__main__":
    main()
