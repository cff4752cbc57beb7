"""One attacker, or what stands in its place, as a process for bench/floods.py: says "ready", and goes on until it is ended.

    flood_peer.py flood KIND PORT FOLDER CERTIFICATE    a flood of tests/integration/http2_floods.py, or TLS handshakes; the name of
                                                        a certificate in the folder, or empty
    flood_peer.py burn CPUS                             burns so much of a CPU"""
import contextlib
import pathlib
import socket
import ssl
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/integration"))
from http2_floods import FLOODS, HELLO  # noqa: E402  (the path above comes first)

MOST_STREAMS = 1 << 30  # a connection has no more


def connect(port, folder, certificate):
    """A TLS connection from another address than the clients'."""
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    if certificate:
        context.load_cert_chain(folder / f"{certificate}.crt", folder / f"{certificate}.key")
    plain = socket.create_connection(("127.0.0.1", port), timeout=1, source_address=("127.0.0.2", 0))
    return context.wrap_socket(plain)


def flood(kind, port, folder, certificate):
    """A connection that is closed, or takes no more, is followed by another."""
    while True:
        with contextlib.suppress(OSError), connect(int(port), pathlib.Path(folder), certificate) as connection:
            if kind == "handshakes":
                continue
            connection.sendall(HELLO)
            for part in FLOODS[kind](range(1, MOST_STREAMS, 2)):
                connection.sendall(part)


def burn(cpus):
    begin, used = time.monotonic(), time.process_time()
    while True:
        if time.process_time() - used >= float(cpus) * (time.monotonic() - begin):
            time.sleep(0.001)


if __name__ == "__main__":
    print("ready", flush=True)
    {"flood": flood, "burn": burn}[sys.argv[1]](*sys.argv[2:])
