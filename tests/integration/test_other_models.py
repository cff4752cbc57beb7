"""Workers of other models join a fleet. No answer comes from them, and one line of the router's log says why of each."""
import pathlib
import struct

import grpc
import pytest

from cluster import READY_TIMEOUT_S, SOON_S, Cluster, Server, complete, failure, request, wait_until

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
MODEL = DATA / "arch/qwen3-tied-f16.gguf"


class Fleet(Cluster):
    """A pair behind a router that was told of the strangers, too, which do not run at first."""

    def __init__(self, strangers):
        super().__init__(model=MODEL, router_args=[f"--decode={stranger.address}" for stranger in strangers])
        self.strangers = strangers

    def wait_ready(self):
        for server in self.servers:
            wait_until(server.serving, READY_TIMEOUT_S, f"{server.argv[0]} ready\n{server.log_text()}")
        wait_until(lambda: self.used() == 2, READY_TIMEOUT_S, "the router uses the pair")

    def used(self):
        return sum(value for name, value in self.router.metrics().items() if name.startswith("baton_worker_up{"))

    def refusals(self, stranger):
        return [line for line in self.router.log_text().splitlines() if f"at {stranger.address} is not used: it" in line]

    def __exit__(self, *exception):
        super().__exit__(*exception)
        for stranger in self.strangers:
            if stranger.process is not None and stranger.process.poll() is None:
                stranger.kill()


def longer(path):
    """Writes the model with another context length to `path`, and returns that."""
    key = b"qwen3.context_length"
    content = bytearray(MODEL.read_bytes())
    at = content.index(key) + len(key) + 4  # behind the value's type
    assert struct.unpack_from("<I", content, at) == (2048,)
    struct.pack_into("<I", content, at, 4096)
    path.write_bytes(content)
    return path


@pytest.fixture
def strangers(tmp_path):
    """What the router's log must say, and the worker."""
    def worker(model, *args):
        return Server("baton-decode-worker", f"--model={model}", "--threads=1", *args)

    return {"file of weights is Q8_0 ": worker(DATA / "arch/qwen3-tied-q8_0.gguf"),
            "serves other weights (Q8_0 ": worker(MODEL, "--quantize=q8_0"),
            "architecture is qwen3moe there and qwen3 here": worker(DATA / "arch/qwen3moe-f16.gguf"),
            "configuration is ": worker(longer(tmp_path / "longer.gguf")),
            "has another tokenizer": worker(DATA / "tiny/tiny-llama-f16.gguf")}


def test_no_answer_comes_from_a_worker_of_another_model(strangers):
    with Fleet(list(strangers.values())) as fleet:
        answered = []

        def ask():
            answered.append(complete(fleet.stub, request(ids=[30] * 40, max_tokens=4, ignore_eos=True, temperature=0)))

        ask()
        for stranger in fleet.strangers:
            stranger.start()

        def all_refused():
            ask()
            return all(fleet.refusals(stranger) for stranger in fleet.strangers)

        wait_until(all_refused, READY_TIMEOUT_S, f"all are refused\n{fleet.router.log_text()}")
        for _ in range(20):
            ask()
        assert len({answer.system_fingerprint for answer in answered}) == 1
        assert {answer.timings.decode_worker for answer in answered} == {answered[0].timings.decode_worker}
        assert fleet.router.metric("baton_router_ready_identities") == 1
        # Nor are they used when nobody else is there.
        for worker in (*fleet.prefill, *fleet.decode):
            worker.kill()
        wait_until(lambda: fleet.used() == 0, SOON_S, "the router has lost the pair")
        refused = failure(fleet.stub, request(ids=[30] * 40, max_tokens=4, temperature=0))
        assert (refused.code, refused.reason) == (grpc.StatusCode.UNAVAILABLE, "NO_READY_WORKER")
        for worker in (*fleet.prefill, *fleet.decode):
            worker.start()
        fleet.wait_ready()
        ask()
        for text, stranger in strangers.items():
            lines = fleet.refusals(stranger)
            assert all(text in line for line in lines), lines
            # On a busy machine a worker may be lost, and introduces itself again.
            assert len(lines) <= 1 + fleet.router.log_text().count(f"at {stranger.address} is lost"), lines


def test_workers_of_a_shorter_max_model_len_serve_the_same_model():
    with Cluster(model=MODEL, decode_args=["--max-model-len=512"]) as fleet:
        assert complete(fleet.stub, request(ids=[30] * 40, max_tokens=4, temperature=0)).usage.completion_tokens > 0
