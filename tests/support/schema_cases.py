"""The schemas of tests/data/schemas, what answers by them have to be like, and the program grammar_walks.

A case has `suite`, `name`, `schema`, and instances that are `valid` and `invalid` by it.
"""
import functools
import json
import pathlib
import subprocess

import pypi_packages

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "schemas"
SUITES = ("written", "json_schema_test_suite", "datamodel_code_generator")


def install(otherwise):
    """jsonschema and llguidance are modules from now on. `otherwise`: `or_skip` or `or_end` of pypi_packages, if that cannot be."""
    otherwise(pypi_packages.install, pathlib.Path(__file__).resolve().parent / "schema_requirements.txt")


def cases():
    found = []
    for suite in SUITES:
        for line in (DATA / f"{suite}.jsonl").read_text(encoding="utf-8").strip("\n").split("\n"):  # U+2028 ends no line
            found.append({"suite": suite, **json.loads(line)})
    return found


def title(case):
    return f"{case['suite']}: {case['name']}"


def refused():
    """The beginnings of the errors of all schemas that no grammar is made of, by the titles of their cases."""
    return json.loads((DATA / "refused.json").read_text(encoding="utf-8"))


def validator_class(schema):
    import jsonschema
    return jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)


def validator(schema):
    made = validator_class(schema)
    return made(schema, format_checker=made.FORMAT_CHECKER)


def parsed(text):
    """The value of a whole answer; ValueError if it is not JSON in UTF-8."""
    def constant(name):
        raise ValueError(f"{name} is not JSON")
    return json.loads(text.decode() if isinstance(text, bytes) else text, parse_constant=constant)


def written(instance, schema=True):
    """An instance as an answer says it: compact, and with its properties in the order of the schema."""
    names = list(_names(schema))
    place = {name: i for i, name in reversed(list(enumerate(names)))}

    def ordered(value):
        if isinstance(value, dict):
            return {name: ordered(value[name]) for name in sorted(value, key=lambda name: place.get(name, len(names)))}
        return [ordered(one) for one in value] if isinstance(value, list) else value
    return json.dumps(ordered(instance), ensure_ascii=False, separators=(",", ":"))


def _names(schema):
    if isinstance(schema, list):
        for one in schema:
            yield from _names(one)
    elif isinstance(schema, dict):
        properties = schema.get("properties")
        yield from properties if isinstance(properties, dict) else ()
        required = schema.get("required")
        yield from (name for name in required if isinstance(name, str)) if isinstance(required, list) else ()
        for one in schema.values():
            yield from _names(one)


class Grammars:
    """grammar_walks, which answers questions about schemas one after another; its source tells them."""

    def __init__(self, program, compiler):
        self.process = subprocess.Popen([program, compiler], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        encoding="utf-8")

    def ask(self, question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"grammar_walks ended with {self.process.wait()} over {question}")
        return json.loads(line)

    def of(self, schema, **question):
        return self.ask({"schema": json.dumps(schema, ensure_ascii=False), **question})

    @functools.cached_property
    def vocabulary(self):
        """The bytes of all tokens (none for special ones), and the ids that end an answer."""
        answer = self.ask({})
        return [bytes.fromhex(token) for token in answer["tokens"]], answer["ends"]
