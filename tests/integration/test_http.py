"""The HTTP API as the clients of OpenAI and Anthropic use it, which check every body that they get (docs/clients.md)."""
import json
import pathlib
import sys
import threading
import urllib.error
import urllib.request

import pytest

from cluster import Cluster, busy, complete, free_port, request, wait_until

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import pypi_packages  # noqa: E402

CAPITAL = [{"role": "user", "content": "What is the capital of France?"}]
GREEDY = {"temperature": 0, "seed": 1}
WEATHER = {
    "name": "get_weather",
    "description": "Tells the weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}},
                   "required": ["city"], "additionalProperties": False},
}


@pytest.fixture(scope="module", autouse=True)
def clients():
    pypi_packages.or_skip(pypi_packages.install, HERE.parent / "support" / "client_requirements.txt")


@pytest.fixture(scope="module")
def served():
    port = free_port()
    with Cluster(prefill=1, decode=2, router_args=[f"--http-listen=127.0.0.1:{port}", "--disaggregate=always"]) as cluster:
        cluster.http = f"http://127.0.0.1:{port}"
        yield cluster


@pytest.fixture
def openai(served):
    import openai

    with openai.OpenAI(base_url=f"{served.http}/v1", api_key="none", max_retries=0,
                       _strict_response_validation=True) as client:
        yield client


@pytest.fixture
def lenient(served):
    """For completions where the library's types want what OpenAI's own answers lack: a finish_reason in each chunk of a stream,
    a log probability of a prompt's first token."""
    import openai

    with openai.OpenAI(base_url=f"{served.http}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def anthropic(served):
    import anthropic

    with anthropic.Anthropic(base_url=served.http, api_key="none", max_retries=0,
                             _strict_response_validation=True) as client:
        yield client


@pytest.fixture
def model(openai):
    return openai.models.list().data[0].id


def fetch(url, body):
    made = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(made, timeout=30) as response:
        return response.read()


def by_grpc(served, messages=None, **sampling):
    chat = [(message["role"], message["content"]) for message in messages or CAPITAL]
    return complete(served.stub, request(chat=chat, **sampling)).text


@pytest.mark.plain
def test_a_chat_has_the_text_that_grpc_gives(served, openai, model):
    answer = openai.chat.completions.create(model=model, messages=CAPITAL, max_completion_tokens=24, **GREEDY)
    assert answer.choices[0].message.content == by_grpc(served, max_tokens=24, **GREEDY)
    assert answer.choices[0].message.role == "assistant"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_streamed_chat_joins_to_the_whole_one_and_tells_its_usage_at_the_end(served, openai, model):
    stream = openai.chat.completions.create(model=model, messages=CAPITAL, max_completion_tokens=24, stream=True,
                                            stream_options={"include_usage": True}, **GREEDY)
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[0].choices[0].delta.content, "the role comes with the first token"
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == by_grpc(served, max_tokens=24, **GREEDY)
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert len({(chunk.id, chunk.created) for chunk in chunks}) == 1


def test_choices_are_those_of_their_seed_streamed_or_not(openai, model):
    asked = {"model": model, "messages": CAPITAL, "max_completion_tokens": 8, "n": 3, "seed": 5, "temperature": 1}
    whole = openai.chat.completions.create(**asked)
    texts = ["", "", ""]
    for chunk in openai.chat.completions.create(**asked, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == [choice.message.content for choice in sorted(whole.choices, key=lambda choice: choice.index)]
    assert len(set(texts)) > 1


def test_log_probabilities_are_the_same_float_wherever_they_stand(openai, model):
    chat = openai.chat.completions.create(model=model, messages=CAPITAL, max_completion_tokens=8, logprobs=True,
                                          top_logprobs=3, **GREEDY)
    for token in chat.choices[0].logprobs.content:
        assert token.logprob == token.top_logprobs[0].logprob
        assert bytes(token.bytes).decode(errors="replace") == token.token or token.token.startswith("bytes:")
    text = openai.completions.create(model=model, prompt="The capital of France is", max_tokens=8, logprobs=3, **GREEDY)
    logprobs = text.choices[0].logprobs
    assert logprobs.token_logprobs == [max(top.values()) for top in logprobs.top_logprobs]
    assert "".join(logprobs.tokens) == text.choices[0].text


def test_a_prompt_alone_is_echoed_with_its_log_probabilities(lenient, model):
    asked = {"model": model, "prompt": "The capital of France is", "echo": True, "logprobs": 2, **GREEDY}
    alone = lenient.completions.create(max_tokens=0, **asked)
    [choice] = alone.choices
    assert (choice.text, choice.finish_reason) == (asked["prompt"], "length")
    assert alone.usage.completion_tokens == 0
    logprobs = choice.logprobs
    assert "".join(logprobs.tokens) == asked["prompt"]
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.top_logprobs) == alone.usage.prompt_tokens
    assert logprobs.token_logprobs[0] is None and logprobs.top_logprobs[0] is None, "nothing stands before it"
    assert all(logprob <= 0 for logprob in logprobs.token_logprobs[1:])
    longer = lenient.completions.create(max_tokens=2, **asked)
    assert longer.choices[0].logprobs.token_logprobs[:-2] == logprobs.token_logprobs
    streamed = list(lenient.completions.create(max_tokens=0, stream=True, **asked))
    assert "".join(chunk.choices[0].text for chunk in streamed) == asked["prompt"]


def test_lists_of_prompts_and_ids_are_answered_in_order(served, openai, model):
    prompts = ["The capital of France is", "One, two, three,"]
    texts = [complete(served.stub, request(prompt, max_tokens=6, **GREEDY)).text for prompt in prompts]
    answer = openai.completions.create(model=model, prompt=prompts, max_tokens=6, **GREEDY)
    assert [choice.text for choice in sorted(answer.choices, key=lambda choice: choice.index)] == texts
    ids = json.loads(fetch(f"{served.http}/tokenize", {"prompt": prompts[0]}))["tokens"]
    answer = openai.completions.create(model=model, prompt=[ids, ids], max_tokens=6, **GREEDY)
    assert [choice.text for choice in answer.choices] == [texts[0], texts[0]]


def test_an_answer_held_to_a_schema_obeys_it(openai, model):
    schema = {"type": "object", "properties": {"capital": {"type": "string", "maxLength": 10}}, "required": ["capital"],
              "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    answer = openai.chat.completions.create(model=model, messages=CAPITAL, max_completion_tokens=60, response_format=form,
                                            **GREEDY)
    assert answer.choices[0].finish_reason == "stop"
    assert list(json.loads(answer.choices[0].message.content)) == ["capital"]


def test_too_few_tokens_for_a_schema_end_by_length(openai, model):
    form = {"type": "json_object"}
    answer = openai.chat.completions.create(model=model, messages=CAPITAL, max_completion_tokens=2, response_format=form,
                                            **GREEDY)
    assert answer.choices[0].finish_reason == "length"


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_forced_tool_is_called_with_arguments_of_its_schema(openai, model, choice):
    asked = {"model": model, "messages": CAPITAL, "max_completion_tokens": 80, "tool_choice": choice,
             "tools": [{"type": "function", "function": WEATHER}], "parallel_tool_calls": False, **GREEDY}
    whole = openai.chat.completions.create(**asked)
    assert whole.choices[0].finish_reason == "tool_calls", whole
    (call,) = whole.choices[0].message.tool_calls
    assert call.function.name == "get_weather" and isinstance(json.loads(call.function.arguments)["city"], str)
    arguments, heads = "", []
    for chunk in openai.chat.completions.create(**asked, stream=True):
        for delta in (delta for piece in chunk.choices for delta in piece.delta.tool_calls or []):
            assert delta.index == 0
            arguments += delta.function.arguments or ""
            if delta.id is not None:
                heads.append((delta.id, delta.type, delta.function.name))
    assert arguments == call.function.arguments
    assert [head[1:] for head in heads] == [("function", "get_weather")]
    assert heads[0][0] != call.id, "the ids of calls differ from request to request, whatever the seed"


def test_a_tools_result_goes_back_into_the_chat(openai, model):
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    messages = [*CAPITAL, {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}]
    answer = openai.chat.completions.create(model=model, messages=messages, max_completion_tokens=8,
                                            tools=[{"type": "function", "function": WEATHER}], **GREEDY)
    assert answer.choices[0].message.content


def test_errors_are_those_that_the_client_knows(served, openai, model):
    import openai as library

    with pytest.raises(library.BadRequestError) as caught:
        openai.chat.completions.create(model=model, messages=CAPITAL, temperature=-1)
    assert caught.value.param == "temperature"
    with pytest.raises(library.BadRequestError) as caught:
        openai.chat.completions.create(model=model, messages=CAPITAL, audio={"format": "wav", "voice": "alloy"})
    assert caught.value.param == "audio"
    with pytest.raises(library.BadRequestError) as caught:
        schema = {"name": "answer", "schema": {"type": "no such type"}}
        openai.chat.completions.create(model=model, messages=CAPITAL,
                                       response_format={"type": "json_schema", "json_schema": schema})
    assert caught.value.param == "response_format"
    schema = {"name": "answer", "schema": {"type": "object", "properties": {"\ud83d": {}}}}
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetch(f"{served.http}/v1/chat/completions", {"model": model, "messages": CAPITAL,
                                                     "response_format": {"type": "json_schema", "json_schema": schema}})
    assert refused.value.code == 400 and b"half of a UTF-16 pair" in refused.value.read()
    with pytest.raises(library.NotFoundError) as caught:
        openai.chat.completions.create(model="another", messages=CAPITAL)
    assert caught.value.code == "model_not_found"
    with pytest.raises(library.BadRequestError) as caught:
        openai.completions.create(model=model, prompt="word " * 9000, max_tokens=4, stream=True)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(library.APIStatusError) as caught:
        openai.embeddings.create(model=model, input="text")
    assert caught.value.status_code == 501


@pytest.mark.plain
def test_responses_are_those_of_the_same_chat(served, openai, model):
    expected = by_grpc(served, max_tokens=24, temperature=0)
    asked = {"model": model, "input": CAPITAL[0]["content"], "max_output_tokens": 24, "temperature": 0}
    whole = openai.responses.create(**asked)
    assert whole.output_text == expected
    events = list(openai.responses.create(**asked, stream=True))
    assert events[0].type == "response.created"
    assert events[-1].type in ("response.completed", "response.incomplete")
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == expected
    assert events[-1].response.output_text == expected


def test_what_a_request_leaves_open_of_its_sampling_is_the_same_by_every_api(served, openai, anthropic, model):
    filled = {"temperature": 0.7, "top_p": 0.95}
    chat = by_grpc(served, max_tokens=24, seed=3, **filled)
    assert chat != by_grpc(served, max_tokens=24, seed=3, temperature=1, top_p=1), "this seed tells the two apart"
    assert by_grpc(served, max_tokens=24, seed=3) == chat
    answer = openai.chat.completions.create(model=model, messages=CAPITAL, max_completion_tokens=24, seed=3)
    assert answer.choices[0].message.content == chat
    response = openai.responses.create(model=model, input=CAPITAL[0]["content"], max_output_tokens=24, extra_body={"seed": 3})
    assert response.output_text == chat
    assert {"temperature": response.temperature, "top_p": response.top_p} == filled
    message = anthropic.messages.create(model=model, messages=CAPITAL, max_tokens=24, extra_body={"seed": 3})
    assert message.content[0].text == chat
    text = openai.completions.create(model=model, prompt="Once upon a time", max_tokens=24, seed=3).choices[0].text
    assert text == complete(served.stub, request("Once upon a time", max_tokens=24, seed=3, **filled)).text


@pytest.mark.plain
def test_messages_are_those_of_the_same_chat(served, anthropic, model):
    expected = by_grpc(served, max_tokens=24, temperature=0)
    asked = {"model": model, "messages": CAPITAL, "max_tokens": 24, "extra_body": {"temperature": 0}}
    whole = anthropic.messages.create(**asked)
    assert whole.content[0].text == expected
    with anthropic.messages.stream(**asked) as stream:
        assert "".join(stream.text_stream) == expected
        last = stream.get_final_message()
    assert last.stop_reason == whole.stop_reason
    counted = anthropic.messages.count_tokens(model=model, messages=CAPITAL)
    assert counted.input_tokens == whole.usage.input_tokens + (whole.usage.cache_read_input_tokens or 0)


def test_a_call_of_a_tool_by_messages_has_its_input(anthropic, model):
    tool = {"name": WEATHER["name"], "description": WEATHER["description"], "input_schema": WEATHER["parameters"]}
    answer = anthropic.messages.create(model=model, messages=CAPITAL, max_tokens=80, extra_body={"temperature": 0}, tools=[tool],
                                       tool_choice={"type": "any", "disable_parallel_tool_use": True})
    assert answer.stop_reason == "tool_use"
    (use,) = [block for block in answer.content if block.type == "tool_use"]
    assert use.name == "get_weather" and isinstance(use.input["city"], str)


def test_a_stream_survives_its_decode_worker(served, openai, lenient, model):
    asked = {"model": model, "prompt": "Once upon a time", "max_tokens": 200, "seed": 3, "temperature": 1,
             "extra_body": {"ignore_eos": True}}
    whole = openai.completions.create(**asked)
    text, killed = "", None
    for chunk in lenient.completions.create(**asked, stream=True):
        text += chunk.choices[0].text
        if killed is None and len(text) > 40:
            killed = busy(served.decode)
            killed.kill()
    assert killed is not None
    assert text == whole.choices[0].text
    killed.start()
    served.wait_ready()


def test_a_client_that_leaves_ends_its_request(served, lenient, model):
    stream = lenient.completions.create(model=model, prompt="Once upon a time", max_tokens=4000, stream=True,
                                       extra_body={"ignore_eos": True})
    next(iter(stream))
    # The first token is the prefill worker's: the decode worker may not have the sequence yet.
    wait_until(lambda: busy(served.decode), 10, "a decode worker goes on")
    stream.close()
    wait_until(lambda: not busy(served.decode), 10, "the request ends with its client")


def test_answers_of_many_clients_are_their_own(openai, model):
    prompts = [f"Number {i} is" for i in range(12)]
    alone = [openai.completions.create(model=model, prompt=p, max_tokens=6, **GREEDY).choices[0].text for p in prompts]
    together = [None] * len(prompts)

    def ask(i):
        together[i] = openai.completions.create(model=model, prompt=prompts[i], max_tokens=6, **GREEDY).choices[0].text

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone
