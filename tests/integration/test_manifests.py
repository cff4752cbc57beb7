"""The fleets of the manifests for one machine, without a cluster: the programs with the arguments and files of their pods. Only
folders, addresses, ports and the device differ."""
import contextlib
import http.client
import json
import pathlib
import sys

import pytest

from cluster import MODEL, READY_TIMEOUT_S, SOON_S, Server, free_port, wait_until
from programs import new_key

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "deploy"))
import deploy_tree as tree  # noqa: E402

POD_IP = "127.0.0.1"
OVERLAYS = tree.KUBERNETES / "overlays"
SERVICE = "baton-router.baton"


class Pod(Server):
    """The server of a Deployment. `addresses` are those of the workers by the names that the router asks DNS for."""

    def __init__(self, overlay, deployment, folder, addresses):
        super().__init__(tree.container(deployment)["command"][0])
        self.http_port = free_port()
        ports = {50051: self.port, 8080: self.http_port, 50052: self.health_port, 9090: self.metrics_port}
        here = {f"0.0.0.0:{number}": f"0.0.0.0:{port}" for number, port in ports.items()}
        here |= {f"{POD_IP}:50051": self.address, "/models/model.gguf": MODEL, "/etc/baton-keys": str(folder),
                 "/etc/baton": str(folder), "=cuda": "=cpu", **addresses}

        def replaced(text):
            for what, by in here.items():
                text = text.replace(what, by)
            return text

        for path, text in tree.config_files(overlay, deployment).items():
            (folder / pathlib.PurePosixPath(path).name).write_text(replaced(text))
        self.argv[1:] = [replaced(argument) for argument in tree.arguments(deployment, POD_IP)]


@contextlib.contextmanager
def fleet(overlay, folder):
    """The router of that overlay, which has found a worker of each Deployment."""
    deployments = tree.deployments(overlay)
    router, addresses, pods = deployments.pop("router"), {}, []
    for role, deployment in deployments.items():
        pods.append(Pod(overlay, deployment, folder, {}))
        addresses[f"dns:///baton-{role}:50051"] = pods[-1].address
    pods.append(Pod(overlay, router, folder, addresses))
    try:
        for pod in pods:
            pod.start()
        for pod in pods:
            wait_until(pod.serving, READY_TIMEOUT_S, f"{pod.argv} is ready\n{pod.log_text()}")
        wait_until(lambda: pods[-1].serving("all_workers"), READY_TIMEOUT_S, f"all workers\n{pods[-1].log_text()}")
        yield pods[-1]
    finally:
        for pod in pods:
            if pod.process is not None:
                pod.kill()


def ask(router, host, path="/v1/models", body=None, **more):
    """The status and the JSON of the router's answer to a request with that Host and `more` headers."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", router.http_port, timeout=SOON_S)) as connection:
        headers = {"Host": host, **({"Content-Type": "application/json"} if body else {}), **more}
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
        response = connection.getresponse()
        return response.status, json.load(response)


@pytest.mark.parametrize("name", ["local-cpu", "one-gpu"])
def test_a_pod_gets_an_answer_by_each_name_of_the_service_and_by_no_other(name, tmp_path):
    with fleet(OVERLAYS / name, tmp_path) as router:
        for host in ("localhost", "baton-router", SERVICE, f"{SERVICE}.svc", f"{SERVICE}.svc.cluster.local"):
            status, models = ask(router, f"{host}:8080")
            assert status == 200, (host, models)
        assert ask(router, "evil.example")[0] == 403
        assert ask(router, "baton-router.elsewhere:8080")[0] == 403
        body = {"model": models["data"][0]["id"], "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4,
                "temperature": 0}
        status, answer = ask(router, f"{SERVICE}.svc.cluster.local:8080", "/v1/chat/completions", body)
        assert status == 200, answer
        assert answer["usage"]["completion_tokens"] == 4, answer

        def lines():
            whole = [line for line in router.log_text().splitlines(keepends=True) if line.endswith("}\n")]
            return [line for line in map(json.loads, whole) if line.get("route") == "/v1/chat/completions"]

        (line,) = wait_until(lines, SOON_S, f"a line of the access log\n{router.log_text()}")
        assert (line["status"], line["output_tokens"]) == ("200", 4), line


def test_a_client_with_a_key_gets_an_answer_through_the_ingress_and_one_without_does_not(tmp_path):
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    components = [str(tree.KUBERNETES / "components" / name) for name in ("api-keys", "ingress")]
    (overlay / "kustomization.yaml").write_text(json.dumps({"resources": [str(OVERLAYS / "one-gpu")], "components": components}))
    (ingress,) = tree.objects(overlay, "Ingress")
    host = ingress["spec"]["rules"][0]["host"]  # the controller passes it on
    key = new_key(tmp_path / "keys.toml", "--tenant=acme")
    with fleet(overlay, tmp_path) as router:
        forwarded = {"X-Forwarded-For": "192.0.2.9", "X-Forwarded-Proto": "https"}
        assert ask(router, host, **forwarded)[0] == 401
        status, models = ask(router, host, Authorization=f"Bearer {key}", **forwarded)
        assert status == 200, models
