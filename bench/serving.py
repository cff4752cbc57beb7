"""A router with workers as processes, for benches of serving: started, put under a load by `baton bench serve`, ended."""

import itertools
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
TICKS = os.sysconf("SC_CLK_TCK")
READY_TIMEOUT_S = 60
given_ports = set()
# The servers are on this machine: a proxy that the environment names is for downloads alone.
os.environ["no_proxy"] = ",".join(filter(None, [os.environ.get("no_proxy", os.environ.get("NO_PROXY")), "127.0.0.1,localhost"]))


def free_port():
    """One that no outgoing connection is given."""
    while True:
        port = random.randrange(10000, 15000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in given_ports:
            given_ports.add(port)
            return port


def scrape(port):
    """A server's metrics; "": it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as response:
            return response.read().decode()
    except OSError:
        return ""


class Serving:
    """A router in front of workers. `folder`: of a build. Without a context manager it runs on."""

    def __init__(self, folder, model, router_args=(), router_cpu=None, load_cpu=None):
        self.build, self.model = folder, model
        self.scratch = tempfile.TemporaryDirectory(prefix="baton-bench-")
        self.log = open(pathlib.Path(self.scratch.name) / "log", "w+", encoding="utf-8")
        self.router_cpu, self.load_cpu = router_cpu, load_cpu
        self.router_args = list(router_args)
        self.workers = []
        self.router = None
        self.port = 0
        self.seeds = itertools.count(1)  # no load has the prompts of one before it: the workers may hold those

    def add_mock_workers(self, count, *arguments, cpu=None):
        """`count` workers in one process, half of them for prefill."""
        file = pathlib.Path(self.scratch.name) / "workers"
        command = [str(self.build / "tests/mock_workers"), f"--model={self.model}", f"--workers-file={file}",
                   f"--prefill={count // 2}", f"--decode={count - count // 2}", *arguments]
        process = subprocess.Popen(pinned(cpu, command), stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.workers.append(process)
        if process.stdout.readline() != "ready\n":
            raise SystemExit("the mock workers do not start:\n" + self.log_text())
        self.router_args.append(f"--workers-file={file}")
        self.expected = count

    def add_worker(self, role, *arguments, cpu=None):
        """A real worker, "prefill" or "decode"; `cpu`: all that its process may use. Returns its port of metrics."""
        port, metrics_port = free_port(), free_port()
        self.workers.append(subprocess.Popen(pinned(
            cpu, [str(self.build / f"bin/baton-{role}-worker"), f"--model={self.model}", f"--listen=127.0.0.1:{port}",
             f"--health-listen=127.0.0.1:{free_port()}", f"--metrics-listen=127.0.0.1:{metrics_port}", "--log-level=error",
                  *arguments]), stdout=self.log, stderr=self.log))
        self.router_args.append(f"--{role}=127.0.0.1:{port}")
        self.expected = len(self.workers)
        return metrics_port

    def start(self):
        self.port, self.metrics_port = free_port(), free_port()
        command = [str(self.build / "bin/baton-router"), f"--model={self.model}", f"--listen=127.0.0.1:{self.port}",
                   f"--health-listen=127.0.0.1:{free_port()}", f"--metrics-listen=127.0.0.1:{self.metrics_port}",
                   "--log-level=error", *self.router_args]
        self.router = subprocess.Popen(pinned(self.router_cpu, command), stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while self.ready_workers() < self.expected:
            if self.router.poll() is not None:
                raise SystemExit("the router ended:\n" + self.log_text())
            if time.monotonic() > deadline:
                raise SystemExit(f"not all of {self.expected} workers are ready:\n" + self.log_text())
            time.sleep(0.1)

    def ready_workers(self):
        return sum(line.startswith("baton_worker_up{") and line.endswith(" 1") for line in self.metrics().splitlines())

    def metrics(self):
        return scrape(self.metrics_port)

    def log_text(self):
        return pathlib.Path(self.log.name).read_text(encoding="utf-8", errors="replace")

    def cpu_s(self):
        """CPU time of the router so far."""
        return cpu_s(self.router.pid)

    def resident_mb(self):
        """Resident memory of the router in MB."""
        return resident_mb(self.router.pid)

    def load_command(self, seconds, *arguments, warmup=1.0):
        return pinned(self.load_cpu, [str(self.build / "bin/baton"), "bench", "serve", f"--server=127.0.0.1:{self.port}",
                                      f"--duration={seconds}s", f"--warmup={warmup}s", f"--seed={next(self.seeds)}", "--json",
                                      *arguments])

    def load(self, seconds, *arguments, warmup=1.0):
        """The report of `baton bench serve`, with the router's CPU time and the time that all of it took."""
        before, begin = self.cpu_s(), time.monotonic()
        done = subprocess.run(self.load_command(seconds, *arguments, warmup=warmup), stdout=subprocess.PIPE, text=True,
                              check=True)
        report = json.loads(done.stdout)
        report["cpu_s"], report["wall_s"] = self.cpu_s() - before, time.monotonic() - begin
        return report

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        processes = [process for process in (self.router, *self.workers) if process is not None]
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.log.close()
        self.scratch.cleanup()


class Beside:
    """A Python program of this folder on a CPU, which says "ready" on its standard output, waits for a line on its standard input
    where it is to begin with others, and goes on until the end of the `with`. It takes what the client leaves of the CPU, so that
    nobody measures how long the client waits for it."""

    def __init__(self, cpu, program, *arguments, environment=None):
        command = ["nice", "-n", "19", sys.executable, str(program), *map(str, arguments)]
        self.process = subprocess.Popen(pinned(cpu, command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **(environment or {})})
        if self.process.stdout.readline() != "ready\n":
            raise SystemExit(f"it does not start: {arguments}")
        self.start_s = cpu_s(self.process.pid)

    def begin(self):
        """Says the line that the program waits for."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def cpu_s(self):
        """The CPU time that it has used since it was ready."""
        return cpu_s(self.process.pid) - self.start_s

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


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


def resident_mb(pid):
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_s(pid):
    """The CPU time that the process has used."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def pinned(cpu, command):
    return command if cpu is None else ["taskset", "-c", str(cpu), *command]


def mock_serving(folder, model, workers, mock_args=(), router_args=()):
    """The router alone on CPU 0, mock workers and load on CPU 1."""
    serving = Serving(folder, model, ["--disaggregate=always", *router_args], router_cpu=0, load_cpu=1)
    serving.add_mock_workers(workers, *mock_args, cpu=1)
    return serving
