"""OpenAI's Agents SDK: the recipe, and agents with tools by both of OpenAI's APIs (docs/clients.md)."""
import sys

import pytest

import fetched
import recipes


@pytest.fixture(scope="module")
def packages():
    return fetched.packages("openai_agents")


@pytest.fixture(params=["responses", "chat_completions"])
def agents(request, packages, monkeypatch):
    """The library, which speaks the API of that name."""
    sys.path.insert(0, str(packages))
    import agents as library

    monkeypatch.setenv("OPENAI_API_KEY", "none")
    library.set_tracing_disabled(True)
    library.set_default_openai_api(request.param)
    return library


def connect(agents, http):
    import openai

    agents.set_default_openai_client(openai.AsyncOpenAI(base_url=f"{http}/v1", api_key="none", max_retries=0), use_for_tracing=False)


def assistant(agents, **options):
    return agents.Agent(name="Assistant", instructions=recipes.SYSTEM, model="smollm2", **options)


def test_the_recipe_prints_the_answer_of_grpc(served, packages, tmp_path):
    printed = recipes.run(recipes.blocks("OpenAI Agents SDK", served.http), packages, tmp_path)
    assert printed.strip() == recipes.answer_by_grpc(served)


def test_an_agent_calls_a_tool_and_answers_by_its_result(agents, scripted):
    @agents.function_tool
    def get_weather(city: str) -> str:
        """Tells the weather of a city."""
        return f"sunny in {city}"

    connect(agents, scripted.http)
    scripted.will_say('{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Paris"}}]}', "It is sunny in Paris.")
    result = agents.Runner.run_sync(assistant(agents, tools=[get_weather]), "What is the weather in Paris?")
    assert result.final_output == "It is sunny in Paris."
    first, second = scripted.prompts
    assert "get_weather" in first and "sunny in Paris" in second


def test_an_agent_hands_off_to_another(agents, scripted):
    connect(agents, scripted.http)
    other = agents.Agent(name="Spanish", instructions="Habla español.", model="smollm2")
    scripted.will_say('{"tool_calls": [{"name": "transfer_to_spanish", "arguments": {}}]}', "París.")
    result = agents.Runner.run_sync(assistant(agents, handoffs=[other]), "¿Cuál es la capital de Francia?")
    assert (result.final_output, result.last_agent.name) == ("París.", "Spanish")
    assert "Habla español." in scripted.prompts[1]


def test_a_streamed_run_adds_up_to_its_answer(agents, scripted):
    import asyncio

    connect(agents, scripted.http)
    scripted.will_say("The capital of France is Paris.")

    async def run():
        streamed = agents.Runner.run_streamed(assistant(agents), recipes.QUESTION)
        texts = [event.data.delta async for event in streamed.stream_events()
                 if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"]
        return "".join(texts), streamed.final_output

    assert asyncio.run(run()) == ("The capital of France is Paris.",) * 2


def test_a_typed_output_is_held_to_its_schema(agents, served):
    from pydantic import BaseModel, Field

    class Capital(BaseModel):
        """The capital of a country."""
        capital: str = Field(max_length=20)

    connect(agents, served.http)
    settings = agents.ModelSettings(temperature=0, max_tokens=60)
    result = agents.Runner.run_sync(assistant(agents, output_type=Capital, model_settings=settings), recipes.QUESTION)
    assert isinstance(result.final_output, Capital) and result.final_output.capital
