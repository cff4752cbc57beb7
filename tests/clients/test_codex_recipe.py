"""Codex does a task of two turns by the recipe of docs/clients.md, with its shell and with a tool of an MCP server. The model's words
are scripted."""
import json
import os
import pathlib
import sys

import fetched
import recipes

CLOCK = pathlib.Path(__file__).resolve().parent / "clock_mcp.py"
# The part of the configuration that is the reader's own.
SERVER = f"""
[mcp_servers.clock]
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(CLOCK))}]
default_tools_approval_mode = "approve"
"""


def call(name, **arguments):
    return json.dumps({"tool_calls": [{"name": name, "arguments": arguments}]})


def test_the_recipe_runs_a_task_of_two_turns_with_the_shell_and_an_mcp_tool(scripted, tmp_path):
    packages = fetched.packages("codex")
    recipe = recipes.blocks("Codex", scripted.http)
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text(recipe["toml"] + SERVER)
    (tmp_path / "notes.txt").write_text("milk\n")
    scripted.will_say(call("exec_command", cmd="cat notes.txt"), "The notes say milk.",
                      call("mcp__clock__time_in", city="Paris"), "It is noon in Paris.")
    output = recipes.run(recipe, packages, tmp_path, PATH=f"{packages}/codex_cli_bin/bin:{os.environ['PATH']}")
    assert len(scripted.prompts) == 4 and not scripted.answers
    assert "The notes say milk." in output and "It is noon in Paris." in output
    _, with_notes, _, with_time = scripted.prompts
    assert "milk" in with_notes.split("cat notes.txt")[-1]
    assert "12:00 in Paris" in with_time and "The notes say milk." in with_time
