"""Clients reach `baton serve` through reverse proxies on its machine, which run with the very files of deploy/reverse_proxy, but for
their names, ports and certificates. docs/clients.md shows these files."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess

import pytest

from cluster import MODEL, SOON_S, Server, free_port, new_log, wait_until
from programs import ROOT, new_key, run
from test_serve import Serve

FILES = ROOT / "deploy/reverse_proxy"
# A single process of this user, which writes nowhere else.
NGINX = """daemon off; master_process off; pid {0}/nginx.pid; error_log stderr;
events {{}}
http {{ access_log off; client_body_temp_path {0}/body; proxy_temp_path {0}/proxy; fastcgi_temp_path {0}/fastcgi;
  uwsgi_temp_path {0}/uwsgi; scgi_temp_path {0}/scgi; include {0}/nginx.conf; }}
"""
CADDY = "{{\n\tadmin off\n\tauto_https disable_redirects\n\tdefault_bind 127.0.0.1\n}}\nimport {0}/Caddyfile\n"
PROXIES = {  # the file, where its address stands in it and what is written there, the file around it, the command
    "nginx": ("nginx.conf", "listen 443 ", "listen 127.0.0.1:{} ", NGINX, "nginx -e stderr -p {0} -c {0}/around"),
    "caddy": ("Caddyfile", "baton.example.org {", "localhost:{} {{", CADDY, "caddy run --adapter caddyfile --config {0}/around"),
    "haproxy": ("haproxy.cfg", "bind :443 ", "bind 127.0.0.1:{} ", "", "haproxy -db -f {0}/haproxy.cfg")}
PROGRAMS = {name: shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in PROXIES}
INSTALLED = [pytest.param(name, marks=pytest.mark.skipif(PROGRAMS[name] is None, reason=f"{name} is not installed"))
             for name in PROXIES]
OWN_ADDRESSES = ("127.0.0.1:8080", "127.0.0.1:50051")  # for HTTP and gRPC, as in the files
PROMPT = "The capital of France is"


class Proxy:
    """The reverse proxy `name` before a router, which has HTTP and gRPC at `backends`. `certs` has its certificate."""

    def __init__(self, name, folder, certs, backends):
        file, listen, own_listen, around, command = PROXIES[name]
        folder.mkdir()
        self.port, self.log, self.environment = free_port(), new_log(name), {"XDG_CONFIG_HOME": folder, "XDG_DATA_HOME": folder}
        text = (FILES / file).read_text()
        changes = {listen: own_listen.format(self.port), **dict(zip(OWN_ADDRESSES, backends)), "/etc/ssl/baton": str(certs)}
        for written, changed in changes.items():
            assert written in text, f"{file} without {written}"
            text = text.replace(written, changed)
        (folder / file).write_text(text)
        (folder / "around").write_text(around.format(folder))
        program, *arguments = command.format(folder).split()
        self.command = [PROGRAMS[program], *arguments]
        self.context = ssl.create_default_context(cafile=str(certs / "ca.crt"))

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        env={**os.environ, **self.environment})
        wait_until(self.listens, SOON_S, f"{self.command} listens")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)

    def listens(self):
        assert self.process.poll() is None, pathlib.Path(self.log.name).read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def ask(self, path, key=None, body=None):
        """The answer to a request for `path`, unread; with a body to a POST."""
        connection = http.client.HTTPSConnection("localhost", self.port, context=self.context, timeout=60)
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        connection.request("GET" if body is None else "POST", path, body and json.dumps(body), headers)
        return connection.getresponse()


@pytest.fixture(scope="module")
def certs(tmp_path_factory):
    """A self-signed certificate, without a role, under the names that the files have; `ca.crt` is what clients trust."""
    folder = tmp_path_factory.mktemp("certs")
    subprocess.run([*"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=baton".split(),
                    "-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "key.pem", "-out", folder / "ca.crt"],
                   check=True, capture_output=True)
    shutil.copy(folder / "ca.crt", folder / "fullchain.pem")
    (folder / "baton.pem").write_text((folder / "ca.crt").read_text() + (folder / "key.pem").read_text())
    return folder


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """`baton serve` with the keys of a tenant and of an operator."""
    file, port = tmp_path_factory.mktemp("keys") / "keys.toml", free_port()
    key, ops = new_key(file, "--tenant=acme"), new_key(file, "--tenant=ops", "--operator")
    with Serve(f"--api-keys={file}", f"--http-listen=127.0.0.1:{port}", "--max-num-seqs=1") as serve:
        serve.key, serve.ops, serve.backends = key, ops, (f"127.0.0.1:{port}", serve.address)
        yield serve


@contextlib.contextmanager
def long_answer(served):
    """The server makes an answer, which has begun and would take a minute."""
    connection = http.client.HTTPConnection(served.backends[0], timeout=SOON_S)
    body = {"prompt": PROMPT, "max_tokens": 8000, "ignore_eos": True, "temperature": 0, "stream": True}
    connection.request("POST", "/v1/completions", json.dumps(body),
                       {"Content-Type": "application/json", "Authorization": f"Bearer {served.key}"})
    with contextlib.closing(connection), connection.getresponse() as answer:
        while not answer.readline().startswith(b"data: "):
            pass
        yield


@pytest.fixture(scope="module")
def proxies(served, certs, tmp_path_factory):
    """A function that starts the proxy of a name, once."""
    started = {}

    def start(name):
        if name not in started:
            started[name] = Proxy(name, tmp_path_factory.mktemp(name) / "proxy", certs, served.backends).__enter__()
        return started[name]

    yield start
    for proxy in started.values():
        proxy.__exit__()


@pytest.mark.parametrize("name", INSTALLED)
def test_clients_with_a_key_get_their_answers_by_http_and_others_do_not(name, proxies, served):
    proxy, body = proxies(name), {"prompt": PROMPT, "max_tokens": 4, "temperature": 0}
    answer = proxy.ask("/v1/completions", served.key, body)
    assert answer.status == 200
    assert json.loads(answer.read())["choices"][0]["text"].startswith(" Paris")
    for key in (None, "a-key-that-is-not-known-here"):
        assert proxy.ask("/v1/completions", key, body).status == 401
    too_long = {**body, "prompt": "long " * 600_000}  # 3 MB, which the router reads and refuses by its own words
    answer = proxy.ask("/v1/completions", served.key, too_long)
    assert answer.status == 400 and json.loads(answer.read())["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("name", INSTALLED)
def test_calls_with_a_key_are_answered_by_grpc_and_others_are_not(name, proxies, served, certs):
    asked = ["baton", "run", f"--server=localhost:{proxies(name).port}", f"--tls-ca={certs}/ca.crt", "--raw", "--max-tokens=4",
             "--temperature=0", PROMPT]
    done = run(*asked, env={**os.environ, "BATON_API_KEY": served.key})
    assert done.returncode == 0 and done.stdout.startswith(b" Paris"), done.stderr
    for key in ("", "a-key-that-is-not-known-here"):
        refused = run(*asked, env={**os.environ, "BATON_API_KEY": key})
        assert refused.returncode == 1 and b"API key" in refused.stderr, refused.stderr


@pytest.mark.parametrize("name", INSTALLED)
def test_the_page_is_open_to_an_operators_key_alone(name, proxies, served):
    answers = {key: proxies(name).ask("/page/fleet", key).status for key in (None, served.key, served.ops)}
    assert answers == {None: 401, served.key: 403, served.ops: 200}


def test_what_a_stream_writes_arrives_while_it_waits_for_its_tokens(proxies, served):
    """The decode worker computes one answer at a time. It has a long one, until each stream behind it has a line: the comment that
    keeps a stream alive, or its first token."""
    names = [name for name, program in PROGRAMS.items() if program is not None]
    if not names:
        pytest.skip("no reverse proxy is installed")
    body = {"prompt": PROMPT, "max_tokens": 40, "temperature": 0, "stream": True}

    def first_line(proxy):
        answer = proxy.ask("/v1/completions", served.key, body)
        return answer, answer.status, answer.readline()

    started = [proxies(name) for name in names]
    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
        with long_answer(served):
            streams = [asked.result(SOON_S) for asked in [pool.submit(first_line, proxy) for proxy in started]]
    for name, (answer, status, line) in zip(names, streams):
        assert status == 200 and line.strip(), name
        assert answer.read().rstrip().endswith(b"data: [DONE]"), name


@pytest.mark.parametrize("name", INSTALLED)
def test_a_router_without_keys_serves_nobody_behind_a_proxy(name, certs, tmp_path, keyless):
    with Proxy(name, tmp_path / "proxy", certs, keyless) as proxy:
        answer = proxy.ask("/v1/models")
        assert answer.status == 401 and "reverse proxy" in json.loads(answer.read())["error"]["message"]
        refused = run("baton", "run", f"--server=localhost:{proxy.port}", f"--tls-ca={certs}/ca.crt", "hello",
                      env={**os.environ, "BATON_API_KEY": ""})
        assert refused.returncode == 1 and b"reverse proxy" in refused.stderr, refused.stderr


@pytest.fixture(scope="module")
def keyless():
    """The addresses of a router without keys, and without workers, which it does not need to refuse calls."""
    port = free_port()
    router = Server("baton-router", f"--model={MODEL}", f"--decode=127.0.0.1:{free_port()}", f"--http-listen=127.0.0.1:{port}")
    router.start()
    try:
        wait_until(lambda: router.serving("liveness"), SOON_S, router.log_text())
        yield f"127.0.0.1:{port}", router.address
    finally:
        router.kill()
