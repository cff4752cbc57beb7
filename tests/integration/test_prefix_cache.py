"""A prompt that begins like an earlier one: its prefix is found on both workers, and nothing else changes."""
import pytest

from cluster import Cluster, complete, request

PROMPT = [1] + [30 + i % 900 for i in range(199)]
HELD = 192  # tokens found in a cache: whole blocks of 32, never the last token
BYTES_PER_TOKEN = 23040


def ask(cluster, salt="", **sampling):
    made = request(ids=PROMPT, temperature=0, ignore_eos=True, **{"max_tokens": 8, "logprobs": 3, **sampling})
    made.cache_salt = salt
    return complete(cluster.stub, made)


@pytest.mark.parametrize("dtype", ["auto", "bf16", "f32"])
def test_the_same_prompt_again_is_cached_and_answered_the_same(dtype):
    with Cluster(worker_args=[f"--kv-cache-dtype={dtype}"], router_args=["--disaggregate=always"]) as cluster:
        first, second = ask(cluster), ask(cluster)
        assert first.usage.cached_tokens == 0
        assert second.usage.cached_tokens == HELD
        assert list(second.token_ids) == list(first.token_ids)
        assert second.logprobs == first.logprobs
        assert second.timings.exact
        # Pages that the decode worker holds are not sent.
        token_bytes = BYTES_PER_TOKEN * (2 if dtype == "f32" else 1)
        assert first.timings.kv_transfer_bytes == len(PROMPT) * token_bytes
        assert first.timings.kv_transfer_bytes_saved == 0
        assert second.timings.kv_transfer_bytes == (len(PROMPT) - HELD) * token_bytes
        assert second.timings.kv_transfer_bytes_saved == HELD * token_bytes
        assert second.timings.kv_wire_dtype == ("f16" if dtype == "auto" else dtype)
        prefill = cluster.prefill[0]
        assert prefill.metric("baton_prefix_cache_hits_total") == HELD
        assert prefill.metric("baton_prompt_tokens_total", source="cached") == HELD
        assert prefill.metric("baton_prompt_tokens_total", source="computed") == 2 * len(PROMPT) - HELD
        cluster.wait_idle()
        assert prefill.metric("baton_kv_cache_blocks", state="cached") == HELD / 32
        assert ask(cluster, salt="other").usage.cached_tokens == 0


def test_a_decode_worker_that_prefills_finds_what_it_received_and_decoded():
    with Cluster(worker_args=["--block-size=16"], router_args=["--disaggregate=always"]) as cluster:
        ask(cluster)
        cluster.wait_idle()
        assert cluster.decode[0].metric("baton_kv_cache_blocks", state="cached") == (len(PROMPT) + 8 - 1) // 16


def test_without_prefix_caching_everything_is_computed():
    with Cluster(worker_args=["--no-enable-prefix-caching"], router_args=["--disaggregate=always"]) as cluster:
        first, second = ask(cluster), ask(cluster)
        assert second.usage.cached_tokens == 0
        assert list(second.token_ids) == list(first.token_ids)
        cluster.wait_idle()
        assert cluster.prefill[0].metric("baton_kv_cache_blocks", state="cached") == 0
