"""Grafana's dashboards in deploy/kubernetes, and the queries that Grafana makes of them."""

import json
import re

import yaml

import deploy_tree

COMPONENT = deploy_tree.KUBERNETES / "components/monitoring"
FOLDER = COMPONENT / "dashboards"
VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def read():
    """Each dashboard by the name of its file."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}


def variables(board):
    return {variable["name"]: variable for variable in board["templating"]["list"]}


def queries(board):
    """(Panel's title, expression) of each query of a panel."""
    return [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel["targets"]]


def label_queries(board):
    """(Selector, label) of each variable whose choices are the values of a label."""
    found = (variable["query"] for variable in board["templating"]["list"] if variable["type"] == "query")
    return [re.fullmatch(r"label_values\((.*), (\w+)\)", query).groups() for query in found]


def names_of_variables(text):
    return {braced or plain for braced, plain in VARIABLE.findall(text)}


def filled(text, values):
    """The text with the variables' values in it, as Grafana sends it."""
    return VARIABLE.sub(lambda match: values[match.group(1) or match.group(2)], text)


def pod_labels():
    """The labels that targets have in a cluster, with values of an example: those that the Prometheus operator gives the pods of
    the PodMonitor, but for `instance`."""
    spec = yaml.safe_load((COMPONENT / "pod-monitor.yaml").read_text())["spec"]
    (endpoint,) = spec["podMetricsEndpoints"]
    chosen = {re.sub(r"[^\w]", "_", label): "a" for label in spec["podTargetLabels"]}
    job = spec["selector"]["matchLabels"][spec["jobLabel"]]
    return {"job": job, "namespace": "baton", "pod": "baton-0", "container": "baton", "endpoint": endpoint["port"], **chosen}
