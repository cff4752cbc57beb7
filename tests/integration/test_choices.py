"""Requests with several choices (n), on the real model: one prefill, one push, and each choice its own stream."""
import collections

import pytest

from cluster import Cluster, complete, request
from stubs import pb

CHOICES = 4
LENGTH = 120


def made(stream=False, **sampling):
    asked = request(ids=[(i * i * 7) % 40000 + 20 for i in range(90)], stream=stream,
                    **{**dict(n=CHOICES, temperature=0.9, seed=5, max_tokens=LENGTH, ignore_eos=True), **sampling})
    asked.cache_salt = "choices"
    return asked


def completes(stub, asked):
    """All completes of a request with stream=false, by index."""
    responses = list(stub.Generate(asked, timeout=120))
    assert [r.complete.index for r in responses] == list(range(asked.sampling_params.n))
    return [r.complete for r in responses]


@pytest.fixture(scope="module")
def fleet():
    with Cluster(prefill=2, decode=2, router_args=["--disaggregate=always"]) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def right():
    """The right answer, computed without a hand-off."""
    with Cluster(prefill=1, decode=1, router_args=["--disaggregate=never"]) as cluster:
        done = completes(cluster.stub, made())
        assert all(c.timings.local_prefill for c in done)
        alone = complete(cluster.stub, made(n=1))
        assert list(alone.token_ids) == list(done[0].token_ids)
        cluster.wait_idle()
        return [list(c.token_ids) for c in done]


def test_choices_are_handed_over_in_one_push_and_equal_those_of_a_local_prefill(fleet, right):
    done = completes(fleet.stub, made())
    assert [list(c.token_ids) for c in done] == right
    assert len({tuple(ids) for ids in right}) == CHOICES  # all choices differ
    timings = done[0].timings
    assert not timings.local_prefill and timings.exact and timings.attempts == 1
    assert timings.kv_transfer_bytes == 90 * 23040  # the prompt's KV crossed only once
    assert [c.HasField("usage") for c in done] == [False] * (CHOICES - 1) + [True]
    usage = done[-1].usage
    assert usage.prompt_tokens == 90
    assert usage.completion_tokens == CHOICES * LENGTH
    assert usage.total_tokens == 90 + CHOICES * LENGTH
    fleet.wait_idle()


def test_a_stream_names_the_choice_of_each_piece(fleet, right):
    ids = collections.defaultdict(list)
    done = {}
    for response in fleet.stub.Generate(made(stream=True), timeout=120):
        ids[response.chunk.index] += response.chunk.token_ids
        if response.HasField("complete"):
            done[response.complete.index] = response.complete
    assert [ids[i] for i in range(CHOICES)] == right
    assert sorted(done) == list(range(CHOICES))
    assert all(c.finish_reason == pb.FINISH_REASON_LENGTH for c in done.values())


def test_each_choice_survives_the_death_of_their_decode_worker(fleet, right):
    ids = collections.defaultdict(list)
    last = None
    killed = None
    for response in fleet.stub.Generate(made(stream=True), timeout=120):
        ids[response.chunk.index] += response.chunk.token_ids
        if response.HasField("complete"):
            last = response.complete
        if killed is None and min(len(ids[i]) for i in range(CHOICES)) >= 10:
            killed = next(w for w in fleet.decode if w.metric("baton_kv_cache_blocks", state="used"))
            killed.kill()
    assert killed is not None
    assert [ids[i] for i in range(CHOICES)] == right
    assert last.timings.attempts == 1 + CHOICES and last.timings.exact
    assert last.usage.completion_tokens == CHOICES * LENGTH
    killed.start()
    fleet.wait_ready()
    fleet.wait_idle()


def test_one_token_of_each_choice_needs_no_decode_worker(fleet, right):
    done = completes(fleet.stub, made(max_tokens=1))
    assert [list(c.token_ids) for c in done] == [ids[:1] for ids in right]
    assert done[0].timings.decode_worker == ""


def test_a_stop_ends_one_choice_alone(fleet, right):
    stop = next(ids[5] for ids in right if ids[5] not in ids[:5])
    done = completes(fleet.stub, made(stop_token_ids=[stop]))
    for ids, choice in zip(right, done):
        end = ids.index(stop) if stop in ids else len(ids)
        assert list(choice.token_ids) == ids[:end]
        stopped = stop in ids
        assert choice.finish_reason == (pb.FINISH_REASON_STOP if stopped else pb.FINISH_REASON_LENGTH)
    fleet.wait_idle()
