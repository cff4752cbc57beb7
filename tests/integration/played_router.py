"""The page's files behind answers that a test makes by hand: states of a fleet that real processes do not have at will."""
import http.server
import json
import pathlib
import threading

PAGE = pathlib.Path(__file__).resolve().parents[2] / "router" / "page"
FOLDERS = (PAGE / "files", PAGE / "vendor" / "marked")
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
          "form-action 'none'; frame-ancestors 'none'")


PATIENCE_S = 30


def chunk(text):
    return {"choices": [{"index": 0, "delta": {"content": text}, "logprobs": {"content": [{"token": text, "logprob": -0.1}]}}]}


LAST_CHUNK = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "seed": 7}]}


class PlayedRouter:
    """`answers` has the JSON of each path, or a pair of status and JSON; a test may change it at any time. `said` is how a chat is
    answered: pieces of text, and events that are waited for; `asked` has the bodies of the chats."""

    def __init__(self, answers):
        self.answers = answers
        self.said = []
        self.asked = []
        played = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                name = "index.html" if self.path == "/" else self.path.removeprefix("/page/")
                file = next((folder / name for folder in FOLDERS if (folder / name).is_file()), None)
                if "/" not in name and file is not None:
                    self.reply(200, f"{TYPES[file.suffix]}; charset=utf-8", file.read_bytes())
                    return
                answer = played.answers.get(self.path, (404, {"error": {"message": "not here"}}))
                status, body = answer if isinstance(answer, tuple) else (200, answer)
                self.reply(status, "application/json", json.dumps(body).encode())

            def do_POST(self):
                played.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                try:
                    for piece in list(played.said):
                        if isinstance(piece, threading.Event):
                            piece.wait(PATIENCE_S)
                        else:
                            self.event(json.dumps(chunk(piece)))
                    self.event(json.dumps(LAST_CHUNK))
                    self.event("[DONE]")
                except (BrokenPipeError, ConnectionResetError):
                    pass  # the page has gone

            def event(self, data):
                self.wfile.write(f"data: {data}\n\n".encode())

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
