"""The wall clock of a part is set, back or forth, under load: no request fails, and changed files are seen as soon as before. The
machine's own clock stays: a library that the part loads first plays what the kernel does (tests/support/clock_steps.h)."""
import contextlib
import ssl
import struct
import time

import grpc
import pytest

from cluster import BIN, SOON_S, Cluster, Load, request, wait_until
from programs import bearer, channel_credentials, issue, make_authority, new_key, tls_flags

LIBRARY = BIN.parent / "tests/libbaton_clock_steps.so"
SEEN_S = 3  # until a changed file counts
PARTS = ("router", "prefill", "decode")
NOBODY = "decode 127.0.0.1:9\n"  # a line of a workers file

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built, as under sanitizers")


@pytest.fixture(scope="module")
def stepped(tmp_path_factory):
    """A fleet over TLS; the router knows its workers by a file and its clients by their keys."""
    folder = tmp_path_factory.mktemp("clocks")
    make_authority(folder)
    for role in ("client", *PARTS):
        issue(folder, role)
    fleet = Cluster(prefill_args=tls_flags(folder, "prefill"), decode_args=tls_flags(folder, "decode"),
                    router_args=[*tls_flags(folder, "router"), f"--workers-file={folder}/workers", f"--api-keys={folder}/keys.toml"],
                    credentials=channel_credentials(folder))
    fleet.folder, fleet.key = folder, new_key(folder / "keys.toml", "--tenant=acme")
    fleet.workers = f"prefill {fleet.prefill[0].address}\ndecode {fleet.decode[0].address}\n"
    (folder / "workers").write_text(fleet.workers)
    router = fleet.router
    router.argv = [word for word in router.argv if not word.startswith(("--prefill=", "--decode="))]
    for part in PARTS:
        (folder / f"{part}.clock").write_bytes(bytes(8))
        server_of(fleet, part).environment = {"LD_PRELOAD": str(LIBRARY), "CLOCK_STEPS_FILE": f"{folder}/{part}.clock"}
    with fleet:
        yield fleet


def server_of(fleet, part):
    return fleet.router if part == "router" else getattr(fleet, part)[0]


def set_clock(fleet, part, seconds):
    """Sets the part's wall clock to the machine's and so many seconds."""
    with open(fleet.folder / f"{part}.clock", "r+b") as file:
        file.write(struct.pack("<q", seconds * 10**9))


def shown_certificate(server):
    """The certificate that the server shows to a new connection. Nobody may connect to a worker often."""
    time.sleep(0.2)
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", server.port), timeout=5))


def renew_certificate(fleet, part):
    """Renews the part's certificate, and returns a condition: the part shows it."""
    issue(fleet.folder, part, "--force")
    text = (fleet.folder / f"{part}.crt").read_text()
    renewed = ssl.PEM_cert_to_DER_cert(text[:text.index("-----END CERTIFICATE-----")] + "-----END CERTIFICATE-----\n")
    return lambda: shown_certificate(server_of(fleet, part)) == renewed


def key_counts(fleet, key):
    with contextlib.suppress(grpc.RpcError):
        return list(fleet.stub.Generate(request(prompt="a", temperature=0, max_tokens=1), timeout=SOON_S, metadata=bearer(key)))
    return False


@pytest.mark.parametrize("part", PARTS)
def test_a_clock_that_is_set_delays_nothing_and_fails_no_request(stepped, part):
    with Load(stepped.stub, bearer(stepped.key)):
        for seconds in (-60, 60, 3600, -3600):
            set_clock(stepped, part, seconds)
            wait_until(renew_certificate(stepped, part), SEEN_S, f"{part} at {seconds:+} s shows its new certificate")
        wait_until(lambda: stepped.router.serving("all_workers"), SEEN_S, "the workers are used")
    set_clock(stepped, part, 0)
    assert " is lost: " not in stepped.router.log_text()


def test_the_router_sees_changed_files_whatever_its_clock_shows(stepped):
    for seconds, more in ((-3600, NOBODY), (3600, "")):
        set_clock(stepped, "router", seconds)
        (stepped.folder / "workers").write_text(stepped.workers + more)
        key = new_key(stepped.folder / "keys.toml", f"--tenant=at{seconds}")
        wait_until(lambda: stepped.router.serving("all_workers") == (not more), SEEN_S, f"the new workers at {seconds:+} s")
        wait_until(lambda: key_counts(stepped, key), SEEN_S, f"the new key at {seconds:+} s")
