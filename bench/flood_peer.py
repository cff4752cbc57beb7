"""One attacker, or what stands in its place, as a process for bench/floods.py: says "ready", waits for a line, so that no attacker
starts beside a flood, and goes on until it is ended.

    flood_peer.py flood KIND PORT HTTP FOLDER CERTIFICATE    a flood of tests/integration/http2_floods.py, or TLS handshakes; "http"
                                                             for a port of HTTP, or empty; the name of a certificate in the folder,
                                                             or empty
    flood_peer.py burn CPUS                                  burns so much of a CPU"""
import contextlib
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/integration"))
from http2_floods import connect, flooded  # noqa: E402  (the path above comes first)

MOST_STREAMS = 1 << 30  # a connection has no more
ADDRESS = "127.0.0.2"  # another one than the clients'


def flood(kind, port, http, folder, certificate):
    """A connection that is closed, or takes no more, is followed by another."""
    where = int(port), pathlib.Path(folder), ADDRESS, certificate
    while True:
        with contextlib.suppress(OSError):
            if kind == "handshakes":
                connect(*where, timeout_s=1).close()
                continue
            with flooded(kind, range(1, MOST_STREAMS, 2), *where, http=bool(http), timeout_s=1):
                pass


def burn(cpus):
    begin, used = time.monotonic(), time.process_time()
    while True:
        if time.process_time() - used >= float(cpus) * (time.monotonic() - begin):
            time.sleep(0.001)


if __name__ == "__main__":
    print("ready", flush=True)
    if sys.stdin.readline():
        {"flood": flood, "burn": burn}[sys.argv[1]](*sys.argv[2:])
