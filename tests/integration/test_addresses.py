"""Workers on two machines, at the addresses that people give them."""
import concurrent.futures
import contextlib
import ipaddress
import time

import grpc
import pytest

from cluster import MODEL, READY_TIMEOUT_S, SOON_S, Server, complete, failure, request, wait_until
from outside import another_machine, own_address
from stubs import rpc

HAND_OFFS = 100


class Part(Server):
    """A server that listens at an address of its own choice, on the machine that `enter` leads to."""

    def __init__(self, binary, listen_at, *args, enter=()):
        super().__init__(binary, f"--model={MODEL}", *args)
        self.argv[1] = f"--listen={listen_at}:{self.port}"
        self.argv = [*enter, *self.argv]


def worker(role, listen_at, *args, enter=()):
    return Part(f"baton-{role}-worker", listen_at, "--threads=1", *args, enter=enter)


@contextlib.contextmanager
def running(*servers):
    try:
        for server in servers:
            server.start()
        yield
    finally:
        for server in servers:
            if server.process is not None and server.process.poll() is None:
                server.kill()


@contextlib.contextmanager
def router_of(prefill, decode, *args):
    """A router that has reached all its workers, and a stub of it. The workers are targets."""
    router = Part("baton-router", "127.0.0.1", *(f"--prefill={one}" for one in prefill),
                  *(f"--decode={one}" for one in decode), *args)
    with running(router):
        wait_until(lambda: router.serving("all_workers"), READY_TIMEOUT_S,
                   f"the router knows its workers\n{router.log_text()}")
        with grpc.insecure_channel(router.address) as channel:
            yield router, rpc.GenerationServiceStub(channel)


@pytest.fixture(name="outside", scope="module")
def outside_fixture():
    with another_machine() as outside:
        if not outside.enter:
            pytest.skip("no network namespace can be made here")
        yield outside


def there(outside):
    """The address of the other machine: it is the other one of the cable's network."""
    return str(ipaddress.ip_address(outside.address) + 1)


def greedy(seed, length=20):
    return request(ids=[17 + (seed * 97 + i * 7) % 900 for i in range(length)], max_tokens=2, temperature=0, ignore_eos=True)


def test_workers_on_two_machines_that_listen_at_all_addresses_hand_off(outside):
    prefill = worker("prefill", "0.0.0.0", "--insecure")
    decode = worker("decode", "0.0.0.0", "--insecure", enter=outside.enter)
    with running(prefill, decode), router_of([f"{outside.address}:{prefill.port}"], [f"{there(outside)}:{decode.port}"],
                                             "--insecure", "--disaggregate=always") as (_, stub):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            done = list(pool.map(lambda seed: complete(stub, greedy(seed)), range(HAND_OFFS)))
    assert {answer.timings.attempts for answer in done} == {1}
    assert not any(answer.timings.local_prefill for answer in done)


def test_a_prefill_worker_elsewhere_is_not_sent_to_a_loopback_address(outside):
    prefill = worker("prefill", "0.0.0.0", "--insecure", enter=outside.enter)
    decode = worker("decode", "0.0.0.0", "--insecure")
    with running(prefill, decode), router_of([f"{there(outside)}:{prefill.port}"], [f"127.0.0.1:{decode.port}"],
                                             "--insecure") as (router, stub):
        answer = complete(stub, greedy(1))
        assert answer.timings.local_prefill and answer.timings.attempts == 1
        assert "cannot hand off to decode worker" in router.log_text() and "--advertise" in router.log_text()


def test_a_link_that_flags_forbid_is_tried_twice_and_named_and_a_worker_at_two_addresses_is_one():
    prefill = worker("prefill", "127.0.0.1")
    decode = worker("decode", "0.0.0.0", "--insecure")
    own = own_address()
    with running(prefill, decode):
        # Two addresses of one worker: the first to answer is used, and the other is spare.
        with router_of([prefill.address], [f"127.0.0.1:{decode.port}", f"localhost:{decode.port}"]) as (router, stub):
            assert router.metric("baton_worker_up", worker_role="decode") == 1
            assert "as a spare" in router.log_text()
            assert complete(stub, greedy(2)).timings.attempts == 1
        with router_of([prefill.address], [f"{own}:{decode.port}"], "--insecure", "--disaggregate=always") as (router, stub):
            begin = time.monotonic()
            failed = failure(stub, greedy(3))
            assert time.monotonic() - begin < SOON_S / 2, "it does not wait for what cannot change"
            assert failed.reason == "KV_TRANSFER_FAILED" and failed.metadata["fault"] == "unprotected", failed
            assert router.metric("baton_router_link_failures_total", reason="unprotected") == 2
            lines = [line for line in router.log_text().splitlines() if "hand-offs fail from" in line]
            assert len(lines) == 1 and f"{own}:{decode.port}" in lines[0] and "--insecure" in lines[0], lines
