"""Tenants are known by their keys, and what one of them cached is nothing to another."""
import os

import grpc
import pytest

from cluster import SOON_S, Cluster, request, wait_until
from observables import observe
from programs import bearer, new_key, run
from stubs import pb

PROMPT = [1] + [30 + i % 900 for i in range(199)]
HELD = 192  # tokens found in a cache: whole blocks of 32, never the last token


@pytest.fixture(scope="module")
def tenants(tmp_path_factory):
    """Two routers with one secret before one fleet, and the keys of three tenants, two of which share their prefixes."""
    folder = tmp_path_factory.mktemp("tenants")
    file = folder / "keys.toml"
    keys = {"a": new_key(file, "--tenant=a"), "b": new_key(file, "--tenant=b", "--share=docs"),
            "c": new_key(file, "--tenant=c", "--share=docs", "--streams=1")}
    secret = folder / "secret"
    secret.write_text("5e" * 32 + "\n")
    with Cluster(routers=2, worker_args=["--log-level=trace"],
                 router_args=[f"--api-keys={file}", f"--fleet-secret-file={secret}", "--disaggregate=always",
                              "--log-level=trace"]) as cluster:
        cluster.file, cluster.keys = file, keys
        yield cluster


def ask(cluster, key, ids=PROMPT, router=0, salt=""):
    made = request(ids=ids, temperature=0, ignore_eos=True, max_tokens=8)
    made.cache_salt = salt
    stub = cluster.stubs[router]
    responses = list(stub.Generate(made, timeout=60, metadata=bearer(key)))
    return responses[0].complete


def test_a_tenant_hits_its_own_prefixes_at_every_router_and_no_others(tenants):
    first, second = ask(tenants, tenants.keys["a"]), ask(tenants, tenants.keys["a"])
    assert (first.usage.cached_tokens, second.usage.cached_tokens) == (0, HELD)
    assert ask(tenants, tenants.keys["a"], router=1).usage.cached_tokens == HELD
    assert ask(tenants, tenants.keys["a"], salt="mine").usage.cached_tokens == 0
    other = ask(tenants, tenants.keys["b"])
    assert other.usage.cached_tokens == 0
    assert list(other.token_ids) == list(first.token_ids)


def test_a_restarted_router_finds_what_was_cached_before(tenants):
    prompt = [*PROMPT[:-1], 7]
    ask(tenants, tenants.keys["a"], prompt)
    tenants.routers[1].stop()
    tenants.revive()
    assert ask(tenants, tenants.keys["a"], prompt, router=1).usage.cached_tokens == HELD


def test_tenants_share_prefixes_under_a_name_that_the_operator_gave_them(tenants):
    prompt = [1] + PROMPT[:0:-1]
    assert ask(tenants, tenants.keys["b"], prompt).usage.cached_tokens == 0
    assert ask(tenants, tenants.keys["c"], prompt).usage.cached_tokens == HELD
    assert ask(tenants, tenants.keys["a"], prompt).usage.cached_tokens == 0


def test_a_key_that_is_revoked_is_refused_soon_and_one_that_is_new_is_taken(tenants):
    key = new_key(tenants.file, "--tenant=late")
    deadline = 5

    def taken():
        try:
            ask(tenants, key)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAUTHENTICATED
            return False
        return True

    wait_until(taken, deadline, "the new key is taken")
    listed = run("baton", "keys", "list", f"--file={tenants.file}").stdout.decode()
    key_id = next(line.split()[0] for line in listed.splitlines() if " late " in line)
    assert run("baton", "keys", "revoke", key_id, f"--file={tenants.file}").returncode == 0
    wait_until(lambda: not taken(), deadline, "the revoked key is refused")
    assert tenants.router.metric("baton_router_unauthenticated_total", reason="API_KEY_REVOKED", tenant="late") >= 1


def test_a_key_that_a_user_brings_on_stdin_is_taken_and_not_printed(tenants):
    key = "sk-" + "0123456789abcdef" * 2
    done = run("baton", "keys", "new", f"--file={tenants.file}", "--tenant=bringer", "--key-from=-", stdin=f"{key}\n".encode())
    assert done.returncode == 0 and done.stdout.startswith(b"added the key "), done.stderr
    assert key not in tenants.file.read_text() + done.stdout.decode() + done.stderr.decode()

    def taken():
        try:
            return ask(tenants, key)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAUTHENTICATED
            return None

    wait_until(taken, SOON_S, "the brought key is taken")


def test_baton_shows_the_key_of_its_environment_and_never_in_plain_text_beyond_loopback(tenants):
    environment = {**os.environ, "BATON_API_KEY": tenants.keys["a"]}
    asked = ["baton", "run", f"--server={tenants.router.address}", "--max-tokens=4", "hello"]
    assert run(*asked, env=environment).returncode == 0
    refused = run(*asked, env={**os.environ, "BATON_API_KEY": ""})
    assert refused.returncode == 1 and b"API key" in refused.stderr
    beyond = run("baton", "run", "--server=192.0.2.1:1", "hello", env=environment)
    assert beyond.returncode == 2 and b"in plain text" in beyond.stderr and b"--insecure" in beyond.stderr
    assert tenants.keys["a"].encode() not in refused.stderr + beyond.stderr


def test_no_field_of_an_answer_tells_whether_another_tenant_holds_the_prompt(tenants):
    seen = {True: {}, False: {}}
    for i in range(30):
        held = i % 2 == 0
        first, second = ([1, 40 + i % 7, 50 + i % 11, *range(100 + i + salt, 162 + i + salt)] for salt in (0, 500))
        ask(tenants, tenants.keys["a"], first)
        made = request(ids=first if held else second, temperature=0, ignore_eos=True, max_tokens=2, seed=1)
        for name, value in observe(tenants.stubs[0], made, bearer(tenants.keys["b"])).counts.items():
            if name != "complete.timings.kv_transfer_messages":  # it depends on when layers are done
                seen[held].setdefault(name, set()).add(value)
    assert seen[True] == seen[False]
    assert seen[True]["complete.usage.cached_tokens"] == seen[True]["complete.timings.kv_transfer_bytes_saved"] == {0}
    shared = observe(tenants.stubs[0], made, bearer(tenants.keys["c"]))
    assert shared.counts["complete.usage.cached_tokens"] == 64, "what may be seen is seen"


def test_no_log_has_a_key_a_prompt_or_a_salt(tenants):
    secrets = ["Xylophone", "marzipan", "salt-of-the-earth", "hunter2hunter2", "baton-" + "W" * 43]
    made = request(prompt="Xylophone", max_tokens=2)
    made.cache_salt, made.user = "salt-of-the-earth", "marzipan"
    stub, good = tenants.stubs[0], bearer(tenants.keys["a"])
    list(stub.Generate(made, timeout=60, metadata=good))
    list(stub.Generate(request(chat=[("user", "marzipan")], max_tokens=2), timeout=60, metadata=good))
    stub.Tokenize(pb.TokenizeRequest(text="Xylophone"), metadata=good)
    too_long = request(prompt="Xylophone " * 20000, max_tokens=2)
    for refused, metadata in ((too_long, good), (made, bearer("baton-" + "W" * 43)), (made, bearer("hunter2hunter2")),
                              (made, (("authorization", "hunter2hunter2"),)), (made, ())):
        with pytest.raises(grpc.RpcError):
            list(stub.Generate(refused, timeout=60, metadata=metadata))
    logs = "".join(server.log_text() for server in tenants.servers)
    for reason in ("API_KEY_UNKNOWN", "API_KEY_MALFORMED", "NO_IDENTITY"):
        assert "address='ipv4:127.0.0.1:" in logs and f"reason='{reason}'" in logs
    for secret in (*secrets, *tenants.keys.values(), "5e" * 32):
        assert secret not in logs
