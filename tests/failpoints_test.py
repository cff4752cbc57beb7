"""The table of failpoints is the sources', and no program that is shipped has any of them: failpoints_test.py BIN CONTROL, where
CONTROL is a program that was compiled with them."""
import collections
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "common/base/failpoint_table.h"
PROGRAMS = ("baton", "baton-router", "baton-prefill-worker", "baton-decode-worker")
MACROS = {"BATON_FAILPOINT": "kPlain", "BATON_FAILPOINT_STATUS": "kStatus", "BATON_FAILPOINT_BYTES": "kBytes"}


def table():
    """{name: form}"""
    entries = re.findall(r'\{"([\w.]+)", FailpointForm::(\w+)\}', TABLE.read_text())
    assert len(entries) == len(dict(entries)), "a name is in the table twice"
    return dict(entries)


def points():
    """(name, form) of every point in the product's sources."""
    found = []
    for folder in ("common", "router", "prefill_worker", "decode_worker", "client"):
        for path in sorted((ROOT / folder).rglob("*.cc")) + sorted((ROOT / folder).rglob("*.h")):
            if path.name == "failpoint.h":
                continue
            uses = re.findall(r'\b(BATON_FAILPOINT\w*)\(\s*"([\w.]+)"', path.read_text(encoding="utf-8"))
            found += [(name, MACROS[macro]) for macro, name in uses]
    return found


class Failpoints(unittest.TestCase):
    def test_every_name_of_the_table_stands_once_in_the_sources(self):
        counts = collections.Counter(points())
        self.assertEqual(counts, collections.Counter(table().items()))

    def test_there_are_points_at_the_transitions_of_a_request(self):
        self.assertGreaterEqual(len(table()), 40)

    def test_no_program_has_any(self):
        traces = [b"BATON_FAILPOINT", b"Failpoint", *(name.encode() for name in table())]
        control = pathlib.Path(sys.argv[2]).read_bytes()
        self.assertEqual([trace for trace in traces if trace not in control], [])
        for program in PROGRAMS:
            binary = (pathlib.Path(sys.argv[1]) / program).read_bytes()
            self.assertEqual([trace for trace in traces if trace in binary], [], program)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
