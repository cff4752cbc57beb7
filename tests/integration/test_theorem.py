"""The same request gives the same tokens and log-probabilities, bit for bit, wherever and beside whatever it runs."""
import concurrent.futures
import random

import pytest

from cluster import Cluster, complete, request

REQUESTS = 32
OUTPUT_TOKENS = 16


def requests():
    rng = random.Random(7)
    made = []
    for i in range(REQUESTS):
        length = [1, 2, 15, 16, 17, 63, 64, 65, 130, 500, 1500][i] if i < 11 else rng.randint(1, 400)
        ids = [rng.randrange(17, 49152) for _ in range(length)]
        sampling = {"temperature": 0.0} if i % 2 == 0 else {
            "temperature": 0.9, "top_p": 0.95, "seed": i, "repetition_penalty": 1.1}
        made.append(request(ids=ids, max_tokens=OUTPUT_TOKENS, ignore_eos=True, logprobs=2, **sampling))
    return made


def outcome(done):
    """All that must be equal; floats compare by their bits."""
    return (list(done.token_ids), [t.SerializeToString(deterministic=True) for t in done.logprobs], done.text)


@pytest.fixture(scope="module")
def alone():
    """One engine in one process, no hand-off, one request at a time."""
    with Cluster(prefill=0, decode=1, router_args=["--disaggregate=never"], worker_args=["--threads=2"]) as cluster:
        done = [complete(cluster.stub, made) for made in requests()]
        assert all(d.timings.local_prefill for d in done)
        return [outcome(d) for d in done]


@pytest.mark.parametrize("prefill,decode,worker_args,decode_args", [
    (1, 1, [], []),
    (2, 2, ["--max-num-batched-tokens=256"], ["--block-size=64"]),
])
def test_handed_off_equals_alone(alone, prefill, decode, worker_args, decode_args):
    with Cluster(prefill, decode, worker_args=worker_args, decode_args=[*decode_args, "--audit-share=1"],
                 router_args=["--disaggregate=always", "--max-queue-time=0"]) as cluster:
        with concurrent.futures.ThreadPoolExecutor(REQUESTS) as pool:
            done = list(pool.map(lambda made: complete(cluster.stub, made), requests()))
        for i, d in enumerate(done):
            assert not d.timings.local_prefill
            assert outcome(d) == alone[i], f"request {i}"
            assert len(d.token_ids) == OUTPUT_TOKENS
        if prefill > 1:
            assert len({d.timings.prefill_worker for d in done}) == prefill
            assert len({d.timings.decode_worker for d in done}) == decode
        cluster.wait_idle()
        match, mismatch, skipped = (sum(worker.metric("baton_kv_audits_total", result=result) for worker in cluster.decode)
                                    for result in ("match", "mismatch", "skipped"))
        assert match > 0 and mismatch == 0 and match + skipped >= REQUESTS, "every hand-off is audited, or was skipped"
        assert all(worker.metric("baton_kv_audit_enabled") == 1 for worker in cluster.decode)
