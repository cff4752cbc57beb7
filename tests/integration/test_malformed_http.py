"""Whatever comes at the port of HTTP, the router stays, says what is wrong, and serves who is right. BATON_MALFORMED: how many
requests."""
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import socket
import subprocess
import urllib.request

import pytest

from cluster import BIN, Server, free_port, wait_until
from malformed import Maker, answers, check_error

TOKENIZER = pathlib.Path(__file__).resolve().parent.parent / "data" / "tokenizer" / "smollm2-vocab.gguf"
REQUESTS = int(os.environ.get("BATON_MALFORMED", "3000"))
AT_ONCE = 16


@pytest.fixture(scope="module")
def router(tmp_path_factory):
    """A router with workers that answer at once."""
    workers_file = tmp_path_factory.mktemp("malformed") / "workers"
    workers = subprocess.Popen([str(BIN.parent / "tests/mock_workers"), f"--model={TOKENIZER}", f"--workers-file={workers_file}",
                                "--prefill=1", "--decode=1"], stdout=subprocess.PIPE, text=True)
    assert workers.stdout.readline() == "ready\n"
    made = Server("baton-router", f"--model={TOKENIZER}", f"--workers-file={workers_file}", "--log-level=error")
    made.http_port = free_port()
    made.argv.append(f"--http-listen=127.0.0.1:{made.http_port}")
    made.start()
    try:
        wait_until(lambda: made.serving("all_workers"), 60, "the router knows its workers")
        yield made
        assert made.stop() == 0, made.log_text()
    finally:
        if made.process.poll() is None:
            made.kill()
        workers.terminate()
        workers.wait(10)


def exchange(port, data, cut):
    """What is answered to `data`, which comes in two pieces, and after which no more comes."""
    try:
        made = socket.create_connection(("127.0.0.1", port), timeout=60)
    except ConnectionResetError:  # by the system, which has had a connection of these two ports just before
        return b""
    with made as connection:
        received = b""
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(data[:cut])
            connection.sendall(data[cut:])
            connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError, OSError):  # it is refused before it has come
            pass
        while True:
            try:
                piece = connection.recv(65536)
            except ConnectionResetError:
                return received
            if not piece:
                return received
            received += piece


def check(made, received):
    found = answers(received)
    if not found:
        return "closed" if made.may_be_unfinished else "reset"
    for status, headers, body in found:
        if status >= 400:
            check_error(status, headers, body)
    # A request whose end nobody knows may hide another one.
    expected = [status for status, _, _ in found][:1 if made.may_be_unfinished else None]
    assert len(expected) <= 1 and made.statuses.issuperset(expected), [status for status, _, _ in found]
    return found[0][0] if found else "closed"


def completion(port):
    body = {"prompt": "Hello", "max_tokens": 8, "seed": 1, "temperature": 1}
    made = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode(),
                                  {"Content-Type": "application/json"})
    with urllib.request.urlopen(made, timeout=30) as response:
        return json.loads(response.read())["choices"][0]["text"]


def test_malformed_requests_are_refused_and_others_served(router):
    expected = completion(router.http_port)
    source = random.Random(1)
    maker = Maker(source)
    seen, wrong = collections.Counter(), {}  # wrong: the last of each kind

    def send(made, cut):
        received = exchange(router.http_port, made.data, cut)
        try:
            return made.kind, check(made, received)
        except (AssertionError, KeyError, ValueError) as error:
            wrong[made.kind] = f"{made.kind}: {error}: {made.data[:600]!r}\nwas answered: {received[:600]!r}"
            return made.kind, "wrong"

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        done = []
        for _ in range(REQUESTS):
            made = maker.make()
            done.append(pool.submit(send, made, source.randrange(len(made.data) + 1)))
            if len(done) >= 1000:
                seen.update(future.result() for future in done)
                done.clear()
        seen.update(future.result() for future in done)
    print("\n".join(f"{count:6d}  {kind} {status}" for (kind, status), count in sorted(seen.items(), key=str)))
    assert not wrong, "\n".join(wrong.values())
    # Among very many short connections the system resets a few, which then have no answer.
    assert sum(count for (_, how), count in seen.items() if how == "reset") <= 2 + REQUESTS // 10_000, seen
    assert len({kind for kind, _ in seen}) == len(maker.kinds), "each kind was tried"
    assert router.process.poll() is None, router.log_text()
    assert completion(router.http_port) == expected
    wait_until(lambda: router.metric("baton_http_connections") == 0, 30, "the connections are closed")
    assert router.metric("baton_http_event_streams") == 0
