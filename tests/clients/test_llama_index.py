"""LlamaIndex's client of OpenAI-like servers: the recipe, streams, forced tools, structured output (docs/clients.md)."""
import sys

import pytest

import fetched
import recipes


@pytest.fixture(scope="module")
def packages():
    return fetched.packages("llama_index")


@pytest.fixture(scope="module")
def llm(served, packages):
    sys.path.insert(0, str(packages))
    from llama_index.llms.openai_like import OpenAILike

    return OpenAILike(model="smollm2", api_base=f"{served.http}/v1", api_key="none", is_chat_model=True,
                      is_function_calling_model=True, context_window=8192, temperature=0, max_retries=0)


def test_the_recipe_prints_the_answer_of_grpc(served, packages, tmp_path):
    printed = recipes.run(recipes.blocks("LlamaIndex", served.http), packages, tmp_path)
    assert printed.strip() == recipes.answer_by_grpc(served)


def test_a_stream_adds_up_to_the_answer(served, llm):
    from llama_index.core.llms import ChatMessage

    question = [ChatMessage(role="system", content=recipes.SYSTEM), ChatMessage(role="user", content=recipes.QUESTION)]
    chunks = [chunk.delta for chunk in llm.stream_chat(question)]
    assert "".join(chunks) == recipes.answer_by_grpc(served) and len(chunks) > 3


def test_a_forced_tool_is_called_with_the_arguments_of_its_schema(llm):
    from llama_index.core.tools import FunctionTool

    def get_weather(city: str) -> str:
        """Tells the weather of a city."""
        return f"sunny in {city}"

    tool = FunctionTool.from_defaults(get_weather)
    response = llm.chat_with_tools([tool], user_msg=recipes.QUESTION, tool_required=True)
    (call, *_) = llm.get_tool_calls_from_response(response)
    assert call.tool_name == "get_weather" and isinstance(call.tool_kwargs["city"], str)


def test_a_structured_answer_has_the_fields_of_its_class(llm):
    from pydantic import BaseModel, Field

    class Capital(BaseModel):
        """The capital of a country."""
        capital: str = Field(max_length=20)

    answer = llm.as_structured_llm(Capital).complete(recipes.QUESTION).raw
    assert isinstance(answer, Capital) and answer.capital
