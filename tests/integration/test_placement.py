"""Where requests go: to whoever holds their beginning, and to the decode worker if a hand-off does not pay."""
import contextlib

import grpc
import pytest

from cluster import MODEL, READY_TIMEOUT_S, SOON_S, Cluster, Server, complete, request, wait_until
from stubs import rpc

HELD = 192  # tokens that a worker holds: whole blocks of 32
PAGE = 16


def prompt(kind, tail):
    """Prompts of one kind begin with the same HELD tokens."""
    return [1] + [30 + (kind * 97 + i * 7) % 900 for i in range(HELD - 1)] + [40 + tail] * 8


def ask(stub, ids, **sampling):
    return complete(stub, request(ids=ids, temperature=0, ignore_eos=True, **{"max_tokens": 4, **sampling}))


def known_pages(cluster, role):
    return cluster.router.metric("baton_router_prefix_pages", worker_role=role)


@pytest.fixture(scope="module")
def fleet():
    with Cluster(prefill=3, decode=2, router_args=["--disaggregate=always"]) as cluster:
        yield cluster


def second_router(cluster):
    """Another router over the same workers."""
    router = Server("baton-router", *cluster.router.argv[4:])
    router.start()
    wait_until(lambda: router.serving("all_workers"), 10, f"the second router is ready\n{router.log_text()}")
    return router


def test_a_request_goes_to_the_prefill_worker_that_holds_its_prefix(fleet):
    first = {}
    for kind in range(5):
        done = ask(fleet.stub, prompt(kind, tail=0))
        assert done.usage.cached_tokens == 0
        first[kind] = done.timings.prefill_worker
    # The router must know who holds the prompt; before its pages are announced it could choose another worker.
    wait_until(lambda: known_pages(fleet, "prefill") == 5 * HELD / PAGE, SOON_S, "the pages are announced")
    for tail in range(1, 6):
        for kind in range(5):
            done = ask(fleet.stub, prompt(kind, tail))
            assert not done.timings.local_prefill
            assert (done.timings.prefill_worker, done.usage.cached_tokens) == (first[kind], HELD)


def test_a_router_that_comes_later_learns_what_the_workers_hold(fleet):
    kinds = range(10, 14)
    first = {kind: ask(fleet.stub, prompt(kind, tail=0)).timings.prefill_worker for kind in kinds}
    fleet.wait_idle()
    router = second_router(fleet)
    try:
        with grpc.insecure_channel(router.address) as channel:
            stub = rpc.GenerationServiceStub(channel)
            for kind in kinds:
                done = ask(stub, prompt(kind, tail=1))
                assert (done.timings.prefill_worker, done.usage.cached_tokens) == (first[kind], HELD)
                # Both serve the same workers.
                assert ask(fleet.stub, prompt(kind, tail=1)).token_ids == done.token_ids
    finally:
        router.kill()
    fleet.wait_idle()


def test_idle_workers_share_prompts_that_are_too_short_to_measure_them_by(fleet):
    """What a worker computed over the last seconds, in most of which it had nothing to do, is not its speed."""
    router = second_router(fleet)  # this router has measured no worker yet
    try:
        with grpc.insecure_channel(router.address) as channel:
            stub = rpc.GenerationServiceStub(channel)
            workers = [ask(stub, [1] + [50 + i] * 10).timings.prefill_worker for i in range(80)]
        assert len(set(workers[40:])) > 1, workers  # each worker has reported its load meanwhile
    finally:
        router.kill()
    fleet.wait_idle()


def test_short_prompts_are_prefilled_where_they_are_decoded_if_told_to():
    with Cluster(router_args=["--disaggregate=100"]) as cluster:
        short, long = ask(cluster.stub, prompt(1, 0)[:99]), ask(cluster.stub, prompt(2, 0))
        assert short.timings.local_prefill and not long.timings.local_prefill
        cluster.wait_idle()
        # The decode worker holds all but 8 tokens of the prompt, and computes those itself.
        wait_until(lambda: known_pages(cluster, "decode") >= (96 + HELD) / PAGE, SOON_S, "the pages are announced")
        assert ask(cluster.stub, prompt(2, 1)).timings.local_prefill
        # A prompt of any length is computed there if there is no prefill worker.
        cluster.prefill[0].kill()
        wait_until(lambda: ask(cluster.stub, prompt(3, 0)).timings.local_prefill, SOON_S, "local without prefill workers")


@pytest.mark.parametrize("policy", ["round_robin", "least_loaded", "prefix_aware"])
def test_every_policy_spreads_unrelated_requests(policy):
    with Cluster(prefill=2, decode=2, router_args=["--disaggregate=always", f"--policy={policy}"]) as cluster:
        timings = [ask(cluster.stub, prompt(kind, 0)).timings for kind in range(20, 32)]
        assert len({t.prefill_worker for t in timings}) == 2
        assert len({t.decode_worker for t in timings}) == 2


def test_a_decode_worker_that_sends_pushes_to_another_host_is_not_used_and_the_others_go_on(fleet):
    liar = Server("baton-decode-worker", f"--model={MODEL}", "--threads=1", "--advertise=192.0.2.9:50051")
    router, lenient = (Server("baton-router", *fleet.router.argv[4:], f"--decode={liar.address}", "--policy=round_robin", *flags)
                       for flags in ((), ("--advertised-host=192.0.2.0/24",)))
    with contextlib.ExitStack() as running:
        for server in (liar, router, lenient):
            server.start()
            running.callback(server.kill)
        wait_until(liar.serving, READY_TIMEOUT_S, liar.log_text())
        wait_until(lambda: "is not used: it advertises the host '192.0.2.9'" in router.log_text(), SOON_S, router.log_text())
        assert f"at {liar.address}" in router.log_text() and "--advertised-host=192.0.2.9" in router.log_text()
        wait_until(lambda: router.log_text().count(" is ready; ") == len(fleet.prefill + fleet.decode), SOON_S, router.log_text())
        with fleet.channel_to(router) as channel:
            stub = rpc.GenerationServiceStub(channel)
            timings = [ask(stub, prompt(kind, 0)).timings for kind in range(80, 92)]
        assert {t.attempts for t in timings} == {1} and len({t.decode_worker for t in timings}) == 2
        wait_until(lambda: lenient.serving("all_workers"), SOON_S, lenient.log_text())


def test_a_decode_worker_that_no_hand_off_reaches_is_left_alone_for_a_while():
    with Cluster(prefill=1, decode=2, router_args=["--disaggregate=always"], with_links=True) as cluster:
        # Only the link between two workers is broken: the router reaches all workers, and Watch works.
        cluster.links[0].command("refuse on")
        cluster.links[0].command("crash")
        attempts = [ask(cluster.stub, prompt(kind, 0)).timings.attempts for kind in range(40, 70)]
        assert max(attempts) > 1, "it was tried"
        assert sum(count > 1 for count in attempts) <= 6, attempts  # half of them if the pair were not avoided
        cluster.wait_idle()
