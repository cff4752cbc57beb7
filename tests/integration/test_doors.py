"""Who is served at a router that other machines reach, by the command lines that docs/clients.md prints for it."""
import http.client
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys

import grpc
import pytest

from cluster import BIN, MODEL, SOON_S, Failure, Server, free_port, request, wait_until
from outside import another_machine
from programs import ROOT, new_key, run
from stubs import rpc
from test_serve import Serve

# Prints the status and the body of a GET for each [path, headers] at the address.
ASK = """import http.client, json, sys
answers = []
for path, headers in json.loads(sys.argv[2]):
    connection = http.client.HTTPConnection(sys.argv[1], timeout=20)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    answers.append([answer.status, answer.read().decode()])
print(json.dumps(answers))
"""
PROXIED = {"X-Forwarded-For": "203.0.113.7"}


def printed(heading):
    """The command lines below that heading of the docs: those of the server, and those of its clients."""
    page = (ROOT / "docs/clients.md").read_text(encoding="utf-8")
    section = re.search(rf"\n### {heading}\n(.*?)\n##", page, re.DOTALL).group(1)
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    assert len(blocks) == 2, blocks
    return [block.splitlines() for block in blocks]


class Fleet(Serve):
    """What the docs print below that heading, started in `folder`, at ports of its own and with the test's model."""

    def __init__(self, heading, folder, outside):
        super().__init__()
        self.folder, self.outside = folder, outside
        self.grpc_port, self.http_port = free_port(), free_port()
        server, self.client_lines = printed(heading)
        self.server_line = next(line for line in server if line.startswith("baton serve "))

    def at_own_ports(self, line):
        return line.replace(":50051", f":{self.grpc_port}").replace(":8080", f":{self.http_port}")

    def start(self):
        argv = shlex.split(self.at_own_ports(self.server_line).replace("model.gguf", MODEL))
        self.process = subprocess.Popen([str(BIN / argv[0]), *argv[1:]], cwd=self.folder, stdout=subprocess.PIPE,
                                        stderr=self.log, text=True)

    def client(self, program):
        """The line of the docs that calls by that program, as it is typed at another machine."""
        line = next(line for line in self.client_lines if line.startswith(program))
        line = re.sub(r"\bserver:", f"{self.outside.address}:", self.at_own_ports(line))
        return line + " --temperature 0 --max-tokens 4" if program == "baton" else line.replace("curl", "curl -sS", 1)

    def type_outside(self, line, key=""):
        """How that line ends at another machine, with that key in BATON_API_KEY. No proxy is asked."""
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        environment.update(PATH=f"{BIN}:{environment['PATH']}", BATON_API_KEY=key)
        return self.outside.run("bash", "-euc", line, cwd=self.folder, env=environment)

    def ask_outside(self, *asked):
        """[status, body] for each (path, headers) that another machine asks for."""
        done = self.outside.run(sys.executable, "-c", ASK, f"{self.outside.address}:{self.http_port}", json.dumps(asked))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def ask(self, path, headers=None, host="127.0.0.1"):
        """(status, body) of a GET by this machine."""
        return get(f"{host}:{self.http_port}", path, headers)


def get(address, path, headers=None):
    connection = http.client.HTTPConnection(address, timeout=20)
    connection.request("GET", path, headers=headers or {})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def listens(port):
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def statuses(answers):
    return [status for status, _ in answers]


@pytest.fixture(scope="module")
def outside():
    with another_machine() as machine:
        yield machine


@pytest.fixture(scope="module")
def everybody(tmp_path_factory, outside):
    with Fleet("Plain text for everybody on the network", tmp_path_factory.mktemp("everybody"), outside) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def keyed(tmp_path_factory, outside):
    """`keys`: of a tenant, of an operator, and of another tenant, which is revoked."""
    folder = tmp_path_factory.mktemp("keyed")
    file = folder / "keys.toml"
    fleet = Fleet("Plain text with keys", folder, outside)
    fleet.keys = {"alice": new_key(file, "--tenant=alice"), "ops": new_key(file, "--tenant=ops", "--operator"),
                  "bob": new_key(file, "--tenant=bob")}
    listed = run("baton", "keys", "list", f"--file={file}").stdout.decode()
    revoked = next(line.split()[0] for line in listed.splitlines() if " bob " in line)
    assert run("baton", "keys", "revoke", revoked, f"--file={file}").returncode == 0
    with fleet:
        yield fleet


def test_another_machine_is_served_by_the_lines_that_the_docs_print(everybody):
    answered = everybody.type_outside(everybody.client("baton"))
    assert answered.returncode == 0 and answered.stdout.strip(), answered.stderr
    if shutil.which("curl"):
        models = everybody.type_outside(everybody.client("curl"))
        assert json.loads(models.stdout)["data"], models.stderr
    assert everybody.log_text().count("may call without a key") == 1, "one warning"


def test_names_of_the_own_network_are_served_and_names_of_the_internet_are_not(everybody):
    own = ["baton-router:8080", "baton-router.ns.svc.cluster.local", "baton-router.ns.svc:8080", "desk.local.", "192.0.2.9",
           "[2001:db8::1]:8080", "localhost"]
    strangers = ["evil.example", "evil.example:8080", "local.evil.example"]
    asked = [("/v1/models", {"Host": host}) for host in (*own, *strangers)]
    expected = [200] * len(own) + [403] * len(strangers)
    answers = everybody.ask_outside(*asked)
    assert statuses(answers) == expected
    assert "--http-allow-host" in answers[-1][1]
    for here in ("127.0.0.1", everybody.outside.address):  # a name that was rebound to either address
        assert statuses(everybody.ask(*each, host=here) for each in asked) == expected


def test_without_keys_insecure_serves_everybody_and_the_page_stays_with_this_machine(everybody):
    assert statuses(everybody.ask_outside(("/v1/models", PROXIED), ("/page/fleet", {}))) == [200, 403]
    assert everybody.ask("/page/fleet")[0] == 200
    for host in ("desk.local", "evil.example"):
        assert everybody.ask("/page/fleet", {"Host": host})[0] == 403


def test_with_keys_another_machine_is_served_by_the_lines_that_the_docs_print(keyed):
    answered = keyed.type_outside(keyed.client("baton"), keyed.keys["alice"])
    assert answered.returncode == 0 and answered.stdout.strip(), answered.stderr
    if shutil.which("curl"):
        models = keyed.type_outside(keyed.client("curl"), keyed.keys["alice"])
        assert json.loads(models.stdout)["data"], models.stdout + models.stderr
    assert keyed.log_text().count("--insecure: API keys") == 1, "one warning"
    assert "may call without a key" not in keyed.log_text()


@pytest.mark.parametrize(("whose", "why"), [("", "known clients only"), ("wrong", "API key"), ("bob", "was revoked"),
                                            ("ops", "operator's API key")])
def test_with_keys_and_insecure_no_other_caller_is_served(keyed, whose, why):
    key = keyed.keys.get(whose, "baton-" + "W" * 43 if whose else "")
    refused = keyed.type_outside(keyed.client("baton"), key)
    assert refused.returncode == 1 and why in refused.stderr and not refused.stdout, refused.stdout + refused.stderr
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    (status, body), = keyed.ask_outside(("/v1/models", headers))
    assert status == 401 and why in body, body
    here = 200 if whose == "ops" else 401
    assert keyed.ask("/v1/models", headers)[0] == here, "on loopback an operator's key is protected"
    assert keyed.ask("/v1/models", {**headers, **PROXIED})[0] == here


def test_with_a_key_every_host_is_served_and_through_a_proxy_nobody_without_one(keyed):
    shown = {"Authorization": f"Bearer {keyed.keys['alice']}"}
    foreign = {"Host": "llm.example.org"}
    asked = [("/v1/models", headers) for headers in ({**shown, **foreign}, {**shown, **PROXIED}, PROXIED, foreign)]
    assert statuses(keyed.ask_outside(*asked)) == [200, 200, 401, 401]
    assert statuses(keyed.ask(*each) for each in asked) == [200, 200, 401, 401]


def test_baton_shows_no_key_in_plain_text_unless_it_is_told_to(keyed):
    line = keyed.client("baton").replace("--insecure ", "")
    refused = keyed.type_outside(line, keyed.keys["alice"])
    assert refused.returncode == 2 and "--tls-ca" in refused.stderr and "--insecure" in refused.stderr, refused.stderr


def test_a_router_on_loopback_serves_nobody_unknown_through_a_reverse_proxy():
    http_port = free_port()
    router = Server("baton-router", f"--model={MODEL}", "--decode=127.0.0.1:1", f"--http-listen=127.0.0.1:{http_port}",
                    "--http-allow-host=llm.example.org")
    router.start()
    try:
        address = f"127.0.0.1:{http_port}"
        wait_until(lambda: listens(http_port), SOON_S, "the router listens")
        assert get(address, "/v1/models")[0] == get(address, "/v1/models", {"Host": "LLM.example.org:80"})[0] == 200
        assert get(address, "/v1/models", {"Host": "evil.example"})[0] == 403
        for header in ("Forwarded", "X-Forwarded-For", "Via"):
            status, body = get(address, "/v1/models", {header: "203.0.113.7"})
            assert status == 401 and "reverse proxy" in body, body
        with grpc.insecure_channel(router.address) as channel, pytest.raises(grpc.RpcError) as refused:
            list(rpc.GenerationServiceStub(channel).Generate(request(prompt="Hello", max_tokens=1, temperature=0), timeout=20,
                                                             metadata=(("x-forwarded-for", "203.0.113.7"),)))
        assert Failure(refused.value).reason == "NO_IDENTITY"
    finally:
        router.stop()
