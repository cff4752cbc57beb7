"""Grafana can show the dashboards: their form, their metrics and labels, and that they agree with the alerts and the documents.

tests/integration/test_dashboards.py asks a Prometheus every query of theirs.
"""

import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import alerts_test  # noqa: E402
import dashboards  # noqa: E402
import docs_test  # noqa: E402

ROOT = alerts_test.ROOT
BOARDS = dashboards.read()
ALERTS = alerts_test.alerts()
METRICS_PAGE = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
OF_PROMETHEUS = {"up", "ALERTS"}
LABELS_OF_PROMETHEUS = {"alertname", "alertstate", "severity", "instance", "le"} | set(dashboards.pod_labels())
UNITS = {"short", "s", "percentunit", "bytes", "Bps", "reqps", "ops"}  # those of Grafana's that are used
COLOURS = {"warning": "orange", "critical": "red"}  # colours of alerts by severity
ROW_WIDTH = 24  # columns of Grafana's grid
BUILT_IN = {"__rate_interval"}


def panels():
    return [(name, panel) for name, board in BOARDS.items() for panel in board["panels"]]


def expressions():
    return [(name, title, expression) for name, board in BOARDS.items() for title, expression in dashboards.queries(board)]


def for_each_panel(test):
    """Runs `test(self, panel)` for every panel of every dashboard."""

    def run(self):
        for name, panel in panels():
            with self.subTest(dashboard=name, panel=panel["title"]):
                test(self, panel)

    return run


def grouping(expression):
    """The labels that the expression groups by."""
    return {label for labels in re.findall(r"\bby \(([^)]*)\)", expression) for label in re.findall(r"\w+", labels)}


def selectors(expression):
    """(Metric, its selector) of each that the expression reads."""
    return re.findall(r"\b([a-zA-Z_:][\w:]*)\{([^}]*)\}", expression)


def named_alerts(panel):
    """The alerts to whose sections the panel's description sends its reader."""
    anchors = set(re.findall(r"docs/operations\.md#(\w+)", panel["description"]))
    return {name: alert for name, alert in ALERTS.items() if name.lower() in anchors}


def bounds(alert, unit):
    """Where the alert's expression turns. Grafana's colour begins at a value, so of whole numbers (`unit` is "short") those above N
    begin at N + 1; what is 0 or 1 turns at 1."""
    found = set()
    for comparison, factors in re.findall(r"(==|[<>]) (\d[\d.]*(?: \* \d[\d.]*)*)", alert["expr"]):
        value = 1.0
        for factor in factors.split(" * "):
            value *= float(factor)
        if comparison == "==":
            value = 1
        elif comparison == ">" and unit == "short":
            value += 1
        found.add(value)
    return found


class Dashboards(unittest.TestCase):
    def test_each_is_found_under_its_own_name_with_the_others_beside_it(self):
        self.assertEqual(len(BOARDS), 3)
        self.assertEqual(len({board["title"] for board in BOARDS.values()}), len(BOARDS))
        for name, board in BOARDS.items():
            self.assertEqual(board["uid"], name)
            self.assertEqual([link["tags"] for link in board["links"]], [["baton"]])
            self.assertIn("baton", board["tags"])
            self.assertGreaterEqual(board["schemaVersion"], 36)
            self.assertNotIn("id", board)  # ids are valid in one Grafana only

    def test_panels_have_ids_and_places_of_their_own(self):
        for name, board in BOARDS.items():
            ids = [panel["id"] for panel in board["panels"]]
            self.assertEqual(len(set(ids)), len(ids))
            taken = set()
            for panel in board["panels"]:
                place = panel["gridPos"]
                columns, rows = (range(place[at], place[at] + place[size]) for at, size in (("x", "w"), ("y", "h")))
                cells = {(x, y) for x in columns for y in rows}
                with self.subTest(dashboard=name, panel=panel["title"]):
                    self.assertTrue(cells)
                    self.assertLessEqual(place["x"] + place["w"], ROW_WIDTH)
                    self.assertFalse(cells & taken)
                taken |= cells
            width = {y: sum(x_y[1] == y for x_y in taken) for y in {y for _, y in taken}}
            self.assertEqual(set(width.values()), {ROW_WIDTH}, f"{name}: a hole between panels")

    @for_each_panel
    def test_panels_say_what_they_show_and_ask_the_chosen_prometheus(self, panel):
        self.assertIn(panel["type"], {"timeseries", "stat", "table", "state-timeline"})
        self.assertRegex(panel["description"], r"^[\w-].{30,}[.?]$")
        self.assertEqual(panel["datasource"], {"type": "prometheus", "uid": "${datasource}"})
        self.assertIn(panel["fieldConfig"]["defaults"]["unit"], UNITS)
        refs = [target["refId"] for target in panel["targets"]]
        self.assertEqual(len(set(refs)), len(refs))
        self.assertTrue(refs)

    def test_variables_are_declared_and_used(self):
        for name, board in BOARDS.items():
            declared = set(dashboards.variables(board))
            with self.subTest(dashboard=name):
                self.assertLessEqual({"datasource", "namespace"}, declared)
                used = {used for _, expression in dashboards.queries(board)
                        for used in dashboards.names_of_variables(expression)} - BUILT_IN
                self.assertEqual(used | {"datasource"}, declared)
                # Targets of one machine have no namespace, which `.*` matches too.
                for variable in board["templating"]["list"]:
                    if variable["type"] == "query":
                        self.assertEqual((variable["allValue"], variable["current"]["value"]), (".*", ["$__all"]))

    def test_bounds_of_goodput_are_bounds_of_buckets(self):
        metrics_source = (ROOT / "common/net/metrics.cc").read_text()
        for variable, buckets in (("ttft", "TimeToFirstTokenBuckets"), ("tpot", "InterTokenBuckets")):
            chosen = dashboards.variables(BOARDS["baton-overview"])[variable]
            (listed,) = re.findall(buckets + r"\(\) \{.*?kBuckets = \{(.*?)\};", metrics_source, re.DOTALL)
            self.assertLessEqual(set(chosen["query"].split(",")), set(re.findall(r"[\d.]+", listed)))
            self.assertIn(chosen["current"]["value"], chosen["query"].split(","))

    def test_metrics_and_labels_are_those_of_the_page_of_metrics(self):
        metrics = set(alerts_test.METRIC.findall(METRICS_PAGE)) | OF_PROMETHEUS
        labels = set(re.findall(r"`(\w+)`", METRICS_PAGE)) | LABELS_OF_PROMETHEUS
        for name, title, expression in expressions():
            with self.subTest(dashboard=name, panel=title):
                self.assertTrue(selectors(expression))
                for metric, selector in selectors(expression):
                    self.assertIn(re.sub(r"_(bucket|count|sum)$", "", metric), metrics)
                    self.assertLessEqual(set(re.findall(r"(\w+)(?:=~|!~|!=|=)\"", selector)), labels)
                self.assertLessEqual(grouping(expression), labels)

    def test_every_query_is_of_the_chosen_namespace_and_of_the_job_of_the_alerts(self):
        for name, title, expression in expressions():
            for metric, selector in selectors(expression):
                if metric == "ALERTS":
                    continue  # the rules leave the namespace out of what they sum
                with self.subTest(dashboard=name, panel=title):
                    self.assertTrue(selector.startswith('job="baton", namespace=~"$namespace"'), selector)

    @for_each_panel
    def test_legends_name_labels_that_the_query_keeps(self, panel):
        for target in panel["targets"]:
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            if re.search(r"\b(sum|max|min|count)\b", target["expr"]):
                self.assertLessEqual(named, grouping(target["expr"]))
            else:
                self.assertIn("instance", named)

    @for_each_panel
    def test_thresholds_are_those_of_the_alerts_that_the_panel_names(self, panel):
        defaults = panel["fieldConfig"]["defaults"]
        steps = defaults.get("thresholds", {"steps": []})["steps"]
        values = [step["value"] for step in steps]
        alerts = named_alerts(panel)
        allowed = [bounds(alert, defaults["unit"]) for alert in alerts.values()]
        self.assertLessEqual(set(values), {None}.union(*allowed))
        self.assertEqual(values, sorted(values, key=lambda value: float("-inf") if value is None else value))
        if steps:
            self.assertTrue(alerts)
            self.assertIn("green", [step["color"] for step in steps])
            severities = {COLOURS[alert["labels"]["severity"]] for alert in alerts.values()}
            self.assertLessEqual({step["color"] for step in steps} - {"green"}, severities)

    @for_each_panel
    def test_choices_of_statuses_and_reasons_are_those_of_the_alerts(self, panel):
        rules = " ".join(alert["expr"] for alert in named_alerts(panel).values())
        for target in panel["targets"]:
            for choice in re.findall(r'"([A-Z_]+\|[A-Z_|]+)"', target["expr"]):
                self.assertIn(f'"{choice}"', rules)

    def test_every_alert_has_a_panel(self):
        shown = {alert for _, panel in panels() for alert in named_alerts(panel)}
        self.assertEqual(sorted(set(ALERTS) - shown), [])

    @for_each_panel
    def test_descriptions_lead_to_sections_and_flags_that_are_there(self, panel):
        for page, anchor in re.findall(r"(docs/[\w/]+\.md)(?:#([\w-]+))?", panel["description"]):
            self.assertTrue((ROOT / page).is_file(), page)
            if anchor:
                self.assertIn(anchor, docs_test.anchors(ROOT / page))
        for flag in re.findall(r"--([a-z-]+)", panel["description"]):
            self.assertIn(flag, alerts_test.LITERALS)


if __name__ == "__main__":
    unittest.main()
