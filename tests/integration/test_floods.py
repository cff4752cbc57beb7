"""A flood at the front, of HTTP/2 or HTTP/1.1, costs the router no memory, and others are served meanwhile. Each flood is a
short one."""
import contextlib
import http.client
import json
import pathlib
import re

import grpc
import pytest

from cluster import request
from front import FrontedCluster
from http2_floods import FLOODS, HTTP_FLOODS, connect, context_of, flooded
from programs import channel_credentials
from stubs import pb, rpc

FRAMES = 5000
HANDSHAKES = 200
GROWTH_BYTES = 64 << 20


@pytest.fixture(scope="module")
def fronted(tmp_path_factory):
    with FrontedCluster(tmp_path_factory.mktemp("front"), secured=True) as cluster:
        yield cluster


def flood(fronted, kind, by_http=False):
    """Sends until all is sent, or the front closes the connection or takes no more. From an address that is no other client's,
    nor another flood's, since the front refuses it for a while."""
    port = fronted.http_port if by_http else fronted.front.host_port[1]
    address = f"127.0.{2 if by_http else 1}.{1 + list(HTTP_FLOODS).index(kind)}"
    with flooded(kind, range(1, 2 * FRAMES, 2), port, fronted.ours, address, http=by_http):
        assert_served(fronted)
        if by_http:
            assert_served_by_http(fronted)


def assert_served(fronted):
    credentials = channel_credentials(fronted.ours)
    with grpc.secure_channel(fronted.front.address, credentials) as channel:
        made = request(prompt="The capital of France is", temperature=0, max_tokens=4)
        assert list(rpc.GenerationServiceStub(channel).Generate(made, timeout=60))[0].complete.text.startswith(" Paris")
    assert fronted.router.serving("liveness") and fronted.router.metrics()


def assert_served_by_http(fronted):
    context = context_of(fronted.ours, "client", "http/1.1")
    with contextlib.closing(http.client.HTTPSConnection("127.0.0.1", fronted.http_port, context=context, timeout=60)) as made:
        body = {"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0}
        made.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        assert json.loads(made.getresponse().read())["choices"][0]["text"].startswith(" Paris")


def resident_bytes(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) << 10  # the most there ever was


def test_who_comes_past_the_front_sends_the_router_no_http2(fronted):
    for name, may_connect in ("client", False), ("prefill", False), ("operator", True):
        with grpc.secure_channel(fronted.router.address, channel_credentials(fronted.ours, name)) as channel:
            list_models = rpc.GenerationServiceStub(channel).ListModels
            if may_connect:
                assert list_models(pb.ListModelsRequest(), timeout=10).models, name
                continue
            with pytest.raises(grpc.RpcError) as refused:
                list_models(pb.ListModelsRequest(), timeout=10)
            assert refused.value.code() == grpc.StatusCode.UNAVAILABLE, name


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_costs_the_router_no_memory(fronted, kind):
    assert_served(fronted)
    before = resident_bytes(fronted.router.process.pid)
    flood(fronted, kind)
    assert resident_bytes(fronted.router.process.pid) - before < GROWTH_BYTES


@pytest.mark.parametrize("kind", HTTP_FLOODS)
def test_a_flood_by_http_costs_the_router_no_memory(fronted, kind):
    assert_served_by_http(fronted)
    before = resident_bytes(fronted.router.process.pid)
    flood(fronted, kind, by_http=True)
    assert resident_bytes(fronted.router.process.pid) - before < GROWTH_BYTES


def test_a_flood_of_handshakes_costs_the_router_no_memory(fronted):
    assert_served(fronted)
    before = resident_bytes(fronted.router.process.pid)
    for _ in range(HANDSHAKES):
        try:
            connect(fronted.front.host_port[1], fronted.ours, "127.0.0.2").close()
        except OSError:
            pass
    assert_served(fronted)
    assert resident_bytes(fronted.router.process.pid) - before < GROWTH_BYTES


def test_who_connects_to_an_inner_port_again_and_again_is_closed_before_the_handshake(fronted):
    def refused(server):
        try:  # in TLS 1.3 a client has done its part before the server looks for a certificate
            connect(server.port, fronted.ours, "127.0.3.1").close()
        except ConnectionError:
            return True
        return False

    for server in (fronted.router, *fronted.prefill, *fronted.decode):
        assert any(refused(server) for _ in range(20 * HANDSHAKES)), server.address
        assert server.metric("baton_refused_connections_total", port="grpc", reason="rate") > 0
    assert_served(fronted)
    with grpc.secure_channel(fronted.router.address, channel_credentials(fronted.ours, "operator")) as channel:
        assert rpc.GenerationServiceStub(channel).ListModels(pb.ListModelsRequest(), timeout=10).models
