"""A flood of HTTP/2 at the front costs the router no memory, and others are served meanwhile. Each flood is a short one."""
import pathlib
import re
import socket
import ssl
import struct

import grpc
import pytest

from cluster import request
from front import FrontedCluster
from programs import channel_credentials
from stubs import rpc

FRAMES = 5000
HANDSHAKES = 200
GROWTH_BYTES = 64 << 20
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_HEADERS = 4


@pytest.fixture(scope="module")
def fronted(tmp_path_factory):
    with FrontedCluster(tmp_path_factory.mktemp("front")) as cluster:
        yield cluster


def frame(kind, stream, payload=b"", flags=0):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """A header in HPACK, without index and without Huffman's code."""
    def text(content):
        if len(content) < 127:
            return bytes([len(content)]) + content
        rest, length = len(content) - 127, b"\x7f"
        while rest >= 128:
            length, rest = length + bytes([rest % 128 + 128]), rest // 128
        return length + bytes([rest]) + content
    return b"\x00" + text(name) + text(value)


CALL = b"".join(literal(*header) for header in (
    (b":method", b"POST"), (b":scheme", b"https"), (b":path", b"/baton.v1.GenerationService/Generate"),
    (b":authority", b"localhost"), (b"content-type", b"application/grpc"), (b"te", b"trailers")))


def opened(stream):
    return frame(HEADERS, stream, CALL, END_HEADERS)


def streams():
    return range(1, 2 * FRAMES, 2)


FLOODS = {
    "rapid_reset": lambda: (opened(s) + frame(RST_STREAM, s, struct.pack(">I", 8)) for s in streams()),
    "open_streams": lambda: (opened(s) for s in streams()),
    "continuation": lambda: (frame(HEADERS, 1, CALL) if s == 1 else frame(CONTINUATION, 1, literal(b"x-%d" % s, b"y" * 100))
                             for s in streams()),
    "ping": lambda: (frame(PING, 0, struct.pack(">Q", s)) for s in streams()),
    "settings": lambda: (frame(SETTINGS, 0, struct.pack(">HI", 4, s)) for s in streams()),
    "rst": lambda: (opened(1) if s == 1 else frame(RST_STREAM, 1, struct.pack(">I", 8)) for s in streams()),
    "window_update": lambda: (frame(WINDOW_UPDATE, 0, struct.pack(">I", 1)) for _ in streams()),
    "priority": lambda: (frame(PRIORITY, s, struct.pack(">IB", 0, 1)) for s in streams()),
    "empty_data": lambda: (opened(1) if s == 1 else frame(DATA, 1) for s in streams()),
    "short_data": lambda: (opened(1) if s == 1 else frame(DATA, 1, b"x") for s in streams()),
    "large_headers": lambda: (frame(HEADERS, s, CALL + literal(b"x", b"y" * 8192), END_HEADERS) for s in streams()),
}


def connect(fronted):
    """A TLS connection from another address than the other clients'."""
    context = ssl.create_default_context(cafile=fronted.ours / "ca.crt")
    context.set_alpn_protocols(["h2"])
    plain = socket.create_connection(fronted.front_host_port, timeout=2, source_address=("127.0.0.2", 0))
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def flood(fronted, kind):
    """Sends until all is sent, or the front closes the connection or takes no more."""
    with connect(fronted) as attack:
        try:
            attack.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0))
            for part in FLOODS[kind]():
                attack.sendall(part)
        except OSError:
            pass
        assert_served(fronted)


def assert_served(fronted):
    credentials = channel_credentials(fronted.ours)
    with grpc.secure_channel(fronted.front_address, credentials) as channel:
        made = request(prompt="The capital of France is", temperature=0, max_tokens=4)
        assert list(rpc.GenerationServiceStub(channel).Generate(made, timeout=60))[0].complete.text.startswith(" Paris")


def resident_bytes(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) << 10  # the most there ever was


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_costs_the_router_no_memory(fronted, kind):
    assert_served(fronted)
    before = resident_bytes(fronted.router.process.pid)
    flood(fronted, kind)
    assert resident_bytes(fronted.router.process.pid) - before < GROWTH_BYTES


def test_a_flood_of_handshakes_costs_the_router_no_memory(fronted):
    assert_served(fronted)
    before = resident_bytes(fronted.router.process.pid)
    for _ in range(HANDSHAKES):
        try:
            connect(fronted).close()
        except OSError:
            pass
    assert_served(fronted)
    assert resident_bytes(fronted.router.process.pid) - before < GROWTH_BYTES
