"""A model file that is cut, written to or replaced while a server loads or serves it, or has another content than it should;
what its settings say."""
import concurrent.futures
import hashlib
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import time

import grpc
import pytest

from cluster import MODEL, READY_TIMEOUT_S, Cluster, Server, complete, is_serving, request, wait_until
from programs import assert_one_clear_line, run
from stubs import pb, rpc

CUT = 74  # the exit code if the file was cut
# BATON_CUTS: how many random moments each test tries.
CUTS = int(os.environ.get("BATON_CUTS", "3"))
SIZE = os.path.getsize(MODEL) if MODEL else 0


def cut(path, random_numbers):
    os.truncate(path, random_numbers.randrange(SIZE))


def overwrite(path, random_numbers):
    with open(path, "r+b") as file:
        file.seek(random_numbers.randrange(SIZE - 65536))
        file.write(random_numbers.randbytes(65536))


def replace(path, _):
    other = path.with_suffix(".other")
    other.write_bytes(b"no model")
    os.replace(other, path)


HARMS = (cut, overwrite, replace)
salts = itertools.count()


def maps(process, path):
    """Whether the process has the file mapped; fails if it ended before."""
    assert process.poll() is None, "it ended before it mapped the file"
    try:
        with open(f"/proc/{process.pid}/maps") as mappings:
            return str(path) in mappings.read()
    except OSError:
        return False


def start(program, path, *arguments):
    server = Server(program, f"--model={path}", "--log-level=error", *arguments)
    server.start()
    return server


def loaded(server):
    """Whether it has all it needs of the file. A router loads it before it listens, a worker after that."""
    return is_serving(server.health_port, "liveness" if "baton-router" in server.argv[0] else "readiness")


def ends_well(server, path, serves=lambda server: True):
    """It ends with one line and its code, or it has what it needs of the file, goes on, and serves; returns whether it ended."""
    wait_until(lambda: server.process.poll() is not None or loaded(server), READY_TIMEOUT_S, "an end or a server")
    if server.process.poll() is None:
        assert serves(server)
        assert server.stop() == 0, server.log_text()
        return False
    assert server.process.returncode == CUT, (server.process.returncode, server.log_text())
    lines = server.log_text().splitlines()
    assert len(lines) == 1 and str(path) in lines[0] and "cut short" in lines[0] and "rename" in lines[0], lines
    return True


@pytest.fixture
def path(tmp_path):
    copy = tmp_path / "model.gguf"
    shutil.copyfile(MODEL, copy)
    return copy


# A cut within the last page raises no signal: the rest of that page reads as zeros.
@pytest.mark.parametrize("kept", [4096, os.path.getsize(MODEL) - 1], ids=["a page", "all but a byte"])
def test_a_worker_whose_model_is_cut_while_it_loads_says_so(kept, path):
    server = start("baton-decode-worker", path)
    wait_until(lambda: maps(server.process, path), READY_TIMEOUT_S, "the file is mapped")
    server.process.send_signal(signal.SIGSTOP)
    os.truncate(path, kept)
    server.process.send_signal(signal.SIGCONT)
    assert ends_well(server, path)


def answer(stub):
    """The tokens of one prompt, no prefix of which is cached."""
    asked = request(ids=[30, 31, 32] * 8, max_tokens=12, ignore_eos=True, temperature=0)
    asked.cache_salt = str(next(salts))
    return list(complete(stub, asked).token_ids)


class Fleet:
    """Workers of a whole file, and what they answer."""

    def __init__(self, cluster):
        self.workers = {"prefill": cluster.prefill[0].address, "decode": cluster.decode[0].address}
        self.right = answer(cluster.stub)

    def arguments(self, **others):
        """What a router is started with before these workers, or others."""
        return ["--disaggregate=always", *(f"--{role}={address}" for role, address in {**self.workers, **others}.items())]

    def gets_it_right(self, router):
        wait_until(lambda: router.serving("all_workers"), READY_TIMEOUT_S, "the router knows its workers")
        with grpc.insecure_channel(router.address) as channel:
            return answer(rpc.GenerationServiceStub(channel)) == self.right

    def serves(self, server):
        """Whether the answers are right if the server is a part of the fleet."""
        if "baton-router" in server.argv[0]:
            return self.gets_it_right(server)
        router = start("baton-router", MODEL, *self.arguments(prefill=server.address))
        try:
            return self.gets_it_right(router)
        finally:
            router.stop()


@pytest.fixture(scope="module")
def fleet():
    with Cluster(router_args=["--disaggregate=always"]) as cluster:
        yield Fleet(cluster)


@pytest.mark.parametrize("program", ["baton-prefill-worker", "baton-router"])
def test_no_harm_to_a_file_that_is_loaded_ends_a_server_by_a_signal_or_changes_an_answer(program, path, fleet):
    moments = random.Random(program)
    for number in range(CUTS):
        shutil.copyfile(MODEL, path)
        server = start(program, path, *(fleet.arguments() if program == "baton-router" else []))
        wait_until(lambda: loaded(server) or maps(server.process, path), READY_TIMEOUT_S, "the file is mapped")
        time.sleep(moments.random() ** 2)  # waits for nothing: the moment is what is random
        harm = HARMS[number % len(HARMS)]
        harm(path, moments)
        ended = ends_well(server, path, fleet.serves)
        assert not ended or harm != replace, "its own file was whole"


def test_no_harm_to_a_file_that_is_served_changes_an_answer(path):
    moments = random.Random(1)
    with Cluster(model=path, router_args=["--disaggregate=always"]) as cluster, concurrent.futures.ThreadPoolExecutor(1) as pool:
        right = answer(cluster.stub)
        for number in range(CUTS):
            shutil.copyfile(MODEL, path)
            running = pool.submit(answer, cluster.stub)
            time.sleep(0.3 * moments.random())  # waits for nothing, as above
            HARMS[number % len(HARMS)](path, moments)
            assert running.result() == right
            assert answer(cluster.stub) == right
        assert [server.stop() for server in cluster.servers] == [0, 0, 0]


@pytest.mark.parametrize("program", ["baton-decode-worker", "baton-router"])
def test_a_model_of_another_sha256_is_refused_and_its_own_is_served(program, path):
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    arguments = ["--log-level=error", *(["--decode=127.0.0.1:1"] if program == "baton-router" else [])]
    done = run(program, f"--model={path}", "--check-config", f"--model-sha256={digest}", *arguments)
    assert done.returncode == 0, done.stderr
    other = "0" * 64
    done = run(program, f"--model={path}", f"--model-sha256={other}", "--listen=127.0.0.1:0", *arguments)
    assert_one_clear_line(done, "--model-sha256", str(path), digest, other)


FOLDER = pathlib.Path(__file__).parent.parent / "data" / "arch" / "llama-hf"
PROMPT = [1, 5, 9, 12]
TOKENS = 12


@pytest.fixture
def folder_with(tmp_path):
    """Makes the folder of a model with these settings of its generation."""
    def make(name, **settings):
        folder = tmp_path / name
        shutil.copytree(FOLDER, folder)
        (folder / "generation_config.json").write_text(json.dumps(settings))
        return folder

    return make


def tokens_of(stub, **sampling):
    return list(complete(stub, request(ids=PROMPT, max_tokens=TOKENS, ignore_eos=True, **sampling)).token_ids)


def test_a_request_has_its_own_sampling_else_the_models(folder_with):
    settings = folder_with("greedy", temperature=0.0, top_k=-1, repetition_penalty=0.01)
    with Cluster(prefill=0, model=settings) as cluster:
        own = tokens_of(cluster.stub, temperature=0, repetition_penalty=0.01)
        plain = tokens_of(cluster.stub, temperature=0, repetition_penalty=1)
        drawn = tokens_of(cluster.stub, temperature=5, repetition_penalty=1, seed=1)
        assert tokens_of(cluster.stub, seed=1) == own
        assert plain != own, "a client's own penalty holds"
        assert drawn != plain, "a client's own temperature holds"
        # The same workers behind routers that leave the model's settings out.
        for flags, filled in (([], {"temperature": 0.7, "top_p": 0.95}),
                              (["--default-temperature=5", "--default-top-p=1"], {"temperature": 5, "top_p": 1})):
            none = Server("baton-router", f"--model={settings}", "--generation-config=none", *flags,
                          *(f"--decode={worker.address}" for worker in cluster.decode))
            none.start()
            try:
                wait_until(none.serving, READY_TIMEOUT_S, "a ready router")
                with cluster.channel_to(none) as channel:
                    stub = rpc.GenerationServiceStub(channel)
                    assert tokens_of(stub, seed=1) == tokens_of(stub, seed=1, repetition_penalty=1, **filled) != own
            finally:
                none.stop()


def test_every_end_that_the_settings_list_ends_an_answer(folder_with):
    with Cluster(prefill=0, model=folder_with("none")) as cluster:
        greedy = tokens_of(cluster.stub, temperature=0)
    end = greedy[5]
    others = [token for token in range(20, 40) if token not in greedy][:5]
    with Cluster(prefill=0, model=folder_with("ends", eos_token_id=[*others, end])) as cluster:
        done = complete(cluster.stub, request(ids=PROMPT, max_tokens=TOKENS, temperature=0))
        assert done.finish_reason == pb.FINISH_REASON_STOP and done.matched_token_id == end
        assert list(done.token_ids) == greedy[:greedy.index(end)]


def test_a_setting_that_cannot_be_is_refused_by_its_name(folder_with):
    wrong = folder_with("wrong", top_p=1.5)
    for arguments in ([], ["--generation-config=auto"]):
        done = run("baton-router", f"--model={wrong}", "--decode=127.0.0.1:1", "--check-config", *arguments)
        assert_one_clear_line(done, str(wrong), "general.sampling.top_p", "generation_config.json", "is 1.5",
                              "--generation-config=none")
    done = run("baton-router", f"--model={wrong}", "--decode=127.0.0.1:1", "--check-config", "--generation-config=none")
    assert done.returncode == 0, done.stderr
    done = run("baton", "run", "--model", str(wrong), "hello")
    assert_one_clear_line(done, str(wrong), "general.sampling.top_p", "--generation-config=none")
