#!/usr/bin/python3
"""What floods of HTTP/2 and of TLS handshakes cost the servers and the others who use them.

    bench/floods.py [--bin build/dev] --model MODEL.gguf [--seconds 60] [--at PORT...] [--together] [-- FLOOD...]

Router, prefill and decode worker with mutual TLS, and the front of deploy/haproxy. The floods (all, or those named) go one
after another to the ports (all, or those named): to the front from a client's certificate, to the servers' own ports from a
peer without a certificate and from one with a client's. Meanwhile one client asks for short answers through the front, one
after another, the resident memory of every server is read every 50 ms, and the router's /metrics and each server's health are
asked ten times a second. After each flood comes its control: as many processes that only burn the CPU time that the attackers
were measured to take. Servers run on CPU 0, attackers and the client on CPU 1. The row `nothing` is without a flood. With
--together all floods come at once to all ports, one connection each, and there is no such row. Prints the table of
docs/benchmarks/security.md. 84 floods and their controls: with 60 s each they take three hours."""
import argparse
import contextlib
import os
import pathlib
import re
import sys
import tempfile
import threading
import time

from serving import ROOT, Beside

CONNECTIONS = 4
SERVERS_CPU, CLIENTS_CPU = 0, 1
SAMPLE_S, PROBE_S = 0.05, 0.1
PORTS = ("front", "router", "prefill", "decode")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", required=True)
    parser.add_argument("--seconds", type=float, default=60, help="of each flood")
    parser.add_argument("--at", nargs="+", choices=PORTS, default=PORTS)
    parser.add_argument("--together", action="store_true", help="all at once")
    parser.add_argument("flood", nargs="*", help="their names; all by default")
    return parser.parse_args()


args = parse()
os.environ.update(BATON_BIN=str(args.bin / "bin"), BATON_STUBS=str(args.bin / "python_stubs"), BATON_TEST_MODEL=args.model)
sys.path.insert(0, str(ROOT / "tests/integration"))
import grpc  # noqa: E402  (the paths above come first)
from cluster import is_serving, request  # noqa: E402
from front import FrontedCluster  # noqa: E402
from http2_floods import FLOODS  # noqa: E402
from programs import channel_credentials  # noqa: E402
from stubs import rpc  # noqa: E402


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


def measure(cluster, stub, peers):
    """What happens beside the peers, each given by its arguments: the cells of a row, how many requests were answered, their p99 in
    ms, and the CPUs that each peer took."""
    before = {server: resident_mb(server) for server in cluster.servers}
    most = dict(before)

    def sample():
        for server in cluster.servers:
            most[server] = max(most[server], resident_mb(server))

    with contextlib.ExitStack() as beside:
        running = [beside.enter_context(Beside(CLIENTS_CPU, ROOT / "bench/flood_peer.py", *arguments)) for arguments in peers]
        for peer in running:
            peer.begin()
        with Repeated(sample, SAMPLE_S), Repeated(lambda: ask(stub)) as asked, \
                Repeated(cluster.router.metrics, PROBE_S) as metrics, \
                Repeated(lambda: check_health(cluster), PROBE_S) as health:
            time.sleep(args.seconds)
            cpus = [peer.cpu_s() / args.seconds for peer in running]
    growth = [most[server] - before[server] for server in cluster.servers]  # prefill, decode, router
    p50, p99, answered = asked.percentile(0.5), asked.percentile(0.99), len(asked.took_ms) - asked.failed
    cells = [*(f"{growth[server]:.0f}" for server in (2, 0, 1)), len(asked.took_ms), f"{p50:.0f}", f"{p99:.0f}", asked.failed,
             f"{metrics.percentile(1):.0f}", f"{health.percentile(1):.0f}", metrics.failed + health.failed]
    return " | ".join(map(str, cells)), answered, p99, cpus


def main():
    kinds = args.flood or [*FLOODS, "handshakes"]
    unknown = set(kinds) - {*FLOODS, "handshakes"}
    if unknown:
        raise SystemExit(f"no flood {', '.join(sorted(unknown))}; there are {', '.join([*FLOODS, 'handshakes'])}")
    os.sched_setaffinity(0, {SERVERS_CPU})  # what the servers begin with
    with tempfile.TemporaryDirectory() as folder, FrontedCluster(pathlib.Path(folder), secured=True) as cluster:
        os.sched_setaffinity(0, {CLIENTS_CPU})
        ports = {"front": cluster.front.host_port[1], "router": cluster.router.port, "prefill": cluster.prefill[0].port,
                 "decode": cluster.decode[0].port}
        with grpc.secure_channel(cluster.front.address, channel_credentials(cluster.ours)) as channel:
            stub = rpc.GenerationServiceStub(channel)
            for _ in range(3):
                ask(stub)
            print("| at | by | flood | router +MB | prefill +MB | decode +MB | requests | p50 ms | p99 ms | failed "
                  "| /metrics at most, ms | health at most, ms | probes failed | CPUs | control's p99 ms | p99 of control's "
                  "| answers of control's |\n" + "|---" * 17 + "|", flush=True)

            def row(name, attackers):
                cells, answered, p99, cpus = measure(cluster, stub, attackers)
                _, control_answered, control_p99, _ = measure(cluster, stub, [("burn", share) for share in cpus])
                print(f"| {name} | {cells} | {sum(cpus):.2f} | {control_p99:.0f} | {p99 / control_p99:.2f} | "
                      f"{answered / control_answered:.2f} |", flush=True)

            if not args.together:
                row(" |  | nothing", [])
            floods = {(at, certificate or "nobody", kind): ("flood", kind, ports[at], cluster.ours, certificate) for at in args.at
                      for certificate in (("client",) if at == "front" else ("", "client")) for kind in kinds}
            if args.together:
                return row("all | both | all", list(floods.values()))
            for name, flood in floods.items():
                row(" | ".join(name), [flood] * CONNECTIONS)


if __name__ == "__main__":
    main()
