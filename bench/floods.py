#!/usr/bin/python3
"""What floods of HTTP and of TLS handshakes cost the servers and the others who use them.

    bench/floods.py [--bin build/dev] --model MODEL.gguf [--seconds 60] [--at PORT...] [--together] [--front-apart] [--out FILE]
                    [-- FLOOD...]

Router, prefill and decode worker with mutual TLS, and the front of deploy/haproxy. The floods (all, or those named) go one
after another to the ports (front, http and inner, or those named). front is the front's port for gRPC, http that for HTTP, which
has some floods more; both are attacked by who has a client's certificate. router, prefill and decode are the servers' own ports,
attacked by who has no certificate and, after that, by who has a client's; at inner each flood goes to all three at once, by both.

Meanwhile one client asks for short answers through the front, one after another, the resident memory of every server is read
every 50 ms, and the router's /metrics and each server's health are asked ten times a second. Servers run on CPU 0, attackers and
the client on CPU 1. Where all attackers together leave the client less CPU time, that is no fault of the servers: so there are
controls, in which as many processes only burn CPU time, three amounts of it: before the first flood of a port, in the middle and
after the last. A flood is compared with that of its port's controls that took most nearly as much as its attackers.

With --front-apart the front runs on CPU 1, not on that of the servers behind it, as on a node of its own: what it spends on a
flood is then taken from attackers and client.

With --together all floods come at once to all ports, one connection each. The row `nothing` is without a flood.

Prints the table of docs/benchmarks/security.md at the end, also when it is interrupted; --out has it after each row. Without
arguments 40 floods and 9 controls: with 60 s each they take 50 minutes. The flood `control` is none: the controls
alone."""
import argparse
import contextlib
import dataclasses
import os
import pathlib
import signal
import sys
import tempfile
import time

from serving import ROOT, Beside, Repeated, resident_mb

CONNECTIONS = 4  # connections that each kind of attacker opens to a port
SERVERS_CPU, CLIENTS_CPU = 0, 1
SAMPLE_S, PROBE_S = 0.05, 0.1
CONTROL_CPUS = (0.05, 0.5, 0.95)
START_S = 1  # time for a flood's attackers to start, and to end
PORTS = ("front", "http", "router", "prefill", "decode")
INNER = ("router", "prefill", "decode")
HEADER = """\
`at`, `by`, `flood`: the port, the attackers' certificate, the flood. `control`: no flood, but as many processes that burn so much
CPU time. +MB: the most resident memory beyond that at the row's begin. `requests` to `failed`: what the client beside it saw.
`CPUs`: what the attackers took. The last two columns: p99 and answers, as parts of those of the port's control that took most
nearly as much CPU time.

"""
COLUMNS = ("at", "by", "flood", "router +MB", "prefill +MB", "decode +MB", "requests", "p50 ms", "p99 ms", "failed",
           "/metrics at most, ms", "health at most, ms", "probes failed", "CPUs", "p99 of control's", "answers of control's")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", required=True)
    parser.add_argument("--seconds", type=float, default=60, help="of each flood, and of each control")
    parser.add_argument("--at", nargs="+", choices=[*PORTS, "inner"], default=["front", "http", "inner"])
    parser.add_argument("--together", action="store_true", help="all at once")
    parser.add_argument("--front-apart", action="store_true", help="the front beside the clients, not beside the servers")
    parser.add_argument("--out", type=pathlib.Path, help="a file for the table")
    parser.add_argument("flood", nargs="*", help="their names; all by default")
    return parser.parse_args()


args = parse()
os.environ.update(BATON_BIN=str(args.bin / "bin"), BATON_STUBS=str(args.bin / "python_stubs"), BATON_TEST_MODEL=args.model)
sys.path.insert(0, str(ROOT / "tests/integration"))
import grpc  # noqa: E402  (the paths above come first)
from cluster import is_serving, request  # noqa: E402
from front import FrontedCluster  # noqa: E402
from http2_floods import FLOODS, HTTP_FLOODS  # noqa: E402
from programs import channel_credentials  # noqa: E402
from stubs import rpc  # noqa: E402


def check_health(cluster):
    assert all(is_serving(server.health_port, "liveness") for server in cluster.servers)


def ask(stub):
    made = request(prompt="The capital of France is", temperature=0, max_tokens=4)
    assert list(stub.Generate(made, timeout=30))[0].complete.text.startswith(" Paris")


@dataclasses.dataclass
class Measured:
    """Measurements beside some peers."""
    growth_mb: list  # memory growth of router, prefill and decode worker
    asked: Repeated
    metrics: Repeated
    health: Repeated
    cpus: float  # CPUs that all peers used

    @property
    def p99_ms(self):
        return self.asked.percentile(0.99)

    @property
    def answered(self):
        return len(self.asked.took_ms) - self.asked.failed

    def cells(self):
        return [*(f"{mb:.0f}" for mb in self.growth_mb), len(self.asked.took_ms), f"{self.asked.percentile(0.5):.0f}",
                f"{self.p99_ms:.0f}", self.asked.failed, f"{self.metrics.percentile(1):.0f}", f"{self.health.percentile(1):.0f}",
                self.metrics.failed + self.health.failed, f"{self.cpus:.2f}"]


def measure(cluster, stub, peers):
    """Lets the peers, each given by its arguments, run for the time, and sees what happens beside them."""
    before = {server: resident_mb(server.process.pid) for server in cluster.servers}
    most = dict(before)

    def sample():
        for server in cluster.servers:
            most[server] = max(most[server], resident_mb(server.process.pid))

    with contextlib.ExitStack() as beside:
        running = [beside.enter_context(Beside(CLIENTS_CPU, ROOT / "bench/flood_peer.py", *arguments)) for arguments in peers]
        for peer in running:
            peer.begin()
        with Repeated(sample, SAMPLE_S), Repeated(lambda: ask(stub)) as asked, \
                Repeated(cluster.router.metrics, PROBE_S) as metrics, \
                Repeated(lambda: check_health(cluster), PROBE_S) as health:
            time.sleep(args.seconds)
            cpus = sum(peer.cpu_s() for peer in running) / args.seconds
    growth = [most[server] - before[server] for server in cluster.servers]  # prefill, decode, router
    return Measured([growth[2], growth[0], growth[1]], asked, metrics, health, cpus)


@dataclasses.dataclass
class Group:
    """The floods of one port, and what was measured of them. Each has its row's name and its attackers' arguments."""
    name: str
    attackers: int  # attackers in each flood
    floods: list
    rows: list = dataclasses.field(default_factory=list)  # names and Measured, controls too, as they came

    def measurements(self):
        """Names and peers of all, the controls spread among the floods."""
        first, middle, last = (((self.name, "", "control"), [("burn", cpus / self.attackers)] * self.attackers)
                               for cpus in CONTROL_CPUS)
        half = len(self.floods) // 2
        return [first, *self.floods[:half], middle, *self.floods[half:], last]

    def lines(self):
        controls = [measured for name, measured in self.rows if name[2] == "control"]
        for name, measured in self.rows:
            parts = ["", ""]
            if name[2] != "control":
                control = min(controls, key=lambda one: abs(one.cpus - measured.cpus))
                parts = [f"{measured.p99_ms / control.p99_ms:.2f}", f"{measured.answered / control.answered:.2f}"]
            yield "| " + " | ".join(map(str, [*name, *measured.cells(), *parts])) + " |"


def table(nothing, groups):
    lines = [line for group in groups for line in group.lines()]
    cells = " | ".join(map(str, ["", "", "nothing", *nothing.cells(), "", ""]))
    return "\n".join([HEADER + "| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|", f"| {cells} |", *lines]) + "\n"


def groups_of(cluster):
    """What is to be measured."""
    ports = {"front": cluster.front.host_port[1], "http": cluster.http_port, "router": cluster.router.port,
             "prefill": cluster.prefill[0].port, "decode": cluster.decode[0].port}

    def kinds(at):
        every = [*(HTTP_FLOODS if at == "http" else FLOODS), "handshakes"]
        return [kind for kind in every if kind in args.flood] if args.flood else every

    def attackers(at, certificate, kind):
        """One for each port."""
        return [("flood", kind, ports[port], "http" if port == "http" else "", cluster.ours, certificate)
                for port in (INNER if at == "inner" else [at])]

    def certificates(at):
        return ("", "client") if at in (*INNER, "inner") else ("client",)

    if args.together:
        every = [attacker for at in args.at for certificate in certificates(at) for kind in kinds(at)
                 for attacker in attackers(at, certificate, kind)]
        return [Group("all", len(every), [((" ".join(args.at), "both", "all"), every)])]
    groups = []
    for at in args.at:
        if at == "inner":
            floods = [((at, "both", kind), CONNECTIONS * (attackers(at, "", kind) + attackers(at, "client", kind)))
                      for kind in kinds(at)]
        else:
            floods = [((at, certificate or "nobody", kind), CONNECTIONS * attackers(at, certificate, kind))
                      for certificate in certificates(at) for kind in kinds(at)]
        count = CONNECTIONS * (len(INNER) * len(certificates(at)) if at == "inner" else 1)
        if floods or args.flood == ["control"]:
            groups.append(Group(at, count, floods))
    return groups


class Progress:
    """Says how far it is, and keeps the table."""

    def __init__(self, groups):
        self.groups, self.nothing, self.done, self.begin = groups, None, 0, time.monotonic()
        self.all = 1 + sum(len(group.measurements()) for group in groups)
        print(f"{self.all} measurements, about {self.all * (args.seconds + START_S) / 60:.0f} minutes", file=sys.stderr)

    def say(self, name, measured):
        self.done += 1
        spent_s = time.monotonic() - self.begin
        print(f"{self.done}/{self.all} {' '.join(part for part in name if part)}: p99 {measured.p99_ms:.0f} ms, "
              f"{measured.answered} answers; about {spent_s * (self.all - self.done) / self.done / 60:.0f} minutes to go",
              file=sys.stderr)
        if args.out is not None:
            args.out.write_text(table(self.nothing, self.groups), encoding="utf-8")


def measure_all(cluster, stub, progress):
    progress.nothing = measure(cluster, stub, [])
    progress.say(("nothing",), progress.nothing)

    for group in progress.groups:
        for name, peers in group.measurements():
            group.rows.append((name, measure(cluster, stub, peers)))
            progress.say(*group.rows[-1])


def cluster_in(folder):
    cluster = FrontedCluster(folder, secured=True)
    if args.front_apart:
        cluster.front.command[:0] = ["taskset", "-c", str(CLIENTS_CPU)]
    return cluster


def main():
    known = [*HTTP_FLOODS, "handshakes", "control"]
    unknown = set(args.flood) - set(known)
    if unknown:
        raise SystemExit(f"no flood {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.sched_setaffinity(0, {SERVERS_CPU})  # what the servers begin with
    with tempfile.TemporaryDirectory() as folder, cluster_in(pathlib.Path(folder)) as cluster:
        os.sched_setaffinity(0, {CLIENTS_CPU})
        with grpc.secure_channel(cluster.front.address, channel_credentials(cluster.ours)) as channel:
            stub = rpc.GenerationServiceStub(channel)
            for _ in range(3):
                ask(stub)
            progress = Progress(groups_of(cluster))
            try:
                measure_all(cluster, stub, progress)
            finally:
                if progress.nothing is not None:
                    print(table(progress.nothing, progress.groups), end="")


if __name__ == "__main__":
    main()
