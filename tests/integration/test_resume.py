"""Workers die and stop under running requests: every stream goes on with the very tokens of an undisturbed run."""
import concurrent.futures
import signal

import pytest

from cluster import SOON_S, Cluster, busy, complete, request, wait_until

LENGTH = 200


def made(seed, prompt_tokens=40, stream=True, **sampling):
    """Greedy for even seeds, sampled for odd ones."""
    asked = request(ids=[(seed * 37 + i * i) % 40000 + 20 for i in range(prompt_tokens)], stream=stream, ignore_eos=True,
                    max_tokens=LENGTH, temperature=0.9 if seed % 2 else 0, seed=seed, **sampling)
    asked.cache_salt = "resume"
    return asked


@pytest.fixture(scope="module")
def fleet():
    with Cluster(prefill=2, decode=2, router_args=["--disaggregate=always"]) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def right(fleet):
    return {seed: list(complete(fleet.stub, made(seed, stream=False)).token_ids) for seed in range(8)}


@pytest.fixture(autouse=True)
def whole(fleet):
    yield
    fleet.revive()
    fleet.wait_idle()


def tokens_of(call):
    """(ids, the complete), the rest of a stream."""
    ids, done = [], None
    for response in call:
        ids += response.chunk.token_ids
        done = response.complete
    assert not done.timings.local_prefill
    return ids, done


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.plain
def test_a_stream_survives_the_death_of_its_decode_worker(fleet, right, seed):
    call = fleet.stub.Generate(made(seed), timeout=60)
    ids = [id for _ in range(10) for id in next(call).chunk.token_ids]
    busy(fleet.decode).kill()
    rest, done = tokens_of(call)
    assert ids + rest == right[seed]
    assert done.timings.attempts == 2 and done.timings.exact and done.usage.completion_tokens == LENGTH


@pytest.mark.plain
def test_a_prompt_survives_the_death_of_its_prefill_worker(fleet):
    asked = made(2, prompt_tokens=3000, stream=False)
    asked.sampling_params.max_tokens = 3
    expected = complete(fleet.stub, asked).token_ids
    asked.cache_salt = "another"  # no prefix of the prompt is cached
    call = fleet.stub.Generate(asked, timeout=60)
    victim = wait_until(lambda: busy(fleet.prefill), SOON_S, "the prefill has begun")
    victim.kill()
    done = list(call)[-1].complete
    assert done.token_ids == expected and done.timings.attempts == 2


def test_many_streams_survive_one_death_after_another(fleet, right):
    with concurrent.futures.ThreadPoolExecutor(len(right)) as pool:
        streams = {seed: pool.submit(lambda s=seed: tokens_of(fleet.stub.Generate(made(s), timeout=120))) for seed in right}
        for victim in (fleet.decode[0], fleet.prefill[1], fleet.decode[1]):
            wait_until(lambda: busy(fleet.decode) is not None, 10, "some decode worker is busy")
            victim.kill()
            victim.start()
            wait_until(victim.serving, 30, "the victim is back")
        results = {seed: stream.result() for seed, stream in streams.items()}
    assert {seed: ids for seed, (ids, _) in results.items()} == right
    assert all(done.timings.exact for _, done in results.values())


def test_a_stream_leaves_a_decode_worker_that_stops(fleet, right):
    call = fleet.stub.Generate(made(3), timeout=60)
    ids = [id for _ in range(10) for id in next(call).chunk.token_ids]
    stopped = busy(fleet.decode)
    stopped.process.send_signal(signal.SIGSTOP)
    try:
        rest, done = tokens_of(call)
    finally:
        stopped.process.send_signal(signal.SIGCONT)
    assert ids + rest == right[3] and done.timings.attempts == 2
