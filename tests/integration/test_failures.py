"""The only worker of its kind is missing or dies: a typed error in bounded time, and the next request works once it is back.
The case with other workers is in test_resume.py."""
import time

import grpc
import pytest

from cluster import SOON_S, Cluster, Failure, complete, failure, request, wait_until

LONG = dict(ids=[30] * 16, stream=True, max_tokens=6000, ignore_eos=True, temperature=0)
SHORT = dict(prompt="Hello", max_tokens=3, temperature=0)


@pytest.fixture(scope="module")
def fragile():
    with Cluster(router_args=["--disaggregate=always", "--resume-timeout=500ms"]) as cluster:
        yield cluster


def assert_typed_error_within_3_s(begin, failed):
    assert time.monotonic() - begin < 3, failed
    assert failed.code == grpc.StatusCode.UNAVAILABLE, failed
    assert failed.retry_s is not None, failed


def restart(cluster, worker):
    worker.start()
    wait_until(worker.serving, 60, "worker is back")
    wait_until(cluster.router.serving, 10, "router sees it")
    assert complete(cluster.stub, request(**SHORT)).text


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_without_a_worker_requests_are_refused_with_a_retry_delay(fragile, role):
    worker = getattr(fragile, role)[0]
    worker.kill()
    begin = time.monotonic()
    assert_typed_error_within_3_s(begin, failure(fragile.stub, request(**SHORT)))
    restart(fragile, worker)


def test_a_decode_worker_that_dies_ends_its_streams_with_a_typed_error(fragile):
    call = fragile.stub.Generate(request(**LONG))
    for _ in range(10):
        next(call)
    fragile.decode[0].kill()
    begin = time.monotonic()
    with pytest.raises(grpc.RpcError) as error:
        list(call)
    failed = Failure(error.value)
    assert_typed_error_within_3_s(begin, failed)
    assert failed.metadata.get("stage") == "decode", failed.metadata
    restart(fragile, fragile.decode[0])
    fragile.wait_idle()


def test_a_prefill_worker_that_dies_in_the_prefill_ends_the_request(fragile):
    call = fragile.stub.Generate(request(ids=[30] * 6000, max_tokens=5))
    wait_until(lambda: fragile.used_blocks()[0] > 0, SOON_S, "prefill started")
    fragile.prefill[0].kill()
    begin = time.monotonic()
    with pytest.raises(grpc.RpcError) as error:
        list(call)
    assert_typed_error_within_3_s(begin, Failure(error.value))
    wait_until(lambda: fragile.decode[0].metric("baton_kv_cache_blocks", state="used") == 0, SOON_S, "blocks back on D")
    restart(fragile, fragile.prefill[0])


def test_a_prefill_worker_that_dies_after_the_commit_is_not_missed(fragile):
    call = fragile.stub.Generate(request(ids=[30] * 16, stream=True, max_tokens=100, ignore_eos=True))
    for _ in range(5):
        next(call)
    fragile.prefill[0].kill()
    assert list(call)[-1].complete.usage.completion_tokens == 100
    restart(fragile, fragile.prefill[0])


def test_sigterm_ends_every_process_with_exit_code_0():
    with Cluster() as cluster:
        complete(cluster.stub, request(**SHORT))
        assert [server.stop() for server in cluster.servers[::-1]] == [0, 0, 0]
