"""With certificates every connection between the parts, and the client's, is mutually authenticated, and what a peer may
do follows from the role in its certificate."""
import contextlib
import json
import os
import re

import grpc
import pytest

from cluster import MODEL, Cluster, Load, complete, request, wait_until
from programs import channel_credentials, issue, make_authority, new_key, revoke, run, tls_flags
from stubs import common_pb, decode_pb, decode_rpc, prefill_pb, prefill_rpc, transfer_pb, transfer_rpc, worker_pb, worker_rpc

ROLES = ("client", "router", "prefill", "decode", "front", "operator")
WORKERS_CALLERS = ("router", "prefill", "operator")  # nobody else connects to a worker
# Who may call what, of the methods that the parts serve.
CALLERS = {
    "/baton.v1.GenerationService/Tokenize": ("router", ("client", "front")),
    "/baton.v1.GenerationService/ListModels": ("router", ("client", "front", "operator")),
    "/baton.internal.v1.WorkerService/Watch": ("decode", ("router",)),
    "/baton.internal.v1.PrefillService/Prefill": ("prefill", ("router",)),
    "/baton.internal.v1.DecodeService/Decode": ("decode", ("router",)),
    "/baton.internal.v1.KvTransferService/Push": ("decode", ("prefill",)),
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    ours, foreign = (tmp_path_factory.mktemp("certificates") / name for name in ("ours", "foreign"))
    for folder in (ours, foreign):
        make_authority(folder)
        issue(folder, "client")
    ids = {role: issue(ours, role) for role in ROLES[1:]}
    for name in ("p2", "other"):
        issue(ours, "prefill", f"--name={name}")
    cluster = Cluster(prefill=2, decode_args=tls_flags(ours, "decode"),
                      router_args=[*tls_flags(ours, "router"), "--disaggregate=always", "--policy=round_robin"],
                      credentials=channel_credentials(ours), routers=2)
    for worker, name in zip(cluster.prefill, ("prefill", "prefill-p2")):
        worker.argv += tls_flags(ours, name)
    cluster.folder, cluster.foreign, cluster.prefill_id = ours, foreign, ids["prefill"]
    cluster.key = new_key(ours / "keys.toml", "--tenant=acme")
    cluster.with_keys = cluster.routers[1]
    cluster.with_keys.argv.append(f"--api-keys={ours}/keys.toml")
    with cluster:
        yield cluster


def channel_as(secured, certificate, part):
    """A channel to a part under that certificate."""
    server = secured.router if part == "router" else getattr(secured, part)[0]
    return grpc.secure_channel(server.address, channel_credentials(secured.folder, certificate))


@pytest.mark.plain
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


def test_serve_shows_a_routers_certificate_to_its_clients_alone(secured):
    done = run("baton", "serve", "--check-config", f"--model={MODEL}", *tls_flags(secured.folder, "router"))
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("method", CALLERS)
@pytest.mark.plain
def test_a_method_is_open_to_the_roles_of_its_callers_only(secured, method):
    part, callers = CALLERS[method]
    for role in ROLES:
        with channel_as(secured, role, part) as channel:
            call = channel.stream_stream(method)(iter([b"\xff\xff"]), timeout=30)  # no message, so the call ends
            with contextlib.suppress(grpc.RpcError):
                list(call)
            connects = part == "router" or role in WORKERS_CALLERS
            assert (call.code() == grpc.StatusCode.UNAVAILABLE) != connects, (role, call.details())
            if not connects:
                continue
            refused = call.code() == grpc.StatusCode.PERMISSION_DENIED
            assert refused == (role not in callers), (role, call.details())
            if refused:
                assert f"the role {role} may not call {method}" in call.details()
            # A front passes on what others ask for, here nobody's call.
            unknown = call.code() == grpc.StatusCode.UNAUTHENTICATED
            assert unknown == (part == "router" and role == "front"), (role, call.details())


def refusal(channel, method):
    """How a call ends that no handler would take."""
    call = channel.stream_stream(method)(iter([b"\xff\xff"]), timeout=30)
    with contextlib.suppress(grpc.RpcError):
        list(call)
    return call.code(), call.details()


def test_a_stolen_key_is_out_and_its_worker_serves_again_without_a_lost_request(secured):
    """The drill in docs/drills/stolen_key.md, in its order."""
    robbed, folder, router = secured.prefill[1], secured.folder, secured.router
    watch = "/baton.internal.v1.WorkerService/Watch"
    push, tokenize = "/baton.internal.v1.KvTransferService/Push", "/baton.v1.GenerationService/Tokenize"

    def handed_off():
        return robbed.metric("baton_kv_transfer_duration_seconds_count")

    def refused(method, channel):
        code, details = refusal(channel, method)
        return code == grpc.StatusCode.UNAUTHENTICATED and "was revoked" in details

    with contextlib.ExitStack() as stack:
        thief = channel_credentials(folder, "prefill-p2")
        at_router, at_decode = (stack.enter_context(grpc.secure_channel(server.address, thief))
                                for server in (router, secured.decode[0]))
        stack.enter_context(Load(secured.stub))
        before = handed_off()
        wait_until(lambda: handed_off() > before, 60, "the worker serves")
        assert not refused(push, at_decode) and not refused(tokenize, at_router)

        revoke(folder, "prefill", "--name=p2")
        wait_until(lambda: refused(push, at_decode), 30, "the decode worker refuses the connection that stands")
        wait_until(lambda: refused(tokenize, at_router), 30, "the router refuses it too")
        for server in (router, secured.decode[0]):
            assert server.metric("baton_refused_calls_total", reason="revoked") > 0
            with grpc.secure_channel(server.address, thief) as channel:
                assert refused(watch, channel)
        wait_until(lambda: not router.serving("all_workers"), 30, "the router uses the worker no more")

        issue(folder, "prefill", "--name=p2", "--force")
        wait_until(lambda: router.serving("all_workers"), 30, "the router takes the new certificate")
        before = handed_off()
        wait_until(lambda: handed_off() > before, 60, "the worker serves again")
        assert refused(push, at_decode) and refused(tokenize, at_router)


@pytest.mark.parametrize("part", ["router", "prefill", "decode"])
def test_a_clients_certificate_opens_no_method_between_the_parts_on_any_port(secured, part):
    with channel_as(secured, "client", part) as channel:
        for method in CALLERS:
            if ".internal." in method:
                call = channel.stream_stream(method)(iter([b""]), timeout=30)
                assert call.code() == (grpc.StatusCode.PERMISSION_DENIED if part == "router" else
                                       grpc.StatusCode.UNAVAILABLE), (method, call.details())


def info_of(channel):
    watch = worker_rpc.WorkerServiceStub(channel).Watch(worker_pb.WatchRequest(), timeout=30)
    info = next(watch).info
    watch.cancel()
    return info


def sequence(ids, number, max_tokens):
    """What a router sends for an attempt at that prompt, with a capability that nobody knew before."""
    made = common_pb.SequenceSpec(token_ids=ids, prompt_length=len(ids), capability=os.urandom(16), remaining_ms=30_000)
    made.key.request_id_low, made.key.attempt = number, 1
    made.sampling.temperature, made.sampling.max_tokens, made.sampling.seed = 0, max_tokens, 1
    made.sampling.ignore_eos = True
    return made


def begin(router, spec, pusher):
    """The Decode call of an attempt whose pusher the router names so."""
    start = decode_pb.DecodeStart(sequence=spec, pusher=decode_pb.Pusher(worker_id="prefill", peer_id=pusher))
    return decode_rpc.DecodeServiceStub(router).Decode(iter([decode_pb.DecodeRequest(start=start)]), timeout=60)


def push(intruder, opening):
    """Why the first message of a push is refused."""
    (answer,) = transfer_rpc.KvTransferServiceStub(intruder).Push(iter([opening]), timeout=30)
    return answer.refused.reason


def test_another_prefill_workers_certificate_pushes_nothing_even_with_the_capability(secured):
    refused = transfer_pb.PushRefused.REASON_CAPABILITY
    with channel_as(secured, "router", "decode") as decode, channel_as(secured, "router", "prefill") as prefill, \
            channel_as(secured, "prefill-other", "decode") as intruder:
        theirs, ours = info_of(decode), info_of(prefill)
        for number in range(10):
            ids = [30 + number] * 40
            right = complete(secured.stub, request(ids=ids, temperature=0, max_tokens=4, ignore_eos=True)).token_ids
            spec = sequence(ids, number + 1, 4)
            call = begin(decode, spec, secured.prefill_id)
            accepted = next(call).accepted
            for guessed in [False, True] * 5:
                proof = {"key": spec.key, "capability": os.urandom(16) if guessed else spec.capability}
                opening = transfer_pb.PushOpen(identity=ours.identity, shape=ours.shape, token_count=len(ids),
                                                   wire_dtype=theirs.shape.dtype, **proof)
                assert push(intruder, transfer_pb.PushRequest(open=opening)) == refused
                assert push(intruder, transfer_pb.PushRequest(join=transfer_pb.PushJoin(**proof))) == refused
            asked = prefill_pb.PrefillRequest(
                sequence=spec, decode_address=secured.decode[0].address, decode_identity=theirs.identity,
                decode_shape=accepted.shape, decode_cached_tokens=accepted.cached_tokens)
            list(prefill_rpc.PrefillServiceStub(prefill).Prefill(asked, timeout=60))
            assert [token.token.token_id for answer in call for token in answer.tokens.tokens] == right
    assert secured.decode[0].metric("baton_kv_refused_pushes_total") >= 200
    log = secured.decode[0].log_text()
    assert re.search("audit: refused method='[^']*/Push' peer='spiffe://[^']*/prefill/other' address='ipv4:127.0.0.1:", log)
    secured.wait_idle()


def test_a_decode_worker_with_tls_must_be_told_whose_certificate_may_push(secured):
    with channel_as(secured, "router", "decode") as decode:
        call = begin(decode, sequence([30] * 40, 99, 4), "")
        assert call.code() == grpc.StatusCode.INVALID_ARGUMENT and "start.pusher.peer_id" in call.details()
