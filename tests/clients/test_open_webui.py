"""The requests of Open WebUI 0.12.4, recorded from it and replayed. The model's words are scripted (docs/clients.md)."""
import json
import pathlib
import urllib.request

import pytest

import recipes

RECORDS = pathlib.Path(__file__).resolve().parents[1] / "data" / "open_webui_requests.jsonl"
REQUESTS = [json.loads(line) for line in RECORDS.read_text(encoding="utf-8").splitlines()]
WORDS = "The capital of France is Paris."


def replay(http, made):
    """The text of the answer to a recorded request."""
    body = made["body"] and json.dumps(made["body"]).encode()
    asked = urllib.request.Request(http + made["path"], body, made["headers"])
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return answer.read().decode()


def test_the_recipe_leads_to_the_recorded_paths(scripted):
    lines = recipes.blocks("Open WebUI", scripted.http)["sh"]
    assert f"OPENAI_API_BASE_URL={scripted.http}/v1 " in lines
    assert {made["path"] for made in REQUESTS} == {"/v1/models", "/v1/chat/completions"}


@pytest.mark.parametrize("made", [made for made in REQUESTS if made["body"] is None])
def test_models_are_listed_by_the_names_that_it_shows(scripted, made):
    assert [model["id"] for model in json.loads(replay(scripted.http, made))["data"]] == ["smollm2"]


@pytest.mark.parametrize("made", [made for made in REQUESTS if made["body"] and made["body"].get("stream")])
def test_a_stream_has_the_models_words_and_usage_if_it_is_asked_for(scripted, made):
    scripted.will_say(WORDS)
    *events, last = [line.removeprefix("data: ") for line in replay(scripted.http, made).splitlines() if line.startswith("data: ")]
    chunks = [json.loads(event) for event in events]
    assert last == "[DONE]"
    assert "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]) == WORDS
    with_usage = "stream_options" in made["body"]
    assert [chunk["usage"]["completion_tokens"] > 0 for chunk in chunks if chunk.get("usage")] == [True] * with_usage
    assert all(message["content"] in scripted.prompts[0] for message in made["body"]["messages"])


@pytest.mark.parametrize("made", [made for made in REQUESTS if made["body"] and not made["body"].get("stream")])
def test_a_title_tags_and_further_questions_are_answered_whole(scripted, made):
    scripted.will_say('{"title": "Capital"}')
    (choice,) = json.loads(replay(scripted.http, made))["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ('{"title": "Capital"}', "stop")
