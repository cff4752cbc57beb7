#!/usr/bin/env python3
"""Writes the public schemas of tests/data/schemas from two source packages of PyPI, which stand unpacked in a folder.

    pip download --no-deps --no-binary :all: jsonschema==4.26.0 datamodel-code-generator==0.89.0
    scripts/choose_schemas.py FOLDER build/dev/tests/grammar_walks build/dev/bin/baton-grammar-compiler

The choice is by hash, so that nobody's taste is in it: of the JSON Schema Test Suite the required cases of draft 2020-12, without
the files about resources and about what other keywords left over; of datamodel-code-generator the schemas of its tests that stand
alone in at most 4,000 bytes, and behind the first 60 of them those right ones that Baton compiles, until of all files there are 300.
Then `tests/common/grammar/schemas_test.py WALKS COMPILER --write` says anew what is refused.
"""
import hashlib
import itertools
import json
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(TESTS / "support"))
import pypi_packages  # noqa: E402  (the path above comes first)
import schema_cases  # noqa: E402

DATA = TESTS / "data" / "schemas"
SUITE = "jsonschema-4.26.0/json/tests/draft2020-12"
MODELS = "datamodel_code_generator-0.89.0/tests/data/jsonschema"
LEFT_OUT = {"anchor", "dynamicRef", "refRemote", "unevaluatedItems", "unevaluatedProperties", "vocabulary"}
SUITE_COUNT, MODELS_COUNT, COMPILED_COUNT = 129, 60, 300
MOST_BYTES = 4000


def suite(folder):
    for path in sorted((folder / SUITE).glob("*.json")):
        if path.stem in LEFT_OUT:
            continue
        for case in json.loads(path.read_bytes()):
            yield {"name": f"{path.stem}: {case['description']}", "schema": case["schema"],
                   "valid": [test["data"] for test in case["tests"] if test["valid"]],
                   "invalid": [test["data"] for test in case["tests"] if not test["valid"]]}


def models(folder):
    for path in sorted((folder / MODELS).glob("*.json")):
        text = path.read_bytes()
        try:
            schema = json.loads(text)
        except ValueError:  # some tests are about damaged files
            continue
        if len(text) <= MOST_BYTES and isinstance(schema, dict) and ".json" not in json.dumps(schema).replace(".json-schema", ""):
            yield {"name": path.stem, "schema": schema, "valid": [], "invalid": []}


def by_hash(cases):
    return sorted(cases, key=lambda case: hashlib.sha256(case["name"].encode()).digest())


def compiling(cases, grammars):
    return (case for case in cases if "error" not in grammars.of(case["schema"], walks=0))


def is_schema(case):
    """By the language that the schema names: some of those tests are about wrong ones."""
    made = schema_cases.validator_class(case["schema"])
    return next(made(made.META_SCHEMA).iter_errors(case["schema"]), None) is None


def write(name, cases):
    lines = [json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases]
    (DATA / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(folder, walks, compiler):
    schema_cases.install(pypi_packages.or_end)
    grammars = schema_cases.Grammars(walks, compiler)
    written = [json.loads(line) for line in (DATA / "written.jsonl").read_text(encoding="utf-8").strip("\n").split("\n")]
    cases = by_hash(suite(pathlib.Path(folder)))[:SUITE_COUNT]
    write("json_schema_test_suite.jsonl", cases)
    known = by_hash(models(pathlib.Path(folder)))
    chosen, more = known[:MODELS_COUNT], filter(is_schema, known[MODELS_COUNT:])
    missing = COMPILED_COUNT - sum(1 for _ in compiling([*written, *cases, *chosen], grammars))
    write("datamodel_code_generator.jsonl", [*chosen, *itertools.islice(compiling(more, grammars), missing)])


if __name__ == "__main__":
    main(*sys.argv[1:])
