"""Answers in a form: what is enforced, what is refused, and that a form survives the worker that computes it."""
import json
import re

import grpc
import pytest

from cluster import Cluster, busy, complete, failure, request, wait_until
from programs import run
from stubs import pb

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "colour": {"enum": ["red", "green", "blue"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3},
    },
    "required": ["name", "age", "colour", "tags"],
    "additionalProperties": False,
}
QUESTION = [("user", "Describe a person as JSON with name, age, colour and tags.")]
GREEDY = {"temperature": 0}
SAMPLED = {"temperature": 1.2, "seed": 5}


@pytest.fixture(scope="module")
def fleet():
    with Cluster(decode=2, router_args=["--disaggregate=always"]) as cluster:
        yield cluster


def asked(chat=QUESTION, stream=False, max_tokens=200, sampling=GREEDY, **form):
    """A request whose answer is held to the form, a field of ResponseFormat."""
    made = request(chat=chat, stream=stream, max_tokens=max_tokens, **sampling)
    (name, value), = form.items()
    if isinstance(value, str):
        setattr(made.response_format, name, value)
    else:
        getattr(made.response_format, name).CopyFrom(value)
    return made


def assert_person(text):
    person = json.loads(text)
    assert list(person) == ["name", "age", "colour", "tags"]
    assert isinstance(person["name"], str) and 1 <= len(person["name"]) <= 20
    assert type(person["age"]) is int and 0 <= person["age"] <= 120
    assert person["colour"] in ("red", "green", "blue")
    assert len(person["tags"]) <= 3 and all(isinstance(t, str) and len(t) <= 8 for t in person["tags"])


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
@pytest.mark.plain
def test_an_answer_obeys_its_schema(fleet, sampling):
    done = complete(fleet.stub, asked(json_schema=json.dumps(PERSON), sampling=sampling))
    assert_person(done.text)
    assert done.finish_reason == pb.FINISH_REASON_STOP


def test_every_choice_obeys_it_and_has_its_log_probabilities(fleet):
    made = asked(json_schema=json.dumps(PERSON), stream=True, sampling={**SAMPLED, "n": 3, "logprobs": 2})
    texts, logprobs = {}, {}
    for response in fleet.stub.Generate(made, timeout=120):
        event = response.chunk if response.HasField("chunk") else response.complete
        texts[event.index] = texts.get(event.index, "") + event.text
        logprobs.setdefault(event.index, []).extend(t.logprob for t in event.logprobs)
    assert len(texts) == 3
    for index, text in texts.items():
        assert_person(text)
        assert logprobs[index] and all(-1e30 < value <= 0 for value in logprobs[index])


def test_an_object_is_one(fleet):
    done = complete(fleet.stub, asked(json_object=pb.JsonObject(), max_tokens=400,
                                      chat=[("user", "Give the JSON object {\"a\": 1}.")]))
    if done.finish_reason == pb.FINISH_REASON_STOP:
        assert isinstance(json.loads(done.text), dict)
    else:
        assert done.text.startswith("{")


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
def test_a_regular_expression_is_matched_as_a_whole(fleet, sampling):
    done = complete(fleet.stub, asked(regex="[A-Z][a-z]{2,9}, [0-9]{4}-[0-9]{2}", sampling=sampling))
    assert re.fullmatch("[A-Z][a-z]{2,9}, [0-9]{4}-[0-9]{2}", done.text), done.text
    assert done.finish_reason == pb.FINISH_REASON_STOP


def test_a_grammar_is_followed(fleet):
    done = complete(fleet.stub, asked(grammar='root ::= "sum: " n (" + " n){1,3}\nn ::= [1-9][0-9]?', sampling=SAMPLED))
    assert re.fullmatch(r"sum: [1-9][0-9]?( \+ [1-9][0-9]?){1,3}", done.text), done.text


def test_a_choice_is_one_of_its_texts(fleet):
    texts = ["yes, certainly", "no", "perhaps"]
    done = complete(fleet.stub, asked(choice=pb.ChoiceTexts(texts=texts), sampling=SAMPLED))
    assert done.text in texts and done.finish_reason == pb.FINISH_REASON_STOP


def test_a_tool_call_has_the_form_of_its_tag(fleet):
    tag = pb.StructuralTag(begin="<call>", end="</call>", schema=json.dumps(
        {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"]}))
    done = complete(fleet.stub, asked(structural_tags=pb.StructuralTags(tags=[tag]), sampling=SAMPLED))
    inside = re.fullmatch("<call>(.*)</call>", done.text, re.DOTALL)
    assert inside and list(json.loads(inside[1])) == ["city"], done.text


def test_an_answer_that_meets_its_limit_is_a_beginning_of_the_form(fleet):
    whole = complete(fleet.stub, asked(json_schema=json.dumps(PERSON)))
    cut = complete(fleet.stub, asked(json_schema=json.dumps(PERSON), max_tokens=6))
    assert cut.finish_reason == pb.FINISH_REASON_LENGTH and cut.usage.completion_tokens == 6
    assert whole.text.startswith(cut.text)


def test_a_stop_string_ends_a_form_too(fleet):
    made = asked(json_schema=json.dumps(PERSON))
    made.sampling_params.stop.append('"age"')
    done = complete(fleet.stub, made)
    assert done.finish_reason == pb.FINISH_REASON_STOP
    assert done.text.startswith('{') and '"age"' not in done.text


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
def test_a_form_survives_the_death_of_its_decode_worker(fleet, sampling):
    long = {"type": "array", "minItems": 100, "maxItems": 100, "items": {"enum": ["north", "south", "east", "west"]}}
    made = asked(json_schema=json.dumps(long), stream=True, max_tokens=900, sampling=sampling)
    undisturbed = [t for r in fleet.stub.Generate(made, timeout=120) for t in r.chunk.token_ids]
    call = fleet.stub.Generate(made, timeout=120)
    responses = [next(call) for _ in range(8)]
    busy(fleet.decode).kill()
    responses += list(call)
    fleet.revive()
    done = responses[-1].complete
    assert done.timings.attempts == 2 and done.timings.exact
    assert [t for r in responses for t in r.chunk.token_ids] == undisturbed
    assert len(json.loads("".join(r.chunk.text for r in responses) + done.text)) == 100


def worker_calls(fleet):
    return sum(value for name, value in fleet.router.metrics().items() if name.startswith("baton_worker_selection_total"))


@pytest.mark.parametrize("form,field,words", [
    ({"json_schema": '{"type":"object","properties":{"a":{"type":"array","uniqueItems":true}}}'},
     "response_format.json_schema", "/properties/a/uniqueItems is not supported"),
    ({"json_schema": "{"}, "response_format.json_schema", ""),
    ({"json_schema": ""}, "response_format.json_schema", "is empty"),
    ({"json_schema": '{"properties":{"a":{"const":"\\ud83d"}}}'}, "response_format.json_schema", "has \\ud83d, half of"),
    ({"json_schema": '{"pattern":"a[\\\\ud800-\\\\udbff]"}'}, "response_format.json_schema", "/pattern is not supported"),
    ({"regex": r"a\ud83d\ude00"}, "response_format.regex", '"\\ud83d" matches no text'),
    ({"grammar": r'root ::= "a" | "b" [\ud800-\udfff]'}, "response_format.grammar", "[\\ud800-\\udfff] matches no text"),
    ({"regex": "("}, "response_format.regex", ""),
    ({"grammar": "no rules"}, "response_format.grammar", ""),
    ({"choice": pb.ChoiceTexts()}, "response_format.choice", "has no choice"),
    ({"structural_tags": pb.StructuralTags(tags=[pb.StructuralTag(begin="<a>", schema='{"not":{}}')])},
     "response_format.structural_tags", "/not"),
    ({"regex": "((((a{1,9999}){1,9999}){1,9999}){1,9999}){1,9999}"}, "response_format.regex", "more than "),
])
def test_what_cannot_be_enforced_is_refused_by_name_before_any_worker_hears_of_it(fleet, form, field, words):
    before = worker_calls(fleet)
    failed = failure(fleet.stub, asked(**form))
    assert failed.code == grpc.StatusCode.INVALID_ARGUMENT, failed
    assert failed.fields == [field] and words in failed.message, failed
    assert worker_calls(fleet) == before


def test_a_costly_schema_that_is_asked_for_again_costs_nothing(fleet):
    made = asked(regex="((((b{1,9999}){1,9999}){1,9999}){1,9999}){1,9999}")

    def compilations():
        return fleet.router.metric("baton_router_grammar_compilations_total")

    assert failure(fleet.stub, made).code == grpc.StatusCode.INVALID_ARGUMENT
    compiled, hits = compilations(), fleet.router.metric("baton_router_grammar_cache_hits_total")
    for _ in range(5):
        assert failure(fleet.stub, made).code == grpc.StatusCode.INVALID_ARGUMENT
    assert compilations() == compiled
    assert fleet.router.metric("baton_router_grammar_cache_hits_total") == hits + 5


def test_a_worker_reads_a_form_once(fleet):
    def reads():
        prefill, = fleet.prefill
        return prefill.metric("baton_grammar_cache_queries_total") - prefill.metric("baton_grammar_cache_hits_total")

    before = reads()
    for _ in range(3):
        assert re.fullmatch("[b-d]{7}", complete(fleet.stub, asked(regex="[b-d]{7}")).text)
    assert reads() == before + 1


def test_a_form_whose_client_has_gone_is_compiled_no_further(fleet):
    def metric(name, **labels):
        return fleet.router.metric(f"baton_router_{name}", **labels)

    before = metric("grammar_compilations_total", result="cancelled")
    call = fleet.stub.Generate(asked(regex="(" + "(a|b|c|[a-z]{1,999})?" * 60 + "){1,999}"), timeout=60)
    wait_until(lambda: metric("grammars_waiting") == 1, 30, "the form is being compiled")
    call.cancel()
    wait_until(lambda: metric("grammar_compilations_total", result="cancelled") == before + 1, 30, "its end")
    assert metric("grammars_waiting") == 0


def test_baton_run_holds_its_answer_to_a_form(fleet, tmp_path):
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(PERSON))
    said = run("baton", "run", f"--server={fleet.router.address}", "--temperature=0", f"--json-schema={schema}",
               "Describe a person.")
    assert said.returncode == 0, said.stderr
    assert_person(said.stdout.decode())
    said = run("baton", "run", f"--server={fleet.router.address}", "--choice=left", "--choice=right", "Where?")
    assert said.returncode == 0 and said.stdout.decode().strip() in ("left", "right")
    said = run("baton", "run", f"--server={fleet.router.address}", "--regex=(", "Hm?")
    assert said.returncode == 1 and b"response_format.regex" in said.stderr, said
