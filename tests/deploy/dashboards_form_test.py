"""Grafana's own types know every field of the dashboards: what is read into them and written again has lost nothing.

Exits 77, CTest's "skipped", with the reason where the pinned types do not run or cannot be fetched.
"""

import copy
import json
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
import dashboards  # noqa: E402
import pypi_packages  # noqa: E402


def written_again(board):
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.dashboard import Dashboard

    return json.loads(json.dumps(Dashboard.from_json(copy.deepcopy(board)), cls=JSONEncoder))


def lost(ours, theirs, path="dashboard"):
    """The places in `ours` that `theirs` does not have, or has otherwise. A null may be left out."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if value is not None:
                yield from lost(value, theirs.get(key), f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, pair in enumerate(zip(ours, theirs)):
            yield from lost(*pair, f"{path}[{index}]")
    elif ours != theirs:
        yield path


class Form(unittest.TestCase):
    def test_grafanas_types_know_every_field(self):
        for name, board in dashboards.read().items():
            with self.subTest(dashboard=name):
                self.assertEqual(list(lost(board, written_again(board))), [])

    def test_a_field_that_grafana_does_not_know_would_be_noticed(self):
        text = json.dumps(dashboards.read()["baton-overview"])
        for known, unknown in (("gridPos", "gridpos"), ("thresholdsStyle", "thresholdStyle"), ("noValue", "novalue"),
                               ("colorMode", "colormode"), ("legendFormat", "legend"), ("includeAll", "includeall")):
            broken = json.loads(text.replace(f'"{known}":', f'"{unknown}":'))
            with self.subTest(field=unknown):
                self.assertNotEqual(list(lost(broken, written_again(broken))), [])


if __name__ == "__main__":
    pypi_packages.or_end(pypi_packages.install, HERE / "grafana_requirements.txt")
    from grafana_foundation_sdk.cog import plugins

    plugins.register_default_plugins()  # the types of panels and of Prometheus' queries
    unittest.main()
