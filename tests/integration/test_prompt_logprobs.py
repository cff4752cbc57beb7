"""The log probabilities of prompts, echo, and prompts that are only computed, through real processes."""
import json
import pathlib

import grpc
import pytest

from cluster import Cluster, busy, complete, failure, request, wait_until
from stubs import pb

REFERENCE = pathlib.Path(__file__).resolve().parent.parent / "data" / "reference" / "smollm2.json"


@pytest.fixture(scope="module")
def fleet():
    with Cluster(prefill=2, decode=1, router_args=["--disaggregate=always"]) as cluster:
        yield cluster


def scores(entries):
    """What a prompt's entries or an answer's logprobs say of each token."""
    return [(e.token_id, e.token, e.logprob, [(t.token_id, t.token, t.logprob) for t in e.top_logprobs]) for e in entries]


def test_they_are_the_floats_that_generating_the_tokens_tells(fleet):
    prompt = [19556, 905, 253, 655]
    first = complete(fleet.stub, request(ids=prompt, temperature=0.8, seed=5, max_tokens=80, ignore_eos=True, logprobs=4))
    text = prompt + list(first.token_ids)
    for made in (dict(max_tokens=0), dict(max_tokens=1), dict(max_tokens=3, n=2)):
        answer = fleet.stub.Generate(request(ids=text, prompt_logprobs=4, **made), timeout=60)
        done = next(answer).complete
        assert not any(r.complete.prompt_logprobs for r in answer)
        assert [e.token_id for e in done.prompt_logprobs] == text
        assert not done.prompt_logprobs[0].HasField("logprob") and not done.prompt_logprobs[0].top_logprobs
        assert scores(done.prompt_logprobs[len(prompt):]) == scores(first.logprobs), "prefixes are cached by now"
        assert done.timings.exact


def test_a_prompt_is_only_computed(fleet):
    text = "The quick brown fox\njumps"
    made = request(prompt=text, max_tokens=0, n=2, prompt_logprobs=0)
    made.echo = True
    responses = [r.complete for r in fleet.stub.Generate(made, timeout=60)]
    assert [(r.index, r.text, r.finish_reason) for r in responses] == [(i, text, pb.FINISH_REASON_LENGTH) for i in (0, 1)]
    assert len(responses[0].prompt_logprobs) == responses[1].usage.prompt_tokens and not responses[1].prompt_logprobs
    assert responses[1].usage.completion_tokens == 0
    assert not any(r.token_ids or r.logprobs for r in responses)
    assert responses[0].timings.decode_worker == ""


def test_an_answer_begins_with_its_prompt(fleet):
    made = request(prompt="Once upon a time", temperature=0, max_tokens=8, stream=True)
    plain = "".join(r.chunk.text for r in fleet.stub.Generate(made, timeout=60))
    made.echo = True
    made.sampling_params.stop.append("upon")  # only the prompt has it
    assert "".join(r.chunk.text for r in fleet.stub.Generate(made, timeout=60)) == "Once upon a time" + plain


def test_a_stream_has_them_before_all_else_in_chunks_of_a_bound(fleet):
    made = request(ids=[(i * i) % 40000 + 20 for i in range(1200)], prompt_logprobs=20, max_tokens=5, stream=True,
                   ignore_eos=True, temperature=0)
    made.echo = True
    chunks = [r.chunk for r in fleet.stub.Generate(made, timeout=120) if r.HasField("chunk")]
    sizes = [len(c.prompt_logprobs) for c in chunks]
    count = next(i for i, size in enumerate(sizes) if size == 0)
    assert count > 1 and sum(sizes[:count]) == 1200 and not any(sizes[count:])
    assert max(c.ByteSize() for c in chunks) < 1 << 20
    assert not any(c.text for c in chunks[:count]) and all(c.index == 0 for c in chunks[:count])


def test_they_come_once_though_the_prefill_worker_dies(fleet):
    def made(salt):
        asked = request(ids=[(i * i) % 30000 + 20 for i in range(3000)], prompt_logprobs=1, max_tokens=3, temperature=0,
                        ignore_eos=True)
        asked.cache_salt = salt
        return asked
    expected = complete(fleet.stub, made("undisturbed"))
    assert len(expected.prompt_logprobs) == 3000
    call = fleet.stub.Generate(made("killed"), timeout=120)
    victim = wait_until(lambda: busy(fleet.prefill), 10, "the prefill has begun")
    victim.kill()
    done = list(call)[-1].complete
    fleet.revive()
    assert done.timings.attempts == 2
    assert scores(done.prompt_logprobs) == scores(expected.prompt_logprobs)
    assert done.token_ids == expected.token_ids


def test_a_passage_has_the_references_likelihood(fleet):
    """As tests/common/model/oracle_smollm2_test.cc has it of the logits."""
    for passage in json.loads(REFERENCE.read_text())["passages"]:
        ids = passage["token_ids"]
        done = complete(fleet.stub, request(ids=ids, prompt_logprobs=1, max_tokens=0))
        mean = -sum(e.logprob for e in done.prompt_logprobs[1:]) / (len(ids) - 1)
        assert abs(mean / passage["mean_nll"] - 1) < 0.005, passage["name"]
        same = sum(e.top_logprobs[0].token_id == top for e, top in zip(done.prompt_logprobs[1:], passage["argmax"]))
        assert same / (len(ids) - 1) > 0.9, passage["name"]


def test_local_prefill_gives_the_same():
    with Cluster(prefill=1, decode=1, router_args=["--disaggregate=never"]) as local:
        ids = [(i * i) % 30000 + 20 for i in range(300)]
        here = complete(local.stub, request(ids=ids, prompt_logprobs=2, max_tokens=3, temperature=0, ignore_eos=True))
        assert here.timings.local_prefill and len(here.prompt_logprobs) == 300
        again = complete(local.stub, request(ids=ids, prompt_logprobs=2, max_tokens=3, temperature=0, ignore_eos=True))
        assert scores(again.prompt_logprobs) == scores(here.prompt_logprobs)


def test_more_than_are_told_are_refused(fleet):
    made = request(ids=[5] * 7000, prompt_logprobs=20, max_tokens=1)
    failed = failure(fleet.stub, made)
    assert failed.code == grpc.StatusCode.INVALID_ARGUMENT and failed.fields == ["sampling_params.prompt_logprobs"], failed
    assert "or stream them" in failed.message
