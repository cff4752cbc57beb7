"""No loop of the chat templates' interpreter is free: every `for`, `while` and algorithm in the files that run a template
counts steps, by itself or by what it calls, or a comment at it says why it need not: `no step: the reason`.

The lexer and the parsers are not looked at: their work is linear in a template of at most 256 KiB."""
import pathlib
import re
import sys
import unittest

FOLDER = pathlib.Path(__file__).parent.parent / "common" / "jinja"
PARSERS = {"expression_nodes.cc", "expression_parser.cc", "lexer.cc", "parser.cc", "primary_parser.cc",
           "string_literal.cc", "token_cursor.cc", "ast.h"}
LOOP = re.compile(r"\b(?:for|while)\s*\(|\bdo\s*\{|\bstd::(?:find_if|any_of|all_of|none_of|count_if|transform|sort)\b")
# What counts steps: the workspace's own calls, the builders' and the evaluation of an expression or a statement.
CHARGES = re.compile(r"\b(?:Step|StepByte|StepBytes|Add|AddAll|Append|AppendSlice|Set|Evaluate|RunStatement|RunBlock|Equals)\(")


def end_of_loop(text, start):
    """The end of the statement that begins with the loop at `start`: of its block, or its semicolon."""
    depth = 0
    for at in range(start, len(text)):
        if text[at] in "({":
            depth += 1
        elif text[at] in ")}":
            depth -= 1
            if depth == 0 and text[at] == "}":
                return at + 1
        elif text[at] == ";" and depth == 0:
            return at + 1
    return len(text)


def free_loops(text):
    """The numbers of the lines with a loop that counts nothing and has no reason."""
    lines = text.split("\n")
    code = "\n".join(re.sub(r"//.*", lambda m: " " * len(m[0]), line) for line in lines)
    free = []
    for match in LOOP.finditer(code):
        body = code[match.start():end_of_loop(code, match.start())]
        line = code.count("\n", 0, match.start())
        before = line  # the comments above the statement, and that at the end of the line
        while before > 0 and (lines[before - 1].strip().startswith("//") or lines[before - 1].endswith("=")):
            before -= 1
        reason = re.search(r"[Nn]o step:", "\n".join(lines[before:line + 1]))
        if not reason and not CHARGES.search(body):
            free.append(line + 1)
    return free


class JinjaSteps(unittest.TestCase):
    def test_every_loop_of_the_interpreter_counts_steps(self):
        files = [f for f in sorted(FOLDER.iterdir()) if f.suffix in (".cc", ".h") and f.name not in PARSERS]
        self.assertGreater(len(files), 10)
        found = [f"{f.name}:{line}" for f in files for line in free_loops(f.read_text())]
        self.assertEqual(found, [], "loops without a step (Workspace::Step), nor `no step: the reason`")

    def test_a_loop_without_a_step_is_found(self):
        self.assertEqual(free_loops("for (int i : all) {\n  sum += i;\n}\nwhile (true) Go();\n"), [1, 4])
        self.assertEqual(free_loops("for (int i : all) {\n  workspace.Step();\n}\n// No step: three rounds.\nfor (;;) x();"), [])
        self.assertEqual(free_loops("for (;;) {\n  for (int j : all) sum += j;\n  Step();\n}\n"), [2])


if __name__ == "__main__":
    sys.exit(unittest.main())
