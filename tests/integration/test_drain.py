"""SIGTERM: a server takes no new work, what runs on it finishes or goes on elsewhere before its time is up, and it exits with 0;
a second SIGTERM ends it at once."""
import http.client
import itertools
import json
import signal
import socket
import subprocess

import grpc
import pytest

from cluster import SOON_S, Cluster, Failure, busy, failure, free_port, request, wait_until
from stubs import pb

GRACE_S = 2  # seconds of --shutdown-timeout; after half of it a server ends what still runs
SHORT, LONG = 20, 1500  # output tokens: a worker finishes SHORT well within half of GRACE_S, and LONG never

salts = itertools.count()


def made(length, prompt_tokens=40, seed=0):
    asked = request(ids=[(seed * 37 + i * i) % 40000 + 20 for i in range(prompt_tokens)], stream=True, ignore_eos=True,
                    max_tokens=length, temperature=0.9 if seed % 2 else 0, seed=seed)
    asked.cache_salt = str(next(salts))  # no prefix of the prompt is cached
    asked.speculative = pb.SPECULATIVE_NONE  # guesses make so many tokens a second that LONG would be short
    return asked


@pytest.fixture(scope="module")
def fleet():
    with Cluster(prefill=2, decode=2, worker_args=[f"--shutdown-timeout={GRACE_S}s"],
                 router_args=["--disaggregate=always"]) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def whole(fleet):
    yield
    fleet.revive()
    fleet.wait_idle()


class Stream:
    def __init__(self, cluster, asked, timeout_s=60):
        self.call, self.ids, self.done = cluster.stub.Generate(asked, timeout=timeout_s), [], None

    def read(self, tokens):
        while len(self.ids) < tokens:
            self.ids += next(self.call).chunk.token_ids
        return self

    def finish(self):
        for response in self.call:
            self.ids += response.chunk.token_ids
            self.done = response.complete
        return self


def is_on(server, worker_name):
    return worker_name.endswith(f":{server.process.pid}")


def exit_code(server):
    return server.process.wait(GRACE_S + 5)


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_draining_worker_is_not_ready_and_gets_nothing_new(fleet, role):
    draining = getattr(fleet, role)[0]
    stream = Stream(fleet, made(LONG)).read(5)  # keeps one of the decode workers from ending at once
    draining = busy(fleet.decode) if role == "decode" else fleet.prefill[0]
    draining.process.send_signal(signal.SIGTERM)
    if role == "decode":
        wait_until(lambda: not draining.serving(), SOON_S, "readiness is false")
        wait_until(lambda: draining.serving("liveness"), SOON_S, "alive: a draining process must not be restarted")
    wait_until(lambda: not fleet.router.serving("all_workers"), SOON_S, "the router has heard of it")
    for seed in range(4):
        done = Stream(fleet, made(3, seed=seed)).finish().done
        assert not is_on(draining, getattr(done.timings, f"{role}_worker"))
    stream.call.cancel()
    assert exit_code(draining) == 0


@pytest.mark.parametrize("seed", [0, 1])
def test_a_stream_that_ends_in_time_ends_where_it_is(fleet, seed):
    right = Stream(fleet, made(SHORT, seed=seed)).finish().ids
    stream = Stream(fleet, made(SHORT, seed=seed)).read(5)
    draining = busy(fleet.decode)
    draining.process.send_signal(signal.SIGTERM)
    stream.finish()
    assert stream.ids == right and stream.done.timings.attempts == 1
    assert is_on(draining, stream.done.timings.decode_worker)
    assert exit_code(draining) == 0


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.plain), 1])
def test_a_longer_stream_goes_on_elsewhere_before_the_time_is_up(fleet, seed):
    right = Stream(fleet, made(LONG, seed=seed)).finish().ids
    stream = Stream(fleet, made(LONG, seed=seed)).read(5)
    draining = busy(fleet.decode)
    draining.process.send_signal(signal.SIGTERM)
    stream.finish()
    assert stream.ids == right
    assert stream.done.timings.attempts == 2 and stream.done.timings.exact
    assert not is_on(draining, stream.done.timings.decode_worker)
    assert exit_code(draining) == 0
    assert "the worker is draining" in fleet.router.log_text()


@pytest.mark.parametrize("grace_is_enough", [True, False])
def test_a_prompt_is_finished_or_computed_elsewhere(fleet, grace_is_enough):
    prompt = 100 if grace_is_enough else 4000
    right = Stream(fleet, made(3, prompt)).finish().ids
    stream = Stream(fleet, made(3, prompt))
    draining = wait_until(lambda: busy(fleet.prefill), SOON_S, "the prefill has begun")
    draining.process.send_signal(signal.SIGTERM)
    stream.finish()
    assert stream.ids == right
    assert is_on(draining, stream.done.timings.prefill_worker) == grace_is_enough
    assert exit_code(draining) == 0


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_second_sigterm_ends_a_worker_at_once_and_no_stream_with_it(fleet, role):
    prompt, length = (3000, 3) if role == "prefill" else (40, 200)
    right = Stream(fleet, made(length, prompt)).finish().ids
    stream = Stream(fleet, made(length, prompt))
    if role == "decode":
        stream.read(5)
    ended = wait_until(lambda: busy(getattr(fleet, role)), SOON_S, "it works on the request")
    drains_before = ended.log_text().count("draining")  # the log also has the lines of earlier processes
    ended.process.send_signal(signal.SIGTERM)
    wait_until(lambda: ended.log_text().count("draining") > drains_before, SOON_S, "it drains")
    ended.process.send_signal(signal.SIGTERM)
    assert exit_code(ended) == 128 + signal.SIGTERM
    assert stream.finish().ids == right and stream.done.timings.attempts == 2


def test_without_another_worker_the_client_is_told_that_it_drains():
    with Cluster(worker_args=["--shutdown-timeout=2s"],
                 router_args=["--disaggregate=always", "--resume-timeout=500ms"]) as lonely:
        stream = Stream(lonely, made(LONG)).read(5)
        lonely.decode[0].process.send_signal(signal.SIGTERM)
        with pytest.raises(grpc.RpcError) as error:
            stream.finish()
        failed = Failure(error.value)
        assert failed.code == grpc.StatusCode.UNAVAILABLE and failed.reason == "DRAINING", failed
        assert failed.retry_s is not None and failed.metadata["stage"] == "decode", failed.metadata
        assert exit_code(lonely.decode[0]) == 0


@pytest.mark.parametrize("length", [SHORT, LONG])
def test_a_draining_router_refuses_what_is_new_and_lets_the_rest_end(length):
    with Cluster(router_args=["--disaggregate=always", f"--shutdown-timeout={GRACE_S}s"]) as cluster:
        stream = Stream(cluster, made(length)).read(5)
        cluster.router.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not cluster.router.serving(), SOON_S, "readiness is false")
        refused = failure(cluster.stub, made(3))
        assert refused.code == grpc.StatusCode.UNAVAILABLE and refused.reason == "DRAINING", refused
        assert refused.retry_s is not None
        if length == SHORT:
            assert len(stream.finish().ids) == SHORT
        else:
            with pytest.raises(grpc.RpcError) as error:
                stream.finish()
            failed = Failure(error.value)
            assert failed.code == grpc.StatusCode.UNAVAILABLE and failed.reason == "DRAINING", failed
        assert exit_code(cluster.router) == 0
        cluster.wait_idle()


def post(port, path, body, receive_buffer=0):
    """A connection whose answer is to be read. `receive_buffer`: bytes that the system holds for it; 0: as it likes."""
    made = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    made.sock = socket.socket()
    if receive_buffer:
        made.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    made.sock.settimeout(made.timeout)
    made.sock.connect(("127.0.0.1", port))
    made.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    return made


def test_a_draining_router_ends_when_its_answers_over_http_are_read():
    port = free_port()
    with Cluster(router_args=["--disaggregate=always", f"--http-listen=127.0.0.1:{port}"]) as cluster:
        words = 20000
        unread = post(port, "/tokenize", {"prompt": "and " * words}, receive_buffer=4096)
        wait_until(lambda: any("http_requests" in name and "/tokenize" in name for name in cluster.router.metrics()), 10,
                   "the answer has begun")
        stream = post(port, "/v1/completions", {"prompt": "Hello", "stream": True, "max_tokens": SHORT, "ignore_eos": True})
        events = stream.getresponse()
        cluster.router.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not cluster.router.serving(), SOON_S, "readiness is false")
        health = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        health.request("GET", "/health")
        assert health.getresponse().status == 503
        assert events.read().endswith(b"data: [DONE]\n\n")
        with pytest.raises(subprocess.TimeoutExpired):
            cluster.router.process.wait(1)
        assert len(json.load(unread.getresponse())["tokens"]) >= words
        assert exit_code(cluster.router) == 0
