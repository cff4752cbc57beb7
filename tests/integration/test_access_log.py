"""The access log of `baton serve`: a line for each request by HTTP and gRPC, refused ones too, and never its text; what serve tells
the manager that has started it; and that JSON logs hold nothing but JSON."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import urllib.error
import urllib.request

import grpc
import pytest

from cluster import BIN, MODEL, SOON_S, failure, new_log, request, wait_until
from stubs import rpc

GENERATE = "/baton.v1.GenerationService/Generate"
SECRET = "zanzibar"  # stands in prompts and in what is asked wrongly, and must stand in no line


class Serve:
    """`baton serve` with JSON logs, and a manager's socket for it. Its exit code must be 0."""

    def __init__(self, folder, *args):
        self.log = new_log("serve")
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(str(folder / "notify"))
        self.manager.settimeout(60)
        environment = {**os.environ, "NOTIFY_SOCKET": str(folder / "notify")}
        self.process = subprocess.Popen([str(BIN / "baton"), "serve", f"--model={MODEL}", "--listen=127.0.0.1:0", "--prefill-workers=0",
                                         "--http-listen=127.0.0.1:0", "--log-format=json", *args],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)

    def __enter__(self):
        assert self.manager.recv(1000) == b"READY=1", self.lines()
        addresses = [self.process.stdout.readline().strip() for _ in range(2)]
        assert addresses[0].startswith("ready: grpc://") and addresses[1].startswith("ready: http://"), addresses
        self.grpc_address, self.url = addresses[0].removeprefix("ready: grpc://"), addresses[1].removeprefix("ready: ")
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(40) == 0, self.lines()
        self.process.stdout.close()
        # Not what its children would tell.
        assert self.manager.recv(1000) == b"STOPPING=1"
        self.manager.setblocking(False)
        with pytest.raises(BlockingIOError):
            self.manager.recv(1000)
        self.manager.close()

    def lines(self):
        return pathlib.Path(self.log.name).read_text()

    def post(self, path, body, request_id):
        """The status of the answer."""
        made = urllib.request.Request(self.url + path, json.dumps(body).encode(),
                                      {"content-type": "application/json", "x-request-id": request_id})
        try:
            with urllib.request.urlopen(made, timeout=60) as response:
                response.read()
                return response.status
        except urllib.error.HTTPError as error:
            return error.code


def line_of(text, request_id):
    """The access log's line of the request, once it is there."""
    def find():
        for line in text().splitlines():
            if f'"id":"{request_id}"' in line:
                return json.loads(line)
        return None

    return wait_until(find, SOON_S, f"the line of {request_id}")


def read_until(descriptor, words):
    """What comes, up to the words and the end of their line."""
    text = ""

    def has_words():
        nonlocal text
        try:
            text += os.read(descriptor, 100_000).decode()
        except BlockingIOError:
            pass
        return words in text and text.endswith("\n")

    wait_until(has_words, SOON_S, words)
    return text


def test_serve_writes_a_line_for_each_request_among_nothing_but_json(tmp_path):
    with Serve(tmp_path) as serve, grpc.insecure_channel(serve.grpc_address) as channel:
        stub = rpc.GenerationServiceStub(channel)
        chat = {"messages": [{"role": "user", "content": f"Repeat: {SECRET}"}], "max_tokens": 4, "temperature": 0}
        assert serve.post("/v1/chat/completions", chat, "chat") == 200
        assert serve.post("/v1/chat/completions", {**chat, "stream": True}, "stream") == 200
        assert serve.post("/v1/chat/completions", {**chat, "n": SECRET}, "wrong") == 400
        assert serve.post(f"/v1/{SECRET}", chat, "unknown") == 404
        made = request(prompt=SECRET, max_tokens=4, ignore_eos=True, temperature=0)
        made.request_id = "grpc"
        done = list(stub.Generate(made, timeout=60))[-1].complete
        made.sampling_params.top_p = 7
        made.request_id = "grpc-wrong"
        assert failure(stub, made).code is grpc.StatusCode.INVALID_ARGUMENT

        for request_id, route in (("chat", "/v1/chat/completions"), ("stream", "/v1/chat/completions"), ("grpc", GENERATE)):
            line = line_of(serve.lines, request_id)
            assert (line["message"], line["tenant"], line["route"]) == ("access", "", route)
            assert line["status"] == ("OK" if request_id == "grpc" else "200") and "error" not in line
            assert line["output_tokens"] <= 4 and line["attempts"] == 1
            assert 0 < line["ttft_ms"] <= line["total_ms"]
        assert line["prompt_tokens"] == done.usage.prompt_tokens and line["output_tokens"] == 4
        for request_id, status in (("wrong", "400"), ("unknown", "404"), ("grpc-wrong", "INVALID_ARGUMENT")):
            line = line_of(serve.lines, request_id)
            assert line["status"] == status and "prompt_tokens" not in line, line
    text = serve.lines()
    assert SECRET not in text
    roles = {json.loads(line)["role"] for line in text.splitlines()}
    assert {"serve", "router", "decode"} <= roles


def test_a_file_is_opened_anew_when_it_was_moved_and_a_pipe_without_a_reader_holds_up_nothing(tmp_path):
    log = tmp_path / "access.log"
    chat = {"messages": [{"role": "user", "content": SECRET}], "max_tokens": 2, "temperature": 0}
    with Serve(tmp_path, f"--access-log={log}") as serve:
        assert serve.post("/v1/chat/completions", chat, "first") == 200
        line_of(log.read_text, "first")
        log.rename(tmp_path / "access.log.1")
        assert serve.post("/v1/chat/completions", chat, "second") == 200
        wait_until(log.exists, SOON_S, "a new file")
        line_of(log.read_text, "second")
        assert "second" not in (tmp_path / "access.log.1").read_text()
        assert '"message":"access"' not in serve.lines()
        log.unlink()
        os.mkfifo(log)
        for i in range(3):
            assert serve.post("/v1/chat/completions", chat, f"unread-{i}") == 200
        reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
        assert serve.post("/v1/chat/completions", chat, "read") == 200
        lines = [json.loads(line) for line in read_until(reader, '"id":"read"').splitlines()]
        # The log may have come to the last of the unread ones after the pipe had its reader.
        assert len(lines) + sum(line.get("left_out", 0) for line in lines) == 4 and lines[-1]["id"] == "read"
        os.close(reader)
