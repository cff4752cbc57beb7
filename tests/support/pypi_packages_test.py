"""Tests that take packages from PyPI skip, and say so, if it cannot be reached."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import pypi_packages

SUPPORT = pathlib.Path(__file__).resolve().parent
BARE_CALL = re.compile(r"pypi_packages\.(install|fetch)\(")
REACHED_BY = {"tests/deploy/kubernetes_tools.py": "render_test.py asks by or_end first",
              "tests/clients/llama_server_suite.py": "the test asks by fetched.py first, and people call it as a program"}


@unittest.skipIf(pypi_packages.lacking(), pypi_packages.lacking())
class OutOfReach(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        nowhere = {"BATON_CACHE": folder.name, "PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "0"}
        patch = mock.patch.dict(os.environ, nowhere)
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_test_is_skipped(self):
        with self.assertRaisesRegex(unittest.SkipTest, "schema_requirements.txt; is PyPI reachable"):
            pypi_packages.or_skip(pypi_packages.install, SUPPORT / "schema_requirements.txt")

    def test_a_program_is_skipped(self):
        program = "import pathlib, pypi_packages as p; p.or_end(p.install, pathlib.Path('schema_requirements.txt'))"
        done = subprocess.run([sys.executable, "-c", program], check=False, cwd=SUPPORT, stdout=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 77)
        self.assertRegex(done.stdout, "^skipped: .*is PyPI reachable")


class Callers(unittest.TestCase):
    def test_no_test_asks_otherwise(self):
        root = SUPPORT.parent.parent
        files = {str(file.relative_to(root)): file.read_text(encoding="utf-8") for file in root.glob("tests/**/*.py")}
        self.assertEqual({name for name, text in files.items() if BARE_CALL.search(text)}, set(REACHED_BY))


if __name__ == "__main__":
    unittest.main()
