"""Answers by the grammars of 300 schemas are valid by jsonschema, and valid ones are answers: schemas_test.py WALKS COMPILER.

Random answers (SCHEMA_WALKS=100 tries so many of each schema, from the seed in SCHEMA_SEED) have to be valid. Every instance that a
suite calls valid has to be allowed, unless a rule of schema_check.h leaves it out; of those that it calls invalid none may be. What
is refused, of 115 more, stands in refused.json, which --write writes anew; then each new line wants a look whether it has to be refused.
"""
import collections
import json
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import pypi_packages
import schema_cases

schema_cases.install(pypi_packages.or_end)
from jsonschema import ValidationError, validators

WALKS, SEED = int(os.environ.get("SCHEMA_WALKS", 3)), int(os.environ.get("SCHEMA_SEED", 0))
TOKENS = 300
ABOUT = {"object": ("required", "properties", "additionalProperties", "minProperties", "maxProperties"),
         "array": ("items", "prefixItems", "minItems", "maxItems"),
         "string": ("pattern", "format", "minLength", "maxLength"),
         "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
         "integer": ("multipleOf",)}


def narrower(made):
    """The class of validators of the language that schema_check.h tells: JSON Schema with the rules that it names."""
    rules = dict(made.VALIDATORS)

    def add(keyword, rule):
        before = made.VALIDATORS.get(keyword)

        def check(validator, value, instance, schema):
            if before is not None:
                yield from before(validator, value, instance, schema) or ()
            if not rule(value, instance, schema):
                yield ValidationError(f"{keyword}: a rule of Baton leaves it out")
        rules[keyword] = check

    def plain(instance):
        return not isinstance(instance, str) or not re.search(r'["\\\x00-\x1f]', instance)

    def closed(_, instance, schema):
        named = {**schema.get("properties", {}), **dict.fromkeys(schema.get("required", ()))}
        others = schema.get("additionalProperties", True)
        open_map = not named or ("additionalProperties" in schema and not schema.get("properties") and not schema.get("required"))
        return not isinstance(instance, dict) or others not in (True, {}) or open_map or set(instance) <= set(named)

    def same_text(value, instance):
        return json.dumps(value) == json.dumps(instance)

    def few_decimals(_, instance, schema):
        if isinstance(instance, bool) or not isinstance(instance, (int, float)):
            return True
        return re.fullmatch(r"-?[0-9]+(\.[0-9]{1,6})?", json.dumps(instance)) is not None

    own = {"const": lambda value, instance, _: same_text(value, instance),
           "enum": lambda value, instance, _: any(same_text(one, instance) for one in value),
           "properties": closed, "required": closed,
           "pattern": lambda value, instance, _: not isinstance(instance, str) or
           (plain(instance) and re.fullmatch(value, instance) is not None),
           "minLength": lambda _, instance, __: plain(instance), "maxLength": lambda _, instance, __: plain(instance),
           "format": lambda _, instance, __: plain(instance)}
    own.update(dict.fromkeys(ABOUT["number"], few_decimals))

    def of_type(kind, rule):
        def check(value, instance, schema):
            return ("type" in schema or made.TYPE_CHECKER.is_type(instance, kind)) and rule(value, instance, schema)
        return check

    kinds = {keyword: kind for kind, keywords in ABOUT.items() for keyword in keywords}
    for keyword in {*own, *kinds}:
        rule = own.get(keyword, lambda *_: True)
        add(keyword, of_type(kinds[keyword], rule) if keyword in kinds else rule)
    whole = made.TYPE_CHECKER.redefine("integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool))
    return validators.extend(made, rules, type_checker=whole)


class Judge:
    """What is wrong with each schema's answers, and how many were looked at."""

    def __init__(self):
        self.faults, self.seen, self.refused = [], collections.Counter(), {}

    def case(self, case, answer):
        if "error" in answer:
            self.refused[schema_cases.title(case)] = answer["error"].removeprefix("response_format.json_schema: ")
            return
        self.seen[f"{case['suite']}: compiled"] += 1
        exact = schema_cases.validator(case["schema"])
        for walk in answer["walks"]:
            self.walk(case, exact, walk)
        made = schema_cases.validator_class(case["schema"])
        # Without "$schema", by which the validator of a reference's schema would be chosen anew.
        narrow = narrower(made)({name: value for name, value in case["schema"].items() if name != "$schema"},
                                format_checker=made.FORMAT_CHECKER)
        for number, (instance, accepted) in enumerate(zip(case["valid"] + case["invalid"], answer["accepted"])):
            self.instance(case, instance, accepted, number < len(case["valid"]), narrow)

    def walk(self, case, exact, walk):
        if not walk["finished"]:
            self.seen["walks without an end"] += 1
            return
        self.seen["answers"] += 1
        text = bytes.fromhex(walk["text"])
        try:
            error = next(exact.iter_errors(schema_cases.parsed(text)), None)
        except ValueError as fault:
            error = fault
        if error is not None:
            self.faults.append(f"{schema_cases.title(case)}: the answer {text!r} is not valid: {str(error).splitlines()[0]}")

    def instance(self, case, instance, accepted, valid, narrow):
        what = f"{schema_cases.title(case)}: {schema_cases.written(instance, case['schema'])}"
        if not valid:
            self.seen["invalid instances"] += 1
            if accepted:
                self.faults.append(f"{what} is not valid, and allowed")
        elif accepted:
            self.seen["valid instances"] += 1
        elif narrow.is_valid(instance):
            self.faults.append(f"{what} is valid, and not allowed")
        else:
            self.seen["valid instances that a rule leaves out"] += 1


def main():
    grammars = schema_cases.Grammars(*sys.argv[1:3])
    judge, cases = Judge(), schema_cases.cases()
    for number, case in enumerate(cases):
        texts = [schema_cases.written(instance, case["schema"]) for instance in case["valid"] + case["invalid"]]
        judge.case(case, grammars.of(case["schema"], texts=texts, walks=WALKS, tokens=TOKENS, seed=SEED + number))
    print(f"{len(cases)} schemas from seed {SEED}:", ", ".join(f"{count} {what}" for what, count in sorted(judge.seen.items())))
    if sys.argv[3:] == ["--write"]:
        text = json.dumps(judge.refused, indent=1, ensure_ascii=False)
        (schema_cases.DATA / "refused.json").write_text(text + "\n", encoding="utf-8")
    faults = judge.faults + [f"{name}: {judge.refused.get(name)!r}, and refused.json has {schema_cases.refused().get(name)!r}"
                             for name in sorted({*judge.refused, *schema_cases.refused()})
                             if judge.refused.get(name) != schema_cases.refused().get(name)]
    if judge.seen["walks without an end"] > judge.seen["answers"] / 10:
        faults.append("too few random answers end")
    if faults:
        sys.exit("\n".join(faults[:100]))


if __name__ == "__main__":
    main()
