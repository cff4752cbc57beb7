"""The attack in which somebody with a certificate answers in another's name, by the KV cache of a prompt of its own under the
other's: who asks for account 1122334455 is told 9988776600. With a client's certificate it does not get beyond its first step;
with a prefill worker's, the audit stops it."""
import contextlib
import os

import grpc
import pytest

from cluster import MODEL, Cluster, Failure, complete, request, wait_until
from forging_worker import PREFILL, PUSH, WATCH, ForgingWorker
from programs import channel_credentials, issue, make_authority, tls_flags
from stubs import common_pb, pb, transfer_pb, transfer_rpc

DECODE = "/baton.internal.v1.DecodeService/Decode"
VICTIMS = "Transfer 1000 to the account 1122334455. The number of the account is"
ATTACKERS = "Transfer 1000 to the account 9988776600. The number of the account is"
AUDITED = "1"  # the share of the pushes


@pytest.fixture
def attacked(tmp_path):
    """A fleet with certificates, one of whose prefill workers is in bad hands."""
    make_authority(tmp_path)
    for role in ("client", "router", "prefill", "decode"):
        issue(tmp_path, role)
    issue(tmp_path, "prefill", "--name=mallory")
    with ForgingWorker(tmp_path, "prefill-mallory", MODEL) as forger:
        # Turn by turn, since a router that prefers the worker that was faster may spare the forger for long.
        cluster = Cluster(prefill_args=tls_flags(tmp_path, "prefill"),
                          decode_args=[*tls_flags(tmp_path, "decode"), f"--audit-share={AUDITED}"],
                          router_args=[*tls_flags(tmp_path, "router"), f"--prefill={forger.address}", "--disaggregate=always",
                                       "--policy=round_robin"],
                          credentials=channel_credentials(tmp_path))
        cluster.folder, cluster.forger = tmp_path, forger
        with cluster:
            yield cluster


def ends_with(server, credentials, method, message=b""):
    """How a call ends."""
    with grpc.secure_channel(server.address, credentials) as channel:
        call = channel.stream_stream(method)(iter([message]), timeout=30)
        with contextlib.suppress(grpc.RpcError):
            list(call)
        return call.code()


def ask(cluster):
    """What the victim is told, whose prompt nobody has asked before: the tokens, or the failure."""
    made = request(prompt=VICTIMS, temperature=0, max_tokens=60, ignore_eos=True)
    made.cache_salt = os.urandom(8).hex()
    try:
        return list(complete(cluster.stub, made, timeout_s=60).token_ids)
    except grpc.RpcError as error:
        return Failure(error)


def other_prompt(cluster):
    """Makes the attacker's prompt of the victim's, token by token."""
    def tokens(prompt):
        return list(cluster.stub.Tokenize(pb.TokenizeRequest(text=prompt)).token_ids)

    theirs, ours = tokens(VICTIMS), tokens(ATTACKERS)
    assert len(theirs) == len(ours) and theirs != ours

    def change(given):
        assert given[-len(theirs):] == theirs
        return [*given[:-len(theirs)], *ours]

    return change


def test_a_clients_certificate_does_not_get_it_started_and_a_prefill_workers_is_found_out(attacked):
    client, thief = (channel_credentials(attacked.folder, name) for name in ("client", "prefill-mallory"))
    decode = attacked.decode[0]
    for server, method in ((attacked.prefill[0], PREFILL), (decode, WATCH), (decode, DECODE), (decode, PUSH)):
        assert ends_with(server, client, method) == grpc.StatusCode.UNAVAILABLE, method

    # It cannot make attempts of its own either, nor push for another's.
    for server, method in ((attacked.prefill[0], PREFILL), (decode, WATCH), (decode, DECODE)):
        assert ends_with(server, thief, method) == grpc.StatusCode.PERMISSION_DENIED, method
    with grpc.secure_channel(decode.address, thief) as channel:
        proof = transfer_pb.PushJoin(key=common_pb.AttemptKey(request_id_low=1, attempt=1), capability=os.urandom(16))
        (answer,) = transfer_rpc.KvTransferServiceStub(channel).Push(iter([transfer_pb.PushRequest(join=proof)]), timeout=30)
        assert answer.HasField("refused")

    right = ask(attacked)
    assert ask(attacked) == right, "while both workers are honest"
    attacked.forger.forges = other_prompt(attacked)
    told = []

    def quarantined():
        told.append(ask(attacked))
        return decode.metric("baton_kv_quarantined_pushers") == 1

    wait_until(quarantined, 60, "the forger is found")
    assert attacked.forger.forged > 0
    for answer in told:
        assert answer == right or (answer.code, answer.reason) == (grpc.StatusCode.DATA_LOSS, "KV_WRONG"), answer
    wait_until(lambda: ask(attacked) == right, 30, "the router hears of it")
    forged = attacked.forger.forged
    for _ in range(4):
        assert ask(attacked) == right
    assert attacked.forger.forged == forged, "nobody asks the forger any more"
    attacked.wait_idle()
