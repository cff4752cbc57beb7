"""The front before routers that it finds by a name and knows by their certificates, as deploy/kubernetes/components/front runs
it."""
import contextlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import urllib.error
import urllib.request

import grpc
import pytest

from cluster import Cluster, free_port, request, wait_until
from front import START
from name_server import NameServer
from programs import bearer, channel_credentials, issue, make_authority, new_key, tls_flags
from stubs import rpc
from test_front import forged, generate

PLACES = ("127.0.0.1", "127.0.0.2")  # hosts of the routers, which share one port
CLOSED_S = 20


class FrontElsewhere(Cluster):
    """Two routers, and a front before them. `ours` is the authority of the servers, and `clients` that of the clients, which the
    routers do not know."""

    def __init__(self, folder):
        self.ours, self.clients = folder / "ours", folder / "clients"
        make_authority(self.ours)
        make_authority(self.clients)
        for role in ("router", "prefill", "decode", "front", "operator", "client"):
            issue(self.ours, role)
        issue(self.clients, "client")
        self.key = new_key(folder / "keys.toml", "--tenant=acme")
        super().__init__(prefill_args=tls_flags(self.ours, "prefill"), decode_args=tls_flags(self.ours, "decode"), routers=2,
                         router_args=[f"--api-keys={folder}/keys.toml", *tls_flags(self.ours, "router")],
                         credentials=channel_credentials(self.ours, "operator"))
        self.http_port, self.routers_http_port = free_port(), free_port()
        for router, place in zip(self.routers, PLACES):
            router.argv[1] = f"--listen={place}:{self.router.port}"
            router.argv.append(f"--http-listen={place}:{self.routers_http_port}")
        self.names = NameServer(PLACES)
        self.address, self.health = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.front = None

    def __enter__(self):
        super().__enter__()
        self.names.__enter__()
        self.start_front()
        return self

    def __exit__(self, *exception):
        if self.front is not None:
            self.front.terminate()
            self.front.wait(CLOSED_S)
        if self.names.thread.is_alive():
            self.names.__exit__()
        super().__exit__(*exception)

    def start_front(self):
        self.front = subprocess.Popen(
            [START, self.address, self.ours / "front.crt", self.clients / "ca.crt", f"routers.test:{self.router.port}"],
            env={**os.environ, "BATON_FRONT_ROUTER_CA": str(self.ours / "ca.crt"), "BATON_FRONT_ROUTER_NAME": "localhost",
                 "BATON_FRONT_HTTP": f"127.0.0.1:{self.http_port}",
                 "BATON_FRONT_HTTP_ROUTER": f"routers.test:{self.routers_http_port}",
                 "BATON_FRONT_DNS": self.names.address, "BATON_FRONT_HEALTH": self.health, "BATON_FRONT_RENEWAL": "0.2"})
        wait_until(lambda: self.probe("ready") == 200, 20, "the front knows a router")

    def probe(self, path):
        """The HTTP status; None if no server listens."""
        try:
            with urllib.request.urlopen(f"http://{self.health}/{path}", timeout=5) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    @contextlib.contextmanager
    def channel(self, folder=None):
        """A channel to the front, with the certificate of the client of that authority, or with none."""
        credentials = (channel_credentials(folder, ca=self.ours) if folder
                       else grpc.ssl_channel_credentials((self.ours / "ca.crt").read_bytes()))
        with grpc.secure_channel(self.address, credentials) as made:
            yield made


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with FrontElsewhere(tmp_path_factory.mktemp("elsewhere")) as cluster:
        yield cluster


def test_routers_believe_the_front_about_clients_whom_they_do_not_let_in_themselves(fleet):
    with fleet.channel(fleet.clients) as known, fleet.channel() as unknown:
        assert generate(known).startswith(" Paris")
        assert generate(unknown, bearer(fleet.key)).startswith(" Paris")
        with pytest.raises(grpc.RpcError) as error:
            generate(unknown, forged(fleet, "client"))
        assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED, error.value
    with grpc.secure_channel(fleet.router.address, channel_credentials(fleet.clients, ca=fleet.ours)) as direct:
        with pytest.raises(grpc.RpcError) as error:
            generate(direct)
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE, error.value


def test_http_passes_too(fleet):
    context = ssl.create_default_context(cafile=str(fleet.ours / "ca.crt"))
    context.load_cert_chain(fleet.clients / "client.crt", fleet.clients / "client.key")
    connection = http.client.HTTPSConnection("localhost", fleet.http_port, context=context, timeout=60)
    asked = {"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0}
    connection.request("POST", "/v1/completions", json.dumps(asked), {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert response.status == 200, response.read()
    assert json.load(response)["choices"][0]["text"].startswith(" Paris")
    connection.close()


def test_a_router_that_is_gone_fails_no_call_before_its_name_is_gone_too(fleet):
    fleet.routers[0].kill()
    try:
        for _ in range(4):
            with fleet.channel(fleet.clients) as known:
                assert generate(known).startswith(" Paris")
    finally:
        fleet.revive()


def test_the_front_is_ready_while_the_name_has_routers(fleet):
    fleet.names.addresses = []
    try:
        wait_until(lambda: fleet.probe("ready") == 503, 30, "the front knows no router")
        assert fleet.probe("live") == 200
    finally:
        fleet.names.addresses = list(PLACES)
    wait_until(lambda: fleet.probe("ready") == 200, 30, "the front knows the routers again")


def shown(fleet):
    host, port = fleet.address.split(":")
    return ssl.get_server_certificate((host, int(port)))


def test_a_renewed_certificate_is_shown_without_a_word(fleet):
    before = shown(fleet)
    issue(fleet.ours, "front", "--force")
    wait_until(lambda: shown(fleet) != before, 30, "the front shows its new certificate")
    with fleet.channel(fleet.clients) as known:
        assert generate(known).startswith(" Paris")


def test_what_runs_ends_before_the_front_does(fleet):
    """Kubernetes sends the image's signal, SIGUSR1."""
    with fleet.channel(fleet.clients) as known:
        call = rpc.GenerationServiceStub(known).Generate(
            request(ids=[30] * 16, stream=True, max_tokens=300, ignore_eos=True, temperature=0), timeout=120)
        next(call)
        fleet.front.send_signal(signal.SIGUSR1)
        wait_until(lambda: fleet.probe("live") is None, CLOSED_S, "the front listens no more")
        responses = list(call)
    assert responses[-1].complete.usage.completion_tokens == 300
    assert fleet.front.wait(CLOSED_S) == 0
    fleet.start_front()
