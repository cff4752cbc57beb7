"""Texts of models, servers and files on a terminal: it shows them, and interprets none."""
import concurrent.futures
import json
import os
import pathlib
import select
import shutil
import socket
import struct
import subprocess
import termios

import grpc
import pytest

from cluster import BIN, SOON_S, free_port
from programs import run
from stubs import pb, rpc

FOLDER = pathlib.Path(__file__).parent.parent / "data" / "arch" / "llama-hf"
# Sets the title, clears the screen, writes to the clipboard, hides the line, and the same by one character, DEL, and an override.
HOSTILE = "a\x1b]0;x\x07\x1b[2J\x1b]52;c;eA==\x07\b\rError: forged\x7f\x9b2J\u202e"
SHOWN = "a\\u001b]0;x\\u0007\\u001b[2J\\u001b]52;c;eA==\\u0007\\u0008\\u000dError: forged\\u007f\\u009b2J\\u202e"


def on_terminal(*args):
    """Runs the program args[0] to its end. Returns its exit code, and what a terminal is shown of it."""
    reader, terminal = os.openpty()
    settings = termios.tcgetattr(terminal)
    settings[1] &= ~termios.OPOST  # newlines arrive as they were written
    termios.tcsetattr(terminal, termios.TCSANOW, settings)
    # Without TERM the log has no colours of its own.
    environment = {name: value for name, value in os.environ.items() if name not in ("TERM", "COLORTERM")}
    process = subprocess.Popen([str(BIN / args[0]), *args[1:]], stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal,
                               env=environment)
    os.close(terminal)
    try:
        shown = b"".join(iter(lambda: read(reader), b""))
        code = process.wait(SOON_S)
    finally:
        process.kill()
        os.close(reader)
    text = shown.decode()
    interpreted = [c for c in text if (c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f" or "\u202a" <= c <= "\u202e"]
    assert interpreted == [], text
    return code, text


def read(reader):
    """What comes next from a terminal; nothing once no process has it open."""
    assert select.select([reader], [], [], SOON_S)[0], "the program is silent and does not end"
    try:
        return os.read(reader, 65536)
    except OSError:
        return b""


class HostileServer(rpc.GenerationServiceServicer):
    """Answers with HOSTILE, a character at a time; to the prompt "fail" it says so in its status."""

    def Generate(self, request, context):
        if request.chat.messages[-1].content == "fail":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{HOSTILE}\nanother line")
        for character in HOSTILE:
            yield pb.GenerateResponse(chunk=pb.GenerateChunk(text=character))
        complete = pb.GenerateComplete(finish_reason=pb.FINISH_REASON_STOP)
        complete.timings.decode_worker = complete.timings.prefill_worker = f"{HOSTILE}\nanother line"
        yield pb.GenerateResponse(complete=complete)


@pytest.fixture(scope="module")
def server():
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        hostile = grpc.server(pool)
        rpc.add_GenerationServiceServicer_to_server(HostileServer(), hostile)
        address = f"127.0.0.1:{free_port()}"
        hostile.add_insecure_port(address)
        hostile.start()
        yield address
        hostile.stop(0)


def test_an_answer_is_shown_and_not_interpreted_and_piped_as_it_came(server):
    code, text = on_terminal("baton", "run", "--server", server, "--stats", "hello")
    assert code == 0 and text.startswith(f"{SHOWN}\nsampling "), text
    assert f"  on {SHOWN}\\u000aanother line\n" in text, text
    assert run("baton", "run", "--server", server, "hello").stdout.decode() == HOSTILE + "\n"


def test_json_on_a_terminal_is_the_same_json(server):
    _, text = on_terminal("baton", "run", "--server", server, "--json", "hello")
    answer = json.loads(text)
    assert answer["text"] == HOSTILE
    assert json.loads(run("baton", "run", "--server", server, "--json", "hello").stdout) == answer


def test_a_servers_error_is_one_line_of_ours(server):
    done = on_terminal("baton", "run", "--server", server, "fail")
    assert done == (1, f"baton: INVALID_ARGUMENT: {SHOWN}\\u000aanother line\n")


def frame(kind, flags, stream, payload=b""):
    """A frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def header(name, value):
    """A header of HTTP/2 that is not compressed."""
    return bytes([0, len(name)]) + name + bytes([len(value)]) + value


def test_what_grpc_says_of_a_servers_headers_is_escaped():
    settings, headers, end = 4, 1, 5
    with socket.create_server(("127.0.0.1", 0)) as listener, concurrent.futures.ThreadPoolExecutor(1) as pool:
        def answer():
            peer, _ = listener.accept()
            with peer:
                peer.settimeout(SOON_S)
                peer.sendall(frame(settings, 0, 0) + frame(settings, 1, 0))
                received = b""
                while b"Generate" not in received:
                    received += peer.recv(65536)
                peer.sendall(frame(headers, end, 1, header(b":status", b"200") + header(b"content-type", b"application/grpc")
                                   + header(b"grpc-status", b"\x1b[2J\x1b]0;x\x07")))
                while peer.recv(65536):
                    pass

        answered = pool.submit(answer)
        code, text = on_terminal("baton", "run", "--server", f"127.0.0.1:{listener.getsockname()[1]}", "hello")
        assert code == 1 and "baton: UNKNOWN" in text, text
        assert "\\u001b[2J" in text, "gRPC says so"
        answered.result(SOON_S)


def gguf(path, **texts):
    """A GGUF file with these texts and no tensors."""
    def text(value):
        return struct.pack("<Q", len(value.encode())) + value.encode()

    keys = b"".join(text(key.replace("__", ".")) + struct.pack("<I", 8) + text(value) for key, value in texts.items())
    path.write_bytes(struct.pack("<4sIQQ", b"GGUF", 3, 0, len(texts)) + keys)
    return path


@pytest.fixture(params=["tokenizer", "split", "architecture", "rope", "shard"])
def model(request, tmp_path):
    """A model with a hostile text, in a folder with a hostile name."""
    folder = tmp_path / HOSTILE
    folder.mkdir()
    file = folder / "m.gguf"
    if request.param == "tokenizer":
        return gguf(file, tokenizer__ggml__model=HOSTILE, general__architecture="llama")
    if request.param == "split":
        return gguf(file, tokenizer__ggml__model="gpt2", tokenizer__ggml__pre=HOSTILE * 50000)
    if request.param == "architecture":
        return gguf(file, general__architecture=HOSTILE, general__name=HOSTILE)
    copy = folder / "hf"
    shutil.copytree(FOLDER, copy)
    config = json.loads((copy / "config.json").read_text())
    index = json.loads((copy / "model.safetensors.index.json").read_text())
    if request.param == "rope":
        config["rope_scaling"]["rope_type"] = HOSTILE
    else:
        index["weight_map"] = {name: f"{HOSTILE}.safetensors" for name in index["weight_map"]}
    (copy / "config.json").write_text(json.dumps(config))
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    return copy


def test_a_models_texts_and_names_are_shown_and_not_interpreted(model):
    refused = 0
    # Not every program reads all of a model: a tokenizer needs no weights.
    for command in (["baton-decode-worker", "--listen=127.0.0.1:0", "--log-level=error", f"--model={model}"],
                    ["baton-router", "--check-config", "--decode=127.0.0.1:1", "--log-level=error", f"--model={model}"],
                    ["baton", "tokenize", f"--model={model}", "a"], ["baton", "models", "--device=cpu", str(model)]):
        code, text = on_terminal(*command)
        assert code == 0 or (code == 2 and text.count("\n") == 1), (command, code, text)
        assert len(text) < 30000, (command, text[:1000])
        refused += code == 2 and "\\u001b" in text
    assert refused > 0
