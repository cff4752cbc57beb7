"""The script of components/model-init-download brings the file that was named, or none. Needs curl and openssl."""

import functools
import hashlib
import http.server
import os
import pathlib
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import deploy_tree as tree  # noqa: E402
from flags_test import make_certificates  # noqa: E402

SCRIPT = tree.KUBERNETES / "components/model-init-download/download.sh"
MODEL = bytes(range(256)) * 4096


class Models(http.server.BaseHTTPRequestHandler):
    """Serves MODEL, and of the first request half of it."""

    asked = None  # the ranges that were asked for

    def __init__(self, asked, *arguments):
        self.asked = asked
        super().__init__(*arguments)

    def do_GET(self):
        wanted = self.headers.get("Range", "")
        self.asked.append(wanted)
        begin = int(wanted.removeprefix("bytes=").rstrip("-") or 0)
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(MODEL) - begin))
        if wanted:
            self.send_header("Content-Range", f"bytes {begin}-{len(MODEL) - 1}/{len(MODEL)}")
        self.end_headers()
        self.wfile.write(MODEL[begin:] if wanted or len(self.asked) > 1 else MODEL[: len(MODEL) // 2])

    def log_message(self, *arguments):
        pass


class Download(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        make_certificates(self.folder / "tls", "subjectAltName=DNS:localhost")
        (self.folder / "models").mkdir()
        self.script = self.folder / "download.sh"
        self.script.write_text(SCRIPT.read_text().replace("/models/", f"{self.folder}/models/").replace(
            "--retry-delay 5", "--retry-delay 1"))
        self.asked = []
        self.server = http.server.ThreadingHTTPServer(("localhost", 0), functools.partial(Models, self.asked))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "tls/tls.crt", self.folder / "tls/tls.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def run_script(self, sha256):
        url = f"https://localhost:{self.server.server_port}/model.gguf"
        return subprocess.run(["sh", self.script], check=False, capture_output=True, text=True, timeout=60,
                              env={**os.environ, "URL": url, "SHA256": sha256, "CURL_CA_BUNDLE": str(self.folder / "tls/ca.crt")})

    def test_goes_on_where_it_broke_off_and_fetches_once(self):
        sha256 = hashlib.sha256(MODEL).hexdigest()
        broken = self.run_script(sha256)  # curl goes on only in another run
        again = broken if broken.returncode == 0 else self.run_script(sha256)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual((self.folder / "models/model.gguf").read_bytes(), MODEL)
        self.assertEqual(self.asked, ["", f"bytes={len(MODEL) // 2}-"])
        self.assertEqual(self.run_script(sha256).returncode, 0)
        self.assertEqual(len(self.asked), 2)

    def test_another_file_is_refused_and_named(self):
        self.asked.append("")  # so that it comes whole
        result = self.run_script("5a" * 32)
        self.assertEqual(result.returncode, 1)
        self.assertIn(hashlib.sha256(MODEL).hexdigest(), result.stderr)
        self.assertIn("mend model.env", result.stderr)
        self.assertEqual(list((self.folder / "models").iterdir()), [])


if __name__ == "__main__":
    unittest.main()
