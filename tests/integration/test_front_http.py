"""Clients of HTTP reach the router through the front, whose word about their certificates and addresses it believes."""
import base64
import contextlib
import http.client
import json
import ssl

import pytest

from cluster import SOON_S, wait_until
from front import FrontedCluster

HEADER = "baton-client-certificate"


@pytest.fixture(scope="module")
def fronted(tmp_path_factory):
    with FrontedCluster(tmp_path_factory.mktemp("front"), secured=True) as cluster:
        yield cluster


@contextlib.contextmanager
def connected(fronted, name="client", port=None):
    """A connection to the front, or to another port; name None: without a certificate."""
    context = ssl.create_default_context(cafile=str(fronted.ours / "ca.crt"))
    if name is not None:
        context.load_cert_chain(fronted.ours / f"{name}.crt", fronted.ours / f"{name}.key")
    made = http.client.HTTPSConnection("localhost", port or fronted.http_port, context=context, timeout=60)
    try:
        yield made
    finally:
        made.close()


def post(connection, max_tokens=4, headers=(), **more):
    body = {"prompt": "The capital of France is", "max_tokens": max_tokens, "temperature": 0, **more}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json", **dict(headers)})
    return connection.getresponse()


def answered(connection, headers=()):
    """The status and the text, or the error's type."""
    response = post(connection, headers=headers)
    body = json.loads(response.read())
    return response.status, body["choices"][0]["text"] if response.status == 200 else body["error"]["type"]


def forged(fronted, name):
    """The header with a certificate that is another's."""
    der = ssl.PEM_cert_to_DER_cert((fronted.ours / f"{name}.crt").read_text())
    return {HEADER: base64.b64encode(der).decode()}


def test_clients_with_a_certificate_or_a_key_get_their_answers_and_others_do_not(fronted):
    with connected(fronted) as known, connected(fronted, None) as unknown:
        status, text = answered(known)
        assert status == 200 and text.startswith(" Paris")
        assert answered(unknown, {"Authorization": f"Bearer {fronted.key}"}) == (200, text)
        assert answered(unknown) == (401, "authentication_error")


def test_the_certificate_that_the_front_saw_decides_and_the_audit_log_has_the_clients_address(fronted):
    logged = len(fronted.router.log_text())
    own = {"baton-client-address": "192.0.2.1"}
    with connected(fronted, "prefill") as worker, connected(fronted, None) as unknown:
        assert answered(worker, own) == (403, "permission_error")
        assert answered(unknown, own) == (401, "authentication_error")
    audited = [line for line in fronted.router.log_text()[logged:].splitlines() if "audit: refused" in line]
    assert len(audited) == 2 and all("address='127.0.0.1'" in line for line in audited), audited


def test_a_clients_own_header_is_not_believed(fronted):
    with connected(fronted) as known, connected(fronted, None) as unknown:
        assert answered(known, forged(fronted, "prefill"))[0] == 200
        assert answered(unknown, forged(fronted, "client"))[0] == 401
    with connected(fronted, None, fronted.router_http_port) as direct:
        assert answered(direct, forged(fronted, "client"))[0] == 401


def test_the_front_itself_and_an_operator_generate_nothing(fronted):
    with connected(fronted, "front", fronted.router_http_port) as front:
        assert answered(front)[0] == 401
    with connected(fronted, "operator", fronted.router_http_port) as operator:
        assert answered(operator)[0] == 403
        operator.request("GET", "/v1/models")
        assert operator.getresponse().status == 200


def test_a_connection_serves_many_requests(fronted):
    with connected(fronted) as known:
        known.connect()
        made = known.sock
        for _ in range(3):
            assert answered(known)[0] == 200
            assert known.sock is made, "the front has closed it"


def test_a_stream_passes_the_front_as_it_comes(fronted):
    with connected(fronted) as known:
        response = post(known, max_tokens=200, stream=True, ignore_eos=True)
        assert response.status == 200 and response.headers["content-type"] == "text/event-stream"
        assert response.readline().startswith(b"data: {")
        wait_until(lambda: fronted.used_blocks()[1] > 0, SOON_S, "the rest is still to be generated")
        assert response.read().endswith(b"data: [DONE]\n\n")
        assert answered(known)[0] == 200


def test_a_client_that_leaves_ends_its_request_through_the_front(fronted):
    with connected(fronted) as known:
        response = post(known, max_tokens=4000, stream=True, ignore_eos=True)
        assert response.readline().startswith(b"data: {")
        wait_until(lambda: fronted.used_blocks()[1] > 0, SOON_S, "the rest is still to be generated")
        response.close()
    fronted.wait_idle()


def test_who_waits_for_a_whole_answer_and_leaves_ends_its_request(fronted):
    with connected(fronted) as known:
        body = {"prompt": "Hello", "max_tokens": 4000, "ignore_eos": True}
        known.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        wait_until(lambda: fronted.used_blocks()[1] > 0, 20, "the request runs")
    fronted.wait_idle()


def test_without_a_router_clients_are_told_to_try_again(fronted):
    assert fronted.router.stop() == 0
    try:
        with connected(fronted) as known:
            assert answered(known) == (503, "unavailable_error")
    finally:
        fronted.router.start()
        fronted.wait_ready()
