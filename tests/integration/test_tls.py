"""With certificates every connection between the parts, and the client's, is mutually authenticated, and what a peer may
do follows from the role in its certificate."""
import contextlib
import json
import os

import grpc
import pytest

from cluster import MODEL, Cluster, complete, request
from programs import assert_one_clear_line, channel_credentials, issue, make_authority, new_key, run

ROLES = ("client", "router", "prefill", "decode", "front", "operator")
# Who may call what, of the methods that the parts serve.
CALLERS = {
    "/baton.v1.GenerationService/Tokenize": ("router", ("client", "front")),
    "/baton.v1.GenerationService/ListModels": ("router", ("client", "front", "operator")),
    "/baton.internal.v1.WorkerService/Watch": ("decode", ("router",)),
    "/baton.internal.v1.PrefillService/Prefill": ("prefill", ("router",)),
    "/baton.internal.v1.DecodeService/Decode": ("decode", ("router",)),
    "/baton.internal.v1.KvTransferService/Push": ("decode", ("prefill",)),
}


def tls_flags(folder, name):
    return [f"--tls-cert={folder}/{name}.crt", f"--tls-key={folder}/{name}.key", f"--tls-ca={folder}/ca.crt"]


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    ours, foreign = (tmp_path_factory.mktemp("certificates") / name for name in ("ours", "foreign"))
    for folder in (ours, foreign):
        make_authority(folder)
        issue(folder, "client")
    for role in ROLES[1:]:
        issue(ours, role)
    cluster = Cluster(prefill_args=tls_flags(ours, "prefill"), decode_args=tls_flags(ours, "decode"),
                      router_args=[*tls_flags(ours, "router"), "--disaggregate=always"],
                      credentials=channel_credentials(ours), routers=2)
    cluster.folder, cluster.foreign = ours, foreign
    cluster.key = new_key(ours / "keys.toml", "--tenant=acme")
    cluster.with_keys = cluster.routers[1]
    cluster.with_keys.argv.append(f"--api-keys={ours}/keys.toml")
    with cluster:
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


@pytest.mark.parametrize("command", [["run", "--max-tokens=4", "hello"],
                                     ["bench", "serve", "--max-concurrency=1", "--duration=300ms", "--warmup=0s",
                                      "--input-len=8", "--output-len=4", "--json"]])
def test_a_client_with_a_key_needs_no_certificate_of_its_own(secured, command):
    def ask(router, key):
        return run("baton", *command, f"--server={router.address}", f"--tls-ca={secured.folder}/ca.crt",
                   env={**os.environ, "BATON_API_KEY": key})

    def completed(done):
        return sum(load["completed"] for load in json.loads(done.stdout)["classes"].values())

    served, unknown = ask(secured.with_keys, secured.key), ask(secured.with_keys, "")
    assert served.returncode == 0, served.stderr
    if command[0] == "run":
        assert unknown.returncode == 1 and b"API key" in unknown.stderr
        assert ask(secured.router, secured.key).returncode == 1, "a certificate is required where no keys are known"
    else:
        assert completed(served) > 0
        assert completed(unknown) == 0


def test_serve_gives_no_certificate_to_parts_of_three_roles(secured):
    done = run("baton", "serve", "--check-config", f"--model={MODEL}", *tls_flags(secured.folder, "router"))
    assert_one_clear_line(done, "--tls-cert", "a certificate of its own")


@pytest.mark.parametrize("method", CALLERS)
def test_a_method_is_open_to_the_roles_of_its_callers_only(secured, method):
    part, callers = CALLERS[method]
    server = secured.router if part == "router" else getattr(secured, part)[0]
    for role in ROLES:
        with grpc.secure_channel(server.address, channel_credentials(secured.folder, role)) as channel:
            call = channel.stream_stream(method)(iter([b"\xff\xff"]), timeout=30)  # no message, so the call ends
            with contextlib.suppress(grpc.RpcError):
                list(call)
            assert call.code() != grpc.StatusCode.UNAVAILABLE, (role, call.details())
            refused = call.code() == grpc.StatusCode.PERMISSION_DENIED
            assert refused == (role not in callers), (role, call.details())
            if refused:
                assert f"the role {role} may not call {method}" in call.details()
            # A front passes on what others ask for, here nobody's call.
            unknown = call.code() == grpc.StatusCode.UNAUTHENTICATED
            assert unknown == (part == "router" and role == "front"), (role, call.details())
