"""Workers whose KV caches, and what travels between them, are of different types."""
import grpc
import pytest

from cluster import Cluster, complete, failure, request

PROMPT = [1] + [30 + i % 900 for i in range(199)]
VALUES = 30 * 2 * 3 * 64  # values of one token: layers x (K and V) x KV heads x head dim
QUANTISED = VALUES + VALUES // 64 * 4  # bytes of a token in int8 and fp8: one for each value, 4 for each head's scale
INT4 = VALUES // 32 * 18


def ask(cluster):
    return complete(cluster.stub, request(ids=PROMPT, temperature=0, ignore_eos=True, max_tokens=8, logprobs=1))


def cluster_of(prefill, decode):
    # The router tries other workers for a pair that does not fit, for this time.
    cluster = Cluster(router_args=["--disaggregate=always", "--resume-timeout=2s"])
    cluster.prefill[0].argv += prefill
    cluster.decode[0].argv += decode
    return cluster


@pytest.fixture(scope="module")
def undisturbed():
    with cluster_of([], []) as cluster:
        answer = ask(cluster)
        assert answer.timings.exact and answer.timings.kv_transfer_bytes == len(PROMPT) * VALUES * 2
        return answer


@pytest.mark.parametrize("prefill, decode, wire, token_bytes", [
    (["--kv-cache-dtype=f32"], [], "f32", VALUES * 4),
    (["--kv-cache-dtype=f32", "--kv-wire-dtype=f16"], ["--block-size=16"], "f16", VALUES * 2),
    (["--kv-wire-dtype=int8"], ["--kv-wire-dtype=int8"], "int8", QUANTISED),
    (["--kv-cache-dtype=int8"], [], "int8", QUANTISED),
    (["--kv-cache-dtype=fp8_e4m3"], ["--kv-cache-dtype=int8"], "fp8", QUANTISED),
    (["--kv-wire-dtype=int4"], ["--kv-wire-dtype=int4"], "int4", INT4),
])
def test_the_answer_says_what_travelled_and_that_it_is_not_exact(undisturbed, prefill, decode, wire, token_bytes):
    with cluster_of(prefill, decode) as cluster:
        answer = ask(cluster)
        assert answer.timings.kv_wire_dtype == wire
        assert answer.timings.kv_transfer_bytes == len(PROMPT) * token_bytes
        assert answer.timings.kv_transfer_bytes_resent == 0
        assert not answer.timings.exact
        assert len(answer.token_ids) == 8
        # The first token comes from the prefill worker's own KV, the second from the KV that was sent.
        for ours, theirs in list(zip(answer.logprobs, undisturbed.logprobs))[:2]:
            assert ours.token_id == theirs.token_id
            assert abs(ours.logprob - theirs.logprob) < 0.3
        cluster.wait_idle()


@pytest.mark.parametrize("dtype, token_bytes", [("int8", QUANTISED), ("fp8", QUANTISED), ("int4", INT4)])
def test_two_caches_of_one_quantised_type_are_exact_in_it(dtype, token_bytes):
    flag = [f"--kv-cache-dtype={dtype}"]
    with cluster_of(flag, flag) as cluster:
        answer = ask(cluster)
        assert answer.timings.exact and answer.timings.kv_wire_dtype == dtype
        assert answer.timings.kv_transfer_bytes == len(PROMPT) * token_bytes
        # The decode worker now finds the whole prompt in its own prefix cache and gives the same tokens.
        assert list(ask(cluster).token_ids) == list(answer.token_ids)
        cluster.wait_idle()


def test_a_decode_worker_that_does_not_take_the_type_is_named():
    with cluster_of(["--kv-wire-dtype=int8"], []) as cluster:
        refused = failure(cluster.stub, request(ids=PROMPT, max_tokens=8))
        assert refused.code == grpc.StatusCode.FAILED_PRECONDITION
        assert "sends KV as int8" in refused.message and "accepts only f16, f32, bf16" in refused.message
        cluster.wait_idle()


def test_a_strict_decode_worker_refuses_another_type():
    with cluster_of(["--kv-cache-dtype=f32"], ["--strict-kv-dtype"]) as cluster:
        refused = failure(cluster.stub, request(ids=PROMPT, max_tokens=8))
        assert refused.code == grpc.StatusCode.FAILED_PRECONDITION
        cluster.wait_idle()
