"""A router with its workers as real processes on loopback, for tests."""
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

import grpc

from fault_proxy import FaultProxy
from stubs import details_pb, health_pb, pb, rpc, status_pb

BIN = pathlib.Path(os.environ["BATON_BIN"])
MODEL = os.environ.get("BATON_TEST_MODEL", "")
READY_TIMEOUT_S = 60
SOON_S = 30  # most that a state may take which comes in a moment on a machine that does nothing else
STATE = tempfile.TemporaryDirectory(prefix="baton-state-")  # what the programs keep of a run, and their logs
# The tests' own clients reach the servers directly, whatever proxy a developer's environment names for downloads.
os.environ["no_proxy"] = ",".join(filter(None, [os.environ.get("no_proxy", os.environ.get("NO_PROXY")), "127.0.0.1,localhost"]))
port_claims = []  # sockets with names of their own, which the kernel forgets when this process ends


def free_port():
    """A port outside the range of outgoing connections, so that a restarted server finds it still free, that nobody else who asks
    here is given."""
    while True:
        port = random.randrange(10000, 32000)
        claim = socket.socket(socket.AF_UNIX)
        with socket.socket() as s:
            try:
                claim.bind(f"\0baton-test-port-{port}")
                s.bind(("127.0.0.1", port))
            except OSError:
                claim.close()
                continue
        port_claims.append(claim)
        return port


def wait_until(condition, timeout_s, what):
    """The first true value of condition(); fails after timeout_s."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(0.01)


def is_serving(port, service):
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb.HealthCheckResponse.FromString,
        )
        try:
            response = check(health_pb.HealthCheckRequest(service=service), timeout=1)
        except grpc.RpcError:
            return False
        return response.status == health_pb.HealthCheckResponse.SERVING


def new_log(name):
    """A file of that name and some letters; conftest.py shows the end of it with a test that fails."""
    return tempfile.NamedTemporaryFile(prefix=f"{name}-", suffix=".log", dir=STATE.name, delete=False)


class Server:
    """One of our binaries, with its ports. start() again after it died: the ports stay."""

    def __init__(self, binary, *args):
        self.port, self.health_port, self.metrics_port = free_port(), free_port(), free_port()
        self.argv = [str(BIN / binary), f"--listen=127.0.0.1:{self.port}",
                     f"--health-listen=127.0.0.1:{self.health_port}",
                     f"--metrics-listen=127.0.0.1:{self.metrics_port}", *args]
        self.log = new_log(binary)
        self.process = None
        self.environment = {}  # variables in addition to our own

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def start(self):
        self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        env={**os.environ, "XDG_STATE_HOME": STATE.name, **self.environment})

    def stop(self, timeout_s=10):
        """Sends SIGTERM and returns the exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.argv[0]} did not end within {timeout_s} s of SIGTERM:\n{self.log_text()}")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def serving(self, service="readiness"):
        if self.process.poll() is not None:
            raise AssertionError(f"{self.argv} ended with {self.process.returncode}:\n{self.log_text()}")
        return is_serving(self.health_port, service)

    def log_text(self):
        return pathlib.Path(self.log.name).read_text(errors="replace")

    def metrics(self):
        """{'name{label="x"}': value} of the scrape."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=5) as response:
            text = response.read().decode()
        samples = re.findall(r"^([a-zA-Z_:][\w:]*(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in samples}

    def metric(self, name, **labels):
        """The sum of the samples of `name` whose labels include `labels`."""
        total, seen = 0.0, False
        for sample, value in self.metrics().items():
            base = sample.split("{")[0]
            if base == name and all(f'{k}="{v}"' in sample for k, v in labels.items()):
                total, seen = total + value, True
        assert seen, f"no sample {name} {labels} in {sorted(self.metrics())}"
        return total


class Cluster:
    """`with_links`: each prefill worker reaches the decode worker decode[i] through the FaultProxy links[i], and the router
    every worker directly. Several routers serve the same workers; `router` is the first, `stubs` has one for each."""

    def __init__(self, prefill=1, decode=1, worker_args=(), prefill_args=(), decode_args=(), router_args=(),
                 credentials=None, with_links=False, routers=1, model=MODEL):
        self.credentials = credentials  # credentials of the client's channel; None: plain text
        worker = [f"--model={model}", "--threads=1", *worker_args]
        self.prefill = [Server("baton-prefill-worker", *worker, *prefill_args) for _ in range(prefill)]
        self.decode = [Server("baton-decode-worker", *worker, *decode_args) for _ in range(decode)]
        self.routers = [Server(
            "baton-router", f"--model={model}", "--expose-workers",
            *(f"--prefill={w.address}" for w in self.prefill),
            *(f"--decode={w.address}" for w in self.decode), *router_args) for _ in range(routers)]
        self.router = self.routers[0]
        self.channels = []
        self.links = [FaultProxy(worker.port, seed) for seed, worker in enumerate(self.decode)] if with_links else []
        for worker, link in zip(self.decode, self.links):
            worker.argv.append(f"--advertise={link.address}")

    @property
    def servers(self):
        return [*self.prefill, *self.decode, *self.routers]

    def __enter__(self):
        try:
            for server in self.servers:
                server.start()
            self.wait_ready()
        except BaseException:
            self.__exit__()
            raise
        self.channels = [self.channel_to(router) for router in self.routers]
        self.stubs = [rpc.GenerationServiceStub(channel) for channel in self.channels]
        self.stub = self.stubs[0]
        return self

    def channel_to(self, router):
        """A channel that finds a restarted router at once, without a backoff."""
        options = [(f"grpc.{which}_reconnect_backoff_ms", 100) for which in ("initial", "min", "max")]
        return (grpc.secure_channel(router.address, self.credentials, options) if self.credentials
                else grpc.insecure_channel(router.address, options))

    def wait_ready(self):
        for server in self.servers:
            wait_until(server.serving, READY_TIMEOUT_S, f"{server.argv[0]} ready\n{server.log_text()}")
        # The router is ready before it knows all workers: one decode worker suffices, which can prefill too.
        for router in self.routers:
            wait_until(lambda: router.serving("all_workers"), READY_TIMEOUT_S,
                       f"the router knows its workers\n{router.log_text()}")

    def __exit__(self, *_):
        for channel in self.channels:
            channel.close()
        for server in self.servers:
            if server.process is not None and server.process.poll() is None:
                server.kill()
        for link in self.links:
            link.close()

    def used_blocks(self):
        return [w.metric("baton_kv_cache_blocks", state="used") for w in [*self.prefill, *self.decode]]

    def revive(self):
        """Starts the servers that have ended, and waits until all are ready."""
        for server in self.servers:
            if server.process.poll() is not None:
                server.start()
        self.wait_ready()

    def wait_idle(self, timeout_s=SOON_S):
        """Waits until every block and every reservation is back on every worker."""
        def idle():
            return not any(w.metric("baton_kv_cache_blocks", state=state)
                           for w in [*self.prefill, *self.decode] for state in ("used", "promised"))

        wait_until(idle, timeout_s, f"blocks back: {self.used_blocks()}")


def busy(workers):
    """The first of the workers that holds a sequence; None: none does."""
    return next((w for w in workers if w.metric("baton_kv_cache_blocks", state="used")), None)


def request(prompt=None, ids=None, chat=None, stream=False, **sampling):
    made = pb.GenerateRequest(stream=stream, return_token_ids=True)
    if prompt is not None:
        made.prompt = prompt
    if ids is not None:
        made.prompt_token_ids.ids.extend(ids)
    for role, content in chat or ():
        made.chat.messages.add(role=role, content=content)
    for name, value in sampling.items():
        field = getattr(made.sampling_params, name)
        if name == "logit_bias":
            field.update(value)
        elif isinstance(value, (list, tuple)):
            field.extend(value)
        else:
            setattr(made.sampling_params, name, value)
    return made


def complete(stub, made, timeout_s=120):
    """The one GenerateComplete of a request with stream=false."""
    responses = list(stub.Generate(made, timeout=timeout_s))
    assert len(responses) == 1 and responses[0].HasField("complete"), responses
    return responses[0].complete


class Load:
    """Requests one after another, until the end of the `with`; then none of them may have failed."""

    def __init__(self, stub, metadata=()):
        self.stub, self.metadata, self.done, self.failures, self.over = stub, metadata, 0, [], False
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.over:
            made = request(prompt=f"{self.done} times", temperature=0, max_tokens=2)
            try:
                list(self.stub.Generate(made, timeout=60, metadata=self.metadata))
                self.done += 1
            except grpc.RpcError as error:
                self.failures.append(error.details())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.thread.join()
        assert self.done > 0 and not self.failures, self.failures


class Failure:
    """A gRPC error with its google.rpc details."""

    def __init__(self, error):
        self.code, self.message = error.code(), error.details()
        self.fields, self.reason, self.retry_s, self.metadata = [], None, None, {}
        for key, value in error.trailing_metadata() or ():
            if key != "grpc-status-details-bin":
                continue
            for packed in status_pb.Status.FromString(value).details:
                name = packed.type_url.split("/")[-1]
                if name == "google.rpc.BadRequest":
                    bad = details_pb.BadRequest.FromString(packed.value)
                    self.fields += [v.field for v in bad.field_violations]
                elif name == "google.rpc.ErrorInfo":
                    info = details_pb.ErrorInfo.FromString(packed.value)
                    self.reason, self.metadata = info.reason, dict(info.metadata)
                elif name == "google.rpc.RetryInfo":
                    delay = details_pb.RetryInfo.FromString(packed.value).retry_delay
                    self.retry_s = delay.seconds + delay.nanos * 1e-9

    def __repr__(self):
        return f"{self.code} {self.message!r} fields={self.fields} reason={self.reason} retry_s={self.retry_s}"


def failure(stub, made, timeout_s=30):
    """The Failure of a request, which must fail."""
    try:
        responses = list(stub.Generate(made, timeout=timeout_s))
    except grpc.RpcError as error:
        return Failure(error)
    raise AssertionError(f"succeeded: {responses}")
