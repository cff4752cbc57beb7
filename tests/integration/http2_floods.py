"""Floods of HTTP/2, frame by frame, as no library would send them, and of HTTP/1.1."""
import contextlib
import functools
import socket
import ssl
import struct

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4


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


def headers(*pairs):
    return b"".join(literal(*pair) for pair in pairs)


# How a client begins, and the headers of a call, of a request with a body over HTTP and of one without.
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0)
CALL = headers((b":method", b"POST"), (b":scheme", b"https"), (b":path", b"/baton.v1.GenerationService/Generate"),
               (b":authority", b"localhost"), (b"content-type", b"application/grpc"), (b"te", b"trailers"))
POST = headers((b":method", b"POST"), (b":scheme", b"https"), (b":path", b"/v1/completions"), (b":authority", b"localhost"),
               (b"content-type", b"application/json"))
GET = headers((b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/v1/models"), (b":authority", b"localhost"))


def opened(stream, flags=END_HEADERS):
    return frame(HEADERS, stream, CALL, flags)


@functools.lru_cache(maxsize=None)  # making one costs an attacker more than a handshake
def context_of(folder, certificate, protocol):
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    context.check_hostname = False
    context.set_alpn_protocols([protocol])
    if certificate:
        context.load_cert_chain(folder / f"{certificate}.crt", folder / f"{certificate}.key")
    return context


def connect(port, folder, address, certificate="", timeout_s=2, protocol="h2"):
    """A TLS connection to a port of this machine, from the address; the name of a certificate in the folder, which has the
    authority too, or empty."""
    context = context_of(folder, certificate, protocol)
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout_s, (address, 0)))


def floods_of(call):
    """By name: what is sent after HELLO, part by part, with those numbers of streams (odd, from 1 on). `call`: the headers of each
    call."""
    begun = frame(HEADERS, 1, call, END_HEADERS)
    cancel = struct.pack(">I", 8)
    return {
        "rapid_reset": lambda streams: (frame(HEADERS, s, call, END_HEADERS) + frame(RST_STREAM, s, cancel) for s in streams),
        "open_streams": lambda streams: (frame(HEADERS, s, call, END_HEADERS) for s in streams),
        "continuation": lambda streams: (frame(HEADERS, 1, call) if s == 1 else
                                         frame(CONTINUATION, 1, literal(b"x-%d" % s, b"y" * 100)) for s in streams),
        "ping": lambda streams: (frame(PING, 0, struct.pack(">Q", s)) for s in streams),
        "settings": lambda streams: (frame(SETTINGS, 0, struct.pack(">HI", 4, s)) for s in streams),
        "rst": lambda streams: (begun if s == 1 else frame(RST_STREAM, 1, cancel) for s in streams),
        "window_update": lambda streams: (frame(WINDOW_UPDATE, 0, struct.pack(">I", 1)) for _ in streams),
        "priority": lambda streams: (frame(PRIORITY, s, struct.pack(">IB", 0, 1)) for s in streams),
        "empty_data": lambda streams: (begun if s == 1 else frame(DATA, 1) for s in streams),
        "short_data": lambda streams: (begun if s == 1 else frame(DATA, 1, b"x") for s in streams),
        "large_headers": lambda streams: (frame(HEADERS, s, call + literal(b"x", b"y" * 8192), END_HEADERS) for s in streams),
    }


FLOODS = floods_of(CALL)
# At the port for HTTP, which speaks HTTP/1.1 too: whole requests whose answers nobody reads, and the same ended by a reset; a body
# in ever more chunks; ever more headers.
HTTP_FLOODS = {
    **floods_of(POST),
    "reset_requests": lambda streams: (frame(HEADERS, s, GET, END_HEADERS | END_STREAM) +
                                       frame(RST_STREAM, s, struct.pack(">I", 8)) for s in streams),
    "http1_requests": lambda streams: (b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n" for _ in streams),
    "http1_chunks": lambda streams: (
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n" if s == 1 else b"1\r\n \r\n" for s in streams),
    "http1_headers": lambda streams: (b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" if s == 1 else b"x-%d: y\r\n" % s
                                      for s in streams),
}


@contextlib.contextmanager
def flooded(kind, streams, port, folder, address, certificate="", http=False, timeout_s=2):
    """A connection as of connect() on which that flood was sent, or as much of it as the other side took."""
    protocol = "http/1.1" if kind.startswith("http1") else "h2"
    with connect(port, folder, address, certificate, timeout_s, protocol) as connection:
        with contextlib.suppress(OSError):
            if protocol == "h2":
                connection.sendall(HELLO)
            for part in (HTTP_FLOODS if http else FLOODS)[kind](streams):
                connection.sendall(part)
        yield connection
