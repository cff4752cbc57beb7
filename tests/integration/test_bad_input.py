"""Every bad input gets its status and names its field; the next request works."""
import math

import grpc
import pytest

from cluster import Failure, complete, failure, request
from stubs import pb

BAD = [
    ("prompt", dict(prompt="")),
    ("prompt_token_ids", dict(ids=[])),
    ("chat", dict(chat=[])),
    # Bytes for which SmolLM2's vocabulary has no token; UTF-8 writes U+90000 as F2 90 80 80.
    ("prompt", dict(prompt="a\x04b")),
    ("prompt", dict(prompt="a\U00090000b")),
    ("chat.messages[1].content", dict(chat=[("system", "a"), ("user", "b\x1d")])),
    ("prompt_token_ids", dict(ids=[49152])),
    ("prompt_token_ids", dict(ids=[2**32 - 1])),
    ("sampling_params.max_tokens", dict(prompt="a", max_tokens=0)),
    ("sampling_params.min_tokens", dict(prompt="a", max_tokens=4, min_tokens=5)),
    ("sampling_params.temperature", dict(prompt="a", temperature=math.nan)),
    ("sampling_params.temperature", dict(prompt="a", temperature=math.inf)),
    ("sampling_params.temperature", dict(prompt="a", temperature=-1)),
    ("sampling_params.top_p", dict(prompt="a", top_p=0)),
    ("sampling_params.top_p", dict(prompt="a", top_p=2)),
    ("sampling_params.top_p", dict(prompt="a", top_p=math.nan)),
    ("sampling_params.top_k", dict(prompt="a", top_k=-5)),
    ("sampling_params.min_p", dict(prompt="a", min_p=1.5)),
    ("sampling_params.repetition_penalty", dict(prompt="a", repetition_penalty=0)),
    ("sampling_params.presence_penalty", dict(prompt="a", presence_penalty=3)),
    ("sampling_params.frequency_penalty", dict(prompt="a", frequency_penalty=-3)),
    ("sampling_params.logprobs", dict(prompt="a", logprobs=21)),
    ("sampling_params.stop", dict(prompt="a", stop=["x"] * 17)),
    ("sampling_params.stop", dict(prompt="a", stop=[""])),
    ("sampling_params.stop_token_ids", dict(prompt="a", stop_token_ids=[49152])),
    ("sampling_params.logit_bias", dict(prompt="a", logit_bias={49152: 1.0})),
    ("sampling_params.logit_bias", dict(prompt="a", logit_bias={1: 101.0})),
    ("sampling_params.n", dict(prompt="a", n=0)),
    ("sampling_params.n", dict(prompt="a", n=17)),
    ("sampling_params.prompt_logprobs", dict(prompt="a", prompt_logprobs=21)),
    ("sampling_params.max_tokens", dict(prompt="a", max_tokens=0)),
    ("sampling_params.bad_words", dict(prompt="a", bad_words=["x"])),
    ("sampling_params.truncate_prompt_tokens", dict(prompt="a", truncate_prompt_tokens=5)),
]


@pytest.mark.parametrize("field,arguments", BAD, ids=[f"{i}-{field}" for i, (field, _) in enumerate(BAD)])
def test_a_bad_field_is_named(cluster, field, arguments):
    made = request(**arguments)
    if arguments == dict(chat=[]):
        made.chat.SetInParent()
    if arguments == dict(ids=[]):
        made.prompt_token_ids.SetInParent()
    failed = failure(cluster.stub, made)
    assert failed.code == grpc.StatusCode.INVALID_ARGUMENT, failed
    assert any(f.startswith(field) for f in failed.fields), failed


def test_bytes_that_are_no_request_are_refused_by_field(cluster):
    failure(cluster.stub, request(prompt=""))
    before = cluster.router.metric("baton_requests_total")
    raw = cluster.channels[0].unary_stream("/baton.v1.GenerationService/Generate")  # sends bytes, as clients in any language can
    good = request(prompt="graess", stop=["a", "bb"]).SerializeToString()
    for made, fields in ((good.replace(b"graess", b"gr\xfc\xdfe!"), ["prompt"]),
                         (good.replace(b"bb", b"\xc3b"), ["sampling_params.stop[1]"]),
                         (b"\xff\xff", [])):
        with pytest.raises(grpc.RpcError) as refused:
            list(raw(made, timeout=10))
        failed = Failure(refused.value)
        assert failed.code == grpc.StatusCode.INVALID_ARGUMENT and failed.message and failed.fields == fields, failed
    assert cluster.router.metric("baton_requests_total") == before + 3


def test_a_prompt_that_is_too_long_is_refused_alike_however_long_it_is(cluster):
    for length in ((3 << 20) + 1, (4 << 20) + 1, 15 << 20):
        failed = failure(cluster.stub, request(prompt="a" * length))
        assert failed.code == grpc.StatusCode.INVALID_ARGUMENT and failed.fields == ["prompt"], failed
        assert failed.message == f"prompt: has {length} bytes, at most 3145728 are allowed"
    assert failure(cluster.stub, request(prompt="a" * (17 << 20))).code == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_no_input_at_all_is_refused(cluster):
    assert failure(cluster.stub, pb.GenerateRequest()).code == grpc.StatusCode.INVALID_ARGUMENT


def test_unsupported_public_fields_are_refused_by_name(cluster):
    assert failure(cluster.stub, request(prompt="a", bad_words=["a"])).fields == ["sampling_params.bad_words"]


def test_variables_of_the_chat_itself_are_refused_by_name(cluster):
    made = request(chat=[("user", "a")])
    made.chat.chat_template_kwargs["messages"] = 1
    assert failure(cluster.stub, made).fields == ["chat.chat_template_kwargs"]


def test_what_exceeds_the_context_is_refused(cluster):
    for made in (request(ids=[30] * 9000), request(ids=[30] * 8000, max_tokens=500)):
        failed = failure(cluster.stub, made)
        assert failed.code == grpc.StatusCode.INVALID_ARGUMENT, failed
        assert failed.reason == "CONTEXT_LENGTH_EXCEEDED", failed


def test_an_unknown_model_is_not_found(cluster):
    made = request(prompt="a")
    made.model = "gpt-17"
    assert failure(cluster.stub, made).code == grpc.StatusCode.NOT_FOUND


def test_the_next_request_works(cluster):
    assert complete(cluster.stub, request(prompt="Hello", max_tokens=3, temperature=0)).text
    cluster.wait_idle()
