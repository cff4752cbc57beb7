"""A proxy that the environment names is between no two parts of Baton, and on no way to this machine."""
import contextlib
import os
import select
import signal
import socket
import subprocess

import pytest

from cluster import BIN, MODEL, SOON_S, Cluster, complete, free_port, request, wait_until
from programs import run
from test_traces import Collector

QUESTION = "What is 2+2?"
ANSWER = "The answer to this classic math problem is 4."


def environment(proxy):
    """Variables that name the proxy in every way that programs know, and no host that is reached without it."""
    names = [f"{kind}_proxy" for kind in ("http", "https", "grpc", "all")]
    return {**{name: f"http://{proxy}" for name in [*names, *map(str.upper, names)]}, "no_proxy": "", "NO_PROXY": ""}


@pytest.mark.plain
def test_a_fleet_answers_and_sends_a_proxy_nothing():
    collector = Collector()
    with socket.create_server(("127.0.0.1", 0)) as proxy, contextlib.closing(collector):
        fleet = Cluster(router_args=["--disaggregate=always", f"--otlp-endpoint={collector.url}"])
        for server in fleet.servers:
            server.environment = environment(f"127.0.0.1:{proxy.getsockname()[1]}")
        with fleet:
            done = complete(fleet.stub, request(chat=[("user", QUESTION)], temperature=0, max_tokens=32))
            assert done.text == ANSWER and done.timings.kv_transfer_bytes > 0
            wait_until(collector.spans, SOON_S, "the request's spans are exported")
        called = select.select([proxy], [], [], 0)[0]
        assert not called, proxy.accept()[0].recv(200)


def test_serve_and_run_find_each_other_where_no_proxy_answers():
    variables = {**os.environ, **environment(f"127.0.0.1:{free_port()}")}
    serve = subprocess.Popen([str(BIN / "baton"), "serve", MODEL, "--listen=127.0.0.1:0", "--http-listen=none"], env=variables,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        line = serve.stdout.readline()
        assert line.startswith("ready: grpc://")
        done = run("baton", "run", "--server", line.strip().removeprefix("ready: "), "--temperature", "0", QUESTION, env=variables)
        assert done.stdout.decode() == ANSWER + "\n", done.stderr
        assert b"proxy" not in done.stderr
    finally:
        serve.send_signal(signal.SIGTERM)
        assert serve.wait(40) == 0
