"""scripts/planted_bugs.py finds the code of a bug behind its anchor, whatever its comments and line breaks are, and names what it misses."""

import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import planted_bugs  # noqa: E402

SOURCE = """\
// Copies pages.
bool Copy(int page) {
  const bool agrees = true;
  // tests/planted_bugs: crc
  if (crcs_[page] == wanted) {
    Keep(page);  // the page agrees
  } else {
    Drop("the CRC of (a page) {differs}");
  }
  return crcs_[page] == wanted;
}
"""
BUG = """\
# every page agrees
tests: x_test y_test
--- at crc
crcs_[page] == wanted
--- replace
true
--- end
"""


class Planting(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("common/copy.cc", SOURCE)
        self.write("tests/planted_bugs/crc_not_compared.bug", BUG)

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def change(self, *pairs):
        text = (self.root / "common/copy.cc").read_text()
        for old, new in pairs:
            self.assertIn(old, text)
            text = text.replace(old, new)
        self.write("common/copy.cc", text)

    def plant(self):
        (bug,) = planted_bugs.read_bugs(self.root)
        return bug.plant(planted_bugs.Tree(self.root))

    def faults(self, names=None):
        every = planted_bugs.read_bugs(self.root)
        bugs = [bug for bug in every if names is None or bug.name in names]
        return planted_bugs.faults(bugs, planted_bugs.Tree(self.root), every)

    def assert_fault(self, *words):
        (fault,) = self.faults()
        for word in words:
            self.assertIn(word, fault)

    def test_only_the_fragment_in_the_anchored_statement_is_replaced(self):
        self.assertEqual(self.faults(), [])
        self.assertEqual(self.plant(), {"common/copy.cc": SOURCE.replace("if (crcs_[page] == wanted)", "if (true)")})

    def test_changed_prose_and_line_breaks_change_nothing(self):
        self.change(("// Copies pages.", "// Copies all pages of a message;\n// crcs_[page] == wanted."),
                    ("the page agrees", "crcs_[page] == wanted"), ("the CRC of (a page) {differs}", "} else {; crcs_"),
                    ("if (crcs_[page] == wanted)", "if (crcs_[page]  // == of\n      == /* the */ wanted)"))
        self.assertEqual(self.faults(), [])
        self.assertIn("if (true)", self.plant()["common/copy.cc"])

    def test_a_moved_file_changes_nothing(self):
        (self.root / "common/copy.cc").rename(self.root / "common/moved.h")
        self.assertEqual(list(self.plant()), ["common/moved.h"])

    def test_a_part_of_a_name_or_operator_does_not_match(self):
        for code in ("all_crcs_[page] == wanted", "crcs_[page] == wanted_", "crcs_[page] === wanted", "crcs_[page] >= wanted"):
            with self.subTest(code=code):
                self.write("common/copy.cc", SOURCE.replace("if (crcs_[page] == wanted)", f"if ({code})"))
                self.assert_fault("occurs 0 times")

    def test_changed_code_is_an_error_that_names_the_bug_its_code_and_the_remedy(self):
        self.change(("if (crcs_[page] == wanted)", "if (Agrees(page))"))
        self.assert_fault("crc_not_compared: ", "`crcs_[page] == wanted` occurs 0 times",
                          "the anchor crc in common/copy.cc", "correct tests/planted_bugs/crc_not_compared.bug")
        with self.assertRaises(planted_bugs.Outdated):
            self.plant()

    def test_a_fragment_that_occurs_twice_is_an_error(self):
        self.change(("Keep(page);", "Keep(crcs_[page] == wanted);"))
        self.assert_fault("crc_not_compared: ", "occurs 2 times")

    def test_an_empty_fragment_is_an_error(self):
        self.write("tests/planted_bugs/crc_not_compared.bug", BUG.replace("crcs_[page] == wanted\n", "// nothing\n"))
        self.assert_fault("crc_not_compared: ", "occurs 0 times")

    def test_a_bug_without_a_whole_edit_is_an_error(self):
        for text in (BUG.partition("--- at")[0], BUG.replace("--- at crc", "--- find"), BUG + BUG.partition("--- replace")[0],
                     BUG + BUG[BUG.index("--- at"):].replace("--- end\n", "")):
            self.write("tests/planted_bugs/crc_not_compared.bug", text)
            with self.subTest(text=text):
                self.assertIn("crc_not_compared: each of its edits must have the lines `--- at ANCHOR`", "\n".join(self.faults()))

    def test_a_fragment_with_the_text_of_a_message_is_an_error(self):
        self.write("tests/planted_bugs/crc_not_compared.bug",
                   BUG.replace("crcs_[page] == wanted\n", 'Drop("the CRC of (a page) {differs}");\n'))
        self.assert_fault("crc_not_compared: ", "contains the text of a message")

    def test_a_missing_anchor_is_an_error_that_says_what_to_write(self):
        self.change(("  // tests/planted_bugs: crc\n", ""))
        self.assert_fault("crc_not_compared: no source has the anchor crc", "`// tests/planted_bugs: crc`")

    def test_an_anchor_at_two_places_is_an_error_that_names_both_files(self):
        self.write("router/copy.h", "// tests/planted_bugs: crc\nint x;\n")
        self.assert_fault("the anchor crc stands at 2 places", "common/copy.cc", "router/copy.h")

    def test_an_anchor_without_a_bug_is_an_error_whichever_bugs_are_asked_about(self):
        self.write("router/x.cu", "void F() {\n  // tests/planted_bugs: gone\n  G();\n}\n")
        for names in (None, ["crc_not_compared"], []):
            self.assertEqual(self.faults(names), ["router/x.cu: no bug names the anchor gone; remove it"])

    def test_a_bug_may_change_several_places_and_files(self):
        self.write("router/x.cc", "// tests/planted_bugs: other\nint Two() { return 2; }\n")
        self.write("tests/planted_bugs/crc_not_compared.bug",
                   BUG + "--- at crc\nDrop\n--- replace\nKeepAll\n--- end\n--- at other\nreturn 2;\n--- replace\n--- end\n")
        self.assertEqual(self.faults(), [])
        planted = self.plant()
        self.assertEqual(planted["router/x.cc"], "// tests/planted_bugs: other\nint Two() {  }\n")
        self.assertIn("if (true) {", planted["common/copy.cc"])
        self.assertIn('KeepAll("the', planted["common/copy.cc"])


class Statements(unittest.TestCase):
    def ends_before(self, code, rest):
        text = f"{code} {rest}"
        spans = planted_bugs.statement(text, 0)
        self.assertEqual(text[: spans[-1][1]], code)

    def test_a_statement_ends_at_its_semicolon_or_brace(self):
        self.ends_before("a = F({1; 2}, b);", "c;")
        self.ends_before("if (a) b;", "c;")
        self.ends_before("for (;;) { b; }", "c;")
        self.ends_before("if (a) { b; } else if (c) d; else { e; }", "f;")
        self.ends_before("auto f = [] { return 1; };", "g;")
        self.ends_before("A::A(int x) : a_{x}, b_(x), c_{1} { F(); }", "int G();")
        self.ends_before("static constexpr int kSize = 3;", "int b;")
        self.ends_before("#pragma unroll\n  for (int i = 0; i < 4; ++i) F(i);", "G();")

    def test_it_ends_with_the_bracket_around_it(self):
        self.ends_before("b;", "}")
        self.ends_before("b = 1, c", "} d;")


class ThisTree(unittest.TestCase):
    def test_no_comment_is_nearly_an_anchor(self):
        tree = planted_bugs.Tree(planted_bugs.ROOT)
        for path, text in tree.texts.items():
            anchors = sum(place == path for places in tree.anchors.values() for place, _ in places)
            self.assertEqual(len(re.findall(r"planted_bugs", text)), anchors, path)


if __name__ == "__main__":
    unittest.main()
