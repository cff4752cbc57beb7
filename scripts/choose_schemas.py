#!/usr/bin/env python3
"""Writes the public schemas of tests/data/schemas from two source packages of PyPI, which stand unpacked in a folder.

    pip download --no-deps --no-binary :all: jsonschema==4.26.0 datamodel-code-generator==0.89.0
    scripts/choose_schemas.py FOLDER

The choice is by hash, so that nobody's taste is in it: of the JSON Schema Test Suite the required cases of draft 2020-12, without
the files about resources and about what other keywords left over; of datamodel-code-generator the schemas of its tests that stand
alone in at most 4,000 bytes.
"""
import hashlib
import json
import pathlib
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "schemas"
SUITE = "jsonschema-4.26.0/json/tests/draft2020-12"
MODELS = "datamodel_code_generator-0.89.0/tests/data/jsonschema"
LEFT_OUT = {"anchor", "dynamicRef", "refRemote", "unevaluatedItems", "unevaluatedProperties", "vocabulary"}
SUITE_COUNT, MODELS_COUNT = 129, 60
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


def write(name, cases, count):
    chosen = sorted(cases, key=lambda case: hashlib.sha256(case["name"].encode()).digest())[:count]
    lines = [json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in chosen]
    (DATA / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write("json_schema_test_suite.jsonl", suite(pathlib.Path(sys.argv[1])), SUITE_COUNT)
    write("datamodel_code_generator.jsonl", models(pathlib.Path(sys.argv[1])), MODELS_COUNT)
