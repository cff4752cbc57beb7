"""The page's files behind answers that a test makes by hand: states of a fleet that real processes do not have at will."""
import http.server
import json
import pathlib
import threading

FILES = pathlib.Path(__file__).resolve().parents[2] / "router" / "page" / "files"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
          "form-action 'none'; frame-ancestors 'none'")


class PlayedRouter:
    """`answers` has the JSON of each path, or a pair of status and JSON; a test may change it at any time."""

    def __init__(self, answers):
        self.answers = answers
        played = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                name = "index.html" if self.path == "/" else self.path.removeprefix("/page/")
                file = FILES / name
                if "/" not in name and file.is_file():
                    self.reply(200, f"{TYPES[file.suffix]}; charset=utf-8", file.read_bytes())
                    return
                answer = played.answers.get(self.path, (404, {"error": {"message": "not here"}}))
                status, body = answer if isinstance(answer, tuple) else (200, answer)
                self.reply(status, "application/json", json.dumps(body).encode())

            def reply(self, status, content_type, body):
                self.send_response(status)
                self.send_header("content-type", content_type)
                self.send_header("content-security-policy", POLICY)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
