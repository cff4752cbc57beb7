#!/usr/bin/python3
"""What the router costs: alone on one core, mock workers and the load generator on the other.

    bench/router_cost.py [--bin build/dev] [--model MODEL.gguf] [--seconds 4] [--json FILE] [CASE...]

Cases: `requests` (short requests/s), `tokens` (streamed tokens/s), `workers` (cost per request with 2, 20, 200 and 1,000
workers), `waiting` (memory of a waiting request). Each is a run of its own. CPU time is the router's own (user and system),
less what it takes with its workers and no requests, so that it says the same on a machine with other guests."""
import argparse
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TICKS = os.sysconf("SC_CLK_TCK")
CASES = ("requests", "tokens", "workers", "waiting")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", default=str(ROOT / "tests/data/tokenizer/smollm2-vocab.gguf"))
    parser.add_argument("--seconds", type=float, default=4, help="that are measured in each run")
    parser.add_argument("--fleet", type=int, nargs="*", default=[2, 20, 200, 1000], help="numbers of workers")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("case", nargs="*", choices=[*CASES, []], default=list(CASES))
    return parser.parse_args()


def free_ports(count):
    """None of those that outgoing connections are given."""
    ports = []
    while len(ports) < count:
        port = random.randrange(10000, 15000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


class Router:
    """The router on CPU 0, `workers` mock workers (half of them for prefill) on CPU 1."""

    def __init__(self, args, workers, mock_args=(), router_args=()):
        self.folder = tempfile.TemporaryDirectory(prefix="router-cost-")
        workers_file = pathlib.Path(self.folder.name) / "workers"
        self.args = args
        self.log = open(pathlib.Path(self.folder.name) / "log", "w+", encoding="utf-8")
        self.mocks = subprocess.Popen(
            ["taskset", "-c", "1", str(args.bin / "tests/mock_workers"), f"--model={args.model}",
             f"--workers-file={workers_file}", f"--prefill={workers // 2}", f"--decode={workers - workers // 2}", *mock_args],
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        if self.mocks.stdout.readline() != "ready\n":
            raise SystemExit("the mock workers do not start")
        self.port, health_port, self.metrics_port = free_ports(3)
        self.process = subprocess.Popen(
            ["taskset", "-c", "0", str(args.bin / "bin/baton-router"), f"--model={args.model}", "--disaggregate=always",
             f"--listen=127.0.0.1:{self.port}", f"--health-listen=127.0.0.1:{health_port}",
             f"--metrics-listen=127.0.0.1:{self.metrics_port}", f"--workers-file={workers_file}", "--log-level=error", *router_args],
            stdout=self.log, stderr=self.log)
        self.wait_ready(workers)

    def wait_ready(self, workers):
        import urllib.request
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            time.sleep(0.1)
            if self.process.poll() is not None:
                self.log.seek(0)
                raise SystemExit("the router ended:\n" + self.log.read())
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=5) as response:
                    text = response.read().decode()
            except OSError:
                continue
            up = sum(line.startswith("baton_worker_up{") and line.endswith(" 1") for line in text.splitlines())
            if up >= workers:
                return
        raise SystemExit(f"not all of {workers} workers became ready")

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident_mb(self):
        pages = int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def idle_share(self, seconds):
        """CPU time per second with no requests."""
        before, begin = self.cpu_s(), time.monotonic()
        time.sleep(seconds)
        return (self.cpu_s() - before) / (time.monotonic() - begin)

    def load(self, seconds, *arguments, warmup=1.0):
        """The report of `baton bench serve`, with the router's CPU seconds over warm-up and measurement in "cpu_s"."""
        before, begin = self.cpu_s(), time.monotonic()
        done = subprocess.run(
            ["taskset", "-c", "1", str(self.args.bin / "bin/baton"), "bench", "serve", f"--server=127.0.0.1:{self.port}",
             f"--duration={seconds}s", f"--warmup={warmup}s", "--timeout=20s", "--json", *arguments],
            stdout=subprocess.PIPE, text=True, check=True)
        report = json.loads(done.stdout)
        report["cpu_s"], report["wall_s"] = self.cpu_s() - before, time.monotonic() - begin
        return report

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in (self.process, self.mocks):
            process.terminate()
        for process in (self.process, self.mocks):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.log.close()
        self.folder.cleanup()


SHORT = ("--input-len=32", "--output-len=8")


def only(report):
    return report["classes"]["all"]


def requests(args):
    """As many short requests as it takes: 64 clients, each with one after the other."""
    with Router(args, 4) as router:
        row = only(router.load(args.seconds, "--max-concurrency=64", *SHORT))
    return {"requests_per_s": row["completed_per_s"], "failed": row["failed"], "ttft_p50_ms": row["ttft_ms"]["p50"],
            "ttft_p99_ms": row["ttft_ms"]["p99"]}


def tokens(args):
    """Streams of 2,000 tokens whose workers give more than the router takes."""
    with Router(args, 4, ["--between-tokens=2ms"]) as router:
        report = router.load(args.seconds, "--max-concurrency=256", "--input-len=32", "--output-len=4000", warmup=2.0)
    row = only(report)
    return {"tokens_per_s": row["tokens_per_s"], "messages_per_s": row["itl_ms"]["samples"] / args.seconds,
            "itl_p50_ms": row["itl_ms"]["p50"], "itl_p99_ms": row["itl_ms"]["p99"],
            "router_cpu_share": report["cpu_s"] / report["wall_s"], "generator_cpu_share": report["generator_cpu_share"]}


def workers(args):
    """CPU time of the router per request at 300 requests/s, for each size of the fleet."""
    rows = []
    for count in args.fleet:
        with Router(args, count) as router:
            time.sleep(1)
            idle = router.idle_share(2)
            samples, p99 = [], []
            for _ in range(2):
                row = router.load(args.seconds, "--request-rate=300", *SHORT, warmup=0.0)
                done = only(row)["completed"]
                samples.append((row["cpu_s"] - idle * args.seconds) / done * 1e6)
                p99.append(only(row)["ttft_ms"]["p99"])
        rows.append({"workers": count, "idle_cpu_share": idle, "cpu_us_per_request": min(samples),
                     "ttft_p99_ms": min(p99)})
    return rows


def waiting(args):
    """Requests of 1,000 tokens that no worker takes: what each costs while it waits."""
    with Router(args, 2, ["--per-prompt-token=1s"], ["--max-waiting-requests=2000"]) as router:
        router.load(0.5, "--max-concurrency=4", *SHORT, "--timeout=1s")
        before = router.resident_mb()
        load = subprocess.Popen(
            ["taskset", "-c", "1", str(args.bin / "bin/baton"), "bench", "serve", f"--server=127.0.0.1:{router.port}",
             "--duration=4s", "--warmup=0s", "--max-concurrency=1000", "--input-len=1000", "--output-len=100"],
            stdout=subprocess.DEVNULL)
        time.sleep(3)
        per_request = (router.resident_mb() - before) * 1e3 / 1000
        load.wait()
    return {"prompt_tokens": 1000, "kb_per_waiting_request": per_request}


def main():
    args = parse()
    results = {}
    for case in args.case:
        results[case] = globals()[case](args)
        print(case, json.dumps(results[case]), flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
