"""Answers as OpenAI's own client declares them: tests/data/openai/schemas.json has the JSON schemas of its types.

Called with the program print_answers. Two habits of OpenAI's API are not in its client's types, and are undone before the
comparison: the chunks of a completion's stream have no finish_reason but the last one, and an echoed prompt's first token has no
log probability.
"""
import json
import pathlib
import subprocess
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TESTS / "support"))
import pypi_packages  # noqa: E402

PROGRAM = sys.argv.pop(1)
pypi_packages.or_end(pypi_packages.install, TESTS / "support/schema_requirements.txt")
import jsonschema  # noqa: E402


def undo_habits(body):
    for choice in body["choices"]:
        if choice["finish_reason"] is None:
            choice["finish_reason"] = "stop"
        logprobs = choice["logprobs"] or {}
        for name in ("token_logprobs", "top_logprobs"):
            if logprobs.get(name) and logprobs[name][0] is None:
                del logprobs[name][0]


class Schemas(unittest.TestCase):
    def test_every_answer_is_of_its_type(self):
        schemas = json.loads((TESTS / "data/openai/schemas.json").read_text(encoding="utf-8"))
        printed = subprocess.run([PROGRAM], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        seen = set()
        for line in printed:
            answer = json.loads(line)
            seen.add(answer["schema"])
            if answer["schema"] == "Completion":
                undo_habits(answer["body"])
            with self.subTest(line=line):
                jsonschema.Draft202012Validator(schemas[answer["schema"]]).validate(answer["body"])
        self.assertEqual(seen, set(schemas))


if __name__ == "__main__":
    unittest.main()
