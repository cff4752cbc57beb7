"""Requests as Codex CLI was recorded to send them (tests/data/codex), to real servers with a real model."""
import json
import pathlib
import re
import urllib.error
import urllib.request

import pytest

from cluster import Cluster, free_port

RECORDED = pathlib.Path(__file__).resolve().parent.parent / "data" / "codex"
GREEDY = {"temperature": 0, "seed": 1}
THREE_LETTERS = {"type": "grammar", "syntax": "regex", "definition": "[a-z]{3}"}


@pytest.fixture(scope="module")
def served():
    port = free_port()
    with Cluster(router_args=[f"--http-listen=127.0.0.1:{port}"]) as cluster:
        cluster.http = f"http://127.0.0.1:{port}"
        yield cluster


def ask(served, path, body):
    made = urllib.request.Request(served.http + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(made, timeout=120) as response:
        assert response.status == 200
        return response.headers, response.read().decode()


def recorded(name, **fields):
    """The body with more fields, for the only model that is served."""
    return json.loads((RECORDED / f"{name}.json").read_text()) | {"model": None} | GREEDY | fields


def events_of(text):
    return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]


def test_the_default_request_is_streamed_without_its_hosted_tool(served):
    headers, text = ask(served, "/v1/responses", recorded("default", max_output_tokens=4))
    assert headers["Content-Type"].startswith("text/event-stream")
    assert "web_search" in headers["x-baton-warning"]
    events = events_of(text)
    assert events[0]["type"] == "response.created"
    assert events[-1]["type"] in ("response.completed", "response.incomplete")
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    served_types = {tool["type"] for tool in events[-1]["response"]["tools"]}
    assert served_types == {"function", "namespace"}
    assert served.router.log_text().count("runs no hosted tools: web_search") == 1


def test_a_forced_call_of_an_mcp_tool_has_its_inner_name_and_namespace_streamed_or_not(served):
    asked = recorded("mcp_turn_2", max_output_tokens=40,
                     tool_choice={"type": "function", "name": "time_in", "namespace": "mcp__clock"})
    _, text = ask(served, "/v1/responses", asked)
    events = events_of(text)
    items = [event["item"] for event in events if "item" in event] + events[-1]["response"]["output"]
    assert len(items) == 3, "added, done and completed"
    _, text = ask(served, "/v1/responses", asked | {"stream": False})
    items += json.loads(text)["output"]
    assert {(item["type"], item["name"], item["namespace"]) for item in items} == {("function_call", "time_in", "mcp__clock")}
    arguments = {item["arguments"] for item in items[1:]}
    assert len(arguments) == 1 and arguments.pop().startswith("{"), "all but the first are whole, and the same"


def test_a_forced_custom_tool_is_given_a_text_of_its_regular_expression_in_both_apis(served):
    custom = {"name": "code", "description": "Takes three letters.", "format": THREE_LETTERS}
    asked = {"input": "Write abc.", "max_output_tokens": 40, "tools": [{"type": "custom"} | custom],
             "tool_choice": {"type": "custom", "name": "code"}} | GREEDY
    _, text = ask(served, "/v1/responses", asked)
    (item,) = json.loads(text)["output"]
    assert (item["type"], item["name"]) == ("custom_tool_call", "code")
    assert re.fullmatch("[a-z]{3}", item["input"]), item
    _, text = ask(served, "/v1/responses", asked | {"stream": True})
    deltas = [event["delta"] for event in events_of(text) if event["type"] == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == item["input"]

    _, text = ask(served, "/v1/chat/completions", {
        "messages": [{"role": "user", "content": "Write abc."}], "max_completion_tokens": 40,
        "tools": [{"type": "custom", "custom": custom}],
        "tool_choice": {"type": "custom", "custom": {"name": "code"}}} | GREEDY)
    (call,) = json.loads(text)["choices"][0]["message"]["tool_calls"]
    assert call["type"] == "custom" and call["custom"] == {"name": "code", "input": item["input"]}


@pytest.mark.parametrize("path, body", [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}),
    ("/v1/responses", {"input": "Hi"}),
    ("/v1/messages", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}),
])
def test_hosted_tools_alone_are_refused_with_the_same_words_in_every_api(served, path, body):
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(served, path, body | {"tools": [{"type": "web_search_20250305", "name": "web_search"}]})
    assert refused.value.code == 400
    assert json.load(refused.value)["error"]["message"] == (
        "tools[0].type: 'web_search_20250305' is a hosted tool, which Baton does not run; send a function instead")
