"""The masks of the grammars are those of llguidance, or differ by a named rule: llguidance_test.py WALKS COMPILER.

SCHEMA_PREFIXES=1000 compares after so many beginnings of random answers, from the seed in SCHEMA_SEED. A token that one of both
allows alone is counted under the rule that explains it; one that no rule explains is an error.
"""
import collections
import json
import os
import pathlib
import random
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import pypi_packages
import schema_cases

schema_cases.install(pypi_packages.or_end)
import llguidance

PREFIXES, SEED = int(os.environ.get("SCHEMA_PREFIXES", 40)), int(os.environ.get("SCHEMA_SEED", 0))
TOKENS = 120
KEYWORDS_OF = {"object": {"required", "properties", "additionalProperties", "minProperties", "maxProperties"},
               "array": {"items", "prefixItems", "minItems", "maxItems"},
               "string": {"pattern", "format", "minLength", "maxLength"},
               "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
               "integer": {"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}}
SCHEMAS = ("items", "additionalProperties")
LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")
MAPS = ("properties", "$defs", "definitions")


class Tokens:
    """The vocabulary as llguidance wants it."""

    def __init__(self, vocabulary):
        tokens, ends = vocabulary
        self.special_token_ids = [id for id, token in enumerate(tokens) if not token]
        self.tokens = [token or b"<special %d>" % id for id, token in enumerate(tokens)]
        self.eos_token_id, self.bos_token_id = ends[0], None
        self.ids = {token: id for id, token in enumerate(tokens) if len(token) == 1}

    def __call__(self, text):
        return [self.ids[text[i:i + 1]] for i in range(len(text))]


def told(schema):
    """The schema with the rules of schema_check.h written out."""
    if not isinstance(schema, dict):
        return schema
    made = dict(schema)
    if isinstance(made.get("items"), list):
        made["prefixItems"], made["items"] = made["items"], made.pop("additionalItems", True)
    implied = [kind for kind, keywords in KEYWORDS_OF.items() if
               (used := {word for words in KEYWORDS_OF.values() for word in words} & set(made)) and used <= keywords]
    if "type" not in made and implied:
        made["type"] = implied[0]
    required = [name for name in made.get("required", ()) if name not in made.get("properties", {})]
    if made.get("properties") or required:
        made["properties"] = {**made.get("properties", {}), **{name: {} for name in required}}
        made["additionalProperties"] = False
    if "pattern" in made:
        made["pattern"] = "^(" + re.sub(r"^\^|(?<!\\)\$$", "", made["pattern"]) + ")$"
    for keyword in SCHEMAS:
        if keyword in made:
            made[keyword] = told(made[keyword])
    for keyword in LISTS:
        if keyword in made:
            made[keyword] = [told(one) for one in made[keyword]]
    for keyword in MAPS:
        if keyword in made:
            made[keyword] = {name: told(one) for name, one in made[keyword].items()}
    return made


class Place:
    """Where the end of a text stands in its JSON."""

    def __init__(self, text=b""):
        self.in_string, self.escaped, self.in_number, self.spaces = False, False, False, 0
        for byte in text:
            self.move(byte)

    def move(self, byte):
        char = chr(byte)
        if self.in_string:
            if self.escaped:
                self.escaped = False
            elif char == "\\":
                self.escaped = True
            elif char == '"':
                self.in_string = False
            return
        self.spaces = self.spaces + 1 if char in " \n\t\r" else 0
        self.in_number = char in "+-.eE0123456789" and (self.in_number or char in "-0123456789")
        self.in_string = char == '"'


def reason(schema_text, prefix, token, forced):
    """The rule by which the two may differ about `token` after `prefix`, where llguidance allows `forced` alone; None if there is
    none."""
    if forced.startswith(token) or token.startswith(forced) and forced:
        return "forced text: llguidance allows one way of writing it in tokens"
    if b"\x7f" in token:
        return "DEL: JSON allows it in strings, and llguidance does not"
    if re.search(r"\\\\[sSwWdD]", schema_text) and not token.isascii():
        return "classes: \\w, \\d and \\s are of ASCII, or of Unicode"
    if prefix.endswith(b"-") and token.startswith(b"0") and ('"multipleOf"' in schema_text or '"integer"' in schema_text):
        return "zero: Baton writes an integer's without a sign before it"
    place = Place(prefix)
    begins_in_string, begins_in_number, spaces = place.in_string, place.in_number, place.spaces > 0
    escapes = place.escaped
    for byte in token:
        place.move(byte)
        spaces |= place.spaces > 0
        escapes |= place.escaped
    if spaces:
        return "white space: at most one character, and none before or after the whole"
    if escapes or (begins_in_string and b"\\" in prefix[-6:]):
        return "escapes: strings are written with other escapes"
    if '"format"' in schema_text and (begins_in_string or place.in_string or b'"' in token):
        return "formats: each library has its own expressions"
    if (begins_in_number or place.in_number) and re.search(r'"(exclusiveM|m)(in|ax)imum"', schema_text):
        return "numbers with a bound: six decimals at most, no exponent"
    return None


class Comparison:
    def __init__(self, grammars):
        self.vocabulary, self.ends = grammars.vocabulary
        self.grammars = grammars
        self.tokenizer = llguidance.LLTokenizer(
            llguidance.TokenizerWrapper(Tokens(grammars.vocabulary)), eos_token=self.ends)
        self.prefixes, self.tokens, self.faults = collections.Counter(), collections.Counter(), []

    def matcher(self, schema):
        grammar = llguidance.LLMatcher.grammar_from_json_schema(
            told(schema), overrides={"whitespace_pattern": "[ \\n\\t\\r]?", "coerce_one_of": True, "lenient": True})
        return llguidance.LLMatcher(self.tokenizer, grammar, log_level=0)

    def case(self, case, prefixes):
        schema_text = json.dumps(case["schema"])
        begin = self.matcher(case["schema"])
        if begin.is_error():
            self.prefixes["not compared: llguidance refuses the schema"] += len(prefixes)
            return
        answer = self.grammars.of(case["schema"], prefixes=prefixes)
        for prefix, mask in zip(prefixes, answer["masks"]):
            matcher, text = begin.deep_copy(), b""
            for token in prefix:
                forced = matcher.compute_ff_bytes()
                if not matcher.consume_token(token):
                    self.differ(case, schema_text, text, {token}, "allowed by Baton alone", forced)
                    self.prefixes["different: llguidance refuses the prefix"] += 1
                    break
                text += self.vocabulary[token]
            else:
                self.masks(case, schema_text, text, bytes.fromhex(mask), matcher)

    def masks(self, case, schema_text, text, mask, matcher):
        forced = matcher.compute_ff_bytes()
        ours, theirs = (int.from_bytes(one[:len(mask)], "little") for one in (mask, matcher.compute_bitmask()))
        for alone, which in ((ours & ~theirs, "allowed by Baton alone"), (theirs & ~ours, "allowed by llguidance alone")):
            self.differ(case, schema_text, text, {id for id, bit in enumerate(bin(alone)[:1:-1]) if bit == "1"}, which, forced)
        self.prefixes["equal" if ours == theirs else "different by a rule"] += 1

    def differ(self, case, schema_text, text, ids, which, forced):
        unexplained = []
        for id in sorted(ids):
            rule = reason(schema_text, text, self.vocabulary[id], forced) if id not in self.ends else None
            self.tokens[f"{which}: {rule}"] += 1
            if rule is None:
                unexplained.append(self.vocabulary[id])
        if unexplained:
            self.faults.append(f"{schema_cases.title(case)}: after {text!r} {which}: {len(unexplained)} tokens such as {unexplained[:8]}")


def main():
    grammars = schema_cases.Grammars(*sys.argv[1:3])
    compared, rng = Comparison(grammars), random.Random(SEED)
    walked = []
    for number, case in enumerate(schema_cases.cases()):
        if schema_cases.title(case) in schema_cases.refused():
            continue
        walks = grammars.of(case["schema"], walks=1 + PREFIXES // 300, tokens=TOKENS, seed=SEED + number)["walks"]
        walked += [(case, walk["ids"][:-1] if walk["finished"] else walk["ids"]) for walk in walks]
    drawn = collections.defaultdict(list)
    for _ in range(PREFIXES):
        number = rng.randrange(len(walked))
        ids = walked[number][1]
        drawn[number].append(ids[:rng.randint(0, len(ids))])
    for number, prefixes in sorted(drawn.items()):
        compared.case(walked[number][0], prefixes)
    for counts in (compared.prefixes, compared.tokens):
        print("\n".join(f"{count:8} {what}" for what, count in sorted(counts.items())))
    if compared.faults:
        sys.exit(f"{len(compared.faults)} beginnings differ by no rule:\n" + "\n".join(compared.faults[:100]))


if __name__ == "__main__":
    main()
