"""Tenants are known by their keys, and what one of them cached is nothing to another."""
import os

import grpc
import pytest

from cluster import Cluster, request, wait_until
from programs import run

PROMPT = [1] + [30 + i % 900 for i in range(199)]
HELD = 192  # tokens found in a cache: whole blocks of 32, never the last token


def new_key(file, *flags):
    done = run("baton", "keys", "new", f"--file={file}", *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


@pytest.fixture(scope="module")
def tenants(tmp_path_factory):
    """Two routers with one secret before one fleet, and the keys of three tenants, two of which share their prefixes."""
    folder = tmp_path_factory.mktemp("tenants")
    file = folder / "keys.toml"
    keys = {"a": new_key(file, "--tenant=a"), "b": new_key(file, "--tenant=b", "--share=docs"),
            "c": new_key(file, "--tenant=c", "--share=docs", "--streams=1")}
    secret = folder / "secret"
    secret.write_text("5e" * 32 + "\n")
    with Cluster(routers=2, router_args=[f"--api-keys={file}", f"--fleet-secret-file={secret}",
                                         "--disaggregate=always"]) as cluster:
        cluster.file, cluster.keys = file, keys
        yield cluster


def ask(cluster, key, ids=PROMPT, router=0, salt=""):
    made = request(ids=ids, temperature=0, ignore_eos=True, max_tokens=8)
    made.cache_salt = salt
    stub = cluster.stubs[router]
    responses = list(stub.Generate(made, timeout=60, metadata=[("authorization", f"Bearer {key}")]))
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
    assert tenants.router.metric("baton_router_unauthenticated_total", reason="API_KEY_REVOKED") >= 1


def test_baton_shows_the_key_of_its_environment_and_never_in_plain_text_beyond_loopback(tenants):
    environment = {**os.environ, "BATON_API_KEY": tenants.keys["a"]}
    asked = ["baton", "run", f"--server={tenants.router.address}", "--max-tokens=4", "hello"]
    assert run(*asked, env=environment).returncode == 0
    refused = run(*asked, env={**os.environ, "BATON_API_KEY": ""})
    assert refused.returncode == 1 and b"API key" in refused.stderr
    beyond = run("baton", "run", "--server=192.0.2.1:1", "--insecure", "hello", env=environment)
    assert beyond.returncode == 2 and b"in plain text" in beyond.stderr
    assert tenants.keys["a"].encode() not in refused.stderr + beyond.stderr
