"""A new model comes beside the old one, pair by pair, and the old one goes: deploy/README.md's rollout, without its cluster. No
request is lost, and no hand-off leads from the one to the other."""
import concurrent.futures
import pathlib
import threading

import grpc
import pytest

from cluster import Cluster, failure, request, wait_until

MODELS = pathlib.Path(__file__).resolve().parents[1] / "data/tiny"
OLD, NEW = 0, 1  # models with one tokenizer and different weights
CLIENTS, TOKENS = 4, 200


class Revisions(Cluster):
    """A pair of each revision behind a router of the old one."""

    def __init__(self):
        super().__init__(prefill=2, decode=2, model=MODELS / "tiny-llama-f16.gguf",
                         router_args=["--disaggregate=always", "--allow-mixed-revisions"])
        for worker in (self.prefill[NEW], self.decode[NEW]):
            worker.argv = [word.replace("tiny-llama-f16", "tiny-llama-bf16") for word in worker.argv]

    def pair(self, revision):
        return [self.prefill[revision], self.decode[revision]]

    def ask(self, seed):
        """The revision that answers a request, which must end well: the fingerprint begins with the weights' digest."""
        ids = [(seed * 37 + i * i) % 280 + 20 for i in range(40)]
        *_, last = self.stub.Generate(request(ids=ids, stream=True, ignore_eos=True, max_tokens=TOKENS, temperature=0), timeout=60)
        assert last.complete.usage.completion_tokens == TOKENS
        return last.complete.system_fingerprint

    def knows(self, workers):
        return all(self.router.metric("baton_worker_up", worker=worker.address) == 1 for worker in workers)


@pytest.fixture
def fleet():
    with Revisions() as cluster:
        yield cluster


class Load:
    """Clients that ask one request after another, until the block ends. `answered` has the fingerprints in the order of the
    ends."""

    def __init__(self, fleet):
        self.fleet, self.answered, self.ended = fleet, [], threading.Event()
        self.pool = concurrent.futures.ThreadPoolExecutor(CLIENTS)

    def client(self, number):
        asked = 0
        while not self.ended.is_set():
            self.answered.append(self.fleet.ask(seed=CLIENTS * asked + number))
            asked += 1

    def __enter__(self):
        self.clients = [self.pool.submit(self.client, number) for number in range(CLIENTS)]
        return self

    def __exit__(self, *exception):
        self.ended.set()
        self.pool.shutdown()
        for client in self.clients:
            client.result()

    def wait_for(self, condition, what):
        wait_until(lambda: condition(self.answered) or any(client.done() for client in self.clients), 60, what)


def test_the_new_pair_takes_over_and_no_request_is_lost(fleet):
    for worker in fleet.pair(NEW):
        assert worker.stop() == 0
    old = fleet.ask(seed=0)
    with Load(fleet) as load:
        load.wait_for(lambda answered: len(answered) > CLIENTS, "the old revision answers")
        assert set(load.answered) == {old}
        for worker in fleet.pair(NEW):
            worker.start()
        load.wait_for(lambda answered: len(set(answered)) == 2, "both revisions answer")
        assert fleet.router.metric("baton_router_ready_identities") == 2
        for worker in fleet.pair(OLD):
            worker.process.terminate()
        for worker in fleet.pair(OLD):
            assert worker.process.wait(60) == 0, worker.log_text()
        ended = len(load.answered)
        load.wait_for(lambda answered: len(answered) > ended + 2 * CLIENTS, "the new revision answers alone")
    assert old not in load.answered[ended + CLIENTS:]
    assert "never paired" in fleet.router.log_text()
    assert fleet.router.metric("baton_router_ready_identities") == 1
    for worker in fleet.pair(NEW):
        assert worker.metric("baton_kv_transfer_failures_total", reason="mismatch") == 0


def test_workers_of_two_revisions_are_not_paired(fleet):
    assert fleet.prefill[OLD].stop() == 0
    assert fleet.decode[NEW].stop() == 0
    wait_until(lambda: not fleet.knows([fleet.prefill[OLD], fleet.decode[NEW]]), 20, "the router has lost them")
    refused = failure(fleet.stub, request(ids=[30] * 40, max_tokens=4))
    assert (refused.code, refused.reason) == (grpc.StatusCode.UNAVAILABLE, "NO_READY_WORKER")


def test_an_answer_goes_on_with_the_model_that_began_it(fleet):
    for worker in fleet.pair(NEW):
        assert worker.stop() == 0
    asked = request(ids=[30] * 40, stream=True, ignore_eos=True, max_tokens=400, temperature=0)

    def answer(responses):
        """Its tokens, and the revision that gave the last."""
        *chunks, last = responses
        return [token for chunk in chunks for token in chunk.chunk.token_ids], last.complete.system_fingerprint

    expected = answer(fleet.stub.Generate(asked, timeout=60))
    decode = fleet.decode[OLD]
    for _ in range(20):
        responses = fleet.stub.Generate(asked, timeout=60)
        first = next(responses)
        decode.kill()
        wait_until(lambda: "attempt 2 follows" in fleet.router.log_text() or not responses.is_active(), 30, "cut, or at its end")
        for worker in fleet.pair(NEW):
            worker.start()
        wait_until(lambda: fleet.knows(fleet.pair(NEW)), 30, "the router knows the new revision")
        assert fleet.ask(seed=1) != expected[1]
        decode.start()
        assert answer([first, *responses]) == expected
        if "attempt 2 follows" in fleet.router.log_text():
            return  # it was cut
        for worker in fleet.pair(NEW):
            assert worker.stop() == 0
        wait_until(lambda: fleet.knows([decode]), 30, "the router knows the old decode worker again")
    raise AssertionError("the answer was never cut")
