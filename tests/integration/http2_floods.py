"""Floods of HTTP/2, frame by frame, as no library would send them."""
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


# How a client begins, and the headers of a call.
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0)
CALL = b"".join(literal(*header) for header in (
    (b":method", b"POST"), (b":scheme", b"https"), (b":path", b"/baton.v1.GenerationService/Generate"),
    (b":authority", b"localhost"), (b"content-type", b"application/grpc"), (b"te", b"trailers")))


def opened(stream, flags=END_HEADERS):
    return frame(HEADERS, stream, CALL, flags)


def connect(port, folder, address, certificate="", timeout_s=2):
    """A TLS connection for HTTP/2 to a port of this machine, from the address; the name of a certificate in the folder, which has
    the authority too, or empty."""
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    if certificate:
        context.load_cert_chain(folder / f"{certificate}.crt", folder / f"{certificate}.key")
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout_s, (address, 0)))


# By name: what is sent after HELLO, part by part, with those numbers of streams (odd, from 1 on).
FLOODS = {
    "rapid_reset": lambda streams: (opened(s) + frame(RST_STREAM, s, struct.pack(">I", 8)) for s in streams),
    "open_streams": lambda streams: (opened(s) for s in streams),
    "continuation": lambda streams: (frame(HEADERS, 1, CALL) if s == 1 else
                                     frame(CONTINUATION, 1, literal(b"x-%d" % s, b"y" * 100))
                                     for s in streams),
    "ping": lambda streams: (frame(PING, 0, struct.pack(">Q", s)) for s in streams),
    "settings": lambda streams: (frame(SETTINGS, 0, struct.pack(">HI", 4, s)) for s in streams),
    "rst": lambda streams: (opened(1) if s == 1 else frame(RST_STREAM, 1, struct.pack(">I", 8)) for s in streams),
    "window_update": lambda streams: (frame(WINDOW_UPDATE, 0, struct.pack(">I", 1)) for _ in streams),
    "priority": lambda streams: (frame(PRIORITY, s, struct.pack(">IB", 0, 1)) for s in streams),
    "empty_data": lambda streams: (opened(1) if s == 1 else frame(DATA, 1) for s in streams),
    "short_data": lambda streams: (opened(1) if s == 1 else frame(DATA, 1, b"x") for s in streams),
    "large_headers": lambda streams: (frame(HEADERS, s, CALL + literal(b"x", b"y" * 8192), END_HEADERS) for s in streams),
}
