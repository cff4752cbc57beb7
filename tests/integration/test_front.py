"""Clients reach the router through the front, whose word about their certificates it believes, and nobody else's."""
import base64
import contextlib
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import time

import grpc
import pytest

from cluster import BIN, Server, request, wait_until
from front import HANDSHAKE_S, Front, FrontedCluster, front_flags
from http2_floods import END_HEADERS, END_STREAM, FLOODS, HEADERS, HELLO, connect, frame, literal, opened
from programs import bearer, channel_credentials, issue, make_authority, revoke
from stubs import rpc

HEADER = "baton-client-certificate"
REQUESTS_PER_S = 100
CLOSED = (ConnectionError, ssl.SSLEOFError)  # how one learns that a connection is
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100)  # the begin of one
VOCABULARY = pathlib.Path(__file__).resolve().parents[1] / "data/tokenizer/smollm2-vocab.gguf"


@pytest.fixture(scope="module")
def fronted(tmp_path_factory):
    with FrontedCluster(tmp_path_factory.mktemp("front"), requests_per_s=REQUESTS_PER_S) as cluster:
        yield cluster


def channel(fronted, name="client", folder=None):
    """A channel to the front; name None: without a certificate."""
    authority = (fronted.ours / "ca.crt").read_bytes()
    credentials = (channel_credentials(folder or fronted.ours, name, ca=fronted.ours) if name
                   else grpc.ssl_channel_credentials(authority))
    return grpc.secure_channel(fronted.front.address, credentials)


def forged(fronted, name):
    """The header with a certificate that is another's."""
    der = ssl.PEM_cert_to_DER_cert((fronted.ours / f"{name}.crt").read_text())
    return ((HEADER, base64.b64encode(der).decode()),)


def generate(made_channel, metadata=()):
    stub = rpc.GenerationServiceStub(made_channel)
    made = request(prompt="The capital of France is", temperature=0, max_tokens=4)
    responses = list(stub.Generate(made, timeout=60, metadata=metadata))
    return responses[0].complete.text


def assert_unknown(made_channel, metadata=()):
    with pytest.raises(grpc.RpcError) as error:
        generate(made_channel, metadata)
    assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED, error.value
    assert "API key" in error.value.details()


def test_clients_with_a_certificate_or_a_key_get_their_answers_and_others_do_not(fronted):
    with channel(fronted) as known, channel(fronted, None) as unknown:
        assert generate(known).startswith(" Paris")
        assert generate(unknown, bearer(fronted.key)).startswith(" Paris")
        assert_unknown(unknown)


def test_the_certificate_that_the_front_saw_decides(fronted):
    with channel(fronted, "prefill") as made, pytest.raises(grpc.RpcError) as error:
        generate(made)
    assert error.value.code() == grpc.StatusCode.PERMISSION_DENIED, error.value
    assert "role prefill" in error.value.details()


def test_a_certificate_of_another_authority_is_not_let_in(fronted):
    with channel(fronted, folder=fronted.foreign) as made, pytest.raises(grpc.RpcError) as error:
        generate(made)
    assert error.value.code() == grpc.StatusCode.UNAVAILABLE, error.value


def test_a_client_whose_certificate_was_revoked_is_not_let_in(fronted):
    issue(fronted.ours, "client", "--name=mallory")
    with channel(fronted, "client-mallory") as known:
        assert generate(known).startswith(" Paris")
    revoke(fronted.ours, "client", "--name=mallory")
    fronted.front.reload()

    def refused():
        with channel(fronted, "client-mallory") as revoked:
            try:
                generate(revoked)
            except grpc.RpcError as error:
                return error.code() == grpc.StatusCode.UNAVAILABLE
            return False

    wait_until(refused, 20, "the front takes the new list")
    with channel(fronted) as known:
        assert generate(known).startswith(" Paris")


def test_a_refusal_tells_the_clients_address(fronted):
    logged = len(fronted.router.log_text())
    address = (("baton-client-address", "192.0.2.1"),)
    with channel(fronted, "prefill") as made, channel(fronted, None) as unknown:
        for refused in (made, unknown):
            with pytest.raises(grpc.RpcError):
                generate(refused, address)
    audited = [line for line in fronted.router.log_text()[logged:].splitlines() if "audit: refused" in line]
    assert len(audited) == 2 and all("address='127.0.0.1'" in line for line in audited), audited


def test_a_clients_own_header_is_not_believed_through_the_front(fronted):
    with channel(fronted) as known, channel(fronted, None) as unknown:
        assert generate(known, forged(fronted, "prefill")).startswith(" Paris")
        assert_unknown(unknown, forged(fronted, "client"))


def test_a_clients_own_header_is_not_believed_at_the_routers_port(fronted):
    with grpc.insecure_channel(fronted.router.address) as made:
        assert_unknown(made, forged(fronted, "client"))
        assert generate(made, (*bearer(fronted.key), *forged(fronted, "prefill"))).startswith(" Paris")


def test_headers_that_are_too_long_end_at_the_front(fronted):
    """At the router they would fail calls of others, with whom the front lets them share a connection."""
    with channel(fronted) as made:
        assert generate(made, (("x", "y" * 5000),)).startswith(" Paris")
        with pytest.raises(grpc.RpcError) as error:
            generate(made, (("x", "y" * 7000),))
    assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error.value
    assert "send less metadata" in error.value.details()


def test_a_cancel_passes_the_front_and_reaches_the_workers(fronted):
    """bench/front_cost.py says how soon."""
    with channel(fronted) as made:
        call = rpc.GenerationServiceStub(made).Generate(
            request(ids=[30] * 16, stream=True, max_tokens=4000, ignore_eos=True, temperature=0))
        for _ in range(10):
            next(call)
        assert fronted.used_blocks()[1] > 0
        began = time.monotonic()
        call.cancel()
        fronted.wait_idle()
        print(f"the workers were idle {1e3 * (time.monotonic() - began):.0f} ms after the cancel")


def test_a_silent_stream_lives_longer_than_a_silent_client(fronted):
    workers = [*fronted.prefill, *fronted.decode]
    for worker in workers:  # so that the router waits for one, and says nothing meanwhile
        worker.process.send_signal(signal.SIGSTOP)
    try:
        with channel(fronted) as made:
            began = time.monotonic()
            with pytest.raises(grpc.RpcError) as error:  # the front ends it when its time is over
                generate(made)
            assert error.value.code() == grpc.StatusCode.UNAVAILABLE, error.value
            assert "said nothing" in error.value.details()
            assert time.monotonic() - began > 2 * HANDSHAKE_S
    finally:
        for worker in workers:
            worker.process.send_signal(signal.SIGCONT)
    fronted.wait_ready()


def test_the_front_asks_whether_the_machine_of_an_idle_client_is_still_there(fronted):
    port = fronted.front.host_port[1]

    def asks():
        rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        timers = [timer[:2] for _, local, _, state, _, timer, *_ in rows if local.endswith(f":{port:04X}") and state == "01"]
        return timers and all(timer == "02" for timer in timers)  # the timer of TCP's keepalive runs

    with channel(fronted) as made:
        grpc.channel_ready_future(made).result(timeout=10)
        wait_until(asks, 10, "its connection is probed")


@contextlib.contextmanager
def silent_fleet(folder, limits, between_tokens_s):
    """A front, without a revocation list, before a router with mock workers, which are silent for that time before each token
    of a stream."""
    make_authority(folder)
    for role in ("front", "client"):
        issue(folder, role)
    workers_file, router_socket = folder / "workers", folder / "front.sock"
    workers = subprocess.Popen([BIN.parent / "tests/mock_workers", f"--model={VOCABULARY}", f"--workers-file={workers_file}",
                                f"--between-tokens={between_tokens_s}s"], stdout=subprocess.PIPE, text=True)
    router = Server("baton-router", f"--model={VOCABULARY}", f"--workers-file={workers_file}", *front_flags(router_socket))
    try:
        assert workers.stdout.readline() == "ready\n"
        router.start()
        wait_until(lambda: router.serving("all_workers"), 60, "the router knows its workers")
        with Front(folder, router_socket, limits, lists=False) as front:
            yield front
    finally:
        if router.process is not None:
            router.kill()
        workers.terminate()
        workers.wait(10)


def test_a_stream_that_was_silent_goes_on(tmp_path):
    """BATON_SILENT_STREAM_S: for how long, within the front's own limits. Without it for longer than the front lets a client be."""
    given = os.environ.get("BATON_SILENT_STREAM_S")
    silent_s = int(given) if given else 2 * HANDSHAKE_S
    limits = {} if given else {"BATON_FRONT_SILENCE": "30s", "BATON_FRONT_PATIENCE": f"{HANDSHAKE_S}s",
                               "BATON_FRONT_HANDSHAKE": f"{HANDSHAKE_S}s"}
    with silent_fleet(tmp_path / "ours", limits, silent_s) as front:
        with grpc.secure_channel(front.address, channel_credentials(tmp_path / "ours")) as made:
            call = rpc.GenerationServiceStub(made).Generate(
                request(ids=[30] * 16, stream=True, max_tokens=3, ignore_eos=True), timeout=3 * silent_s + 30)
            came = [time.monotonic() for response in call if response.chunk.token_ids]
    assert len(came) == 3
    assert came[2] - came[1] > 0.9 * silent_s


def test_who_connects_and_says_nothing_is_closed(fronted):
    with socket.create_connection(fronted.front.host_port, timeout=30) as silent:
        assert silent.recv(1) == b""


def closes(connection):
    """Whether the connection is closed, whatever it brings before."""
    with contextlib.suppress(ConnectionError):
        while connection.recv(65536):
            pass
    return True


def test_handshakes_that_do_not_end_are_closed_after_five_seconds(tmp_path):
    """With the front's own limits, as it is shipped; no router is needed."""
    make_authority(tmp_path)
    issue(tmp_path, "front")
    with contextlib.ExitStack() as opened_here, Front(tmp_path, tmp_path / "none.sock", {}, lists=False) as front:
        def connected(sent):
            made = opened_here.enter_context(socket.create_connection(front.host_port, timeout=30))
            made.sendall(sent)
            return made

        silent, begun, trickling = connected(b""), connected(CLIENT_HELLO[:20]), connected(b"")
        silent_after_it = opened_here.enter_context(connect(front.host_port[1], tmp_path, "127.0.0.1", timeout_s=30))
        began = time.monotonic()
        trickling.settimeout(0.2)
        with contextlib.suppress(ConnectionError):
            for i in range(len(CLIENT_HELLO)):
                trickling.sendall(CLIENT_HELLO[i:i + 1])
                with contextlib.suppress(TimeoutError):
                    if not trickling.recv(1):
                        break
        assert all(map(closes, (silent, begun, silent_after_it)))
        assert time.monotonic() - began < 7


def receive(connection, text):
    """Returns what the connection brings, until the text is there."""
    received = b""
    while text not in received:
        part = connection.recv(65536)
        assert part, received
        received += part
    return received


@pytest.mark.parametrize("flags,refusal", [(END_HEADERS, b"send it with the call"), (END_HEADERS | END_STREAM, b"send one")])
def test_a_stream_is_not_passed_on_before_its_message(fronted, flags, refusal):
    """The router would refuse this certificate at the stream's headers, and say so."""
    logged = len(fronted.router.log_text())
    with connect(fronted.front.host_port[1], fronted.ours, "127.0.2.1", "prefill", timeout_s=30) as attack:
        attack.sendall(HELLO + opened(1, flags))
        assert b"grpc-status" in receive(attack, refusal)
    assert "audit: refused" not in fronted.router.log_text()[logged:]


def test_who_is_no_client_of_grpc_reads_it_in_the_http_status(fronted):
    get = b"".join(literal(*header) for header in ((b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/"),
                                                   (b":authority", b"localhost")))
    with connect(fronted.front.host_port[1], fronted.ours, "127.0.2.1", timeout_s=30) as browser:
        browser.sendall(HELLO + frame(HEADERS, 1, get, END_HEADERS | END_STREAM))
        assert b"405" in receive(browser, b"only gRPC is spoken here")


def test_without_a_router_clients_are_told_to_try_again(fronted):
    assert fronted.router.stop() == 0
    try:
        with channel(fronted) as made, pytest.raises(grpc.RpcError) as error:
            generate(made)
    finally:
        fronted.router.start()
        fronted.wait_ready()
    assert error.value.code() == grpc.StatusCode.UNAVAILABLE, error.value
    assert "the router cannot be reached; try again later" in error.value.details()


def test_who_asks_too_much_in_a_second_loses_the_connection_and_is_let_in_later(fronted):
    """With fewer requests than the front takes in ten seconds."""
    def attack():
        return connect(fronted.front.host_port[1], fronted.ours, "127.0.2.2", timeout_s=30)

    with attack() as flooding, contextlib.suppress(*CLOSED):  # it may be closed with what it has not read
        flooding.sendall(HELLO + b"".join(opened(1 + 2 * i, END_HEADERS | END_STREAM) for i in range(10 * REQUESTS_PER_S)))
        while flooding.recv(65536):
            pass
    with channel(fronted) as known:
        assert generate(known).startswith(" Paris")

    def let_in():
        try:
            attack().close()
        except CLOSED:
            return False
        return True

    wait_until(let_in, 30, "the front lets the address in again")


def test_who_resets_all_that_he_asks_for_loses_the_connection_too(fronted):
    """Or HAProxy takes no more from this client, and may drop the connection without a word."""
    with connect(fronted.front.host_port[1], fronted.ours, "127.0.2.3", timeout_s=2) as flooding, pytest.raises(OSError):
        flooding.sendall(HELLO)
        for part in FLOODS["rapid_reset"](range(1, 2 * 1000 * REQUESTS_PER_S, 2)):
            flooding.sendall(part)
    with channel(fronted) as known:
        assert generate(known).startswith(" Paris")
