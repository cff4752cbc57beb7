"""What clients take of the router's memory who are refused or never finish: little, and nothing once they have left."""
import contextlib
import json
import pathlib
import socket
import urllib.error
import urllib.request

import grpc
import pytest

from cluster import Server, free_port, request, wait_until
from programs import bearer, new_key
from stubs import rpc

TOKENIZER = pathlib.Path(__file__).resolve().parent.parent / "data" / "tokenizer" / "smollm2-vocab.gguf"
MB = 1 << 20
BODY = 4 * MB
LEFT = 48 * MB  # what a flood may leave
PATIENCE_S = 20


@pytest.fixture(scope="module")
def router(tmp_path_factory):
    """A router without workers, with a tenant that may ask for next to nothing and two others."""
    file = tmp_path_factory.mktemp("memory") / "keys.toml"
    made = Server("baton-router", f"--model={TOKENIZER}", f"--decode=127.0.0.1:{free_port()}", f"--api-keys={file}",
                  "--log-level=error")
    made.keys = {"limited": new_key(file, "--tenant=limited", "--requests-per-second=0.001"),
                 "heavy": new_key(file, "--tenant=heavy"), "light": new_key(file, "--tenant=light")}
    made.http_port = free_port()
    made.argv.append(f"--http-listen=127.0.0.1:{made.http_port}")
    made.start()
    try:
        wait_until(lambda: made.serving("liveness"), 60, "the router is up")
        for _ in range(45):  # what the limited tenant may ask for, and its refusals that come at once
            tokenize(made, "limited", "a")
        yield made
        assert made.stop() == 0, made.log_text()
    finally:
        if made.process.poll() is None:
            made.kill()


def resident(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def tokenize(server, tenant, text):
    """The status of the answer."""
    asked = urllib.request.Request(f"http://127.0.0.1:{server.http_port}/tokenize", json.dumps({"prompt": text}).encode(),
                                   {"Content-Type": "application/json", "x-api-key": server.keys[tenant]})
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def begin(server, tenant, announced, sent, chunked=False, path="/v1/completions"):
    """A connection on which `sent` bytes of a body of `announced` bytes were sent, as far as the router takes them."""
    connection = socket.create_connection(("127.0.0.1", server.http_port), timeout=30)
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {announced}"
    head = (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nx-api-key: {server.keys[tenant]}\r\n"
            f"Content-Type: application/json\r\n{length}\r\n\r\n") + (f"{announced:x}\r\n" if chunked else "")
    with contextlib.suppress(OSError):  # the router has refused it, and does not wait for the rest
        connection.sendall(head.encode() + b"a" * sent)
    return connection


def check_given_back(server, before):
    wait_until(lambda: resident(server) < before + LEFT, PATIENCE_S, "the memory is given back")


def test_refusals_that_are_held_keep_no_body(router):
    before, connections = resident(router), []
    try:
        for _ in range(60):
            connections.append(begin(router, "limited", BODY, BODY))
        assert resident(router) < before + 32 * MB
    finally:
        for connection in connections:
            connection.close()
    check_given_back(router, before)


def test_refusals_that_are_held_keep_no_message(router):
    before = resident(router)
    made = request(prompt="a" * (3 * MB))
    with grpc.insecure_channel(router.address) as channel:
        stub = rpc.GenerationServiceStub(channel)
        refused = router.metric("baton_router_refusals_total", reason="TENANT_REQUESTS")
        calls = []
        for _ in range(60):  # one after another, since gRPC itself may take some at a time
            calls.append(stub.Generate(made, timeout=30, metadata=bearer(router.keys["limited"])))
            wait_until(lambda: router.metric("baton_router_refusals_total", reason="TENANT_REQUESTS") >= refused + len(calls),
                       PATIENCE_S, "it is refused")
        assert resident(router) < before + 48 * MB
        for call in calls:
            call.cancel()
    check_given_back(router, before)


def test_long_answers_that_nobody_reads_are_bounded_and_leave_room_to_other_tenants(router):
    before, connections = resident(router), []
    body = json.dumps({"content": "a b " * (MB // 2), "with_pieces": True}).encode()  # its ids take 4 MB
    try:
        for _ in range(10):
            connection = begin(router, "heavy", len(body), 0, path="/tokenize")
            connection.sendall(body)
            connections.append(connection)
        statuses = [connection.recv(12) for connection in connections]
        assert set(statuses) == {b"HTTP/1.1 200", b"HTTP/1.1 503"}, statuses
        assert 4 <= statuses.count(b"HTTP/1.1 200") <= 8, statuses
        assert tokenize(router, "light", "a b " * 100000) == 200
        assert resident(router) < before + 128 * MB
    finally:
        for connection in connections:
            connection.close()
    check_given_back(router, before)


@pytest.mark.parametrize("chunked", [False, True])
def test_half_sent_bodies_are_bounded_and_leave_room_to_other_tenants(router, chunked):
    before, connections = resident(router), []
    try:
        for _ in range(40):
            connections.append(begin(router, "heavy", BODY, BODY - 1000, chunked))
        assert resident(router) < before + 128 * MB
        assert router.metric("baton_router_queue_bytes") > 32 * MB, "it holds as many as it may"
        assert tokenize(router, "light", "a" * 100000) == 200
    finally:
        for connection in connections:
            connection.close()
    wait_until(lambda: router.metric("baton_router_queue_bytes") == 0, PATIENCE_S, "nothing waits any more")
    check_given_back(router, before)
