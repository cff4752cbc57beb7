"""scripts/house.py counts what its head says that it counts."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import house  # noqa: E402
from cpp_outline import bare, code_tokens, line_comments, outline, string_literals  # noqa: E402


def functions(text):
    return [(found.first_line, found.lines) for found in outline(text) if found.is_function]


def class_lines(files):
    return dict(house.class_lines(files, {path: outline(text) for path, text in files.items()}))


class Outline(unittest.TestCase):
    def test_counts_functions_from_their_first_line_to_their_closing_brace(self):
        self.assertEqual(functions("namespace baton {\nint F() {\n  return 1;\n}\n}\n"), [(2, 3)])
        self.assertEqual(functions("template <class T, int kSize = 3>\nT F(\n    T value) {\n}\n"), [(1, 4)])
        self.assertEqual(functions("TEST(Pool, Works) {\n  if (x) { y(); }\n}\n\nint G() { return 2; }\n"), [(1, 3), (5, 1)])

    def test_counts_functions_inside_classes_too(self):
        text = "class A {\n public:\n  int F() const {\n    return 1;\n  }\n  struct B {\n    B(int i) : i_(i) {}\n  };\n};\n"
        self.assertEqual(functions(text), [(3, 3), (7, 1)])

    def test_takes_initialisers_for_no_bodies(self):
        self.assertEqual(functions("A::A(int x)\n    : a_{x},\n      b_{x} {\n  F();\n}\nint G() { return 1; }\n"), [(1, 5), (6, 1)])

    def test_takes_no_variable_and_no_enum_for_a_function(self):
        for text in ("constexpr int kAll[] = {F(1), 2};\n", "const auto f = [](int x) {\n  return x;\n};\n",
                     "enum class E { kA, kB };\n", "using F = decltype(G({}));\n"):
            self.assertEqual(functions(text), [], text)
        self.assertEqual(functions("bool operator==(const A& a, const A& b) {\n}\n"), [(1, 2)])

    def test_is_not_led_astray_by_brackets_in_literals_comments_and_directives(self):
        text = ('int F() {\n  // }\n  char c = \'{\';\n  Log("}", R"x(" })x");\n  Log(1\'000, \'}\', 2\'000);\n'
                "#define OPEN {\n  return 1;\n}\n")
        self.assertEqual(functions(text), [(1, 8)])
        self.assertEqual(len(bare(text)), len(text))

    def test_finds_comments_behind_code_but_none_in_strings(self):
        self.assertEqual(line_comments('F("// no");  // yes\n/* // no */\n// too\n'), {1: " yes", 3: " too"})


    def test_finds_literals_outside_comments_and_joins_neighbours(self):
        text = 'Log("is " /* "no" */ + "not"\n    " reached: ", \'"\', why);  // says "never"\nchar c = \'"\'; F("");\n'
        self.assertEqual(string_literals(text), ["is ", "not reached: ", ""])

    def test_finds_the_tokens_of_code_without_comments_and_blanks(self):
        text = "A<B<int>> a = f(\"a // b\",  // c\n1'000u, 0x1p-3f) >= b->c;\\\n /* d */ x::y <<= 'e';\n"
        self.assertEqual([text[begin:end] for begin, end in code_tokens(text)],
                         ["A", "<", "B", "<", "int", ">", ">", "a", "=", "f", "(", '"a // b"', ",", "1'000u", ",", "0x1p-3f", ")",
                          ">=", "b", "->", "c", ";", "x", "::", "y", "<<=", "'e'", ";"])


class Classes(unittest.TestCase):
    def test_a_class_over_several_files_counts_whole(self):
        files = {
            "a/engine.h": "class Engine {\n  struct Rep;\n  int Step();\n};\n",
            "a/engine.cc": '#include "a/engine.h"\nint baton::Engine::Step() {\n  return 1;\n}\n'
                           "bool Engine::operator==(const Engine& other) const {\n}\n",
            "a/engine_rep.h": '#include "a/engine.h"\nstruct Engine::Rep {\n  int x;\n};\n',
            "a/step.cc": '#include "a/engine_rep.h"\n#include "a/engine.h"\nstd::function<void(int)> Engine::Rep::Run(\n'
                         "    int n) {\n}\n",
        }
        self.assertEqual(class_lines(files), {("Engine", "a/engine.h"): 4 + 3 + 2 + 3 + 3})

    def test_templates_are_classes_and_nested_ones_are_parts(self):
        files = {"a/x.h": "template <class T>\nclass A final : public B<int(T)> {\n  struct [[nodiscard]] C {\n  };\n};\n"}
        self.assertEqual(class_lines(files), {("A", "a/x.h"): 5})

    def test_classes_of_one_name_are_counted_apart(self):
        files = {
            "a/x.cc": "namespace {\nclass Reader {\n  int F();\n};\nint Reader::F() {\n}\n}\n",
            "b/y.cc": "namespace {\nclass Reader {\n};\n}\n",
            "b/z.cc": "int Reader::G() {\n}\n",  # of neither: it includes nothing
        }
        self.assertEqual(class_lines(files), {("Reader", "a/x.cc"): 5, ("Reader", "b/y.cc"): 2})

    def test_what_a_function_calls_or_returns_is_no_owner_of_it(self):
        files = {"a/x.h": "struct Limits {\n};\nLimits::Kind F(int most = Limits::Most()) {\n}\n"}
        self.assertEqual(class_lines(files), {("Limits", "a/x.h"): 2})


class Tests(unittest.TestCase):
    def test_a_source_is_tested_by_a_file_of_its_name_or_one_beside_that_includes_its_header(self):
        files = dict.fromkeys(("a/own.cc", "a/beside.cc", "a/elsewhere.cu", "a/main.cc", "a/header.h"), "")
        files["tests/a/own_test.cc"] = '#include "a/beside.h"\n#include "b/other.h"\n'
        files["tests/b/other_test.cc"] = '#include "a/elsewhere.h"\n'
        sources, without = house.untested(files)
        self.assertEqual(sources, ["a/own.cc", "a/beside.cc", "a/elsewhere.cu"])
        self.assertEqual(without, ["a/elsewhere.cu"])


class Words(unittest.TestCase):
    def test_turns_of_phrase_are_counted_in_product_and_tests(self):
        files = {"x.h": "int a;  // of b\nint c;  // often\n", "tests/y.cc": "int d;  // Of e\n", "tests/data/z.h": "int f;  // of g\n"}
        (figure, *_) = house.voice_figures(files)
        self.assertEqual((figure.now, figure.goal, figure.details), ("1 / 1", "< 20", ["x.h:1: of b", "tests/y.cc:1: Of e"]))

    def test_every_goal_is_that_of_a_marker(self):
        self.assertLessEqual(set(house.VOICE_GOALS), set(house.voice.MARKERS))


class Sizes(unittest.TestCase):
    def figures(self, figures):
        return {figure.name: figure.now for figure in figures}

    def test_a_limit_itself_is_allowed(self):
        body = "int F() {\n" + "\n" * 68 + "}\n"
        now = self.figures(house.size_figures({"a.cc": body, "b.cc": body.replace("{\n", "{\n\n"), "c.py": "\n" * 401}))
        self.assertEqual(now, {"classes over 300 lines": "0 / 0", "functions over 70 lines": "1 / 0", "files over 400 lines": "1 / 0"})

    def test_tests_are_counted_apart_from_the_product(self):
        body = "int F() {\n" + "\n" * 69 + "}\n"
        now = self.figures(house.size_figures({"a.cc": body, "tests/a_test.cc": body, "tests/b_test.cc": body}))
        self.assertEqual(now["functions over 70 lines"], "1 / 2")

    def test_folders_stand_beside_their_tests_and_count_only_their_own_files(self):
        files = {f"a/{i}.cc": "\n" for i in range(41)} | {"a/b/x.h": "\n\n", "tests/a/b/x_test.cc": "\n", "docs/a.md": "\n"}
        now = self.figures(house.folder_figures(files))
        self.assertEqual(now["folders with over 40 files"], "1 / 0")
        self.assertEqual(now["lines of product / of tests"], "43 / 1")
        self.assertEqual((now["  a"], now["  a/b"]), ("41 / 0", "2 / 1"))

    def test_pages_are_counted_in_words(self):
        files = {"docs/architecture.md": "one two\nthree", "docs/planted_bugs.md": "four", "README.md": "five six", "x.py": "seven"}
        total, page, _, readme = house.page_figures(files)
        self.assertEqual((total.now, total.goal), ("3", "<= 45,000"))
        self.assertEqual((page.now, page.goal), ("3", "<= 1,200"))
        self.assertEqual((readme.now, readme.goal), ("2", "<= 900"))


if __name__ == "__main__":
    unittest.main()
