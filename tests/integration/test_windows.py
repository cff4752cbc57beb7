"""Models with attention windows, whose layers keep different tokens: whatever happens to a request, its tokens are those of
one worker that computes everything, and only what a window still sees is sent."""
import concurrent.futures
import pathlib

import pytest

from cluster import Cluster, busy, complete, request, wait_until

ARCH = pathlib.Path(__file__).resolve().parent.parent / "data/arch"
PROMPT_TOKENS = 700
LENGTH = 800
IN_CHUNKS = ["--max-num-batched-tokens=128"]  # a worker's flags: it computes a prompt in several
TOKEN_BYTES = {"gpt-oss-f16": 256, "gemma3-f16": 128}  # K and V of a token in one layer, in f16
# A layer without a window sends all tokens. A layer with a window of 16 sends these: 64 more than the window, from the begin of
# a page on.
SENT = {"gpt-oss-f16": [PROMPT_TOKENS, PROMPT_TOKENS - 608], "gemma3-f16": [PROMPT_TOKENS] + 5 * [PROMPT_TOKENS - 608]}


def made(seed, prompt_tokens=PROMPT_TOKENS, stream=False, salt="", **sampling):
    """Greedy for even seeds, sampled for odd ones."""
    asked = request(ids=[(seed * 37 + i * i) % 250 + 5 for i in range(prompt_tokens)], stream=stream,
                    **{**dict(ignore_eos=True, max_tokens=LENGTH, temperature=0.9 if seed % 2 else 0, seed=seed), **sampling})
    asked.cache_salt = salt
    return asked


@pytest.fixture(scope="module", params=SENT)
def model(request):
    return request.param


@pytest.fixture(scope="module")
def right(model):
    """The tokens of one worker that computes everything, with no window's blocks lacking."""
    with Cluster(model=ARCH / f"{model}.gguf", router_args=["--disaggregate=never"],
                 worker_args=["--no-enable-prefix-caching"]) as cluster:
        return {seed: list(complete(cluster.stub, made(seed)).token_ids) for seed in range(6)}


@pytest.fixture(scope="module")
def fleet(model):
    with Cluster(prefill=2, decode=2, model=ARCH / f"{model}.gguf", router_args=["--disaggregate=always"],
                 worker_args=IN_CHUNKS) as cluster:
        yield cluster


def test_the_hand_off_carries_what_is_still_seen_and_changes_no_token(model, fleet, right):
    for seed in right:
        done = complete(fleet.stub, made(seed, salt="first"))
        assert list(done.token_ids) == right[seed]
        assert done.timings.exact
        assert done.timings.kv_transfer_bytes == sum(SENT[model]) * TOKEN_BYTES[model]


def test_a_prefix_that_both_workers_hold_is_found_and_changes_no_token(model, right):
    # One worker of each role: of several, the router may choose others until it has heard who holds the prefix.
    with Cluster(model=ARCH / f"{model}.gguf", router_args=["--disaggregate=always"], worker_args=IN_CHUNKS) as cluster:
        first, second = (complete(cluster.stub, made(0)) for _ in range(2))
    assert second.usage.cached_tokens >= 608
    assert second.timings.kv_transfer_bytes < first.timings.kv_transfer_bytes
    assert list(second.token_ids) == list(first.token_ids) == right[0]


def test_choices_have_the_tokens_that_each_has_alone(fleet):
    responses = list(fleet.stub.Generate(made(1, salt="choices", n=3), timeout=120))
    alone = complete(fleet.stub, made(1, salt="alone"))
    assert list(responses[0].complete.token_ids) == list(alone.token_ids)
    assert len({tuple(r.complete.token_ids) for r in responses}) == 3


def test_streams_survive_the_death_of_their_workers(fleet, right):
    def tokens_of(seed):
        responses = list(fleet.stub.Generate(made(seed, stream=True, salt="dies"), timeout=120))
        return [id for response in responses for id in response.chunk.token_ids], responses[-1].complete.timings.attempts

    with concurrent.futures.ThreadPoolExecutor(len(right)) as pool:
        streams = {seed: pool.submit(tokens_of, seed) for seed in right}
        wait_until(lambda: busy(fleet.decode[:1]), 10, "the first victim is busy")
        for victim in (fleet.decode[0], fleet.prefill[0], fleet.decode[1]):
            victim.kill()
            victim.start()
            wait_until(victim.serving, 30, "the victim is back")
        results = {seed: stream.result() for seed, stream in streams.items()}
    assert {seed: ids for seed, (ids, _) in results.items()} == right
    assert any(attempts > 1 for _, attempts in results.values())
    fleet.wait_idle()


def test_sequences_that_are_preempted_for_lack_of_blocks_go_on_with_the_right_tokens(model, right):
    groups = len(SENT[model])
    # Room for one sequence and a half: 47 blocks without a window, and 6 in each group with one.
    blocks = int(1.5 * (47 + 6 * (groups - 1)))
    with Cluster(model=ARCH / f"{model}.gguf", router_args=["--disaggregate=never"],
                 worker_args=[f"--num-kv-blocks={blocks}", *IN_CHUNKS]) as cluster:
        with concurrent.futures.ThreadPoolExecutor(len(right)) as pool:
            streams = {seed: pool.submit(complete, cluster.stub, made(seed)) for seed in right}
            assert {seed: list(stream.result().token_ids) for seed, stream in streams.items()} == right
        assert cluster.decode[0].metric("baton_preemptions_total") > 0
        cluster.wait_idle()
