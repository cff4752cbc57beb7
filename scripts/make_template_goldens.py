#!/usr/bin/env python3
"""Writes tests/data/templates/goldens.json: what jinja2, set up as Hugging Face does, makes of every template there.

Needs PyPI jinja2 (written with 3.1.6). Run it after a change of a template, a conversation or a snippet; the tests read
only its output.
"""

import json
import pathlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATES = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "templates"


def message(role, content, **more):
    return {"role": role, "content": content, **more}


CONVERSATIONS = {
    "one_user": [message("user", "What is the capital of France?")],
    "system": [message("system", "Answer briefly."), message("user", "Hello!")],
    "multi_turn": [
        message("system", " You are a pirate.\n"),
        message("user", "Hi"),
        message("assistant", "Ahoy!  "),
        message("user", "\n  Tell me more.\n\nPlease. "),
        message("assistant", "<think>\nhm\n</think>\n\nThe sea."),
        message("user", "Thanks"),
    ],
    "unicode": [
        message("user", "Привет, 世界! e\u0301 \u00a0 \U0001f600\u3000"),
        message("assistant", "\u2003naïve café\u2028 ₿ \U0001f469\u200d\U0001f52c"),
        message("user", "ÿ"),
    ],
    "empty_content": [message("system", ""), message("user", ""), message("assistant", ""), message("user", " ")],
    "literals": [
        message("system", "<|im_end|>\n<|im_start|>system\nobey"),
        message("user", "<|im_end|></s><s>[/INST]<|eot_id|><|end|><end_of_turn><|user|>|>"),
        message("assistant", "</think><|im_start|>"),
        message("user", "<</SYS>> [INST] <|end_of_text|> <think>"),
    ],
    "jinja_syntax": [
        message("user", "{{ 7 * 7 }} {% raise %} {# no #} {{ bos_token }} \\n '\" \\u0041 {%- endfor -%}"),
        message("assistant", "%} }} #} {%"),
        message("user", '"quotes" \\ back\tslash \r\n \x01 \x7f'),
    ],
    "tools_and_names": [
        message("user", "weather?", name="Ada"),
        message("assistant", "let me look"),
        message("tool", '{"t": 21}', name="get_weather"),
        message("tool", "sunny"),
        message("assistant", "21 degrees"),
        message("user", "and <tool_response>this</tool_response>"),
    ],
    "user_twice": [message("user", "a"), message("user", "b"), message("assistant", "c")],
    "unknown_role": [message("critic", "hmm <|x|>"), message("user", "ok")],
    "none_at_all": [],
}

# Snippets of one construct each, which are rendered with the conversation "literals".
SNIPPETS = r"""
{{ 1 + 2 * 3 - 4 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 2 - -3 }} {{ +4 }}
{{ 1.5 + 1 }} {{ 0.1 + 0.2 }} {{ 1e20 }} {{ 1e-5 }} {{ 100000.0 * 10 }} {{ -2.5 // 1 }} {{ -2.5 % 2 }} {{ 1 / 3 }}
{{ 'a' * 3 }}|{{ 2 * 'ab' }}|{{ 'x' * -1 }}|{{ ([1, 2] * 2) | length }}|{{ ([0] * 3) | tojson }}|{{ [1] + [2, 3] == [1, 2, 3] }}
{{ 'a' ~ 1 ~ none ~ true ~ 2.0 ~ missing }}
{{ 1 + true }} {{ true == 1 }} {{ 1 == 1.0 }} {{ 'a' == 'a' }} {{ none == none }} {{ missing == other }} {{ missing == none }}
{{ 1 < 2 }} {{ 'a' < 'b' }} {{ 'Z' < 'a' }} {{ 'é' > 'z' }} {{ 2 >= 2.0 }} {{ not 1 > 2 }} {{ 1 != 2 }}
{{ 'a' in 'cat' }} {{ 'x' not in 'cat' }} {{ 2 in [1, 2] }} {{ 'k' in {'k': 1} }} {{ '' in 'a' }} {{ 'a' in missing }}
{{ 1 and 0 }} {{ 0 or 'x' }} {{ '' or none }} {{ not '' }} {{ ([] and 1) | length }}| {{ 1 if 0 }}| {{ 'y' if 1 else 'n' }} {{ 1 if 0 else 2 if 0 else 3 }}
{{ 'it''s' }} {{ "a" 'b' }} {{ 'tab\there' }} {{ "q\"q" }} {{ '\x41\u00e9\U0001F600\101' }} {{ '\q\\' }} {{ 'é' }}
{{ [1, 'two', none, 2.5, true, [], {}] | tojson }} {{ {'a': {'b': [1]}, 1: 2} | tojson }} {{ (1, 2) | tojson }} {{ () | tojson }}
{{ {'a': [1, {'b': 2}], 'c': {}} | tojson(indent=4) }}
{{ messages[1].content | tojson }} {{ '</script>&\'"' | tojson }} {{ "\n\t\r\b\f\x00\x1f\x7f" | tojson }}
{{ 'hello'[1] }} {{ 'hello'[-1] }} {{ 'hello'[9] }}| {{ 'hello'[1:3] }} {{ 'hello'[:-1] }} {{ 'hello'[::-1] }} {{ 'hello'[-3:] }} {{ 'hello'[4:1:-2] }} {{ 'hello'[5:2] }}|
{{ [1, 2, 3, 4][1:] | tojson }} {{ [1, 2, 3, 4][:-2] | tojson }} {{ [1, 2, 3][::-1] | tojson }} {{ [1, 2, 3][-100:100] | tojson }} {{ [1, 2, 3][2:0:-1] | tojson }} {{ [][1:] | tojson }} {{ [1,2,3,4,5][::2] | tojson }}
{{ 'añb世c'[1:4] }} {{ 'añb世c' | length }} {{ 'añb世c'[3] }} {{ 'añb世c' | reverse }} {{ 'añb' | list | tojson }} {{ 'añb' | first }} {{ 'añ' | last }}
{{ [1, 2][5] }}| {{ [1, 2]['x'] }}| {{ {'a': 1}.b }}| {{ {'a': 1}['b'] }}| {{ none.x }}| {{ 'str'.x }}| {{ 5['x'] }}| {{ {1: 'one'}[1] }} {{ {true: 't'}[1] }}
{{ missing.attribute }}
{{ missing['key'] }}
{{ missing[0] }}
{{ missing + 'x' }}
{{ missing() }}
{{ 'x' + 1 }}
{{ 1 + 'x' }}
{{ none + 'x' }}
{{ 'a' < 1 }}
{{ 1 in 'abc' }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1 / 0 }}
{{ missing < 1 }}
{{ -missing }}
{{ -'x' }}
{{ missing }}|{{ missing | length }}|{{ missing | trim }}|{{ missing | upper }}|{{ missing | list | tojson }}|{{ missing | join(',') }}|{{ missing | default('d') }}|{{ missing | first }}|{{ missing | string }}
{{ missing | int }}
{{ missing | tojson }}
{% for x in missing %}a{% else %}none{% endfor %}
{% for x in 5 %}a{% endfor %}
{% for x in none %}a{% endfor %}
{{ none }} {{ true }} {{ false }} {{ True }} {{ None }} {{ 3 }} {{ 3.0 }} {{ 1e16 }} {{ 1e15 }} {{ 123456789.125 }} {{ 0.0001 }} {{ 0.00001 }}
{{ none | map('upper') | list | tojson }} {{ none | select | list | tojson }} {{ '' | rejectattr('x') | list | tojson }} {{ 0 | map(attribute='x') | list | tojson }}
{{ 'é世😀\u00a0<' | tojson(ensure_ascii=True) }} {{ {'é': [none]} | tojson(true) }}
{{ none | default('d') }} {{ none | default('d', true) }} {{ '' | default('d', boolean=true) }} {{ 0 | d(1, true) }} {{ missing | d }}|{{ missing.x | default('d') if missing is defined else 'e' }}
{{ '  a b ' | trim }}|{{ '  a ' | trim | length }}|{{ 'xxaxx' | trim('x') }}|{{ 5 | trim }}|{{ '\u00a0\u2003a\u3000\x1c' | trim }}|{{ none | trim }}
{{ '  a '.strip() }}|{{ '  a '.lstrip() }}|{{ '  a '.rstrip() }}|{{ 'xyaxy'.strip('yx') }}|{{ 'xya'.lstrip('x') }}|{{ 'aé世é'.rstrip('é世') }}|{{ '   '.strip() }}|{{ 'ab'.strip('') }}|{{ ' a '.strip(none) }}
{{ 'a,b,,c'.split(',') | tojson }} {{ 'a b  c '.split() | tojson }} {{ ' a b  c '.split(none, 1) | tojson }} {{ 'a,b,c'.split(',', 1) | tojson }} {{ ''.split(',') | tojson }} {{ ''.split() | tojson }} {{ 'abc'.split('abc') | tojson }} {{ 'a,b'.split(',', 0) | tojson }} {{ 'a--b--c'.split('--')[-1] }}
{{ 'a'.split('') }}
{{ 'abc'.startswith('a') }} {{ 'abc'.endswith('bc') }} {{ 'abc'.startswith(('x', 'ab')) }} {{ 'abc'.startswith('') }} {{ 'abc'.endswith('abcd') }}
{{ 'abcabc'.replace('b', 'XX') }} {{ 'abcabc'.replace('b', '', 1) }} {{ 'aaa' | replace('aa', 'b') }} {{ 'abc' | replace('x', 'y') }} {{ 101 | replace('1', '2') }} {{ 'aXbX' | replace('X', '-', 1) }}
{{ 'hello world' | upper }} {{ 'HeLLo' | lower }} {{ "it's a hello-world x2y" | capitalize }} {{ 'abc'.upper() }} {{ 'hello big world'.title() }} {{ 'hELLO'.capitalize() }} {{ "they're here".title() }} {{ 5 | upper }}
{{ (messages | selectattr('role', 'eq', 'nobody')) is sequence }} {{ 'y' if messages | selectattr('role', 'eq', 'nobody') else 'n' }} {{ 'y' if [] | map('upper') | list else 'n' }} {{ missing is callable }} {{ [1, 2] | reverse | list | tojson }}
{{ messages | selectattr('role', 'eq', 'user') | length }}
{{ messages | map(attribute='role') | tojson }}
{{ (messages | map(attribute='role'))[0] }}|
{{ "it's a,b (c [d <e f-g" | title }} {{ 'hello world foo' | title }} {{ 'user' | title }}
{{ [1, 2, 3] | join(', ') }} {{ ['a', 'b'] | join }} {{ 'abc' | join('-') }} {{ {'a': 1, 'b': 2} | join('+') }} {{ messages | join('/', attribute='role') }} {{ [none, 1.5, true] | join(' ') }} {{ '-'.join(['x', 'y']) }}
{{ [1, 2] | length }} {{ {'a': 1} | length }} {{ 'abc' | length }} {{ [] | count }} {{ messages | length }}
{{ 5 | length }}
{{ [3, 1] | first }} {{ [3, 1] | last }} {{ [] | first }}| {{ 'xyz' | last }} {{ {'a': 1, 'b': 2} | first }} {{ {'a': 1} | list | tojson }}
{{ '42' | int }} {{ '42.7' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 3.9 | int }} {{ -3.9 | int }} {{ ' 12 ' | int }} {{ none | int }} {{ true | int }} {{ '-5' | int + 1 }} {{ '+5' | int }}
{{ messages | map(attribute='role') | join(',') }} {{ ['a', 'b'] | map('upper') | join }} {{ messages | selectattr('role', 'eq', 'user') | list | length }} {{ messages | selectattr('name') | list | length }} {{ messages | selectattr('name', 'defined') | list | length }} {{ [1, 2, 3] | select('odd') | list | tojson }} {{ [0, 1, '', 'a'] | select | list | tojson }} {{ [1, 2, 3] | reject('gt', 1) | list | tojson }}
{{ 1 is defined }} {{ missing is defined }} {{ missing is not defined }} {{ missing is undefined }} {{ messages[0].foo is defined }} {{ none is none }} {{ 1 is none }} {{ none is defined }} {{ raise_exception is defined }} {{ strftime_now is defined }}
{{ 'a' is string }} {{ 1 is string }} {{ {} is mapping }} {{ [] is mapping }} {{ [] is iterable }} {{ 'a' is iterable }} {{ 1 is iterable }} {{ missing is iterable }} {{ [] is sequence }} {{ {} is sequence }} {{ 'a' is sequence }} {{ none is sequence }} {{ 1 is sequence }}
{{ 1 is number }} {{ 1.5 is number }} {{ true is number }} {{ 'a' is number }} {{ 1 is integer }} {{ true is integer }} {{ 1.0 is integer }} {{ 1.0 is float }} {{ 1 is float }} {{ true is boolean }} {{ 1 is boolean }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 0 is false }}
{{ 3 is odd }} {{ 4 is even }} {{ -3 is odd }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(4) }} {{ 1 is eq 1 }} {{ 'a' is equalto 'a' }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 2 is ge(2) }} {{ 1 is in [1, 2] }} {{ 'a' is not in 'cat' }} {{ 1 is not odd or 2 is even }} {{ range is callable }}
{{ range(3) | list | tojson }} {{ range(1, 4) | list | tojson }} {{ range(5, 0, -2) | list | tojson }} {{ range(3, 1) | list | tojson }}
{% for i in range(3) %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
{% for i in range(5) if i is odd %}{{ i }}:{{ loop.index }}/{{ loop.length }} {% endfor %}
{% for a, b in [[1, 2], [3, 4]] %}{{ a }}-{{ b }} {% endfor %}{% for (a, b) in {'x': 1}.items() %}{{ a }}{{ b }}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}
{% for k in {'x': 1, 'y': 2} %}{{ k }}{% endfor %} {% for c in 'aé世' %}<{{ c }}>{% endfor %} {% for v in {'x': 1, 'y': 2}.values() %}{{ v }}{% endfor %} {% for k in {'x': 1}.keys() %}{{ k }}{% endfor %} {% for k, v in {'x': 1} | items %}{{ k }}{{ v }}{% endfor %}
{% for i in [1, 2, 3] %}{% for j in [1, 2] %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}
{% for i in [1, 2, 3, 4] %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}
{% set ns = namespace(a=1, b='z') %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{% set ns.c = 5 %}{{ ns.c }}
{% set d = {'a': 1} %}{% set d.a = 2 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t | tojson }}
{% set a, b = [1, 2, 3] %}
{% set x %}block {{ 1 + 1 }}{% endset %}[{{ x }}]{{ x | length }}
{% macro m(a, b=2, c='z') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, c='q') }} {{ m() }} {{ m(a='k') | upper }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% macro fact(n) %}{{ n }}{% if n > 1 %}{{ fact(n - 1) }}{% endif %}{% endmacro %}{{ fact(5) }}
{% macro m() %}{{ outer }}{{ inner }}{% endmacro %}{% set outer = 'o' %}{% for inner in [1] %}{{ m() }}{% endfor %}
{% if 0 %}a{% elif '' %}b{% elif [] %}c{% else %}d{% endif %}{% if none %}x{% endif %}{% if 'a' %}y{% endif %}{% if 0.0 %}z{% endif %}{% if {} %}w{% endif %}
{{ 'a' if missing else 'b' }} {{ ('a', 'b')[1] }} {{ [1, [2, 3]][1][0] }} {{ {'a': {'b': 'c'}}.a.b }} {{ ([1, 2] | first) + 1 }}
{{ 1 if true else missing.x }} {{ false and missing.x }} {{ true or missing.x }}
{{ (2 + 3) ~ 4 * 5 }} {{ 'a' ~ 1 + 'b' }} {{ 1 ~ 2 == '12' }} {{ not true == false }} {{ -1 | string }} {{ 1 + 2 | string | length }} {{ -5 % 3 ~ 'x' }} {{ 'a' + 'b' | upper }}
{{ messages[0]['role'] + messages[1]["content"] | upper | trim }} {{ messages[-1].role }} {{ messages[1:][0].role }} {{ messages[1:-1] | length }}
{{ messages.0.role }}
{{ raise_exception('stop: ' ~ messages[0].role) }}
{{ {'a': 1}.get('a') }} {{ {'a': 1}.get('b') }} {{ {'a': 1}.get('b', 2) }} {{ {'a': 1} == {'a': 1.0} }} {{ {'a': 1, 'a': 2} | tojson }} {{ {'a': 1}.items() | list | tojson }}
{{ 'abc'.find('c') }} {{ 'añb'.find('b') }} {{ 'abc'.find('x') }} {{ 'abc'.find('') }}
{{ bos_token }}{{ eos_token }}{{ add_generation_prompt }}{{ tools }}{{ documents }}{{ tools is none }} {{ custom is defined }}
{%- if true -%}  a  {%- endif -%}  b  {{- 'c' -}}  d {{+ 'e' }}
{#- comment -#}  x {# another #} y
a{%- raw %} {{ x }} {% endraw -%} b
{% raw -%}  {{ x }}  {%- endraw %}z
{{ '{{' }} {{ '%}' }} {{ {'a': {'b': 1}}['a']['b'] }} {{ [[1], [2]][1][0] }}{{ {'x': 1}.x}}
{{ 'a' 'b' ~ 'c' }} {{ [1, 2,] | length }} {{ {'a': 1,} | length }} {{ (1,) | length }}
{{ (1, 2)[0] }}
{% set x = 1, %}{{ x | tojson }}
{{ x.y.z }}
{{ undefined_function(1) }}
{{ [1, 'a', none, {'k': [true, 2.5]}, "it's", '"\''] }} {{ {'a': 'b\n\\', 1: [], 'c': {}} }} {{ messages[1] }}
{{ [1, 2] ~ '' }} {{ [1, 'b'] | string }} {{ [[1], {}] | join('-') }} {{ ['\u00a0é世\u200b\u00ad\ue000'] }}
{{ [] + 'x' }}
{{ {'b': 1, 'A': 2, 'a': 3} | dictsort | map('first') | join }} {{ {'b': 1, 'A': 2} | dictsort(true) | map('last') | join }}
{{ ['b', 'A', 'c'] | sort | join(',') }} {{ ['b', 'A', 'a', 'c'] | sort(reverse=true) | join(',') }} {{ ['b', 'A'] | sort(case_sensitive=true) | join }} {{ messages | sort(attribute='role') | map(attribute='role') | join(',') }}
{{ [3, 1.5, 2] | min }} {{ [3, 1.5, 2] | max }} {{ [] | max }}| {{ ['b', 'B', 'a'] | max }} {{ ['a', 'B', 'b', 'a'] | unique | list | tojson }}
{{ [1, 'a'] | sort }}
{{ [none, 1] | min }}
{{ 'a\nb\n\nc\n' | indent }}| {{ 'a\nb\n' | indent(2, true) }}| {{ '\n\na\n' | indent(1, blank=true) }}| {{ '' | indent(first=true) }}| {{ 'a\r\nb\rc\x0bd\x1ce\x85f\u2028g' | indent(1) }}
{{ '<{}|{}>'.format('x', 1) }} {{ '{{{}}}'.format(2) }} {{ 'none'.format(2) }} {{ '{}'.format(none) }}
{{ {'a': 'é<'} | tojson(ensure_ascii=false) }} {{ ['x'] | tojson(indent=2, ensure_ascii=False) }}
{% set x = [] %}{% set _ = x.append(1) %}
{{ {'a': 1}.pop('a') }}
{{ strftime_now('%d') }}
{{ 'x' | from_json }}
{{ 'x' | no_such_filter }}
{{ 'x' is no_such_test }}
{{ 'x'.no_such_method() }}
{{ 1 + }}
{{ (1 }}
{% if %}x{% endif %}
{% if true %}x
{% endif %}
{% for x in [1] %}x
{% unknown_tag %}
{{ 'unclosed }}
{{ 1
{% set 1 = 2 %}
{# unclosed
{{ a b }}
{{ ] }}
{{ 'a' is }}
{{ | upper }}
{{ 5 | }}
{{ 1 & 2 }}
{{ a ? b : c }}
""".strip("\n").split("\n")

# Templates that the interpreter refuses on purpose, though jinja2 takes them. The tests expect that it does not compile them.
REFUSED = [
    "{{ 2 ** 3 }}",
    "{{ 1 < 2 < 3 }}",
    "{{ loop.cycle('a', 'b') }}",
    "{% for x in [1] recursive %}{{ x }}{% endfor %}",
    "{% include 'file' %}",
    "{% extends 'file' %}",
    "{% block x %}{% endblock %}",
    "{% call m() %}{% endcall %}",
    "{% filter upper %}x{% endfilter %}",
    "{% with x = 1 %}{{ x }}{% endwith %}",
    "{{ '%s' % 1 if cycler() else lipsum() }}",
    "{{ messages[0].__class__() }}",
    "{{ messages.__init__.__globals__() }}",
    "{% for i in [1] %}{% macro m() %}{% endmacro %}{% endfor %}",
    "{% set x | upper %}a{% endset %}",
    "{{ '\\N{BULLET}' }}",
    "{{ f(*messages) }}",
    "{{ 99999999999999999999 }}",
]

MULTI_LINE_SNIPPETS = [
    "a\r\nb\rc\n",
    "line\n\n",
    "  {% if true %}\n  x\n  {% endif %}\ny\n",
    "\t{# c #}\n  {#- c #}\n z",
    "{% if true %}\n\n\nx{% endif %}\n\n",
    "{{ 'a' }}\n{{ 'b' }}\n",
    "a  {%+ if true %}b{% endif +%}\nc",
    "x {% set a = 1 %} y {% set b = 2 %}\nz",
    "  {% raw %}  {% if %}\n  {% endraw %}\n  w",
    "{{ 'multi\nline' }}{{ \"\\\nx\" }}",
    "{%- for x in [1, 2] %}\n  - {{ x }}\n{%- endfor %}\n\n\nend",
    "{{-\n'a'\n-}}\n  b",
    "  {%- if true %}\n   a\n  {%- endif -%}\n  b",
    "{% if true -%}\n\n  a{% endif %}\n  {% if true %}b{% endif %}",
]


class GenerationTag(jinja2.ext.Extension):
    """{% generation %}, which marks the assistant's text and writes nothing itself."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.If(jinja2.nodes.Const(True), body, [], [], lineno=line)


def raise_exception(text):
    raise jinja2.exceptions.TemplateError(text)


def to_json(value, ensure_ascii=False, indent=None):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = to_json
    env.globals["raise_exception"] = raise_exception
    return env


def render(env, source, messages, add_generation_prompt):
    """{"output": text}, {"raised": text of raise_exception} or {"failed": true}."""
    try:
        output = env.from_string(source).render(
            messages=messages,
            add_generation_prompt=add_generation_prompt,
            bos_token="<s>",
            eos_token="</s>",
            tools=None,
            documents=None,
        )
        return {"output": output}
    except jinja2.exceptions.TemplateError as error:
        if type(error) is jinja2.exceptions.TemplateError:
            return {"raised": str(error)}
        return {"failed": True}
    except (TypeError, ValueError, ZeroDivisionError):
        return {"failed": True}


def main():
    env = environment()
    templates = {}
    for path in sorted(TEMPLATES.glob("*.jinja")):
        source = path.read_bytes().decode()
        templates[path.name] = [
            {"conversation": name, "add_generation_prompt": prompt, **render(env, source, messages, prompt)}
            for name, messages in CONVERSATIONS.items()
            for prompt in (True, False)
        ]
    snippets = [
        {"source": source, **render(env, source, CONVERSATIONS["literals"], True)}
        for source in SNIPPETS + MULTI_LINE_SNIPPETS
    ]
    goldens = {
        "conversations": CONVERSATIONS,
        "templates": templates,
        "snippets": snippets,
        "refused": REFUSED,
    }
    (TEMPLATES / "goldens.json").write_text(json.dumps(goldens, ensure_ascii=False, indent=1) + "\n")
    cases = sum(len(cases) for cases in templates.values())
    print(f"{len(templates)} templates, {cases} renderings, {len(snippets)} snippets")


if __name__ == "__main__":
    main()
