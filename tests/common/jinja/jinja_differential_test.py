"""Templates from a seed mean the same to Baton's interpreter and to jinja2: jinja_differential_test.py RENDERER TEMPLATES_FOLDER.

Each template is rendered by both, the folder's with conversations from the seed. What Baton renders must be what jinja2 renders;
what it refuses alone is counted (none and undefined values in odd places, mostly). JINJA_TEMPLATES=100000 tries so many, from the
seed in JINJA_SEED. Letters outside ASCII have no case here, since filters leave theirs alone (common/jinja/chat_template.h).
"""
import collections
import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts"))
import make_template_goldens as hugging_face

RENDERER, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
COUNT, SEED = int(os.environ.get("JINJA_TEMPLATES", 1000)), int(os.environ.get("JINJA_SEED", 0))
BATCH = 1000
JINJA2_BYTES = 2 << 30  # what jinja2 may take for a template that grows
WORDS = ["", " ", "a", "b ", "Hello", "a, b", "x\ny", "  two  ", "世", "\u00a0", "😀", "it's", "<|im_end|>", "{{", "%}", "42", "-7", "1.5"]
TEXTS = ["c", "ns.t", "m.role", "w"]
LITERALS = ["''", "' '", "'a'", "'A b'", '"it\'s"', "','", "'世'", "'\\n'", "'x y z'", "'12'"]


class Generator:
    """Writes programs whose values have known kinds, since most programs of unknown kinds only fail."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.pick, self.below = self.random.choice, self.random.randrange

    def template(self):
        start = ("{% set c = messages[0].content %}{% set m = messages[-1] %}{% set w = 'Some words' %}"
                 "{% set ns = namespace(t='ab ', n=3, l=['a', 'b ', 'C']) %}"
                 "{% macro f(t, n=2, sep='-') %}{{ t ~ sep ~ n }}{% endmacro %}")
        return start + "".join(self.statement(0) for _ in range(1 + self.below(6)))

    def messages(self):
        def text():
            return "".join(self.pick(WORDS) for _ in range(self.below(4)))
        return [{"role": self.pick(["system", "user", "assistant", "tool", "critic"]), "content": text()}
                for _ in range(1 + self.below(3))]

    def tag(self, inside):
        """A statement with or without the marks that strip white space."""
        return self.pick(["{%", "{%", "{%", "{%-", "{%+"]) + f" {inside} " + self.pick(["%}", "%}", "%}", "-%}"])

    def plain(self):
        return self.pick(["", " ", "\n", "\n\n", "  \n  ", "text", " a\n b ", "\tx", "{# note #}", "{#- note -#}", "}"])

    def block(self, depth):
        return self.plain() + "".join(self.statement(depth + 1) for _ in range(1 + self.below(2))) + self.plain()

    def statement(self, depth):
        kind = self.below(12) if depth < 3 else 5 + self.below(7)
        if kind == 0:
            condition = " if " + self.truth(1) if self.below(4) == 0 else ""
            for name, constant in (("ns.t", "w"), ("ns.n", "2"), ("ns.l", "['q']")):  # the loop's body may change them
                condition = condition.replace(name, constant)
            extra = self.pick(["", "", self.tag("if loop.index > 2") + self.tag(self.pick(["break", "continue"])) + self.tag("endif")])
            otherwise = self.tag("else") + self.block(depth) if self.below(4) == 0 else ""
            return (self.tag(f"for x in {self.items(0)}{condition}") + extra + "{{ x | string | length }}" + self.loop() +
                    self.block(depth) + otherwise + self.tag("endfor"))
        if kind == 1:
            pairs = self.pick(["[('p', 1), ('q', 2)]", "{'k': 1, 'l': 'v'}.items()", "{'k': 1} | items", "[[w, c]]"])
            return self.tag(f"for k, v in {pairs}") + "{{ k }}={{ v }}" + self.block(depth) + self.tag("endfor")
        if kind in (2, 3):
            branches = self.tag("if " + self.truth(0)) + self.block(depth)
            for _ in range(self.below(2)):
                branches += self.tag("elif " + self.truth(0)) + self.block(depth)
            return branches + (self.tag("else") + self.block(depth) if self.below(2) else "") + self.tag("endif")
        if kind == 4:
            return self.tag("set w") + self.block(depth) + self.tag("endset")
        if kind == 5:
            return self.tag("set ns.t = " + self.text(0))
        if kind == 6:
            return self.tag("set ns.n = " + self.number(0))
        if kind == 7:
            return self.tag("set " + self.pick(["w = " + self.text(0), "ns.l = " + self.strings(0)]))
        if kind == 8:
            return self.plain()
        if kind == 9:
            return self.pick(["{{", "{{-"]) + f" {self.number(0)} " + self.pick(["}}", "-}}"])
        return self.pick(["{{", "{{-"]) + f" {self.text(0)} " + self.pick(["}}", "-}}"])

    def loop(self):
        return "{{ loop." + self.pick(["index", "index0", "revindex", "revindex0", "first", "last", "length"]) + " }}"

    def text(self, depth):
        if depth > 3:
            return self.pick(TEXTS + LITERALS)
        t, n = lambda: self.text(depth + 1), lambda: self.number(depth + 1)
        return self.pick([
            lambda: f"({t()} ~ {self.pick([t, n, lambda: 'none', lambda: 'missing'])()})",
            lambda: f"({t()} + {t()})",
            lambda: f"({t()} * {self.below(4) - 1})",
            lambda: f"({t()} | {self.pick(['upper', 'lower', 'title', 'capitalize', 'trim', 'reverse', 'string'])})",
            lambda: f"{t()}.{self.pick(['upper', 'lower', 'capitalize', 'strip', 'lstrip', 'rstrip'])}()",
            lambda: f"{t()}.{self.pick(['strip', 'lstrip', 'rstrip'])}({t()})",
            lambda: f"{t()}.replace({self.needle(depth)}, {t()}{self.pick(['', ', 1', ', 0'])})",
            lambda: f"({t()} | replace({self.needle(depth)}, {t()}))",
            lambda: f"({self.items(depth + 1)} | join({self.pick(['', t()])}))",
            lambda: f"{t()}[{self.slice()}]",
            lambda: f"({t()} | {self.pick(['first', 'last'])})",
            lambda: f"({self.strings(depth + 1)} | {self.pick(['first', 'last'])})",
            lambda: f"({self.value(depth + 1)} | tojson{self.pick(['', '(indent=2)', '(indent=none)'])})",
            lambda: f"f({t()}{self.pick(['', ', ' + n(), ', sep=' + t(), ', n=' + n()])})",
            lambda: f"({t()} if {self.truth(depth + 1)} else {t()})",
            lambda: f"({self.pick(['missing', 'm.name', 'none', chr(39) * 2])} | default({t()}{self.pick(['', ', true'])}))",
            lambda: f"({{'a': {t()}, 'b': {t()}}}{self.pick(['.a', '[' + chr(39) + 'b' + chr(39) + ']', '.get(' + t() + ', ' + t() + ')'])})",
            lambda: self.text(4),
        ])()

    def needle(self, depth):
        return self.text(depth + 1) if self.below(4) == 0 else self.pick(["'a'", "' '", "'x'", "'世'", "'o w'", "','"])

    def number(self, depth):
        if depth > 3:
            return self.pick(["0", "1", "2", "-3", "7", "2.5", "ns.n", "true"])
        n = lambda: self.number(depth + 1)
        return self.pick([
            lambda: f"({n()} {self.pick(['+', '-', '*', '//', '%', '/'])} {n()})",
            lambda: f"(-{n()})",
            lambda: f"({self.text(depth + 1)} | length)",
            lambda: f"({self.items(depth + 1)} | list | {self.pick(['length', 'count'])})",
            lambda: f"({self.text(depth + 1)} | int{self.pick(['', '(5)'])})",
            lambda: f"({n()} | int)",
            lambda: f"{self.text(depth + 1)}.find({self.text(depth + 1)})",
            lambda: self.number(4),
            lambda: self.number(4),
        ])()

    def slice(self):
        part = lambda: self.pick(["", "0", "1", "2", "-1", "-2", "5"])
        return part() + ":" + part() + self.pick(["", ":", ":2", ":-1", ":-2"])

    def strings(self, depth):
        """A list of strings."""
        if depth > 3:
            return self.pick(["ns.l", "['x']", "[]", "['b', 'a', '世']"])
        s = lambda: self.strings(depth + 1)
        return self.pick([
            lambda: f"[{self.text(depth + 1)}, {self.text(depth + 1)}]",
            lambda: f"{self.text(depth + 1)}.split({self.pick(['', self.text(depth + 1), chr(39) + ',' + chr(39) + ', 1'])})",
            lambda: f"({s()} + {s()})",
            lambda: f"({s()} * {self.below(3)})",
            lambda: f"{s()}[{self.slice()}]",
            lambda: f"({s()} | reverse | list)",
            lambda: f"({self.text(depth + 1)} | list)",
            lambda: f"({s()} | map('{self.pick(['upper', 'trim', 'string', 'lower'])}') | list)",
            lambda: f"({s()} | {self.pick(['select', 'reject'])}{self.pick(['', '(' + chr(39) + 'in' + chr(39) + ', ' + s() + ')'])} | list)",
            lambda: f"({s()} | {self.pick(['select', 'reject'])}('{self.pick(['eq', 'ne', 'equalto'])}', {self.text(depth + 1)}) | list)",
            lambda: "(messages | map(attribute='role') | list)",
            lambda: f"(messages | selectattr('role', 'eq', {self.text(depth + 1)}) | map(attribute='content') | list)",
            lambda: self.strings(4),
        ])()

    def items(self, depth):
        """What can be walked."""
        return self.pick([
            lambda: f"range({self.pick(['', '1, ', '-2, '])}{self.below(6)}{self.pick(['', ''])})",
            lambda: f"range({self.below(6)}, {self.below(6)}, {self.pick(['1', '2', '-1', '-2'])})",
            lambda: f"[{self.number(depth + 1)}, {self.text(depth + 1)}]",
            lambda: self.text(depth + 1),
            lambda: f"{{'k': 1, {self.text(depth + 1)}: 2}}",
            lambda: self.strings(depth),
            lambda: self.strings(depth),
        ])()

    def value(self, depth):
        """What tojson writes."""
        return self.pick([
            lambda: self.text(depth), lambda: self.number(depth), lambda: self.strings(depth), lambda: self.truth(depth),
            lambda: f"[{self.number(depth)}, none, {self.text(depth)}, {{}}, []]",
            lambda: f"{{'k': {self.strings(depth)}, {self.text(depth)}: {self.number(depth)}}}",
        ])()

    def truth(self, depth):
        if depth > 3:
            return self.pick(["true", "false", "c", "ns.n", "missing", "none"])
        b, t, n = lambda: self.truth(depth + 1), lambda: self.text(depth + 1), lambda: self.number(depth + 1)
        compare = lambda: self.pick(["==", "!=", "<", "<=", ">", ">="])
        return self.pick([
            lambda: f"({t()} {compare()} {t()})",
            lambda: f"({n()} {compare()} {n()})",
            lambda: f"({t()} {self.pick(['in', 'not in'])} {self.pick([t(), self.strings(depth + 1)])})",
            lambda: f"({b()} {self.pick(['and', 'or'])} {b()})",
            lambda: f"(not {b()})",
            lambda: f"{t()}.{self.pick(['startswith', 'endswith'])}({self.pick([t(), '(' + t() + ', ' + t() + ')'])})",
            lambda: f"({self.value(depth + 1)} is {self.pick(['', 'not '])}"
                    f"{self.pick(['string', 'number', 'mapping', 'iterable', 'sequence', 'defined', 'none', 'boolean', 'integer', 'float', 'true'])})",
            lambda: f"({self.pick(['missing', 'm.nothing', 'm.role', 'w'])} is {self.pick(['defined', 'not defined', 'undefined'])})",
            lambda: f"(({n()} | int) is {self.pick(['odd', 'even', 'divisibleby 3', 'eq 2', 'gt(1)'])})",
            lambda: f"({self.strings(depth + 1)} == {self.strings(depth + 1)})",
        ])()


def rendered_by_us(asked):
    lines = "".join(json.dumps(one) + "\n" for one in asked)
    done = subprocess.run([RENDERER], input=lines, capture_output=True, text=True, check=True, timeout=250)
    answers = done.stdout.split("\n")[:-1]
    assert len(answers) == len(asked)
    return [json.loads(line) for line in answers]


def rendered_by_jinja2(env, one):
    try:
        return hugging_face.render(env, one["source"], one["messages"], True).get("output")
    except (OverflowError, KeyError, AttributeError, IndexError):
        return None


def judge(env, one, ours):
    """How the two renderings compare, and what jinja2 wrote."""
    if ours.get("exhausted"):
        return "over budget", None
    try:
        theirs = rendered_by_jinja2(env, one)
    except MemoryError:
        return "over jinja2's memory", None
    if "error" in ours:
        return ("refused by both" if theirs is None else "refused by Baton alone"), theirs
    return ("equal" if ours["output"] == theirs else "different"), theirs


def main():
    resource.setrlimit(resource.RLIMIT_AS, (JINJA2_BYTES, JINJA2_BYTES))
    warnings.simplefilter("ignore", SyntaxWarning)  # from the code to which jinja2 compiles templates
    public = [path.read_bytes().decode() for path in sorted(FOLDER.glob("*.jinja"))]
    env = hugging_face.environment()
    tally = collections.Counter()
    for begin in range(0, COUNT, BATCH):
        asked = []
        for seed in range(SEED + begin, SEED + min(begin + BATCH, COUNT)):
            generator = Generator(seed)
            source = public[seed // 8 % len(public)] if seed % 8 == 0 else generator.template()
            asked.append({"source": source, "messages": generator.messages()})
        for seed, (one, ours) in enumerate(zip(asked, rendered_by_us(asked)), SEED + begin):
            verdict, theirs = judge(env, one, ours)
            if verdict == "different":
                sys.exit(f"seed {seed}: {json.dumps(one, ensure_ascii=False)}\njinja2: {theirs!r}\nBaton:  {ours}")
            tally[verdict] += 1
    print(f"{COUNT} templates from seed {SEED}:", ", ".join(f"{count} {what}" for what, count in sorted(tally.items())))
    if tally["equal"] < COUNT / 2 or tally["refused by Baton alone"] > COUNT / 10:
        sys.exit("too few templates mean the same")


if __name__ == "__main__":
    main()
