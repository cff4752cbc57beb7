"""The machine of a gRPC client is gone without a word: its idle connections at the router end, and those of others stay. It takes
100 s, so only scripts/test.sh --full runs it; ServerKeepalive of tests/common/net/server_test.cc shows the same with short limits."""
import os
import pathlib

import grpc
import pytest

from cluster import complete, request, wait_until
from fault_proxy import FaultProxy

CONNECTIONS = 40
GONE_S = 100
ESTABLISHED = "01"

pytestmark = pytest.mark.skipif("BATON_VANISHED_CLIENTS" not in os.environ, reason="takes 100 s: BATON_VANISHED_CLIENTS is not set")


def connections_at(port):
    """How many connections the listener of that port has."""
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(local.endswith(f":{port:04X}") and state == ESTABLISHED for _, local, _, state, *_ in rows)


def connected(address):
    """A channel with a connection of its own."""
    channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
    grpc.channel_ready_future(channel).result(timeout=10)
    return channel


def test_idle_connections_of_a_client_that_is_gone_end_and_others_stay(cluster):
    port = cluster.router.port
    complete(cluster.stub, request(prompt="a", temperature=0, max_tokens=1))
    link = FaultProxy(port)
    changes = []
    cluster.channels[0].subscribe(changes.append)
    before = connections_at(port)
    gone = [connected(link.address) for _ in range(CONNECTIONS)]
    try:
        assert connections_at(port) == before + CONNECTIONS
        link.set("both", flow="swallow")
        wait_until(lambda: connections_at(port) == before, GONE_S, "the connections end")
        assert set(changes) <= {grpc.ChannelConnectivity.READY}, changes
        complete(cluster.stub, request(prompt="a", temperature=0, max_tokens=1))
    finally:
        for channel in gone:
            channel.close()
        link.close()
