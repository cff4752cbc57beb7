"""One absolute deadline, wherever it finds the request: the call ends, and so does the work on both workers."""
import itertools
import time

import grpc
import pytest

from cluster import SOON_S, Cluster, complete, request, wait_until

LATE_S = 2  # most seconds that a step and a poll take on a machine that does other things too

salts = itertools.count()


@pytest.fixture(scope="module")
def pair():
    """Blocks for one long sequence on the decode worker: a second one waits in the queue."""
    with Cluster(worker_args=["--max-num-batched-tokens=128"], decode_args=["--num-kv-blocks=100"],
                 router_args=["--disaggregate=always"], with_links=True) as cluster:
        yield cluster


def made(prompt_tokens, max_tokens):
    asked = request(ids=[30 + i % 100 for i in range(prompt_tokens)], stream=True, max_tokens=max_tokens,
                    ignore_eos=True, temperature=0)
    asked.cache_salt = str(next(salts))
    return asked


def passes(cluster, asked, deadline_s, is_there=lambda: True):
    """The deadline ends the request while is_there(); everything is at rest soon after."""
    begin = time.monotonic()
    call = cluster.stub.Generate(asked, timeout=deadline_s)
    wait_until(is_there, deadline_s, "the request is where its deadline is to find it")
    with pytest.raises(grpc.RpcError) as error:
        list(call)
    assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert deadline_s <= time.monotonic() - begin < deadline_s + LATE_S


def test_in_the_queue(pair):
    first = pair.stub.Generate(made(2500, 500))  # this request takes most of the decode worker's blocks
    wait_until(lambda: pair.used_blocks()[0] > 0, SOON_S, "the first is served")
    passes(pair, made(2000, 10), 0.8, lambda: pair.router.metric("baton_requests_waiting") > 0)
    assert pair.prefill[0].metric("baton_requests_running") == 1, "the second reached no prefill worker"
    first.cancel()
    pair.wait_idle(LATE_S)


def test_in_the_prefill(pair):
    passes(pair, made(2500, 10), 0.6, lambda: pair.used_blocks()[0] > 0)
    pair.wait_idle(LATE_S)


def test_in_the_transfer(pair):
    pair.links[0].set("up", bytes_per_second=300e3)  # the 2.3 MB of 100 tokens take some seconds
    passes(pair, made(100, 10), 2, lambda: pair.decode[0].metric("baton_kv_transfer_inflight") > 0)
    pair.wait_idle(3 + LATE_S)  # the link is still slow, but its connection ends with all that it holds
    pair.links[0].heal()


def test_in_the_decode(pair):
    passes(pair, made(16, 2000), 0.8, lambda: pair.decode[0].metric("baton_requests_running") > 0)
    pair.wait_idle(LATE_S)


def test_one_that_has_passed_reaches_no_worker(pair):
    before = pair.prefill[0].metric("baton_prompt_tokens_total")
    with pytest.raises(grpc.RpcError) as error:
        list(pair.stub.Generate(made(100, 10), timeout=0))
    assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    pair.wait_idle()
    assert pair.prefill[0].metric("baton_prompt_tokens_total") == before


def test_none_of_them_leaves_anything_wrong_behind(pair):
    asked = request(prompt="The quick brown fox", max_tokens=10, temperature=0)
    assert complete(pair.stub, asked).token_ids == complete(pair.stub, asked).token_ids
