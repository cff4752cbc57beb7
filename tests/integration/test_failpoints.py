"""A worker dies, stops or errs at every point of a request in turn: the request ends with the tokens of an undisturbed run, and
no block is left in use. Needs programs of the preset `failpoints` in BATON_BIN.

BATON_FAILPOINTS_ALL: every kill, else greedy and sampled requests take turns over the points."""
import concurrent.futures
import itertools
import os
import signal

import grpc
import pytest

from cluster import SOON_S, Cluster, complete, request, wait_until
from failpoints import Failpoints, table

PARTS = {
    "prefill": ("prefill", "send_machine", "data_sender", "kv_buffer", "send_driver", "engine"),
    "decode": ("decode", "attempt_registry", "receive_stream", "receive_machine", "data_receiver", "payload_copier", "engine"),
}
# Points of a request whose first token is its last, so that the hand-off under way is aborted.
AT_AN_ABORT = [("prefill", "send_machine.before_abort"), ("decode", "receive_machine.before_abort"),
               ("decode", "receive_machine.before_release"), ("decode", "decode.push_failed"), ("decode", "engine.before_release")]
# Points where the next attempt meets the one before, whose prefill worker died before it opened its push.
AT_THE_NEXT_ATTEMPT = [("decode", "attempt_registry.before_supersede")]
# The point of preemption, which needs a lack of blocks and has a test of its own.
AT_PREEMPTION = "engine.preempted"
# Points of receiving, which a prefill worker never reaches.
NEVER = [("prefill", name) for name in ("engine.before_grant", "engine.before_commit", "engine.committed")]
# The point where a worker computes wrong KV, which only an audit finds: it has a test of its own.
FORGED_PAGES = "engine.page"
DEAD_S = 10  # most seconds from the request until the worker is dead

salts = itertools.count()
WORKERS_POINTS = [(role, name) for role, parts in PARTS.items() for name in table()
                  if name.split(".")[0] in parts and name != AT_PREEMPTION and (role, name) not in NEVER]
KILLS = [(role, name, sampled) for role, name in WORKERS_POINTS for sampled in (False, True)]
if "BATON_FAILPOINTS_ALL" not in os.environ:
    KILLS = [kill for number, kill in enumerate(KILLS) if number % 4 in (0, 3)]


def made(sampled, stops_at=None, max_tokens=12):
    """A request with a prompt of two chunks, no prefix of which is cached."""
    asked = request(ids=[(i * i) % 40000 + 20 for i in range(100)], ignore_eos=True, max_tokens=max_tokens,
                    temperature=0.9 if sampled else 0, seed=7)
    asked.cache_salt = str(next(salts))
    if stops_at is not None:
        asked.sampling_params.stop_token_ids.append(stops_at)
    return asked


@pytest.fixture(scope="module")
def pair():
    """One worker of each kind, so that the worker that died goes on once it is back."""
    cluster = Cluster(worker_args=["--max-num-batched-tokens=64"], router_args=["--disaggregate=always"])
    cluster.points = {server: Failpoints(server) for server in cluster.servers}
    with cluster:
        cluster.right = {sampled: list(complete(cluster.stub, made(sampled)).token_ids) for sampled in (False, True)}
        yield cluster


@pytest.fixture(autouse=True)
def whole(pair):
    yield
    pair.revive()
    wait_until(lambda: pair.router.metric("baton_worker_up") == 2, 10, "the router uses both")
    for points in pair.points.values():
        points.disarm()
    pair.wait_idle()


def wake_when_given_up(pair, role, name):
    """The worker stops at the point, and goes on once the router tries elsewhere."""
    worker = getattr(pair, role)[0]

    def broken():
        return pair.router.log_text().count("attempt 2 follows")

    before = broken()
    pair.points[worker].wait_stopped(DEAD_S, f"{role} {name}")
    wait_until(lambda: broken() > before, SOON_S, "the router gives it up")
    worker.process.send_signal(signal.SIGCONT)


def undisturbed(pair, sampled, at_an_abort):
    """A request, and the tokens it must have."""
    right = pair.right[sampled]
    return (made(sampled, stops_at=right[0]), []) if at_an_abort else (made(sampled), right)


@pytest.mark.parametrize("role,name,sampled", KILLS)
def test_a_worker_that_dies_at_a_point_changes_no_token(pair, role, name, sampled):
    worker = getattr(pair, role)[0]
    points = pair.points[worker]
    asked, right = undisturbed(pair, sampled, (role, name) in AT_AN_ABORT)
    points.arm(f"{name}=kill@1")
    if (role, name) in AT_THE_NEXT_ATTEMPT:
        pair.points[pair.prefill[0]].arm("send_machine.before_open=kill@1")
    fired = points.fired(name)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(complete, pair.stub, asked, timeout_s=60)
        if (role, name) in AT_THE_NEXT_ATTEMPT:
            pair.points[pair.prefill[0]].wait_killed(DEAD_S, "prefill send_machine.before_open")
            pair.prefill[0].start()
        points.wait_killed(DEAD_S, f"{role} {name}")
        worker.start()
        done = running.result()
    assert points.fired(name) == fired + 1
    assert list(done.token_ids) == right and done.timings.exact, done
    assert done.usage.completion_tokens == max(1, len(right))
    assert not done.timings.local_prefill


# Points that are reached when the client goes away, and the one that is reached when a worker refuses.
AT_A_CANCELLATION = ("router.before_cancel_decode", "router.before_fail")
AT_A_REFUSAL = "router.attempt_broke"


@pytest.mark.parametrize("name", [name for name in table() if name.startswith("router.")])
def test_a_router_that_dies_leaves_nothing_behind_and_its_next_start_serves(pair, name):
    points = pair.points[pair.router]
    points.arm(f"{name}=kill@1")
    if name == AT_A_REFUSAL:
        pair.points[pair.prefill[0]].arm("prefill.before_call=error@1")
    asked = made(False)
    asked.stream = True
    call = pair.stub.Generate(asked, timeout=60)
    if name in AT_A_CANCELLATION:
        next(call)
        call.cancel()
    points.wait_killed(DEAD_S, name)
    with pytest.raises(grpc.RpcError):
        list(call)
    pair.wait_idle()
    pair.router.start()
    pair.wait_ready()
    assert list(complete(pair.stub, made(True), timeout_s=60).token_ids) == pair.right[True]


def test_a_decode_worker_that_dies_as_it_preempts_changes_no_token():
    """Blocks for one of the sequences, and a part of the other."""
    length = 250
    cluster = Cluster(decode_args=["--num-kv-blocks=16"], router_args=["--disaggregate=always"])
    points = Failpoints(cluster.decode[0])
    with cluster:
        right = [list(complete(cluster.stub, made(sampled, max_tokens=length)).token_ids) for sampled in (False, True)]
        points.arm(f"{AT_PREEMPTION}=kill@1")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            running = [pool.submit(complete, cluster.stub, made(sampled, max_tokens=length), timeout_s=60)
                       for sampled in (False, True)]
            points.wait_killed(DEAD_S, AT_PREEMPTION)
            cluster.decode[0].start()
            assert [list(future.result().token_ids) for future in running] == right
        cluster.wait_ready()
        cluster.wait_idle()


def of_form(form):
    return [(role, name) for role, name in WORKERS_POINTS if table()[name] == form and name != FORGED_PAGES]


@pytest.mark.parametrize("role,name", of_form("Status"))
def test_a_worker_that_refuses_once_costs_an_attempt(pair, role, name):
    points = pair.points[getattr(pair, role)[0]]
    fired = points.fired(name)
    points.arm(f"{name}=error@1")
    done = complete(pair.stub, made(True), timeout_s=60)
    assert list(done.token_ids) == pair.right[True] and done.timings.attempts == 2
    assert points.fired(name) == fired + 1


@pytest.mark.parametrize("role,name", of_form("Bytes"))
def test_a_flipped_bit_is_found_and_changes_no_token(pair, role, name):
    points = pair.points[getattr(pair, role)[0]]
    fired = points.fired(name)
    points.arm(f"{name}=corrupt@1")
    done = complete(pair.stub, made(True), timeout_s=60)
    assert list(done.token_ids) == pair.right[True]
    assert done.timings.attempts == 2 or done.timings.kv_transfer_bytes_resent > 0, "nobody noticed"
    assert points.fired(name) == fired + 1


def test_a_prefill_worker_that_forges_is_quarantined_and_the_honest_one_serves():
    # Turn by turn, since a router that prefers the worker that was faster may spare the forger for long.
    cluster = Cluster(prefill=2, decode_args=["--audit-share=1"],
                      router_args=["--disaggregate=always", "--policy=round_robin"])
    forger = Failpoints(cluster.prefill[0])
    with cluster:
        right = list(complete(cluster.stub, made(True)).token_ids)
        forger.arm(f"{FORGED_PAGES}=corrupt")

        def quarantined():
            try:  # an answer of some length, since the audit ends with it
                complete(cluster.stub, made(True, max_tokens=60), timeout_s=60)
            except grpc.RpcError as error:  # the client had the forger's first token
                assert error.code() == grpc.StatusCode.DATA_LOSS, error
            return cluster.decode[0].metric("baton_kv_quarantined_pushers") == 1

        wait_until(quarantined, 30, "the forger is found")
        assert forger.fired(FORGED_PAGES) > 0

        def router_has_heard():  # before that there is no such sample
            samples = cluster.router.metrics().items()
            return any(name.startswith("baton_worker_quarantined{") and value == 1 for name, value in samples)

        wait_until(router_has_heard, 10, "the router hears of it")
        for _ in range(5):
            done = complete(cluster.stub, made(True), timeout_s=60)
            assert list(done.token_ids) == right and done.timings.exact
        assert cluster.decode[0].metric("baton_kv_audits_total", result="mismatch") >= 1
        cluster.wait_idle()


@pytest.mark.parametrize("role,name", [("prefill", "send_machine.before_commit"), ("decode", "receive_machine.committed")])
def test_a_worker_that_hesitates_delays_and_nothing_else(pair, role, name):
    points = pair.points[getattr(pair, role)[0]]
    fired = points.fired(name)
    points.arm(f"{name}=sleep(300)@1")
    done = complete(pair.stub, made(True), timeout_s=60)
    assert list(done.token_ids) == pair.right[True] and done.timings.attempts == 1
    assert points.fired(name) == fired + 1


@pytest.mark.parametrize("role,name,sampled", [("prefill", "data_sender.before_data", False),
                                               ("prefill", "send_machine.before_commit", True),
                                               ("decode", "data_receiver.before_copy", True),
                                               ("decode", "receive_machine.committed", False)])
def test_a_worker_that_stops_at_a_point_is_given_up_and_what_it_says_when_it_wakes_is_not_heard(pair, role, name, sampled):
    """It wakes when the router has given it up, in the middle of what it did, and serves the next attempt."""
    pair.points[getattr(pair, role)[0]].arm(f"{name}=stop@1")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(complete, pair.stub, made(sampled), timeout_s=60)
        wake_when_given_up(pair, role, name)
        done = running.result()
    assert list(done.token_ids) == pair.right[sampled] and done.timings.attempts >= 2


@pytest.mark.parametrize("local", [False, True])
def test_a_request_that_kills_four_workers_at_one_place_is_poison_and_others_are_served(local):
    fleet = {"prefill": 0, "decode": 1} if local else {}
    cluster = Cluster(router_args=[f"--disaggregate={'never' if local else 'always'}"], **fleet)
    worker = (cluster.decode if local else cluster.prefill)[0]
    deadly = "engine.layer_done=kill@7"
    points = Failpoints(worker)
    with cluster:
        right = list(complete(cluster.stub, made(False)).token_ids)
        points.arm(deadly)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            running = pool.submit(complete, cluster.stub, made(True), timeout_s=60)
            for plan in (deadly, deadly, deadly, ""):
                points.wait_killed(DEAD_S, deadly)
                points = Failpoints(worker, plan)
                worker.start()
            with pytest.raises(grpc.RpcError) as error:
                running.result()
        assert error.value.code() == grpc.StatusCode.INTERNAL
        assert "POISON_REQUEST" in str(error.value.trailing_metadata())
        assert list(complete(cluster.stub, made(False), timeout_s=60).token_ids) == right


def test_the_environment_arms_a_worker_from_its_start(pair):
    worker, name = pair.decode[0], "receive_machine.before_commit"
    worker.kill()
    armed = Failpoints(worker, f"{name}=kill@2")
    worker.start()
    pair.wait_ready()
    assert list(complete(pair.stub, made(False)).token_ids) == pair.right[False]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(complete, pair.stub, made(True), timeout_s=60)
        armed.wait_killed(DEAD_S, name)
        pair.points[worker] = Failpoints(worker)
        worker.start()
        assert list(running.result().token_ids) == pair.right[True]
