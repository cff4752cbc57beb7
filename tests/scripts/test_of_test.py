"""scripts/test_of.py finds the tests of a file: in a small tree of its own, and for every product source of this one."""

import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import house  # noqa: E402
import test_of  # noqa: E402

TREE = {
    "tests/router/CMakeLists.txt": "baton_test(web_test\n  SRCS web/routes_test.cc web/refusal_test.cc\n  DEPS x)\n"
                                   "baton_test(core_test SRCS core_test.cc DEPS y SERVERS)\n",
    "tests/router/web/routes_test.cc": '#include "router/web/routes.h"\n#include "router/web/shown.h"\n'
                                       '#include "tests/support/double.h"\nTEST(Routes, Match) {\n',
    "tests/router/web/refusal_test.cc": "TEST_F(Refusal, Named) {\nTEST_P(Kinds, Each) {\nTYPED_TEST(Typed, All) {\n",
    "tests/router/core_test.cc": "",
    "tests/scripts/test_of_test.py": "",
    "tests/scripts/tidy_test.py": "",
}


class Tests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in TREE.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)

    def programs(self, path):
        found = test_of.find(self.root, [path])
        return {name: sorted(source.rpartition("/")[2] for source in sources) for name, sources in found.programs.items()}

    def test_a_source_has_the_test_of_its_name_and_those_beside_it_that_include_its_header(self):
        self.assertEqual(self.programs("router/web/refusal.cc"), {"web_test": ["refusal_test.cc"]})
        self.assertEqual(self.programs("router/web/shown.cc"), {"web_test": ["routes_test.cc"]})
        self.assertEqual(self.programs("router/web/routes.h"), {"web_test": ["routes_test.cc"]})

    def test_a_source_without_a_test_has_those_of_its_folder_or_the_nearest_above(self):
        both = ["refusal_test.cc", "routes_test.cc"]
        self.assertEqual(self.programs("router/web/other.cc"), {"web_test": both})
        self.assertEqual(self.programs("router/page/other.cc"), {"web_test": both, "core_test": ["core_test.cc"]})

    def test_a_test_is_its_own_and_a_header_of_tests_has_those_that_include_it(self):
        self.assertEqual(self.programs("tests/router/core_test.cc"), {"core_test": ["core_test.cc"]})
        self.assertEqual(self.programs("tests/support/double.h"), {"web_test": ["routes_test.cc"]})

    def test_scripts_and_documents_have_theirs_and_other_files_are_named(self):
        found = test_of.find(self.root, ["scripts/tidy.py", "tests/integration/test_tls.py", "docs/http.md", "deploy/x.yaml"])
        self.assertEqual(found.scripts, {"tests/scripts/tidy_test.py", "tests/integration/test_tls.py", "tests/docs_test.py"})
        self.assertEqual(found.unknown, ["deploy/x.yaml"])
        self.assertEqual(test_of.find(self.root, ["scripts/test_of.py"]).scripts, {"tests/scripts/test_of_test.py"})

    def test_the_filter_has_every_test_under_the_name_that_googletest_gives_it(self):
        sources = ["tests/router/web/routes_test.cc", "tests/router/web/refusal_test.cc"]
        self.assertEqual(test_of.filter_of(self.root, sources),
                         "Refusal.Named:*Kinds.Each/*:Typed/*.All:Routes.Match")


class ThisTree(unittest.TestCase):
    def test_every_test_source_belongs_to_a_program(self):
        programs = test_of.read_programs(house.ROOT)
        sources = {path.relative_to(house.ROOT).as_posix() for path in house.ROOT.glob("tests/**/*_test.cc")}
        self.assertEqual(sources - set(programs), set())

    def test_every_product_source_has_tests_to_run(self):
        sources, _ = house.untested(house.read_tree(house.ROOT))
        programs = test_of.read_programs(house.ROOT)
        without = [source for source in sources if not test_of.tests_of_source(house.ROOT, source, programs)]
        self.assertEqual(without, [])

    def test_every_kind_of_test_is_known(self):
        kinds = set()
        for path in house.ROOT.glob("tests/**/*_test.cc"):
            kinds.update(re.findall(r"^(\w*TEST\w*)\(\w+, \w+\) \{", path.read_text(), re.MULTILINE))
        self.assertEqual(kinds - set(test_of.PATTERNS), set())


if __name__ == "__main__":
    unittest.main()
