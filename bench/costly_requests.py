#!/usr/bin/python3
"""What requests that are made to be costly take from another tenant.

    bench/costly_requests.py --model MODEL.gguf [--bin build/dev] [--seconds 20] [--out FILE] [-- KIND...]

The bench starts a router and two workers of each role. A victim asks again and again for four tokens over HTTP: first alone, then
beside an honest client, then beside an attacker of each kind (all, or those named). The attacker has the honest client's key and so
its limits: 4 streams, 4 requests a second, 20,000 tokens a minute. It sends again at once what is refused. p99 is compared with
that beside the honest client. No model answers `refused` (for the tenant's limit), `too_long` (for the context) and `half`, so beside
them it is compared with that of the victim alone. +MB: the most resident memory of the router, and of the worker that
grew most, beyond that at the row's begin, and of the router 15 s after the attacker has left.

Said to be right when nothing of the victim fails, p99 is at most 1.5 times what it is compared with, the router grows by at most 128
MB and a worker by at most 64. Servers run on CPU 0, the clients on CPU 1. With 20 s each it takes 9 minutes."""
import argparse
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

from serving import ROOT, Beside, Repeated, Serving, free_port, resident_mb

RATIO, ROUTER_MB, WORKER_MB = 1.5, 128, 64
LIMITS = ["--streams=4", "--requests-per-second=4", "--tokens-per-minute=20000"]
SETTLED_S = 15
MB = 1 << 20
COSTLY = 'root ::= s\ns ::= s s s | s s | [a-z ] | ""'
NESTED = "(([a-z ]{1,30}|[b-z ]{1,30}){1,30}|[a-z ]{1,30}){1,30}"
COLUMNS = ("beside", "requests", "p50 ms", "p99 ms", "at most, ms", "failed", "router +MB", "worker +MB", "router +MB after",
           "p99 of the other's")


def completion(**fields):
    return "/v1/completions", {"model": "any", "prompt": "once upon a time", "max_tokens": 400, "temperature": 1, "top_p": 1, **fields}


# The honest one and those who wait for their answers: path and body.
BODIES = {
    "honest": lambda: completion(prompt="the quick brown fox jumps over the lazy dog " * 6, max_tokens=64),
    "form": lambda: completion(guided_grammar=COSTLY, logit_bias={"0": -100, "2": -100}),
    "expression": lambda: completion(guided_regex=NESTED),
    "choices": lambda: completion(n=4, max_tokens=1000),
    "objects": lambda: completion(max_tokens=1, x=[{}] * 340_000),
    "prompt": lambda: completion(prompt="a b " * (3 * MB // 4)),
    "tokenize": lambda: ("/tokenize", {"prompt": "a b " * (3 * MB // 4)}),
}
# Those who do not: the body, and how many of its last bytes are not sent.
UNANSWERED = {
    "refused": (lambda: completion(prompt="a" * (4 * MB - 200)), 0),
    "too_long": (lambda: completion(prompt="a" * (4 * MB - 200)), 0),
    "half": (lambda: completion(prompt="a" * (4 * MB - 200)), 1000),
    "unread": (lambda: ("/tokenize", {"content": "a b " * (MB // 2), "with_pieces": True}), 0),
}
ALONE = ("refused", "too_long", "half")  # compared with the victim alone


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model")
    parser.add_argument("--seconds", type=float, default=20, help="of each kind")
    parser.add_argument("--out", type=pathlib.Path, help="a file for the table")
    parser.add_argument("--attack", metavar="PORT", type=int, help=argparse.SUPPRESS)  # be the client of the kind
    parser.add_argument("kind", nargs="*", help="all by default")
    return parser.parse_args()


def head(path, length, key):
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {length}\r\n\r\n").encode()


def post(port, key, path, body):
    """The status of the answer, which is read to its end."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def ask_on(port, key, kind):
    """Sends that body again and again, and reads each answer."""
    path, fields = BODIES[kind]()
    body = json.dumps(fields)
    while True:
        try:
            if post(port, key, path, body) == 429:
                time.sleep(0.02)
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)


def hold(port, key, kind):
    """Opens connections, sends that body on each and reads nothing; those that the router has closed are opened anew."""
    make, missing = UNANSWERED[kind]
    path, fields = make()
    body = json.dumps(fields).encode()
    sent = head(path, len(body), key) + body[:len(body) - missing]
    held = []
    while True:
        try:
            held.append(socket.create_connection(("127.0.0.1", port), timeout=2))
            held[-1].sendall(sent)
        except OSError:
            time.sleep(0.01)
        if len(held) > 700:
            held.pop(0).close()


def attack(port, kind):
    key = os.environ["BATON_ATTACKERS_KEY"]
    run, count = (ask_on, 4) if kind in BODIES else (hold, 2)
    for _ in range(count):
        threading.Thread(target=run, args=(port, key, kind), daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()


class Memory:
    """The most that processes have had resident beyond what they had at first."""

    def __init__(self, pids):
        self.first = {pid: resident_mb(pid) for pid in pids}
        self.most = dict.fromkeys(pids, 0.0)
        self.sampling = Repeated(self.sample, 0.05)

    def sample(self):
        for pid, first in self.first.items():
            self.most[pid] = max(self.most[pid], resident_mb(pid) - first)

    def now(self, pid):
        return resident_mb(pid) - self.first[pid]


def measure(serving, port, victims_key, keys, kind, seconds):
    """The victim's calls, and the router's and the largest worker's growth, and the router's afterwards."""
    _, fields = completion(prompt="The capital of France is", max_tokens=4, temperature=0)
    body = json.dumps(fields)

    def ask():
        assert post(port, victims_key, "/v1/completions", body) == 200

    router = serving.router.pid
    memory = Memory([router, *(worker.pid for worker in serving.workers)])
    with memory.sampling:
        if kind is None:
            with Repeated(ask) as asked:
                time.sleep(seconds)
        else:
            key = keys["refused" if kind == "refused" else "attacker"]
            if kind == "refused":  # the one request that its tenant may have
                post(port, key, "/v1/completions", body)
            with Beside(1, __file__, f"--attack={port}", kind, environment={"BATON_ATTACKERS_KEY": key}):
                time.sleep(1)
                with Repeated(ask) as asked:
                    time.sleep(seconds)
    time.sleep(SETTLED_S if kind is not None else 0)
    grown = memory.most
    return asked, grown.pop(router), max(grown.values()), memory.now(router)


def main():
    args = parse()
    if args.attack is not None:
        return attack(args.attack, args.kind[0])
    kinds = args.kind or [*BODIES, *UNANSWERED][1:]
    with tempfile.TemporaryDirectory() as folder:
        def new_key(tenant, *limits):
            return subprocess.run([str(args.bin / "bin/baton"), "keys", "new", f"--file={folder}/keys.toml", f"--tenant={tenant}",
                                   *limits], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

        victim = new_key("victim")
        keys = {"attacker": new_key("attacker", *LIMITS), "refused": new_key("refused", "--requests-per-second=0.001")}
        port = free_port()
        serving = Serving(args.bin, args.model, [f"--api-keys={folder}/keys.toml", f"--http-listen=127.0.0.1:{port}",
                                                 "--served-model-name=any"], 0, 1)
        for role in ("prefill", "decode", "prefill", "decode"):
            serving.add_worker(role, "--threads=1", "--cpu-set=0", cpu=0)
        lines, right, p99 = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)], True, {}
        with serving:
            for kind in [None, "honest", *kinds]:
                asked, router_mb, worker_mb, after_mb = measure(serving, port, victim, keys, kind, args.seconds)
                if kind is None and asked.failed > 0:
                    raise SystemExit("the victim is refused when it is alone, so there is nothing to measure")
                p99[kind] = asked.percentile(0.99)
                ratio = p99[kind] / p99[None if kind in (None, *ALONE) else "honest"]
                if kind not in (None, "honest"):
                    right &= ratio <= RATIO and asked.failed == 0 and router_mb <= ROUTER_MB and worker_mb <= WORKER_MB
                cells = [kind or "nobody", len(asked.took_ms), f"{asked.percentile(0.5):.0f}", f"{p99[kind]:.0f}",
                         f"{asked.percentile(1):.0f}", asked.failed, f"{router_mb:.0f}", f"{worker_mb:.0f}", f"{after_mb:.0f}",
                         f"{ratio:.2f}"]
                lines.append("| " + " | ".join(map(str, cells)) + " |")
                print(lines[-1], flush=True)
            lost = re.findall(r".*no progress.*", serving.log_text())
    print("\n".join(lines))
    print(f"  {'kept  ' if right else 'MISSED'} no failure, p99, memory")
    print(f"  {'kept  ' if not lost else 'MISSED'} no worker is taken for lost")
    if args.out is not None:
        args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0 if right and not lost else 1


if __name__ == "__main__":
    sys.exit(main())
