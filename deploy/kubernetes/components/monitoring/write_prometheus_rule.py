#!/usr/bin/env python3
"""Writes prometheus-rule.yaml from deploy/monitoring/rules.yml.

Kustomize reads no file outside its folder, and Prometheus takes no rules with the head of a resource, so there are two files;
tests/deploy/custom_resources_test.py sees to it that they say the same.
"""

import pathlib

HERE = pathlib.Path(__file__).resolve().parent
RULES = HERE.parents[2] / "monitoring/rules.yml"
HEAD = """\
# Written by write_prometheus_rule.py from deploy/monitoring/rules.yml: change that file, and run it.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: baton
  namespace: baton
spec:
"""


def text():
    """The resource that the rules make."""
    rules = RULES.read_text()
    groups = rules[rules.index("groups:\n"):]
    return HEAD + "".join(f"  {line}" if line.strip() else line for line in groups.splitlines(keepends=True))


if __name__ == "__main__":
    (HERE / "prometheus-rule.yaml").write_text(text())
