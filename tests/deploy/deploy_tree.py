"""Where the manifests are, and what the tests on them share."""

import functools
import pathlib
import re

import kustomize_subset

ROOT = pathlib.Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
OVERLAYS = sorted(path.parent for path in KUBERNETES.glob("overlays/*/kustomization.yaml"))
ROLES = ("router", "prefill", "decode")
BINARIES = {"router": "baton-router", "prefill": "baton-prefill-worker", "decode": "baton-decode-worker"}
REPEATED = ("prefill", "decode", "http-allow-host")  # flags of which each value is kept


build = functools.cache(kustomize_subset.build)  # not to be changed by who gets it


def objects(overlay, kind):
    return [item for item in build(overlay) if item["kind"] == kind]


def deployments(overlay):
    """The Deployments of Baton's own servers by role."""
    return {
        item["metadata"]["labels"]["app.kubernetes.io/component"]: item
        for item in objects(overlay, "Deployment")
        if item["metadata"]["labels"]["app.kubernetes.io/name"] == "baton"
    }


def replicas(overlay, deployment):
    """How many pods there are at least."""
    name = deployment["metadata"]["name"]
    scaled = [o for o in objects(overlay, "ScaledObject") if o["spec"]["scaleTargetRef"]["name"] == name]
    return scaled[0]["spec"]["minReplicaCount"] if scaled else deployment["spec"]["replicas"]


def container(deployment):
    (only,) = kustomize_subset.pod_spec(deployment)["containers"]
    return only


def environment(deployment, pod_ip):
    """The variables of the pod's server as Kubernetes sets them in a pod with that address."""
    fields = {"status.podIP": pod_ip, "metadata.namespace": deployment["metadata"].get("namespace")}
    values = {}
    for item in container(deployment)["env"]:
        values[item["name"]] = (expanded(item["value"], values) if "value" in item
                                else fields[item["valueFrom"]["fieldRef"]["fieldPath"]])
    return values


def expanded(text, values):
    """The text with $(NAME) replaced as Kubernetes does it, in arguments and in variables that come after NAME."""
    return re.sub(r"\$\((\w+)\)", lambda match: values[match[1]], text)


def arguments(deployment, pod_ip):
    """The arguments of the pod's server as Kubernetes gives them to it in a pod with that address."""
    values = environment(deployment, pod_ip)
    return [expanded(argument, values) for argument in container(deployment)["args"]]


def millicpus(quantity):
    """Thousandths of a CPU: "200m" or "2"."""
    return int(quantity.removesuffix("m")) if quantity.endswith("m") else 1000 * int(quantity)


def mebibytes(quantity):
    """The number of bytes in "512Mi" or "2Gi"."""
    match = re.fullmatch(r"(\d+)(Mi|Gi)", quantity)
    return int(match.group(1)) * (1024 if match.group(2) == "Gi" else 1)


def config_files(overlay, deployment):
    """The mounted configuration: path in the container -> text."""
    maps = {item["metadata"]["name"]: item["data"] for item in objects(overlay, "ConfigMap")}
    volumes = {volume["name"]: volume for volume in kustomize_subset.pod_spec(deployment)["volumes"]}
    files = {}
    for mount in container(deployment)["volumeMounts"]:
        config_map = volumes.get(mount["name"], {}).get("configMap")  # the base alone lacks the volume of the model
        for name, text in maps[config_map["name"]].items() if config_map else ():
            files[f"{mount['mountPath']}/{name}"] = text
    return files


def parse_toml(text):
    """Keys of a flat TOML file of strings, lists of strings and booleans, which is all that the configuration uses."""
    values = {}
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = re.fullmatch(r'([a-z-]+) = (?:"([^"]*)"|\[((?:"[^"]*"(?:, )?)*)\]|(true|false))', line)
        if not match:
            raise ValueError(f"not in the subset: {line}")
        key, single, several, boolean = match.groups()
        values[key] = re.findall(r'"([^"]*)"', several) if several is not None else single or boolean
    return values


def settings(overlay, deployment):
    """Flags by name as the server sees them: the file's, then the arguments'. Those of REPEATED are lists."""
    given = {}
    for argument in container(deployment)["args"]:
        name, _, value = argument[2:].partition("=")
        given[name] = [*given.get(name, ()), value] if name in REPEATED else value
    return {**parse_toml(config_files(overlay, deployment)[given["config"]]), **given}


def seconds(duration):
    match = re.fullmatch(r"(\d+)(s|m)", duration)
    return int(match.group(1)) * (60 if match.group(2) == "m" else 1)
