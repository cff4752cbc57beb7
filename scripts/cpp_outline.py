"""What C++ files hold, read without a compiler: includes, comments, and by their brackets the classes and functions. And which tests
are a file's own."""

import bisect
import posixpath
import re
from dataclasses import dataclass

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
# Matches comments and literals. The ' in 1'000 does not begin a literal.
TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r'|R"(?P<mark>[^\s()\\]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
# Matches what TOKEN does, joined lines, names, numbers and operators. The >> of nested templates is two tokens, as the compiler has it.
PIECE = re.compile(
    TOKEN.pattern
    + r"|\\\n|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|'?[\w.])*"
    r"|<<=?|<=|>=|==|!=|&&|\|\||->|::|\+\+|--|\.\.\.|[-+*/%&|^]=|\S",
    re.DOTALL,
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
NOT_NEWLINE = re.compile(r"[^\n]")
BRACKET = re.compile(r"[{}();]")
GOES_ON = re.compile(r"\s*[,{]")
ANGLES = re.compile(r"<[^<>]*>")
ROUNDS = re.compile(r"\([^()]*\)")
BEFORE_HEAD = re.compile(r"(?:\s|(?:public|private|protected)\s*:(?!:))*")
TEMPLATE = re.compile(r"^template\b")
ATTRIBUTE = re.compile(r"\[\[.*?\]\]|\balignas\s*\([^()]*\)|\bfinal\b", re.DOTALL)
CLASS = re.compile(r"(?:class|struct|union)\s+((?:\w+::)*)(\w+)\s*(?:(?<!:):(?!:).*)?$", re.DOTALL)
MEMBER = re.compile(r"((?:\w+::)+)(?:~?\w+|operator\b.*)\s*$", re.DOTALL)


@dataclass(frozen=True)
class Definition:
    """The body of a class, or a function. A nested class that stands outside its outer one is a part of that."""

    first_line: int
    lines: int
    is_function: bool = False
    is_class: bool = False  # this is the body of `owner`
    owner: str = ""  # the outermost class that this is, or to which it belongs if it stands outside


def own_tests(path, tests, text_of):
    """The tests of a C++ file: the one of its name at its mirrored place in tests/, and those that include its header, beside that place
    for a file of the product and anywhere for one of tests/. `tests` are the paths of all test sources, `text_of(path)` a source's text."""
    stem = posixpath.splitext(path)[0]
    folder = f"tests/{posixpath.dirname(path)}"
    near = [test for test in tests if path.startswith("tests/") or posixpath.dirname(test) == folder]
    return {test for test in near if test == f"tests/{stem}_test.cc" or f"{stem}.h" in includes(text_of(test))}


def includes(text):
    """The names between quotation marks."""
    return INCLUDE.findall(text)


def line_comments(text):
    """Text behind // by the number of its line."""
    found, line, position = {}, 1, 0
    for match in TOKEN.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        if match.group().startswith("//"):
            found[line] = match.group()[2:]
    return found


def string_literals(text):
    """The literals outside comments, without their quotation marks. Neighbouring ones are one, as they are to the compiler."""
    found, end = [], None
    for match in TOKEN.finditer(text):
        if match.group().startswith('"'):
            if end is None or text[end : match.start()].strip():
                found.append("")
            found[-1] += match.group()[1:-1]
            end = match.end()
    return found


def code_tokens(text, begin=0):
    """Yields (begin, end) of each token of the code from `begin` on: comments, blanks and line breaks are left out."""
    for match in PIECE.finditer(text, begin):
        if not match.group().startswith(("//", "/*", "\\\n")):
            yield match.span()


def bare(text):
    """The text without comments, literals and directives; all other characters stay at their places."""

    def blank(match):
        return NOT_NEWLINE.sub(" ", match.group())

    return DIRECTIVE.sub(blank, TOKEN.sub(blank, text))


def outline(text):
    """All classes at namespace scope, and all functions: free ones, members, and those in the bodies of classes."""
    code = bare(text)
    return _Outline(code).collect(0, len(code), in_class=False)


class _Outline:
    def __init__(self, code):
        self.code = code
        self.line_ends = [match.start() for match in re.finditer("\n", code)]
        self.closing = {}  # position of an opening brace -> position of its closing brace
        opened = []
        for match in re.finditer("[{}]", code):
            if match.group() == "{":
                opened.append(match.start())
            elif opened:
                self.closing[opened.pop()] = match.start()

    def collect(self, begin, end, in_class):
        found = []
        for start, opening, closing in self.blocks(begin, end):
            found += self.classify(start, opening, closing, in_class)
        return found

    def blocks(self, begin, end):
        """The declarations with braces between `begin` and `end`: where each begins, and its last pair of braces."""
        start = position = begin
        depth = 0
        while (match := BRACKET.search(self.code, position, end)) is not None:
            position = match.end()
            if match.group() == "(":
                depth += 1
            elif match.group() == ")":
                depth -= 1
            elif match.group() == "{":
                closing = self.closing.get(match.start(), end)
                position = closing + 1
                # If a comma or brace follows, the braces initialise a member or one of several variables.
                if depth == 0 and not GOES_ON.match(self.code, position):
                    yield start, match.start(), closing
                    start = position
            elif depth == 0:  # ; ends a declaration, } is the end of an #else branch
                start = position

    def classify(self, start, opening, closing, in_class):
        start = BEFORE_HEAD.match(self.code, start).end()
        head = ATTRIBUTE.sub("", _without(ANGLES, self.code[start:opening])).strip()
        head = TEMPLATE.sub("", head).strip()
        if head.startswith(("namespace", "inline namespace")) or head == "extern":
            return self.collect(opening + 1, closing, in_class)
        first_line = self.line(start)
        lines = self.line(closing) - first_line + 1
        if (found := CLASS.match(head)) is not None:
            inside = self.collect(opening + 1, closing, in_class=True)
            if in_class:
                return inside
            outer = _outermost(found.group(1))
            return [Definition(first_line, lines, is_class=not outer, owner=outer or found.group(2)), *inside]
        if "(" not in head or "=" in re.sub(r"operator\s*\W+", "", _without(ROUNDS, head)):
            return []
        member = MEMBER.search(head[: head.index("(")])
        owner = _outermost(member.group(1)) if member and not in_class else ""
        return [Definition(first_line, lines, is_function=True, owner=owner)]

    def line(self, position):
        return bisect.bisect_left(self.line_ends, position) + 1


def _without(pattern, text):
    """The text without what the pattern finds, innermost first."""
    while (shorter := pattern.sub("", text)) != text:
        text = shorter
    return text


def _outermost(scopes):
    """The first class in "baton::Engine::Rep::"; namespaces begin with a small letter."""
    return next((scope for scope in scopes.split("::") if scope[:1].isupper()), "")
