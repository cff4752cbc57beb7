"""A form whose masks cost seconds ends its own answer: others go on beside it, and no worker is taken for lost."""
import re
import threading
from concurrent import futures

import grpc
import pytest

from cluster import SOON_S, Cluster, complete, request, wait_until

# Each part of the text is read in every way that divides it.
COSTLY = 'root ::= s\ns ::= s s s | s s | [a-z ] | ""'
INNOCENT = 8


@pytest.fixture(scope="module")
def fleet():
    with Cluster(prefill=2, decode=2) as cluster:
        yield cluster


def costly(fleet, seed):
    made = request(prompt="once upon a time", stream=True, max_tokens=400, temperature=1, top_p=1, seed=seed,
                   logit_bias={end: -100 for end in (0, 2)})
    made.response_format.grammar = COSTLY
    return fleet.stub.Generate(made, timeout=300)


def innocent(index):
    """Half of them have a form of their own."""
    made = request(prompt=f"number {index} is", max_tokens=24, temperature=1, top_p=1, seed=index)
    if index % 2:
        made.response_format.regex = "[a-z]{4,9}( [a-z]{2,9}){3,20}"
    return made


class Costly(threading.Thread):
    """Reads the answer until it ends; keeps its text and its error."""

    def __init__(self, fleet, seed):
        super().__init__(daemon=True)
        self.call, self.text, self.error = costly(fleet, seed), "", None
        self.start()

    def run(self):
        try:
            for response in self.call:
                self.text += response.chunk.text
        except grpc.RpcError as error:
            self.error = error


def test_it_ends_alone_by_name_while_others_open_and_run_as_if_it_were_not_there(fleet):
    expected = [complete(fleet.stub, innocent(i)).text for i in range(INNOCENT)]
    attacks = [Costly(fleet, seed) for seed in (1, 2)]
    wait_until(lambda: all(len(attack.text) > 4 for attack in attacks), SOON_S, "they have begun")
    with futures.ThreadPoolExecutor(INNOCENT) as pool:
        answers = list(pool.map(lambda index: complete(fleet.stub, innocent(index)).text, range(INNOCENT)))
    assert answers == expected
    for attack in attacks:
        attack.join()
        assert attack.error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert re.search("response_format: takes more than [0-9]+s of CPU time", attack.error.details())
    log = fleet.router.log_text()
    assert "no progress" not in log and "not ready" not in log
