"""A load balancer cuts connections that are silent for some seconds; those in the field wait for a minute. A stream is not cut while it
waits for tokens, and other clients are answered while one never reads."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess

import pytest

from cluster import SOON_S, Cluster, free_port, new_log, wait_until

HAPROXY = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
SILENCE_S = 3
COMMENTS = SILENCE_S + 2  # a silent stream gets one each second
SEQUENCES = 2  # sequences that the decode worker computes at a time
MB = 1 << 20
CONFIG = """global
  tune.sndbuf.client 4096
  tune.rcvbuf.server 4096
defaults
  mode http
  timeout connect 5s
  timeout client {silence}s
  timeout server {silence}s
listen balancer
  bind 127.0.0.1:{port}
  server router 127.0.0.1:{router}
"""
PROMPT = "The capital of France is"
CHAT = [{"role": "user", "content": "What is the capital of France?"}]
ASKED = {  # by path: the body, and what ends its stream
    "/v1/completions": ({"prompt": PROMPT, "max_tokens": 4}, "data: [DONE]"),
    "/v1/chat/completions": ({"messages": CHAT, "max_tokens": 4}, "data: [DONE]"),
    "/v1/responses": ({"input": "What is the capital of France?", "max_output_tokens": 16}, "event: response.incomplete"),
    "/v1/messages": ({"model": "any", "messages": CHAT, "max_tokens": 4}, "event: message_stop"),
}
pytestmark = pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed")


@pytest.fixture(scope="module")
def balanced(tmp_path_factory):
    """A fleet whose router listens for HTTP at `http`, and the balancer before it at `balancer`."""
    router, port, log = free_port(), free_port(), new_log("haproxy")
    file = tmp_path_factory.mktemp("balancer") / "haproxy.cfg"
    file.write_text(CONFIG.format(silence=SILENCE_S, port=port, router=router))
    with Cluster(decode_args=[f"--max-num-seqs={SEQUENCES}"],
                 router_args=[f"--http-listen=127.0.0.1:{router}", "--served-model-name=any"]) as cluster:
        cluster.http, cluster.balancer = router, port
        process = subprocess.Popen([HAPROXY, "-db", "-f", str(file)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_until(lambda: listens(process, log, port), SOON_S, "the balancer listens")
            yield cluster
        finally:
            process.terminate()
            process.wait(10)


def listens(process, log, port):
    assert process.poll() is None, pathlib.Path(log.name).read_text()
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def asked(port, path, body):
    """The answer to a request, of which nothing but the head is read."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", path, json.dumps({"temperature": 0, **body}), {"Content-Type": "application/json"})
    with contextlib.closing(connection), connection.getresponse() as answer:
        yield answer


def lines_up_to(answer, found):
    """Reads the stream up to the first line of which `found` is true."""
    lines = []
    while True:
        line = answer.readline()
        assert line, f"the stream was cut after {lines[-20:]}"
        lines.append(line.decode().rstrip())
        if found(lines):
            return lines


def comments(lines):
    return sum(line.startswith(":") for line in lines)


def begun(answer):
    return lines_up_to(answer, lambda lines: lines[-1].startswith("data: "))


def long_answers(balanced, stack):
    """Answers that take all places of the decode worker until they are closed."""
    body = {"prompt": PROMPT, "max_tokens": 8000, "ignore_eos": True, "stream": True}
    for _ in range(SEQUENCES):
        begun(stack.enter_context(asked(balanced.http, "/v1/completions", body)))


def test_a_stream_that_waits_for_its_first_token_is_not_cut_and_what_is_no_stream_is(balanced):
    with contextlib.ExitStack() as held, contextlib.ExitStack() as waiting, concurrent.futures.ThreadPoolExecutor(1) as pool:
        long_answers(balanced, held)

        def status_of_whole():
            with asked(balanced.balancer, "/v1/completions", {"prompt": PROMPT, "max_tokens": 4}) as answer:
                return answer.status

        whole = pool.submit(status_of_whole)
        streams = {path: waiting.enter_context(asked(balanced.balancer, path, {**body, "stream": True}))
                   for path, (body, _) in ASKED.items()}
        for path, answer in streams.items():
            assert answer.status == 200, path
        for answer in streams.values():
            lines_up_to(answer, lambda lines: comments(lines) >= COMMENTS)
        assert whole.result(SOON_S) == 504
        held.close()
        for path, answer in streams.items():
            rest = answer.read().decode()
            assert ASKED[path][1] in rest, (path, rest)


def test_an_answer_that_stalls_is_not_cut(balanced):
    # Its last token comes long after its first, even if small buffers let the balancer fall behind.
    body = {"prompt": PROMPT, "max_tokens": 8000, "ignore_eos": True, "stream": True}
    worker = balanced.decode[0].process
    with asked(balanced.balancer, "/v1/completions", body) as answer:
        begun(answer)
        worker.send_signal(signal.SIGSTOP)
        try:
            lines_up_to(answer, lambda lines: comments(lines) >= COMMENTS)
        finally:
            worker.send_signal(signal.SIGCONT)
        begun(answer)  # the tokens after those comments


def resident(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def test_clients_that_never_read_end_by_the_balancers_limit_and_others_are_answered(balanced):
    balanced.wait_ready()
    before, connections = resident(balanced.router), []
    # Some kilobytes for each token.
    body = json.dumps({"messages": CHAT, "max_tokens": 4000, "ignore_eos": True, "stream": True, "logprobs": True,
                       "top_logprobs": 20, "temperature": 0})
    head = (f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n")
    try:
        for _ in range(SEQUENCES):
            connection = socket.socket()
            connections.append(connection)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", balanced.balancer))
            connection.sendall((head + body).encode())
        wait_until(lambda: any(balanced.used_blocks()), SOON_S, "they are answered")
        with asked(balanced.http, "/v1/completions", {"prompt": PROMPT, "max_tokens": 4}) as answer:
            assert answer.status == 200 and json.loads(answer.read())["choices"][0]["text"].startswith(" Paris")
        balanced.wait_idle()
        assert resident(balanced.router) < before + 32 * MB
    finally:
        for connection in connections:
            connection.close()
