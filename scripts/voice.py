#!/usr/bin/env python3
"""Counts turns of phrase that readers have to read twice, in comments, flag helps, CHECK messages and pages of docs/.

    scripts/voice.py                       hits of each kind, in the product and in tests
    scripts/voice.py --by-file             and the files that have most
    scripts/voice.py --list KIND           each hit of the kind
    scripts/voice.py --new [--base REF]    hits that the merge base with main, or REF, did not have; exit code 1 if any

The kinds and their remedies are in MARKERS. Words between quotation marks or backticks are not read, since they quote something.
A phrase that a marker refuses although it is right belongs in RIGHT.

A hit is new if the changed files have it more often than before. So a line that moves, within a file or to another one, is not
new, and a deleted line may make room for an equal one.
"""

import argparse
import bisect
import collections
import io
import pathlib
import re
import subprocess
import sys
import tokenize
from dataclasses import dataclass
from typing import Callable

import cpp_outline
import tidy

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPP = (".h", ".cc", ".cu")
SLASHES = (*CPP, ".proto", ".js")
SUFFIXES = (*SLASHES, ".py", ".sh")
PAGE = re.compile(r"docs/[^/]*\.md|README\.md|CONTRIBUTING\.md|SECURITY\.md")
GENERATED_PAGES = ("docs/planted_bugs.md",)
# Copies of other people's files, and data of tests.
NOT_OURS = ("proto/google/", "proto/grpc/", "router/page/vendor/", "tests/data/")

HASH_COMMENT = re.compile(r"(?:^|\s)#\s(.*)$")
QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”")
LINK_TARGET = re.compile(r"\]\([^)]*\)")
FLAG = re.compile(r"\bflags_?(?:\.|->)(?:Add[A-Z]?\w*|AllowPositional)\s*\(")
CHECK = re.compile(r"\bBATON_CHECK\s*\(")
MOST_WORDS_OF_A_FRAGMENT = 3


@dataclass(frozen=True)
class Text:
    """What is read at one go: a comment, a flag's help, a CHECK message, or a paragraph, list item or table cell of a page."""

    kind: str  # "comment", "help", "check" or "page"
    lines: tuple[tuple[int, str], ...]  # number in the file, and the words there

    def joined(self):
        return " ".join(words for _, words in self.lines)

    def line_at(self, offset):
        starts, position = [], 0
        for _, words in self.lines:
            starts.append(position)
            position += len(words) + 1
        return self.lines[bisect.bisect_right(starts, offset) - 1][0]


@dataclass(frozen=True)
class Hit:
    path: str
    line: int
    kind: str
    quote: str  # the words around it, by which equal hits are recognised

    def __str__(self):
        return f"{self.path}:{self.line}: {self.quote}"


@dataclass(frozen=True)
class Marker:
    title: str
    remedy: str
    where: tuple[str, ...]  # kinds of text
    find: Callable[[str], list[int]]  # offsets in the words, quoted ones blanked


def pattern(expression):
    """Finds the expression anywhere."""
    compiled = re.compile(expression)
    return lambda words: [match.start() for match in compiled.finditer(words)]


# A relative clause that begins a comment; "That ..." with a capital begins a sentence.
HEADLESS = re.compile(r"(?:that(?! is,| way\b)|which|whose|who|whom|whoever|Whose|Whoever)\b")
QUESTION_WORD = re.compile(
    r"(?:^|(?<=[.!?;] )|(?<=[.!?] {2}))(?:What|Which|Whose|Whoever|Who|How(?! to\b))\b[^.?!:]*(?P<end>[.?!:]|$)")
LOWER_QUESTION_WORD = re.compile(r"(?:what|how(?! to\b))\b")


def find_headless(words):
    return [0] if HEADLESS.match(words) else []


def find_question_words(words):
    found = [match.start() for match in QUESTION_WORD.finditer(words) if match["end"] not in ("?", ":")]
    return [0] if LOWER_QUESTION_WORD.match(words) else found


# "Where" says a condition if a result stands in front or a state follows, and no place is spoken of.
WHERE = re.compile(r"\b[Ww]here\b")
RESULT_BEFORE = re.compile(
    r"\b(?:[Nn]one|[Nn]othing|[Nn]ull|nullopt|[Ee]mpty|[Ff]alse|[Tt]rue|[Zz]ero|0|1|undefined|[Ee]lse|[Aa]lso|[Ee]ven"
    r"|[Oo]nly|except|but|absent|[A-Z]{4,}(?:_[A-Z]+)*),? $")
SUBJECT = r"(?:it|they|this|that|these|those|one|either|neither|both|all|not all|the [-\w]+|an? [-\w]+|its [-\w]+|q+)"
# A clause that ends with "is" names a place: "where it is".
STATE_BEHIND = re.compile(
    r" (?:there (?:is|are|was|were)\b|" + SUBJECT + r" (?:(?:is|are|was|were|did)(?= \w)|has|have|had|can|cannot|does|do|must"
    r"|needs?|allows?|says?|wants?)\b)")
LACK_BEHIND = re.compile(r" (?:no|neither|nothing|none|possible|needed|necessary)\b")
PLACE_BEFORE = re.compile(
    r"\b(?:to|from|of|at|is|are|was|were|stays?|knows?|says?|sees?|finds?|found|prints?|names?|shows?|tells?|told|remembers?"
    r"|records?|returns?|matter|points?|places?|begins?|ends?|stands?|lies?|folder|file|line|positions?|offset|address|slots?"
    r"|blocks?|pages?|memory|buffers?|columns?|rows?|stages?|and|or|up|exactly|here,|beginnings,) $", re.IGNORECASE)
PLACE_BEHIND = re.compile(
    r"\b(?:begins?|began|ends?|ended|lies?|lay|stands?|stood|lives?|stored|comes?|came|goes|went|starts?|stopped|stops|waits?"
    r"|runs?|meets?|placed|written|happens?|happened|used|built|made|generated|received|pushed|computed|added|defined|prefilled"
    r"|compiled|installed|unpacked|held|failed)\b|\b(?:is|are) (?:until|while|after|when)\b")


def find_where(words):
    found = []
    for match in WHERE.finditer(words):
        before, behind = words[: match.start()], re.split(r"[,.;:]", words[match.end():], maxsplit=1)[0]
        if PLACE_BEFORE.search(before) or PLACE_BEHIND.search(behind):
            continue
        lacks = LACK_BEHIND.match(behind) and not before.endswith(", ")
        if RESULT_BEFORE.search(before) or STATE_BEHIND.match(behind) or lacks:
            found.append(match.start())
    return found


def find_fragment(words):
    return [0] if len(words.split()) <= MOST_WORDS_OF_A_FRAGMENT else []


PROSE = ("comment", "help", "page")
MARKERS = {
    "of": Marker('comments that begin with "of"', 'begin with the noun: "payload bytes", not "of the payloads"',
                 ("comment", "help"), lambda words: [0] if re.match(r"[Oo]f\b", words) else []),
    "headless": Marker("relative clauses without a noun", 'name the noun: "tokens that the worker holds", not "that the worker holds"',
                       ("comment", "help"), find_headless),
    "what": Marker("what, how or who instead of a noun or verb",
                   'name the subject or begin with a verb: "Reports the progress of ...", not "How far ... is"', PROSE,
                   find_question_words),
    "where": Marker("where instead of if or when", 'a condition is "if" or "when"; "where" is a place', PROSE, find_where),
    "told": Marker("tells, told", 'the field\'s verbs: reports, returns, sends, receives; people may "tell apart"', PROSE,
                   pattern(r"\b(?:[Tt]ells?|[Tt]old|[Tt]elling)\b(?!(?: \w+){0,4} apart\b)")),
    "he": Marker("he, his", 'name the thread, caller or request, or write "it"; a person is "they"', (*PROSE, "check"),
                 pattern(r"(?<![-\w])(?:[Hh]e|[Hh]is|[Hh]im|[Hh]imself|[Ss]he|[Hh]ers?)\b(?!-)")),
    "nobody": Marker("nobody, somebody, whoever", "name the thread, caller or component that reads, waits or writes",
                     ("comment", "help", "check"), pattern(r"\b(?:[Nn]obody|[Ss]omebody|[Aa]nybody|[Ww]hoever)\b")),
    "so many": Marker("so many for an amount", 'name the amount: "at most this many tokens", "the first `count` bytes"',
                      (*PROSE, "check"), pattern(r"\b[Ss]o (?:many|few|much)\b(?![^.;]*\b(?:that|as)\b)")),
    "verbs": Marker("hears, obeys, vouches, gives way", "the field's verbs: receives, matches, certifies, is evicted or replaced", PROSE,
                    pattern(r"\b(?:[Oo]beys?|obeyed|obeying|[Vv]ouch\w*|[Hh]ears?|[Hh]eard|[Gg]ives? way|gave way|giving way)\b")),
    "check": Marker("CHECK messages of three words or fewer", 'say the violated rule: "`used` must be 1 to 8"', ("check",),
                    find_fragment),
}
# Phrases that are right as they are.
RIGHT = ()


def ours(path):
    """Whether the words of the file count."""
    return (path.endswith(SUFFIXES) and not path.startswith(NOT_OURS)) or is_page(path)


def is_page(path):
    return PAGE.fullmatch(path) is not None and path not in GENERATED_PAGES


def texts(path, content):
    """All texts of a file, in the order of their lines for each kind."""
    if is_page(path):
        return list(_paragraphs(content))
    found = [Text("comment", lines) for lines in comments(path, content)]
    if path.endswith(CPP):
        found += _literals(content, FLAG, "help")
        found += _literals(content, CHECK, "check")
    return found


def comments(path, content):
    """The comments of a source, each as (line, words) of its lines. A line of nothing but comment goes on with the line above.
    The docstrings of Python are comments, too."""
    lines = content.split("\n")
    docstrings = []
    if path.endswith(SLASHES):
        found = cpp_outline.line_comments(content)
    elif path.endswith(".py"):
        found, docstrings = _python_comments(content)
    else:
        matches = {number: HASH_COMMENT.search(line) for number, line in enumerate(lines, start=1)}
        found = {number: match.group(1) for number, match in matches.items() if match}
    blocks = []
    for number, words in found.items():
        goes_on = number - 1 in found and lines[number - 1].lstrip().startswith(("//", "#"))
        if not goes_on:
            blocks.append([])
        blocks[-1].append((number, words.strip()))
    return [tuple(block) for block in blocks] + docstrings


def _python_comments(content):
    """The comments by line, and the docstrings as texts of their paragraphs."""
    found, docstrings = {}, []
    may_begin = True  # a string that stands here is a docstring
    try:
        for token in tokenize.generate_tokens(io.StringIO(content).readline):
            if token.type == tokenize.COMMENT:
                if re.match(r"#\s", token.string):
                    found[token.start[0]] = token.string[1:]
            elif token.type == tokenize.STRING and may_begin:
                docstrings += _blocks(token.start[0], token.string.strip("rbuRBU").strip("'\"").split("\n"))
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                may_begin = token.type in (tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.ENCODING)
    except (tokenize.TokenError, IndentationError):
        pass  # the linters say it better
    return found, docstrings


def _blocks(first_line, lines):
    """The runs of lines that are not empty, as texts."""
    blocks = [[]]
    for number, line in enumerate(lines, start=first_line):
        if line.strip():
            blocks[-1].append((number, line.strip()))
        elif blocks[-1]:
            blocks.append([])
    return [tuple(block) for block in blocks if block]


def _literals(content, call, kind):
    """The last literal of each call: its CHECK message or, as neither a flag's name nor its choices have spaces, the help."""
    if call.search(content) is None:
        return []
    bare = cpp_outline.bare(content)
    found = []
    for match in call.finditer(bare):
        end = _closing(bare, match.end())
        groups = [[]]
        position = match.end()
        for literal in cpp_outline.TOKEN.finditer(content, match.end(), end):
            if not literal.group().startswith('"'):
                continue
            if bare[position:literal.start()].strip() and groups[-1]:
                groups.append([])
            line = content.count("\n", 0, literal.start()) + 1
            groups[-1].append((line, literal.group()[1:-1].strip()))
            position = literal.end()
        groups = [group for group in groups if group]
        if kind == "help":  # the choices of a flag stand behind its help
            groups = [group for group in groups if any(" " in words for _, words in group)]
        found += [Text(kind, tuple(group)) for group in groups[-1:]]
    return found


def _closing(bare, position):
    """Where the parenthesis closes that opens before `position`."""
    depth = 1
    for match in re.compile(r"[()]").finditer(bare, position):
        depth += 1 if match.group() == "(" else -1
        if depth == 0:
            return match.start()
    return len(bare)


def _paragraphs(content):
    """The paragraphs, list items and table cells, without headings, code and the first row of a table."""
    block, in_code, row = [], False, 0
    for number, line in enumerate(content.split("\n"), start=1):
        words = line.strip()
        if words.startswith("```"):
            in_code = not in_code
        begins = in_code or not words or words.startswith(("#", "|", "```", "<", "- ", "* ")) or re.match(r"\d+\. ", words)
        if begins and block:
            yield Text("page", tuple(block))
            block = []
        row = row + 1 if words.startswith("|") else 0
        if in_code or not words or words.startswith(("#", "```", "<")):
            continue
        if row:
            if row > 2:
                yield from (Text("page", ((number, cell.strip()),)) for cell in words.strip("|").split("|") if " " in cell.strip())
            continue
        block.append((number, re.sub(r"^(?:[-*]|\d+\.) ", "", words)))
    if block:
        yield Text("page", tuple(block))


def blanked(words):
    """The words with quoted ones and link targets replaced by a word of the same length."""
    words = LINK_TARGET.sub(lambda match: "]" + "q" * (len(match.group()) - 1), words)
    words = QUOTED.sub(lambda match: "q" * len(match.group()), words)
    for phrase in RIGHT:
        words = words.replace(phrase, "q" * len(phrase))
    return words


def hits(path, content):
    """All hits in a file. The quote is the hit with two words before and three behind."""
    found = []
    for text in texts(path, content):
        words = text.joined()
        read = blanked(words)
        for kind, marker in MARKERS.items():
            if text.kind not in marker.where:
                continue
            for offset in marker.find(words if kind == "check" else read):
                before, behind = words[:offset].split()[-2:], words[offset:].split()[:4]
                found.append(Hit(path, text.line_at(offset), kind, " ".join(before + behind)))
    return found


def new_hits(old, new):
    """The hits in `new` beyond those in `old`, both the contents of files by path. Equal words count as the same hit."""
    left = collections.Counter((hit.kind, hit.quote) for path, content in old.items() for hit in hits(path, content))
    found = []
    for path, content in new.items():
        for hit in hits(path, content):
            if left[hit.kind, hit.quote] > 0:
                left[hit.kind, hit.quote] -= 1
            else:
                found.append(hit)
    return found


def changed(root, base):
    """The files that differ from the commit, as they were there and as they are: two dictionaries of contents by path."""

    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=root, check=False, capture_output=True, text=True)

    listed = git("diff", "--name-only", "--no-renames", base)
    if listed.returncode != 0:
        sys.exit(f"voice: --base {base}: git knows no such commit")
    names = listed.stdout.splitlines() + git("ls-files", "--others", "--exclude-standard").stdout.splitlines()
    old, new = {}, {}
    for name in filter(ours, sorted(names)):
        before = git("show", f"{base}:{name}")
        if before.returncode == 0:
            old[name] = before.stdout
        if (root / name).is_file():
            new[name] = (root / name).read_text(encoding="utf-8")
    return old, new


def tracked(root):
    """The contents of all files whose words count, by path."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, check=True, capture_output=True, text=True)
    return {name: (root / name).read_text(encoding="utf-8") for name in sorted(names.stdout.splitlines())
            if ours(name) and (root / name).is_file()}


def refuse_new(base):
    found = new_hits(*changed(ROOT, base or tidy.default_base()))
    for hit in found:
        print(f"{hit.path}:{hit.line}: voice ({hit.kind}): \"{hit.quote}\": {MARKERS[hit.kind].remedy}")
    return 1 if found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", choices=list(MARKERS), metavar="KIND", help=f"each hit of one kind: {', '.join(MARKERS)}")
    parser.add_argument("--by-file", action="store_true", help="the 40 files with most hits")
    parser.add_argument("--new", action="store_true", help="print new hits only; exit with 1 if there are any")
    parser.add_argument("--base", help="with --new: the commit to compare with")
    parser.add_argument("--all", action="store_true", help="with --new: changes nothing, since an old hit is not new in any file")
    arguments = parser.parse_args()
    if arguments.new:
        return refuse_new(arguments.base)
    found = [hit for path, content in tracked(ROOT).items() for hit in hits(path, content)]
    if arguments.list:
        print("\n".join(str(hit) for hit in found if hit.kind == arguments.list))
        return 0
    print(f"{'kind':10} {'product':>8} {'tests':>8}")
    for kind, marker in MARKERS.items():
        in_tests = sum(hit.path.startswith("tests/") for hit in found if hit.kind == kind)
        total = sum(hit.kind == kind for hit in found)
        print(f"{kind:10} {total - in_tests:8} {in_tests:8}  {marker.title}")
    if arguments.by_file:
        by_file = collections.defaultdict(collections.Counter)
        for hit in found:
            by_file[hit.path][hit.kind] += 1
        for path, kinds in sorted(by_file.items(), key=lambda item: (-item[1].total(), item[0]))[:40]:
            print(f"{kinds.total():5}  {path}: {', '.join(f'{kind} {number}' for kind, number in kinds.most_common())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
