"""The timeline of a request adds up to what the client waited, and the workers' metrics tell the same story."""
import concurrent.futures

import pytest

from cluster import Cluster, complete, request

TOKEN_BYTES = 23040  # bytes of a token's KV in f16: 2 x 30 layers x 3 heads x 64 x 2 bytes
# Time outside all durations: calls between the processes, detokenising, and threads that wake up late on a busy machine.
GAP_S = 0.05
GAP_RATIO = 0.05
CLOCKS_S = 0.001  # by which the clocks of two workers may disagree about neighbouring durations


@pytest.fixture(scope="module")
def clusters():
    with Cluster(router_args=["--disaggregate=always"]) as disaggregated:
        with Cluster(prefill=0, decode=1, router_args=["--disaggregate=never"]) as local:
            yield {"handed off": disaggregated, "local": local}


def seconds(timings, name):
    return getattr(timings, name).ToNanoseconds() * 1e-9


def assert_adds_up(done):
    t = done.timings
    names = ("queue", "prefill_queue", "prefill", "exposed_kv_transfer", "decode_queue", "decode")
    parts = {name: seconds(t, name) for name in names}
    total, first = seconds(t, "total"), seconds(t, "time_to_first_token")
    assert all(value >= 0 for value in parts.values()), parts
    gap = total - sum(parts.values())
    # The decode worker may begin before the prefill worker has heard of the commit, and counts its hand-off until then.
    overlap = parts["exposed_kv_transfer"] + CLOCKS_S
    assert -overlap <= gap <= GAP_S + GAP_RATIO * total, (gap, total, parts)
    to_first = sum(parts[name] for name in ("queue", "prefill_queue", "prefill"))
    assert 0 < first <= total and -0.001 <= first - to_first <= GAP_S + GAP_RATIO * total, (first, to_first)
    assert parts["exposed_kv_transfer"] <= seconds(t, "kv_transfer") + 1e-9, t
    assert seconds(t, "kv_transfer") <= total


def assert_handed_off(done, tokens):
    t = done.timings
    assert t.kv_transfer_bytes + t.kv_transfer_bytes_saved == tokens * TOKEN_BYTES
    assert t.kv_transfer_bytes_resent == 0 and t.kv_wire_dtype == "f16" and t.exact and t.attempts == 1
    assert t.kv_transfer_messages >= t.kv_transfer_bytes / (4 << 20)
    assert seconds(t, "kv_transfer") > 0 and seconds(t, "exposed_kv_transfer") > 0
    assert t.prefill_worker.startswith("prefill@") and t.decode_worker.startswith("decode@")


def ids(length, first):
    return [first, *([30] * (length - 1))]


@pytest.mark.parametrize("where", ["handed off", "local"])
@pytest.mark.parametrize("length,outputs", [(1, 2), (37, 20), (1000, 5)])
def test_the_parts_of_a_request_sum_to_the_whole(clusters, where, length, outputs):
    done = complete(clusters[where].stub, request(ids=ids(length, 40), max_tokens=outputs, ignore_eos=True))
    assert_adds_up(done)
    if where == "handed off":
        assert_handed_off(done, length)
    else:
        assert done.timings.local_prefill and done.timings.kv_transfer_bytes == 0


@pytest.mark.parametrize("where", ["handed off", "local"])
def test_so_do_those_of_requests_that_wait_for_each_other(clusters, where):
    made = [request(ids=ids(400, 50 + i), max_tokens=6, ignore_eos=True) for i in range(6)]
    with concurrent.futures.ThreadPoolExecutor(len(made)) as pool:
        done = list(pool.map(lambda m: complete(clusters[where].stub, m), made))
    for d in done:
        assert_adds_up(d)
    waited = max(seconds(d.timings, "queue") + seconds(d.timings, "prefill_queue") for d in done)
    assert waited > min(seconds(d.timings, "prefill") for d in done), "the last waited for the others"


@pytest.mark.parametrize("where", ["handed off", "local"])
def test_a_stop_string_leaves_no_part_out(clusters, where):
    question = [("user", "What is 2+2?")]
    done = complete(clusters[where].stub, request(chat=question, temperature=0, max_tokens=32, stop=["math"]))
    assert done.matched_stop_str == "math"
    assert_adds_up(done)
    assert seconds(done.timings, "prefill") > 0 and seconds(done.timings, "decode") > 0


def test_both_workers_count_and_measure_a_transfer(clusters):
    cluster = clusters["handed off"]
    prefill, decode = cluster.prefill[0], cluster.decode[0]

    def sums(worker, names):
        return {name: worker.metric(name) for name in names}

    both = ["baton_kv_transfer_bytes_total", "baton_kv_transfer_bytes_sum", "baton_kv_transfer_duration_seconds_count",
            "baton_kv_transfer_duration_seconds_sum", "baton_request_queue_seconds_count"]
    sender = both + ["baton_kv_transfer_exposed_seconds_sum", "baton_kv_transfer_exposed_seconds_count",
                     "baton_kv_transfer_messages_total", "baton_request_prefill_seconds_sum"]
    receiver = both + ["baton_request_decode_seconds_sum"]
    before = sums(prefill, sender), sums(decode, receiver)
    done = complete(cluster.stub, request(ids=ids(300, 60), max_tokens=4, ignore_eos=True))
    cluster.wait_idle()
    sent = {name: value - before[0][name] for name, value in sums(prefill, sender).items()}
    received = {name: value - before[1][name] for name, value in sums(decode, receiver).items()}

    t = done.timings
    for counted in (sent, received):
        assert counted["baton_kv_transfer_bytes_total"] == counted["baton_kv_transfer_bytes_sum"] == t.kv_transfer_bytes
        assert counted["baton_kv_transfer_duration_seconds_count"] == 1 == counted["baton_request_queue_seconds_count"]
    assert sent["baton_kv_transfer_duration_seconds_sum"] == pytest.approx(seconds(t, "kv_transfer"), abs=1e-6)
    assert sent["baton_kv_transfer_exposed_seconds_sum"] == pytest.approx(seconds(t, "exposed_kv_transfer"), abs=1e-6)
    assert sent["baton_kv_transfer_exposed_seconds_count"] == 1
    assert sent["baton_kv_transfer_messages_total"] == t.kv_transfer_messages
    assert sent["baton_request_prefill_seconds_sum"] == pytest.approx(seconds(t, "prefill"), abs=1e-6)
    assert received["baton_request_decode_seconds_sum"] == pytest.approx(seconds(t, "decode"), abs=1e-6)
    assert 0 < received["baton_kv_transfer_duration_seconds_sum"] <= seconds(t, "total")

    for worker in (prefill, decode):
        assert worker.metric("baton_kv_transfer_inflight") == 0
        assert worker.metric("baton_kv_transfer_failures_total") == 0
        assert worker.metric("baton_model_load_seconds") > 0
    assert prefill.metric("baton_kv_transfer_resent_bytes_total") == 0
    assert cluster.router.metric("baton_request_time_per_output_token_seconds_count") > 0
