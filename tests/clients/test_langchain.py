"""LangChain's chat model for OpenAI's API: answers, streams, tools, structured output, batches (docs/clients.md)."""
import sys

import pytest

import fetched
import recipes
from cluster import complete, request
from stubs import pb

QUESTION = "What is the capital of France?"
FINISH = {pb.FINISH_REASON_STOP: "stop", pb.FINISH_REASON_LENGTH: "length"}
CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"],
        "additionalProperties": False}


@pytest.fixture(scope="module")
def model(served):
    sys.path.insert(0, str(fetched.packages("langchain")))
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(base_url=f"{served.http}/v1", api_key="none", model="smollm2", temperature=0, seed=1,
                      max_completion_tokens=80, max_retries=0, stream_usage=True)


@pytest.fixture(scope="module")
def expected(served):
    return complete(served.stub, request(chat=[("user", QUESTION)], temperature=0, max_tokens=80))


def test_the_recipe_prints_the_answer_of_grpc(served, tmp_path):
    printed = recipes.run(recipes.blocks("LangChain", served.http), fetched.packages("langchain"), tmp_path)
    assert printed.strip() == recipes.answer_by_grpc(served)


def test_an_answer_is_that_of_grpc_and_tells_its_usage(model, expected):
    answer = model.invoke(QUESTION)
    assert answer.content == expected.text
    assert answer.usage_metadata["input_tokens"] == expected.usage.prompt_tokens
    assert answer.usage_metadata["output_tokens"] == expected.usage.completion_tokens
    assert answer.response_metadata["finish_reason"] == FINISH[expected.finish_reason]


def test_a_stream_adds_up_to_the_answer(model, expected):
    chunks = list(model.stream(QUESTION))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert whole.content == expected.text
    assert whole.usage_metadata["output_tokens"] == expected.usage.completion_tokens
    assert len(chunks) > 3


def test_a_batch_has_the_answers_of_its_prompts_in_order(model):
    prompts = [f"Say the number {i}." for i in range(4)]
    together = [answer.content for answer in model.batch(prompts)]
    assert together == [model.invoke(prompt).content for prompt in prompts]
    assert len(set(together)) > 1


@pytest.mark.parametrize("choice", ["any", "get_weather"])
def test_a_forced_tool_is_called_streamed_or_not(model, choice):
    tool = {"name": "get_weather", "description": "Tells the weather of a city.", "parameters": CITY}
    bound = model.bind_tools([tool], tool_choice=choice, parallel_tool_calls=False)
    (call,) = bound.invoke(QUESTION).tool_calls
    assert call["name"] == "get_weather" and isinstance(call["args"]["city"], str)
    chunks = list(bound.stream(QUESTION))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    (streamed,) = whole.tool_calls
    assert (streamed["name"], streamed["args"]) == (call["name"], call["args"])
    assert streamed["id"] != call["id"], "the ids of calls differ from request to request"


def test_a_tools_result_is_taken_back(model):
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    call = {"name": "get_weather", "args": {"city": "Paris"}, "id": "call_1"}
    answer = model.invoke([HumanMessage(QUESTION), AIMessage("", tool_calls=[call]), ToolMessage("sunny", tool_call_id="call_1")])
    assert answer.content


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_a_structured_answer_has_the_fields_of_its_class(model, method):
    from pydantic import BaseModel, Field

    class Capital(BaseModel):
        """The capital of a country."""
        capital: str = Field(max_length=20)
        inhabitants: int = Field(ge=0, le=100000000)

    answer = model.with_structured_output(Capital, method=method).invoke(QUESTION)
    assert isinstance(answer, Capital) and answer.capital


def test_responses_are_spoken_too(served, expected):
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(base_url=f"{served.http}/v1", api_key="none", model="smollm2", temperature=0, max_tokens=80,
                       max_retries=0, use_responses_api=True)
    assert model.invoke(QUESTION).text == expected.text
    assert "".join(chunk.text for chunk in model.stream(QUESTION)) == expected.text


def test_a_refused_field_is_the_librarys_error(model):
    import openai

    with pytest.raises(openai.BadRequestError) as caught:
        model.invoke(QUESTION, temperature=-1)
    assert caught.value.param == "temperature"
