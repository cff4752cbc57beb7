"""scripts/voice.py finds the turns of phrase that it refuses, and no others; and only new ones are refused."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import voice  # noqa: E402


def kinds(path, content):
    return [hit.kind for hit in voice.hits(path, content)]


def in_comment(words):
    return kinds("x.h", f"// {words}\n")


def in_page(words):
    return kinds("docs/x.md", f"{words}\n")


class Markers(unittest.TestCase):
    def check(self, kind, wrong, right, read=in_comment):
        for words in wrong:
            self.assertIn(kind, read(words), words)
        for words in right:
            self.assertNotIn(kind, read(words), words)

    def test_a_comment_begins_with_its_noun(self):
        self.check("of", ["of the payloads", "Of a worker's own text."],
                   ["often empty", "payload bytes of all streams", "Offset of the first byte."])
        self.check("headless",
                   ["that came in this attempt", "which every server has", "whose KV proved to be wrong", "who waits",
                    "Whoever runs also sees to the timers."],
                   ["That is why it waits.", "that is, without a window", "tokens that came in this attempt"])

    def test_a_sentence_does_not_begin_with_a_question_word(self):
        wrong = ["What a layer keeps of a sequence.", "How far a local prefill is.", "Which roles may call which method.",
                 "Who calls a server.", "Ignores them. What is told of workers is ignored.", "what was looked for"]
        right = ["What could be done about a line that cannot be written?", "Whether the flag was set.",
                 "Returns what it read.", "The parts:\n// What it says: a word.", "How to run it is in its head."]
        self.check("what", wrong, right)
        self.check("what", ["What a router needs is a port.", "- What waits is sent."], ["# What it is", "See [How it works](how.md)."],
                   in_page)

    def test_a_condition_is_no_place(self):
        wrong = ["Empty where nothing is embedded.", "False where the type cannot represent it.",
                 "UNIMPLEMENTED where this build has no CUDA.", "Nothing where the last message says the same.",
                 "Null where there is none of that name.", "`tls` holds where it is given, else where the system has one.",
                 "Half of them, also where the system's authorities count."]
        right = ["where the decode worker takes pushes", "Prints where it is.", "Moves messages to where the template renders them.",
                 "The text stops where the next one begins.", "Near the start, where counts and types are.",
                 "Pages and the folders where they lie.", "Returns where the weights are.", "The end, or where the file has the table.",
                 "Null if there is none.", "The slots where they are staged."]
        self.check("where", wrong, right)

    def test_code_is_no_person(self):
        self.check("told", ["What the router tells Prometheus.", "the client is told nothing"],
                   ["Words tell the two apart.", "The two are told apart by their size.", "It is \"told\" twice.", "untold"])
        self.check("he", ["Who calls a server, and whether he may.", "as he likes", "on a stream of his own"],
                   ["The help text.", "`he` is Hebrew", "the heap", "h.e."])
        self.check("nobody", ["tokens that nobody reads", "Whoever holds the lock writes."], ["No thread reads it.", "nobody_waits_"])
        self.check("verbs", ["The machine hears everything.", "that no value obeys", "An old entry gives way.", "vouches for it"],
                   ["It shears the rows.", "gives a way out"])

    def test_an_amount_has_a_noun(self):
        self.check("so many", ["Reads so many bytes.", "So few are left."],
                   ["So many tokens that memory is short.", "as many bytes", "and so on, many times", "so much as one byte"])

    def test_a_check_names_the_violated_rule(self):
        source = 'void F(int used) {\n  BATON_CHECK(used > 0 && Name("a b c d") != "x",\n              %s);\n}\n'
        self.assertEqual(kinds("x.cc", source % '"shapes"'), ["check"])
        self.assertEqual(kinds("x.cc", source % '"rows without gaps"'), ["check"])
        self.assertEqual(kinds("x.cc", source % '"`used` must be positive"'), [])
        self.assertEqual(kinds("x.cc", source % '"`used` must "\n      "be positive"'), [])
        self.assertEqual(kinds("x.cc", source % '"`used` must be positive", used'), [])


class Texts(unittest.TestCase):
    def comments(self, path, content):
        return [[words for _, words in comment] for comment in voice.comments(path, content)]

    def test_a_line_that_continues_a_comment_begins_none(self):
        self.assertEqual(self.comments("x.h", "// The size\n// of it.\nint a;  // of b\nint c;  // Of d\n"),
                         [["The size", "of it."], ["of b"], ["Of d"]])
        self.assertEqual(self.comments("x.sh", "x=1  # of y\n# of z\n\n# a\n"), [["of y", "of z"], ["a"]])
        self.assertEqual(self.comments("x.py", "x = 1  # of y\n# of z\n\n# a\n"), [["of y", "of z"], ["a"]])

    def test_literals_of_python_are_no_comments_but_docstrings_are(self):
        content = '"""The head.\n\nOf it.\n"""\nX = "a  # of b"\nY = """\n# of c\n"""\n\n\ndef f():\n    """What it does."""\n'
        self.assertEqual(self.comments("x.py", content), [["The head."], ["Of it."], ["What it does."]])

    def test_the_line_is_that_of_the_hit(self):
        (hit,) = voice.hits("x.h", "int a;\n// The worker waits\n// until nobody reads.\n")
        self.assertEqual((hit.line, hit.quote), (3, "waits until nobody reads."))

    def test_all_sources_with_comments_are_read(self):
        for path in ("x.h", "x.cc", "x.cu", "x.proto", "x.js"):
            self.assertEqual(kinds(path, "int a;  // of b\n"), ["of"], path)
        for path in ("x.py", "x.sh"):
            self.assertEqual(kinds(path, "a=1  # of b\n"), ["of"], path)

    def test_the_help_of_a_flag_is_read_and_its_name_and_choices_are_not(self):
        source = ('void F(FlagSet& flags) {\n  flags.AddString("of", of,\n                  "of the router: the "\n'
                  '                  "address", {"told", "he"});\n  flags_.AddBool("he", he, "Show the he");\n}\n')
        self.assertEqual([(hit.kind, hit.line) for hit in voice.hits("x.cc", source)], [("of", 3), ("he", 5)])

    def test_pages_are_read_without_headings_code_and_heads_of_tables(self):
        page = ("# What he told\n\n```\nhe told\n```\n\n| he | told |\n|---|---|\n| a | so\n\nA server\nis told `he`,\n"
                "[and](he) waits.\n")
        self.assertEqual([(hit.kind, hit.line) for hit in voice.hits("docs/x.md", page)], [("told", 12)])
        self.assertEqual(kinds("docs/x.md", "| a | b |\n|---|---|\n| a cell | the client is told |\n"), ["told"])
        self.assertFalse(voice.ours("docs/planted_bugs.md"))
        self.assertFalse(voice.ours("docs/drills/x.md"))

    def test_copies_of_other_files_are_left_out(self):
        for path in ("router/page/vendor/marked/marked.js", "tests/data/x.py", "proto/google/rpc/status.proto"):
            self.assertFalse(voice.ours(path), path)


class New(unittest.TestCase):
    def new(self, old, new):
        return [str(hit) for hit in voice.new_hits(old, new)]

    def test_a_new_line_is_refused_and_an_old_one_stands(self):
        old = "int a;  // of b\n"
        self.assertEqual(self.new({"x.h": old}, {"x.h": old + "int c;  // of d\n"}), ["x.h:2: of d"])
        self.assertEqual(self.new({"x.h": old}, {"x.h": old}), [])

    def test_a_deleted_or_moved_line_is_not_new(self):
        old = "int a;  // of b\nint c;  // bytes\n"
        self.assertEqual(self.new({"x.h": old}, {"x.h": "int c;  // bytes\n"}), [])
        self.assertEqual(self.new({"x.h": old}, {"x.h": "int c;  // bytes\n\nint a;  // of b\n"}), [])
        self.assertEqual(self.new({"x.h": old}, {"y/z.h": old}), [])
        self.assertEqual(self.new({"x.h": old}, {"x.h": old, "y.h": old}), ["y.h:1: of b"])

    def test_a_comment_that_is_wrapped_anew_is_not_new(self):
        self.assertEqual(self.new({"x.h": "// It waits until\n// nobody reads it.\n"}, {"x.h": "// It waits until nobody\n// reads it.\n"}),
                         [])

    def test_a_changed_line_is_new_only_if_its_marker_is(self):
        old = {"x.h": "// The first of two threads reads a block that nobody frees.\n"}
        self.assertEqual(self.new(old, {"x.h": "// One of two threads reads a block that nobody frees.\n"}), [])
        self.assertEqual(self.new(old, {"x.h": "// The first of two threads reads a block that no thread frees.\n"}), [])

    def test_git_says_what_was_there(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)

            def git(*arguments):
                subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=root, check=True, capture_output=True)

            git("init", "-q")
            (root / "kept.h").write_text("int a;  // of a\n")
            (root / "moved.h").write_text("int b;  // of b\n")
            (root / "changed.h").write_text("int c;  // of c\n")
            git("add", ".")
            git("commit", "-q", "-m", "x")
            (root / "moved.h").rename(root / "to.h")
            (root / "changed.h").write_text("int c;  // of c\nint d;  // of d\n")
            (root / "untracked.py").write_text("a = 1  # of e\n")
            old, new = voice.changed(root, "HEAD")
        self.assertEqual((sorted(old), sorted(new)), (["changed.h", "moved.h"], ["changed.h", "to.h", "untracked.py"]))
        self.assertEqual(self.new(old, new), ["changed.h:2: of d", "untracked.py:1: of e"])


if __name__ == "__main__":
    unittest.main()
