"""With certificates every connection between the parts, and the client's, is mutually authenticated."""
import grpc
import pytest

from cluster import Cluster, complete, request
from programs import channel_credentials, issue, make_authority


def tls_flags(folder, name):
    return [f"--tls-cert={folder}/{name}.crt", f"--tls-key={folder}/{name}.key", f"--tls-ca={folder}/ca.crt"]


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    ours, foreign = (tmp_path_factory.mktemp("certificates") / name for name in ("ours", "foreign"))
    for folder in (ours, foreign):
        make_authority(folder)
        issue(folder, "client")
    for role in ("router", "prefill", "decode"):
        issue(ours, role)
    with Cluster(prefill_args=tls_flags(ours, "prefill"), decode_args=tls_flags(ours, "decode"),
                 router_args=[*tls_flags(ours, "router"), "--disaggregate=always"],
                 credentials=channel_credentials(ours)) as cluster:
        cluster.folder, cluster.foreign = ours, foreign
        yield cluster


def test_a_prompt_is_handed_off_over_mutual_tls(secured):
    done = complete(secured.stub, request(prompt="The capital of France is", temperature=0, max_tokens=4))
    assert done.text.startswith(" Paris") and not done.timings.local_prefill
    assert done.timings.kv_transfer_bytes > 0


@pytest.mark.parametrize("part", ["router", "prefill", "decode"])
def test_who_shows_no_certificate_of_ours_is_not_let_in(secured, part):
    server = secured.router if part == "router" else getattr(secured, part)[0]
    for credentials in (None, channel_credentials(secured.foreign, ca=secured.folder)):
        channel = (grpc.secure_channel(server.address, credentials) if credentials
                   else grpc.insecure_channel(server.address))
        with channel, pytest.raises(grpc.FutureTimeoutError):
            grpc.channel_ready_future(channel).result(timeout=1.5)
