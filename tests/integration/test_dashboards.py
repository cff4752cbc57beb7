"""Every query of Grafana's dashboards has an answer from a real Prometheus that reads a fleet at work; no alert fires there."""
import contextlib
import json
import math
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import grpc
import pytest
import yaml

from cluster import Cluster, complete, failure, free_port, request, wait_until
from programs import ROOT, channel_credentials, issue, make_authority, new_key, tls_flags
from stubs import rpc

sys.path.insert(0, str(ROOT / "tests/deploy"))
import dashboards  # noqa: E402

RULES = ROOT / "deploy/monitoring/rules.yml"
PATIENCE_S = 60
SCRAPE_S = 1
# What Grafana makes of its variables: one namespace, and all of everything.
CHOSEN = {"__rate_interval": f"{4 * SCRAPE_S}s", "ttft": "2.5", "tpot": "0.1"}
OURS = {**CHOSEN, "namespace": "baton", "role": "router|prefill|decode", "instance": ".*"}
ALL = {**CHOSEN, "namespace": ".*", "role": ".*", "instance": ".*"}
ELSEWHERE = {**OURS, "namespace": "elsewhere"}
# What a fleet that is well does not tell.
EMPTY = {
    "ALERTS": "no alert fires",
    "baton_retries_total": "told from the first attempt on that breaks",
    "baton_worker_circuit_open": "told from the first time on that a worker has failed in a row",
    "baton_worker_quarantined": "told from the first wrong KV on",
}


def is_empty(expression):
    return any(metric in expression for metric in EMPTY)


def queries():
    """(Dashboard, panel's title, expression, whether Grafana asks for the present alone)."""
    return [(name, panel["title"], target["expr"], target.get("instant", False))
            for name, board in dashboards.read().items() for panel in board["panels"] for target in panel["targets"]]


class Prometheus:
    """Reads the servers' metrics once a second, with the labels that targets have in a cluster, and tries the alerts as often."""

    def __init__(self, program, folder, servers):
        labels = dashboards.pod_labels()
        job = {"job_name": labels.pop("job"), "static_configs": [
            {"targets": [f"127.0.0.1:{server.metrics_port}"], "labels": {**labels, "pod": f"baton-{number}"}}
            for number, server in enumerate(servers)]}
        config = folder / "prometheus.yml"
        each = {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{SCRAPE_S}s"}
        config.write_text(yaml.safe_dump({"global": each, "rule_files": [str(RULES)], "scrape_configs": [job]}))
        self.address = f"127.0.0.1:{free_port()}"
        self.begin = time.time()
        self.log = folder / "prometheus.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([program, f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                                             f"--web.listen-address={self.address}", "--log.level=warn"], stdout=log, stderr=log)

    def __enter__(self):
        wait_until(self.is_ready, PATIENCE_S, f"Prometheus is ready: see {self.log}")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def is_ready(self):
        assert self.process.poll() is None, self.log.read_text()
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=5).status == 200

    def ask(self, path, **parameters):
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{parameters}: {error.read().decode()}") from error

    def series(self, expression, now=False):
        """The labels of each series that the expression has had a number in since the begin; `now`: that it has one in."""
        if now:
            found = [(series, [series["value"]]) for series in self.ask("query", query=expression)["result"]]
        else:
            asked = self.ask("query_range", query=expression, start=self.begin, end=time.time(), step=SCRAPE_S)
            found = [(series, series["values"]) for series in asked["result"]]
        return [series["metric"] for series, values in found if any(math.isfinite(float(value)) for _, value in values)]


class Load:
    """Until the end of the `with`: answers to the same prompt, and each time a call that its client cancels, one that is refused
    for what it asks, and one that is refused for who asks."""

    def __init__(self, cluster, stranger):
        self.cluster, self.stranger = cluster, stranger
        self.over = threading.Event()
        self.broken = None
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.over.is_set():
                self.one_round()
        except Exception as error:  # told by __exit__
            self.broken = error

    def one_round(self):
        complete(self.cluster.stub, request(ids=[1, *range(40, 140)], max_tokens=6, ignore_eos=True))
        left = self.cluster.stub.Generate(request(ids=[1, 40], stream=True, max_tokens=2000, ignore_eos=True), timeout=30)
        next(left)
        left.cancel()
        assert failure(self.cluster.stub, request(prompt="x", temperature=-1)).code == grpc.StatusCode.INVALID_ARGUMENT
        assert failure(self.stranger, request(prompt="x")).code == grpc.StatusCode.PERMISSION_DENIED

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        if self.broken is not None:
            raise self.broken


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    fetched = subprocess.run([ROOT / "scripts/fetch_prometheus.sh", "prometheus"], check=False, capture_output=True, text=True)
    if fetched.returncode != 0:
        pytest.skip(f"no Prometheus: {fetched.stderr.strip()}")
    folder = tmp_path_factory.mktemp("dashboards")
    make_authority(folder)
    for role in ("client", "operator", "router", "prefill", "decode"):
        issue(folder, role)
    new_key(folder / "keys.toml", "--tenant=acme")
    with Cluster(prefill_args=tls_flags(folder, "prefill"), decode_args=tls_flags(folder, "decode"),
                 router_args=[*tls_flags(folder, "router"), f"--api-keys={folder}/keys.toml", "--disaggregate=always"],
                 credentials=channel_credentials(folder)) as cluster:
        operator = grpc.secure_channel(cluster.router.address, channel_credentials(folder, "operator"))
        with (operator, Prometheus(fetched.stdout.strip(), folder, cluster.servers) as running,
              Load(cluster, rpc.GenerationServiceStub(operator))):
            yield running


def unanswered(prometheus, values):
    """The queries that get no number however long one waits."""
    waiting = [query for query in queries() if not is_empty(query[2])]

    def all_are_answered():
        waiting[:] = [query for query in waiting if not prometheus.series(dashboards.filled(query[2], values), query[3])]
        return not waiting

    with contextlib.suppress(AssertionError):
        wait_until(all_are_answered, PATIENCE_S, "each query has an answer")
    return waiting


@pytest.mark.parametrize("values", [OURS, ALL], ids=["of one namespace", "of all"])
def test_every_query_has_an_answer(prometheus, values):
    assert unanswered(prometheus, values) == []


def test_of_another_namespace_there_is_nothing(prometheus):
    assert unanswered(prometheus, OURS) == []
    for name, title, expression, now in queries():
        assert not prometheus.series(dashboards.filled(expression, ELSEWHERE), now), (name, title, expression)


def test_what_may_be_empty_is_asked_for(prometheus):
    for metric in EMPTY:
        assert [expression for _, _, expression, _ in queries() if metric in expression], metric


def test_variables_have_choices(prometheus):
    choices = {}
    for board in dashboards.read().values():
        for selector, label in dashboards.label_queries(board):
            found = prometheus.ask(f"label/{label}/values", **{"match[]": dashboards.filled(selector, OURS)})
            choices.setdefault(label, set()).update(found)
    assert choices["namespace"] == {"baton"}
    assert choices["role"] == {"router", "prefill", "decode"}
    assert len(choices["instance"]) == 3


def test_alerts_understand_what_the_fleet_tells_and_none_fires_while_it_is_well(prometheus):
    def rules():
        return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]

    assert unanswered(prometheus, OURS) == []
    wait_until(lambda: {rule["health"] for rule in rules()} == {"ok"}, PATIENCE_S, "each rule was tried, without an error")
    assert len(rules()) == RULES.read_text().count("- alert: ")
    assert [rule["name"] for rule in rules() if rule["state"] == "firing"] == []


def test_panels_tell_what_became_of_each_request(prometheus):
    def told(panel, label):
        (expression,) = [expression for _, title, expression, _ in queries() if title == panel]
        return {series[label] for series in prometheus.series(dashboards.filled(expression, OURS))}

    statuses = {"OK", "CANCELLED", "INVALID_ARGUMENT"}
    wait_until(lambda: told("Requests that ended", "status") >= statuses, PATIENCE_S, f"requests that ended with {statuses}")
    assert told("Refused calls", "reason") == {"role"}
