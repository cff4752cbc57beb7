"""A call that is cancelled, in whatever phase, gives its blocks back on both workers."""
import os
import random
import time

import grpc
import pytest

from cluster import SOON_S, Cluster, complete, request, wait_until


@pytest.fixture(scope="module")
def cancelled():
    with Cluster(router_args=["--disaggregate=always"]) as cluster:
        yield cluster


def start(cluster, prompt_tokens, max_tokens):
    return cluster.stub.Generate(request(ids=[30] * prompt_tokens, stream=True, max_tokens=max_tokens,
                                         ignore_eos=True, temperature=0))


@pytest.mark.parametrize("delay_s", [0, 0.002, 0.01, 0.05, 0.2, 0.5, 1.0, 2.0])
def test_cancel_after(cancelled, delay_s):
    call = start(cancelled, 1500, 2000)
    time.sleep(delay_s)
    call.cancel()
    cancelled.wait_idle()


def test_cancel_during_prefill(cancelled):
    call = start(cancelled, 4000, 10)
    wait_until(lambda: cancelled.used_blocks()[0] > 0, SOON_S, "the prefill holds blocks")
    call.cancel()
    cancelled.wait_idle()


def test_cancel_during_decode(cancelled):
    call = start(cancelled, 16, 4000)
    for _ in range(20):
        next(call)
    assert cancelled.used_blocks()[1] > 0
    call.cancel()
    cancelled.wait_idle()


def test_a_deadline_ends_the_work_everywhere(cancelled):
    with pytest.raises(grpc.RpcError) as error:
        list(cancelled.stub.Generate(request(ids=[30] * 16, max_tokens=8000, ignore_eos=True), timeout=1))
    assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    cancelled.wait_idle()


def test_a_cancelled_neighbour_changes_nothing(cancelled):
    made = request(prompt="The quick brown fox", max_tokens=40, temperature=0, ignore_eos=True)
    expected = complete(cancelled.stub, made).text
    for _ in range(5):
        call = start(cancelled, 300, 1000)
        future = cancelled.stub.Generate.future(made) if hasattr(cancelled.stub.Generate, "future") else None
        assert future is None
        running = cancelled.stub.Generate(made)
        time.sleep(0.05)
        call.cancel()
        assert list(running)[-1].complete.text == expected
    cancelled.wait_idle()


def open_files(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def test_hundreds_at_random_times_leave_nothing_behind(cancelled):
    """Queue, prefill, transfer and decode, several at once; then the next requests have their tokens."""
    draw = random.Random(1)
    made = [request(ids=[40 + i] * 50, max_tokens=10, temperature=0.9 * i, seed=3, ignore_eos=True) for i in (0, 1)]
    right = [complete(cancelled.stub, asked).token_ids for asked in made]
    files = None
    for turn in range(30):
        calls = [start(cancelled, draw.randrange(16, 400), 100) for _ in range(8)]
        for call in calls:
            time.sleep(draw.uniform(0, 0.05))
            call.cancel()
        cancelled.wait_idle()
        if turn % 10 == 9:
            assert [complete(cancelled.stub, asked).token_ids for asked in made] == right
            cancelled.wait_idle()
            now = [open_files(server) for server in cancelled.servers]
            files = files or now
            assert all(n <= f + 10 for n, f in zip(now, files)), (files, now)
    assert cancelled.router.metric("baton_requests_running") == 0
