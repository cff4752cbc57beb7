"""The fleet of containers_test.py for all its rooms. Who imports this goes on in namespaces of its own, with the images built, on a
cluster that has the model and no pod yet; or ends with 77 and the reason where podman cannot run. The first argument of the program
is the folder of binaries."""
import atexit
import contextlib
import copy
import functools
import http.client
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]
import private_podman  # noqa: E402

MODEL = os.environ.get("BATON_TEST_MODEL")
try:
    if not MODEL:
        raise private_podman.NotAllowed("BATON_TEST_MODEL is not set: scripts/test.sh sets it")
    private_podman.inside()
    podman = private_podman.Podman()
except private_podman.NotAllowed as why:
    print(f"skipped: {why}")
    sys.exit(77)

import deploy_tree as tree  # noqa: E402
import kustomize_subset  # noqa: E402
from little_cluster import Cluster  # noqa: E402

BINARIES = pathlib.Path(sys.argv.pop(1)).resolve()
os.environ.setdefault("BATON_BIN", str(BINARIES))
OVERLAY = tree.KUBERNETES / "overlays" / "local-cpu"
BILLS = podman.folder / "bills"
PATIENCE_S = 120
CAPITAL = "What is the capital of France?"
TOKENS = 12
LONG_FORM = os.environ.get("BATON_CONTAINERS") == "all"
IMAGES = ("router", "prefill-worker", "decode-worker", "front", *(("baton",) if LONG_FORM else ()))
ARCHIVES = podman.folder / "archives"  # of the images, in the long form


def told(text):
    print(text, file=sys.stderr, flush=True)


def build_images():
    begin = time.monotonic()
    command = [tree.ROOT / "scripts/build_images.sh", "--programs", BINARIES, "--bills", BILLS, *(("--oci", ARCHIVES) if LONG_FORM else ()), *IMAGES]
    print(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout, end="", file=sys.stderr)
    told(f"images built: {time.monotonic() - begin:.1f} s")


def model_claim():
    """A folder with the model as the volume has it."""
    folder = podman.folder / "model"
    folder.mkdir()
    (folder / "model.gguf").touch()
    subprocess.run(["mount", "--bind", MODEL, str(folder / "model.gguf")], check=True)
    return folder


build_images()
try:
    CLUSTER = Cluster(podman, {"baton-model": model_claim()})
except private_podman.NotAllowed as why:
    print(f"skipped: {why}")
    sys.exit(77)
atexit.register(CLUSTER.close)


def overlay():
    return copy.deepcopy(kustomize_subset.build(OVERLAY))


def deployment(objects, role):
    return next(item for item in objects if item["kind"] == "Deployment" and item["metadata"]["name"] == f"baton-{role}")


def pod_spec(objects, role):
    return deployment(objects, role)["spec"]["template"]["spec"]


def rolled_out(objects, why):
    begin = time.monotonic()
    CLUSTER.apply(objects)
    CLUSTER.wait_rolled_out(PATIENCE_S)
    told(f"{why}: {time.monotonic() - begin:.1f} s")


def baton_run(*flags):
    """The facts of the answer to CAPITAL that the source tree's `baton run` shows."""
    command = [BINARIES / "baton", "run", *flags, "--temperature=0", f"--max-tokens={TOKENS}", "--json", CAPITAL]
    done = subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


@functools.cache
def right_tokens():
    """Those of the answer to CAPITAL by the source tree's programs alone, without images, pods and front."""
    return baton_run(f"--model={MODEL}", "--disaggregate=always")["token_ids"]


def tokens_over_http(connected, name):
    """Those of the answer to CAPITAL of the server at the other end of the connected socket, which is called by that name."""
    with contextlib.closing(http.client.HTTPConnection(name)) as connection:
        connection.sock = connected
        connection.request("GET", "/v1/models")
        model = json.load(connection.getresponse())["data"][0]["id"]
        body = {"model": model, "messages": [{"role": "user", "content": CAPITAL}], "max_tokens": TOKENS, "temperature": 0,
                "return_token_ids": True}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        return json.load(connection.getresponse())["choices"][0]["token_ids"]


class OnPods(unittest.TestCase):
    """Tells of every pod where a test fails."""

    def run(self, result=None):
        before = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > before:
            told(CLUSTER.describe())
