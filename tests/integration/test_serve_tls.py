"""`baton serve` with a certificate for its clients, started and called as docs/clients.md prints it, from this machine and from
another."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess

import pytest

from cluster import BIN, MODEL, SOON_S, free_port, new_log, wait_until
from outside import another_machine
from programs import ROOT, assert_one_clear_line, issue, make_authority, new_key, run
from test_serve import Serve

PROMPT = "The capital of France is"
# What a client of another machine has. A proxy of the developer's is not between the two.
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
               "PATH": f"{BIN}:{os.environ['PATH']}"}


def printed_blocks():
    """What the page prints for the server's machine, and for the other one."""
    page = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    section = re.search(r"\n### HTTPS\n(.*?)(?=\n##)", page, re.DOTALL).group(1)
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


class Site:
    """A folder with the server's files, its ports, and the other machine that calls it."""

    def __init__(self, folder, outside):
        self.folder, self.outside = folder, outside
        self.grpc, self.http = free_port(), free_port()

    def here(self, text):
        """A printed text with this machine's address, ports and model."""
        for printed, meant in (("192.0.2.7", self.outside.address), (":50051", f":{self.grpc}"), (":8443", f":{self.http}"),
                               ("model.gguf", MODEL)):
            text = text.replace(printed, meant)
        return text

    def shell(self, text, elsewhere=False, **variables):
        options = {"cwd": self.folder, "env": {**ENVIRONMENT, **variables}}
        if elsewhere:
            return self.outside.run("bash", "-ec", text, **options)
        return subprocess.run(["bash", "-ec", text], capture_output=True, text=True, timeout=60, check=False, **options)

    @contextlib.contextmanager
    def serving(self, command):
        """Runs that `baton serve` until the end of the block; the lines that it prints once it is ready."""
        log = new_log("serve")
        with subprocess.Popen(["bash", "-ec", f"exec {command}"], cwd=self.folder, env=ENVIRONMENT, stdout=subprocess.PIPE,
                              stderr=log, text=True) as process:
            try:
                lines = [process.stdout.readline().rstrip("\n") for _ in range(3)]
                assert lines[0].startswith("ready: "), pathlib.Path(log.name).read_text()
                yield lines
            finally:
                process.send_signal(signal.SIGTERM)
                assert process.wait(40) == 0, pathlib.Path(log.name).read_text()

    def status(self, url, *flags):
        """The status of a completion that the other machine asks for by curl, or what curl fails with."""
        done = self.outside.run("curl", "-s", "-o", "answer.json", "-w", "%{http_code}", *flags, f"{url}/v1/completions", "-H",
                                "Content-Type: application/json", "-d",
                                f'{{"prompt": "{PROMPT}", "max_tokens": 2, "temperature": 0}}', cwd=self.folder, env=ENVIRONMENT)
        return int(done.stdout) if done.returncode == 0 else f"curl {done.returncode}"

    def baton(self, *flags):
        """`baton run` at the other machine."""
        return self.outside.run(BIN / "baton", "run", f"--server={self.outside.address}:{self.grpc}", "--max-tokens=2",
                                "--temperature=0", "--raw", *flags, PROMPT, cwd=self.folder, env=ENVIRONMENT,
                                stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site whose server runs as the page prints it."""
    with another_machine() as outside:
        made = Site(tmp_path_factory.mktemp("site"), outside)
        *preparations, serve = made.here(printed_blocks()[0]).replace("\\\n", " ").splitlines()
        done = made.shell("\n".join(preparations))
        assert done.returncode == 0, done.stderr
        with made.serving(serve) as made.lines:
            made.url = f"https://{outside.address}:{made.http}"
            yield made


def test_what_the_page_prints_for_the_other_machine_works_there(site):
    for command in site.here(printed_blocks()[1]).replace("\\\n", " ").splitlines():
        done = site.shell(command, elsewhere=True)
        assert done.returncode == 0, (command, done.stderr)
        assert "SmolLM2" in done.stdout if command.startswith("curl") else done.stdout.strip(), (command, done.stdout)


def test_the_lines_that_it_prints_say_tls_and_the_last_one_works_here(site):
    grpc, http, curl = site.lines
    assert (grpc, http) == (f"ready: grpc://0.0.0.0:{site.grpc} (TLS)", f"ready: https://0.0.0.0:{site.http}")
    assert f"--cacert cert.pem https://localhost:{site.http}/" in curl
    done = site.shell(f"{curl} -sS --fail", BATON_API_KEY=(site.folder / "team.key").read_text().strip())
    assert done.returncode == 0 and '"choices"' in done.stdout, done.stderr


def test_by_https_a_client_needs_a_known_key_and_trusts_the_certificate(site):
    key = (site.folder / "team.key").read_text().strip()
    trust, shown = ("--cacert", "cert.pem"), ("-H", f"Authorization: Bearer {key}")
    assert site.status(site.url, *trust, *shown) == 200
    assert "Paris" in (site.folder / "answer.json").read_text()
    assert site.status(site.url, *trust) == 401
    assert site.status(site.url, *trust, "-H", f"Authorization: Bearer {key[:-1]}{'A' if key[-1] != 'A' else 'B'}") == 401
    assert site.status(site.url, *shown) == "curl 60", "the certificate is not trusted"
    assert str(site.status(site.url.replace("https", "http"), *shown)).startswith("curl"), "plain text gets no answer"
    done = site.shell(f"curl -s -o /dev/null -w '%{{http_code}}' --cacert cert.pem https://127.0.0.1:{site.http}/v1/models")
    assert done.stdout == "401", "a key is needed on loopback too"


def test_by_grpc_a_client_needs_a_known_key_tls_and_the_servers_name(site):
    trust, shown = "--tls-ca=cert.pem", "--api-key-file=team.key"
    done = site.baton(trust, shown)
    assert done.returncode == 0 and "Paris" in done.stdout, done.stderr
    assert "UNAUTHENTICATED" in site.baton(trust).stderr
    new_key(site.folder / "other.toml", "--tenant=other")
    (site.folder / "wrong.key").write_text(new_key(site.folder / "other.toml", "--tenant=b"))
    assert "UNAUTHENTICATED" in site.baton(trust, "--api-key-file=wrong.key").stderr
    assert site.baton("--insecure").returncode != 0
    assert "UNAVAILABLE" in site.baton(trust, shown, "--tls-server-name=elsewhere.example").stderr


def test_the_fleet_is_shown_to_this_machine_by_tls(site):
    done = site.shell(f"baton status --http https://127.0.0.1:{site.http} --tls-ca cert.pem --api-key-file team.key")
    assert done.returncode == 0 and "prefill" in done.stdout, done.stderr


def test_without_a_way_to_know_clients_it_does_not_start(site):
    certificate = [f"--tls-cert={site.folder}/cert.pem", f"--tls-key={site.folder}/key.pem"]
    for more in ([], ["--check-config"]):
        done = run("baton", "serve", MODEL, "--listen=127.0.0.1:0", "--http-listen=none", *certificate, *more)
        assert_one_clear_line(done, "--api-keys", "--serve-key-file", "--tls-client-ca")
    done = run("baton", "serve", MODEL, "--check-config", *certificate, f"--api-keys={site.folder}/keys.toml")
    assert (done.returncode, done.stderr) == (0, b"")
    done = run("baton", "serve", MODEL, "--check-config", "--http-listen=0.0.0.0:0")
    assert_one_clear_line(done, "--http-listen 0.0.0.0:0", "give --tls-cert and --tls-key, or --insecure")


@pytest.mark.parametrize("http_host, told", [("127.0.0.1", True), ("0.0.0.0", False)])
def test_names_of_workers_are_told_if_no_other_machine_reaches_the_router(site, http_host, told):
    serve = Serve(f"--http-listen={http_host}:0", f"--tls-cert={site.folder}/cert.pem", f"--tls-key={site.folder}/key.pem",
                  f"--api-keys={site.folder}/keys.toml")
    serve.start()  # with gRPC on loopback
    try:
        command = wait_until(lambda: next((c for c in serve.commands() if c[0].endswith("/baton-router")), None), SOON_S,
                             "the router")
    finally:
        serve.process.send_signal(signal.SIGTERM)
        serve.process.communicate(timeout=40)
    assert ("--expose-workers" in command) == told, command


def test_clients_with_certificates_are_let_in_by_them(site):
    """Beside the server above, in the folder of an authority, which makes client.crt and client.key."""
    other = Site(site.folder / "clients", site.outside)
    make_authority(other.folder)
    issue(other.folder, "client")
    issue(other.folder, "operator")
    url = f"https://{site.outside.address}:{other.http}"
    client = ("--cert", "client.crt", "--key", "client.key")
    trust = ("--cacert", "../cert.pem")
    serve = other.here("baton serve model.gguf --listen 0.0.0.0:50051 --http-listen 0.0.0.0:8443 --tls-cert ../cert.pem "
                       "--tls-key ../key.pem --tls-client-ca ca.crt")
    with other.serving(serve) as lines:
        assert other.status(url, *trust, *client) == 200
        assert str(other.status(url, *trust)).startswith("curl"), "a certificate is required"
        operator = ("--cert", "operator.crt", "--key", "operator.key")
        assert str(other.status(url, *trust, *operator)).startswith("curl"), "that authority is for clients only"
        done = other.baton("--tls-ca=../cert.pem", "--tls-cert=client.crt", "--tls-key=client.key")
        assert done.returncode == 0 and "Paris" in done.stdout, done.stderr
        assert "UNAVAILABLE" in other.baton("--tls-ca=../cert.pem").stderr
        done = other.shell(f"{lines[2]} -sS --fail")
        assert done.returncode == 0 and '"choices"' in done.stdout, (lines[2], done.stderr)
