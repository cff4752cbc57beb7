#!/usr/bin/env python3
"""Writes tests/data/kubernetes/KIND.json from the definitions of custom resources that their projects publish.

    scripts/make_crd_schemas.py TREE...      each TREE is a checkout of one of the projects at the tag in SOURCES below

A schema keeps what tells right from wrong: fields, types, ranges, patterns. Descriptions go, and so do the status, which nobody
writes, and the rules in CEL, which no validator of JSON schemas runs. Fields that the definition does not name are refused, as the
API server refuses them with `kubectl apply --validate=strict`.
"""

import json
import pathlib
import sys

import yaml

TARGET = pathlib.Path(__file__).resolve().parent.parent / "tests/data/kubernetes"
# File in its project's tree -> (project and tag, version of the resource).
SOURCES = {
    "config/crd/bases/keda.sh_scaledobjects.yaml": ("kedacore/keda v2.20.2", "v1alpha1"),
    "config/crd/standard/gateway.networking.k8s.io_backendtlspolicies.yaml": ("kubernetes-sigs/gateway-api v1.6.1", "v1"),
    "config/crd/standard/gateway.networking.k8s.io_grpcroutes.yaml": ("kubernetes-sigs/gateway-api v1.6.1", "v1"),
    "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml": ("kubernetes-sigs/gateway-api v1.6.1", "v1"),
    "deploy/crds/cert-manager.io_certificates.yaml": ("cert-manager/cert-manager v1.21.1", "v1"),
    "deploy/crds/cert-manager.io_issuers.yaml": ("cert-manager/cert-manager v1.21.1", "v1"),
    "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml":
        ("prometheus-operator/prometheus-operator v0.93.0", "v1"),
    "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml":
        ("prometheus-operator/prometheus-operator v0.93.0", "v1"),
}
KEPT = {"type", "enum", "required", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
        "minProperties", "maxProperties", "oneOf", "anyOf", "allOf", "not"}
# Baton uses only `ca` and `selfSigned` of an issuer; the other kinds of authority are nine tenths of the schema.
LEFT_OUT = {"Issuer": {"acme", "vault", "venafi"}}


def reduced(schema, left_out=frozenset()):
    """The JSON schema that the OpenAPI schema stands for."""
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    kept = {}
    for key, value in schema.items():
        if key in ("oneOf", "anyOf", "allOf"):
            kept[key] = [{name: part for name, part in option.items() if name in KEPT} for option in value]
        elif key == "pattern":
            kept[key] = value.replace("^(?i)", "(?i)^")  # Go's regular expressions take a flag anywhere, Python's in front
        elif key in KEPT:
            kept[key] = value
    if schema.get("nullable") and "type" in kept:
        kept["type"] = [kept["type"], "null"]
    if "items" in schema:
        kept["items"] = reduced(schema["items"])
    if "properties" in schema:
        kept["properties"] = {name: reduced(part) for name, part in schema["properties"].items() if name not in left_out}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            kept["additionalProperties"] = False
    elif isinstance(schema.get("additionalProperties"), dict):
        kept["additionalProperties"] = reduced(schema["additionalProperties"])
    return kept


def write(definition, source, version):
    kind = definition["spec"]["names"]["kind"]
    (found,) = [item for item in definition["spec"]["versions"] if item["name"] == version]
    properties = found["schema"]["openAPIV3Schema"]["properties"]
    schema = {
        "$comment": f"Reduced from {source} (Apache-2.0) by scripts/make_crd_schemas.py.",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "additionalProperties": False,
        "properties": {
            "apiVersion": {"const": f"{definition['spec']['group']}/{version}"},
            "kind": {"const": kind},
            "metadata": {"type": "object", "required": ["name"]},
            "spec": reduced(properties["spec"], LEFT_OUT.get(kind, frozenset())),
        },
    }
    target = TARGET / f"{kind}.json"
    target.write_text(json.dumps(schema, separators=(",", ":")) + "\n")
    print(f"{target}: {target.stat().st_size} bytes")


def main(trees):
    TARGET.mkdir(exist_ok=True)
    for path, (source, version) in SOURCES.items():
        found = [pathlib.Path(tree) / path for tree in trees if (pathlib.Path(tree) / path).is_file()]
        if len(found) != 1:
            sys.exit(f"{len(found)} of the trees have {path}; give one of {source}")
        write(yaml.safe_load(found[0].read_text()), source, version)


if __name__ == "__main__":
    main(sys.argv[1:])
