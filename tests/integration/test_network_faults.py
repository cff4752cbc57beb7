"""The connection from the prefill to the decode worker breaks, in whatever way, while both and the router are well: every
request ends with the right tokens or with a typed error, soon, and every block is back on both workers.

The router tries a broken transfer again, from what arrived. With one worker of each kind and a fault that stays it gives up
after RESUME_S without having come to decode."""
import concurrent.futures
import itertools
import random
import signal
import time

import grpc
import pytest

from cluster import Cluster, Failure, complete, request, wait_until

# Workers notice within 3 s that a peer is silent (a ping each second, two seconds for its answer). All other limits of a
# transfer are 10 s or more. So a fault that is found twice within this time, in the request's first attempt and in the one
# that gives up, was found by the pings.
SILENCE_S = 9
RESUME_S = 1
SLOW = 6e6  # bytes/s, at which a push of LONG tokens takes more than a second
LONG = 500
OUTPUT = 6


@pytest.fixture(scope="module")
def pair():
    with Cluster(router_args=["--disaggregate=always", f"--resume-timeout={RESUME_S}s"], with_links=True) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def healed(pair):
    yield
    pair.links[0].heal()
    wait_until(lambda: isinstance(outcome(pair, 1, 20), list), 10, "requests work again")
    pair.wait_idle()


salts = itertools.count()


def greedy(seed, length):
    """A greedy request without a cached prefix, so that all its KV goes over the link."""
    rng = random.Random(seed)
    made = request(ids=[rng.randrange(17, 49152) for _ in range(length)], max_tokens=OUTPUT, temperature=0,
                   ignore_eos=True)
    made.cache_salt = str(next(salts))
    return made


def outcome(cluster, seed, length):
    """The tokens, or the Failure."""
    try:
        return list(complete(cluster.stub, greedy(seed, length), timeout_s=SILENCE_S).token_ids)
    except grpc.RpcError as error:
        return Failure(error)


def assert_transfer_failed(failed):
    assert failed.code == grpc.StatusCode.UNAVAILABLE, failed
    assert failed.reason == "KV_TRANSFER_FAILED" and failed.metadata["stage"] == "transfer", (failed, failed.metadata)
    assert failed.retry_s is not None, failed


def break_in_mid_push(cluster, seed, break_it):
    """Starts a request, calls break_it() once a part of its push has arrived; its complete or the Failure, within SILENCE_S."""
    cluster.links[0].set("up", bytes_per_second=SLOW)
    arrived = cluster.decode[0].metric("baton_kv_transfer_bytes_total", direction="received")
    call = cluster.stub.Generate(greedy(seed, LONG), timeout=60)
    wait_until(lambda: cluster.decode[0].metric("baton_kv_transfer_bytes_total", direction="received") > arrived, 10,
               "the first bytes of the push")
    break_it()
    begin = time.monotonic()
    try:
        ended = list(call)[-1].complete
    except grpc.RpcError as error:
        ended = Failure(error)
    assert time.monotonic() - begin < SILENCE_S, ended
    return ended


@pytest.mark.parametrize("name,up,down", [
    ("partition", "swallow", "swallow"),
    ("nothing reaches the decode worker", "swallow", "forward"),
    ("nothing reaches the prefill worker", "forward", "swallow"),
    ("half-open, nobody reads", "stall", "stall"),
])
def test_a_silent_connection_is_noticed_and_ends_the_request(pair, name, up, down):
    link = pair.links[0]

    def break_it():
        link.set("up", flow=up, bytes_per_second=SLOW)
        link.set("down", flow=down)

    assert_transfer_failed(break_in_mid_push(pair, 10, break_it))
    pair.wait_idle()  # blocks come back although the fault is still there
    failed = outcome(pair, 11, 20)
    assert_transfer_failed(failed)
    pair.wait_idle()


def test_requests_with_one_token_do_not_notice_a_partition(pair):
    pair.links[0].set("both", flow="swallow")
    assert complete(pair.stub, request(ids=[30] * 100, max_tokens=1, temperature=0)).token_ids


@pytest.mark.parametrize("how", ["cut", "crash"])
def test_a_request_whose_connection_is_cut_is_tried_again(pair, how):
    right = outcome(pair, 20, LONG)
    done = break_in_mid_push(pair, 20, lambda: pair.links[0].command(how))
    assert list(done.token_ids) == right and done.timings.attempts > 1


def test_a_decode_worker_that_refuses_connections_is_an_error_at_once(pair):
    pair.links[0].command("refuse on")
    pair.links[0].command("crash")
    assert_transfer_failed(outcome(pair, 30, 20))


def reference(cluster, seeds, length):
    done = [outcome(cluster, seed, length) for seed in seeds]
    assert all(isinstance(d, list) and len(d) == OUTPUT for d in done), done
    return done


def assert_right_or_typed(cluster, seeds, length, right):
    """How many requests succeeded."""
    succeeded = 0
    for seed, tokens in zip(seeds, right):
        got = outcome(cluster, seed, length)
        if isinstance(got, list):
            assert got == tokens, seed
            succeeded += 1
        else:
            assert_transfer_failed(got)
    return succeeded


def test_with_five_percent_of_messages_reset_every_request_gets_its_tokens(pair):
    seeds, link = range(40, 65), pair.links[0]
    right = reference(pair, seeds, 130)
    before = link.stats()
    link.set("both", resets_per_mib=0.05)  # about one reset in 20 messages of 1 MiB
    succeeded = assert_right_or_typed(pair, seeds, 130, right)
    assert link.stats()["resets"] > before["resets"] and succeeded == len(seeds), succeeded


def test_flipped_bits_never_become_tokens(pair):
    seeds, link = range(70, 90), pair.links[0]
    right = reference(pair, seeds, 60)
    before = link.stats()
    link.set("up", flips_per_mib=0.5)
    succeeded = assert_right_or_typed(pair, seeds, 60, right)
    assert link.stats()["flips"] - before["flips"] >= 5 and succeeded > len(seeds) / 2


def test_a_damaged_page_is_sent_again(pair):
    right = outcome(pair, 99, 200)
    pair.links[0].command("crash")  # makes a new connection, whose fourth MiB is in the middle of the push
    pair.links[0].set("up", flip_at=3 << 20)
    done = complete(pair.stub, greedy(99, 200))
    assert list(done.token_ids) == right and done.timings.kv_transfer_bytes_resent > 0


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_worker_that_stops_in_mid_push_ends_the_request_and_wakes_up_harmless(pair, role):
    worker, other = (pair.prefill[0], pair.decode[0]) if role == "prefill" else (pair.decode[0], pair.prefill[0])
    try:
        failed = break_in_mid_push(pair, 100, lambda: worker.process.send_signal(signal.SIGSTOP))
        assert failed.code == grpc.StatusCode.UNAVAILABLE and failed.retry_s is not None, failed
        assert failed.metadata["stage"] in ("transfer", "prefill", "queue"), failed.metadata
        wait_until(lambda: not other.metric("baton_kv_cache_blocks", state="used"), SILENCE_S, "blocks of the other back")
    finally:
        worker.process.send_signal(signal.SIGCONT)
    pair.wait_idle()
    wait_until(pair.router.serving, 10, "the router uses the worker again")


@pytest.mark.parametrize("length,mbit,delay_ms,jitter_ms", [(300, 20, 20, 10), (300, 10, 30, 40), (45, 1, 100, 0)])
def test_a_slow_link_delays_and_nothing_else(pair, length, mbit, delay_ms, jitter_ms):
    """Takes longer than a dead connection is given: what lies below us, a ping has to wait for."""
    right = outcome(pair, 110, length)
    for direction in ("up", "down"):
        pair.links[0].set(direction, bytes_per_second=mbit * 1e6 / 8, delay_ms=delay_ms, jitter_ms=jitter_ms)
    done = complete(pair.stub, greedy(110, length))
    assert list(done.token_ids) == right
    assert done.timings.kv_transfer_bytes_resent == 0


def test_pushes_share_a_slow_link(pair):
    seeds, length = range(120, 124), 80
    right = reference(pair, seeds, length)
    for direction in ("up", "down"):
        pair.links[0].set(direction, bytes_per_second=1.25e6, delay_ms=30, jitter_ms=40)
    with concurrent.futures.ThreadPoolExecutor(len(right)) as pool:
        done = list(pool.map(lambda seed: complete(pair.stub, greedy(seed, length)), seeds))
    assert [list(d.token_ids) for d in done] == right
