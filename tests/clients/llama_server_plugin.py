"""A pytest plugin for llama.cpp's server tests: the servers that they start are `baton serve` of BATON_TEST_MODEL.

With LLAMA_SERVER_BIN_PATH they are llama-server with that model. What is changed of the suite: no model is fetched; a flag of
llama-server is given to Baton as its own (start_baton); the server's model has the name that the test asks for, since Baton
refuses others; keys are made by `baton keys`.
"""
import inspect
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import types

sys.path.insert(0, os.getcwd())  # the suite's folder
sys.modules.setdefault("wget", types.ModuleType("wget"))  # imported for downloads, of which there are none
import utils  # noqa: E402

MODEL = os.environ["BATON_TEST_MODEL"]
BATON = pathlib.Path(os.environ["BATON_BIN"]) / "baton"
PEER = "LLAMA_SERVER_BIN_PATH" in os.environ
STATE = tempfile.TemporaryDirectory(prefix="llama-server-tests-")
KEYS = pathlib.Path(STATE.name) / "keys.toml"
# What llama-server's word "localhost" means where an origin may stand, for the origins that the tests try.
LOCAL_ORIGINS = [f"http://{host}{port}" for host in ("localhost", "127.0.0.1", "[::1]") for port in ("", ":3000", ":8080")]

asked_model = None  # the name of the model in the requests of the test that runs


def with_local_model(preset):
    def make():
        server = preset()
        server.model_hf_repo = server.model_hf_file = None
        server.model_file = MODEL
        return server

    return staticmethod(make)


def start_baton(server, timeout_seconds=60):
    context = server.n_ctx // (server.n_slots or 1)
    argv = [BATON, "serve", MODEL, "--threads=1", "--listen=127.0.0.1:0", "--log-level=warning",
            f"--http-listen={server.server_host}:{server.server_port}",
            f"--max-model-len={context}", f"--max-num-seqs={server.n_slots or 1}",
            f"--served-model-name={asked_model or server.model_alias}"]
    origins = LOCAL_ORIGINS if server.cors_origins == "localhost" else ["*"]
    argv += [f"--http-cors-origin={origin}" for origin in origins]
    argv += ["--default-temperature=1", "--default-top-p=1"]  # as for the results in docs/benchmarks/llama_server_tests.md
    if server.api_key is not None:
        argv.append(f"--api-keys={KEYS}")
    log = pathlib.Path(STATE.name) / "serve.log"
    with log.open("w") as output:
        server.process = subprocess.Popen([str(argument) for argument in argv], stdout=output, stderr=output,
                                          env={**os.environ, "XDG_STATE_HOME": STATE.name})
    utils.server_instances.add(server)
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            raise RuntimeError(f"baton serve ended with {server.process.returncode}: {log.read_text()[-2000:]}")
        try:
            if server.make_request("GET", "/health").status_code == 200:
                return
        except utils.requests.exceptions.ConnectionError:
            pass
        time.sleep(0.05)
    raise TimeoutError(f"baton serve was not ready within {timeout_seconds} s")


def pytest_configure():
    presets = utils.ServerPreset
    presets.load_all = staticmethod(lambda: None)
    for name in ("tinyllama2", "router"):
        setattr(presets, name, with_local_model(getattr(presets, name)))
    if not PEER:
        utils.ServerProcess.start = start_baton


def new_key():
    command = [BATON, "keys", "new", f"--file={KEYS}", "--tenant=suite"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def pytest_collection_finish(session):
    """Gives the module of the security tests a key that Baton takes."""
    for module in {item.module for item in session.items}:
        if hasattr(module, "TEST_API_KEY") and not PEER:
            module.TEST_API_KEY = new_key()


def pytest_runtest_setup(item):
    global asked_model
    source = inspect.getsource(item.function)
    found = re.search(r'\bmodel"?\s*[:=]\s*"([^"]+)"', source)
    asked_model = found.group(1) if found else None
