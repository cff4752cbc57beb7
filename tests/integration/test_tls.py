"""With certificates every connection between the parts, and the client's, is mutually authenticated."""
import subprocess

import grpc
import pytest

from cluster import Cluster, complete, request


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, capture_output=True)


def make_ca(folder, name):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem"))


def make_certificate(folder, ca, name):
    """folder/name.{pem,key}, good for 127.0.0.1."""
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
            "-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.csr"))
    extensions = folder / f"{name}.ext"
    extensions.write_text("subjectAltName=IP:127.0.0.1\n")
    openssl("x509", "-req", "-days", "2", "-in", str(folder / f"{name}.csr"), "-CA", str(folder / f"{ca}.pem"),
            "-CAkey", str(folder / f"{ca}.key"), "-CAcreateserial", "-extfile", str(extensions),
            "-out", str(folder / f"{name}.pem"))


def channel_credentials(folder, ca, name):
    return grpc.ssl_channel_credentials((folder / f"{ca}.pem").read_bytes(), (folder / f"{name}.key").read_bytes(),
                                        (folder / f"{name}.pem").read_bytes())


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    for ca in ("ca", "foreign"):
        make_ca(folder, ca)
    for ca, name in (("ca", "part"), ("ca", "client"), ("foreign", "stranger")):
        make_certificate(folder, ca, name)
    tls = [f"--tls-cert={folder}/part.pem", f"--tls-key={folder}/part.key", f"--tls-ca={folder}/ca.pem"]
    with Cluster(worker_args=tls, router_args=[*tls, "--disaggregate=always"],
                 credentials=channel_credentials(folder, "ca", "client")) as cluster:
        cluster.folder = folder
        yield cluster


def test_a_prompt_is_handed_off_over_mutual_tls(secured):
    done = complete(secured.stub, request(prompt="The capital of France is", temperature=0, max_tokens=4))
    assert done.text.startswith(" Paris") and not done.timings.local_prefill
    assert done.timings.kv_transfer_bytes > 0


@pytest.mark.parametrize("part", ["router", "prefill", "decode"])
def test_who_shows_no_certificate_of_ours_is_not_let_in(secured, part):
    server = secured.router if part == "router" else getattr(secured, part)[0]
    for credentials in (None, channel_credentials(secured.folder, "ca", "stranger")):
        channel = (grpc.secure_channel(server.address, credentials) if credentials
                   else grpc.insecure_channel(server.address))
        with channel, pytest.raises(grpc.FutureTimeoutError):
            grpc.channel_ready_future(channel).result(timeout=1.5)
