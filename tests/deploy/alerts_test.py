"""The alerts read metrics that the programs have, and docs/operations.md has a card for each that says what to do."""

import pathlib
import re
import sys
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import deploy_tree  # noqa: E402
import systemd_tree  # noqa: E402

ROOT = deploy_tree.ROOT
SOURCES = "\n".join(path.read_text() for folder in ("common", "router", "prefill_worker", "decode_worker")
                    for path in sorted((ROOT / folder).rglob("*.*")) if path.suffix in (".cc", ".h"))
LITERALS = set(re.findall(r'"([^"\n]*)"', SOURCES))
METRIC = re.compile(r"\b(?:baton_[a-z_]+|process_(?!name\b)[a-z_]+)\b")
OF_PROMETHEUS = {"job": {"baton"}}  # labels that it sets itself, with the values that prometheus.yml gives them
# Abseil's names, in which requests are counted.
STATUSES = {"ABORTED", "DATA_LOSS", "INTERNAL", "UNAVAILABLE", "UNKNOWN"}
PARTS_OF_A_CARD = ["You see", "Severity", "First command", "Expected output", "Fix", "Runbook"]


def alerts():
    groups = yaml.safe_load((ROOT / "deploy/monitoring/rules.yml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def cards():
    """What docs/operations.md says of each alert."""
    text = (ROOT / "docs/operations.md").read_text()
    return dict(re.findall(r"^### (Baton\w+)\n\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL))


def cases():
    for name in ("alerts.yml", "alerts_of_days.yml"):
        for test in yaml.safe_load((ROOT / "tests/deploy" / name).read_text())["tests"]:
            yield from test["alert_rule_test"]


def unknown_metrics(text):
    """The metrics in `text` that no source names."""
    return sorted({name for name in METRIC.findall(text)
                   if name not in LITERALS and re.sub(r"_(bucket|count|sum)$", "", name) not in LITERALS})


class Alerts(unittest.TestCase):
    def test_the_programs_have_the_metrics(self):
        for name, alert in alerts().items():
            with self.subTest(alert=name):
                self.assertEqual(unknown_metrics(alert["expr"]), [])

    def test_the_tests_of_alerts_use_metrics_that_the_programs_have(self):
        for file in ROOT.glob("tests/deploy/alerts*.yml"):
            with self.subTest(file=file.name):
                self.assertEqual(unknown_metrics(file.read_text()), [])

    def test_the_programs_have_the_labels_and_their_values(self):
        for name, alert in alerts().items():
            for label, values in re.findall(r'\b(\w+)=~?"([^"]*)"', alert["expr"]):
                with self.subTest(alert=name, label=label):
                    self.assertIn(label, LITERALS | set(OF_PROMETHEUS))
                    self.assertLessEqual(set(values.split("|")), OF_PROMETHEUS.get(label, LITERALS | STATUSES))

    def test_each_alert_is_tried_firing_and_silent(self):
        for name in alerts():
            of_alert = [case for case in cases() if case["alertname"] == name]
            with self.subTest(alert=name):
                self.assertEqual({bool(case.get("exp_alerts")) for case in of_alert}, {True, False})

    def test_each_alert_has_a_card_with_all_its_parts_in_order(self):
        self.assertEqual(sorted(cards()), sorted(alerts()))
        for name, card in cards().items():
            with self.subTest(alert=name):
                self.assertEqual(re.findall(r"^- \*\*(.*?)\*\* ", card, re.MULTILINE), PARTS_OF_A_CARD)

    def test_the_severity_on_each_card_is_that_of_the_rule(self):
        for name, card in cards().items():
            with self.subTest(alert=name):
                self.assertIn(f"- **Severity** {alerts()[name]['labels']['severity']}\n", card)

    def test_the_commands_on_the_cards_exist_and_look_for_what_the_programs_print(self):
        commands = (ROOT / "client/commands.cc").read_text()
        for name, card in cards().items():
            with self.subTest(alert=name):
                command = re.search(r"^- \*\*First command\*\* .*?`([^`]+)`", card, re.MULTILINE)[1]
                program, *words = command.split()
                self.assertIn(program, {"baton", "curl", "journalctl", "kubectl", "systemctl"})
                if program == "baton":
                    self.assertIn(f'"{words[0]}"', commands)
                    self.assertLessEqual(set(re.findall(r"--([a-z-]+)", command)), LITERALS)
                for text in re.findall(r"grep '([^']*)'", command):
                    words = re.sub(r'.*="(\w+)"', r"\1", text)
                    self.assertTrue(any(words in literal for literal in LITERALS), words)

    def test_the_metrics_of_the_page_of_operations_exist(self):
        self.assertEqual(unknown_metrics((ROOT / "docs/operations.md").read_text()), [])

    def test_the_page_of_metrics_has_each_and_no_other(self):
        page = (ROOT / "docs/metrics.md").read_text()
        self.assertEqual(unknown_metrics(page), [])
        exported = {name for name in LITERALS if METRIC.fullmatch(name)}
        self.assertEqual(sorted(exported - set(METRIC.findall(page))), [])

    def test_the_page_of_metrics_has_each_of_vllms_names_that_is_told(self):
        told = {name for name in LITERALS if re.fullmatch(r"vllm:[a-z0-9_]+", name)}
        self.assertGreater(len(told), 20)
        page = (ROOT / "docs/metrics.md").read_text()
        self.assertEqual(sorted(told - set(re.findall(r"vllm:[a-z0-9_]+", page))), [])

    def test_a_long_wait_is_half_of_the_longest_that_the_manifests_and_units_allow(self):
        (most,) = re.findall(r"max_queue_time = absl::Seconds\((\d+)\)", (ROOT / "router/dispatch/admission.h").read_text())
        threshold = re.search(r"baton_router_predicted_wait_seconds\S* > (\d+)", alerts()["BatonQueueWaitLong"]["expr"])
        self.assertEqual(2 * int(threshold[1]), int(most))
        for path in (*deploy_tree.KUBERNETES.rglob("*.yaml"), *(ROOT / "deploy").rglob("*.toml")):
            if path.name not in ("prometheus-rule.yaml",):  # it names the flag
                self.assertNotIn("max-queue-time", path.read_text(), path)

    def test_prometheus_asks_the_parts_that_systemd_runs(self):
        (job,) = yaml.safe_load((ROOT / "deploy/monitoring/prometheus.yml").read_text())["scrape_configs"]
        self.assertIn(job["job_name"], OF_PROMETHEUS["job"])
        given = {deploy_tree.parse_toml(config.read_text())["metrics-listen"] for _, config in systemd_tree.PARTS.values()}
        self.assertEqual(set(job["static_configs"][0]["targets"]), given)


if __name__ == "__main__":
    unittest.main()
