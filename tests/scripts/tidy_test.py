"""scripts/tidy.py, in a repository of its own with the real clang-tidy: what it looks at, and what it objects to."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOOD = "namespace baton {\nint Half(int value) { return value / 2; }\n}  // namespace baton\n"
USE_AFTER_MOVE = """#include <utility>
namespace baton {
struct Buffer {
  Buffer() = default;
  Buffer(Buffer&& other) noexcept : size(other.size) {}
  int size = 0;
};
void Take(Buffer buffer);
int Give(Buffer buffer) {
  Take(std::move(buffer));
  return buffer.size;
}
}  // namespace baton
"""


class Tidy(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        for name in ("scripts/tidy.py", "scripts/cpp_outline.py", ".clang-tidy"):
            self.write(name, (ROOT / name).read_text())
        self.write(".gitignore", "/build/\n__pycache__/\n")
        self.git("init", "-q", "-b", "main")
        self.commit({"a/x.h": "#pragma once\nint X();\n", "a/x.cc": '#include "a/x.h"\nint X() { return 1; }\n',
                     "a/y.cc": '#include "a/x.h"\nint Y() { return X(); }\n', "a/z.cc": GOOD})

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x", *arguments], cwd=self.root, check=True)

    def commit(self, files):
        for name, text in files.items():
            self.write(name, text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")

    def tidy(self, *arguments):
        """Exit code and what it prints."""
        sources = sorted(path.relative_to(self.root).as_posix() for path in self.root.glob("a/*.cc"))
        self.write("build/lint/compile_commands.json", json.dumps(
            [{"directory": str(self.root), "file": str(self.root / name), "command": f"c++ -std=c++20 -I. -c {name}"}
             for name in sources]))
        done = subprocess.run([sys.executable, str(self.root / "scripts/tidy.py"), *arguments], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    def test_looks_at_what_changed_and_only_until_it_passed(self):
        self.assertEqual(self.tidy(), (0, "clang-tidy: 0 of 0 sources to look at\n"))
        self.write("a/z.cc", GOOD.replace("2", "3"))
        self.write("a/new.cc", GOOD)
        self.assertEqual(self.tidy(), (0, "clang-tidy: 2 of 2 sources to look at\n"))
        self.assertEqual(self.tidy(), (0, "clang-tidy: 0 of 2 sources to look at\n"))

    def test_compares_with_where_the_branch_left_main_and_on_main_with_the_commit_before(self):
        self.commit({"a/z.cc": GOOD.replace("2", "3")})
        self.assertIn("of 1 sources", self.tidy()[1])
        self.git("switch", "-q", "-c", "branch")
        self.commit({"a/y.cc": "int Y() { return 2; }\n"})
        self.commit({"a/x.cc": "int X() { return 2; }\n"})
        self.assertIn("of 2 sources", self.tidy()[1])
        self.assertIn("of 1 sources", self.tidy("--base", "HEAD~1")[1])
        self.assertIn("of 3 sources", self.tidy("--all")[1])
        status, text = self.tidy("--base", "nowhere")
        self.assertEqual(status, 1)
        self.assertIn("--base nowhere", text)

    def test_a_header_is_seen_through_the_source_of_its_name_and_what_includes_it_is_looked_at_again(self):
        self.assertEqual(self.tidy("--all"), (0, "clang-tidy: 3 of 3 sources to look at\n"))
        self.write("a/x.h", "#pragma once\nint X();\nint Two();\n")
        self.assertEqual(self.tidy(), (0, "clang-tidy: 1 of 1 sources to look at\n"))
        self.assertEqual(self.tidy("--all"), (0, "clang-tidy: 1 of 3 sources to look at\n"))

    def test_objects_to_a_use_after_move_until_it_is_mended(self):
        self.write("a/z.cc", USE_AFTER_MOVE)
        for _ in range(2):
            status, text = self.tidy()
            self.assertEqual(status, 1)
            self.assertIn("a/z.cc:11:10: error: 'buffer' used after it was moved [bugprone-use-after-move", text)
        self.write("a/z.cc", USE_AFTER_MOVE.replace("return buffer.size", "return 0"))
        self.assertEqual(self.tidy(), (0, "clang-tidy: 1 of 1 sources to look at\n"))

    def test_objects_to_names_that_are_not_those_of_the_house(self):
        self.write("a/z.cc", "namespace baton {\nclass Pool {\n int size = 0;\n public:\n int Size() const { return size; }\n};\n"
                             "constexpr int MAX_SIZE = 3;\nint Last(Pool thePool) { return MAX_SIZE - thePool.Size(); }\n}\n")
        text = self.tidy()[1]
        for name in ("private member 'size'", "constexpr variable 'MAX_SIZE'", "parameter 'thePool'"):
            self.assertIn(f"invalid case style for {name}", text)


if __name__ == "__main__":
    if shutil.which("clang-tidy") is None:
        sys.exit("clang-tidy is missing; scripts/install_deps.sh --thorough installs it")
    unittest.main()
