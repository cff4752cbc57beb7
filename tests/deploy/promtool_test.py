"""The alerts fire when they should, by Prometheus's own tool.

Exits 77, CTest's "skipped", with the reason where promtool is not to be had.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MONITORING = ROOT / "deploy/monitoring"
CASES = (ROOT / "tests/deploy/alerts.yml", ROOT / "tests/deploy/alerts_of_days.yml")
promtool = None


def run(*arguments):
    return subprocess.run([promtool, *map(str, arguments)], check=False, capture_output=True, text=True, timeout=120)


class Alerts(unittest.TestCase):
    def test_prometheus_understands_rules_and_configuration(self):
        result = run("check", "config", MONITORING / "prometheus.yml")  # and the rules that it names
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_alerts_fire_when_they_should(self):
        for cases in CASES:
            with self.subTest(cases=cases.name):
                result = run("test", "rules", cases)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_an_alert_that_never_fires_would_be_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            rules = pathlib.Path(folder) / "rules.yml"
            rules.write_text((MONITORING / "rules.yml").read_text().replace("ratio{job=\"baton\"} > 0.95", "ratio > 1.95"))
            cases = pathlib.Path(folder) / "cases.yml"
            cases.write_text(CASES[0].read_text().replace("../../deploy/monitoring/rules.yml", str(rules)))
            result = run("test", "rules", cases)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("BatonKvCacheNearlyFull", result.stdout + result.stderr)


if __name__ == "__main__":
    found = subprocess.run([ROOT / "scripts/fetch_prometheus.sh", "promtool"], check=False, capture_output=True, text=True)
    if found.returncode != 0:
        print(f"skipped: no promtool: {found.stderr.strip()}; no alert was tried")
        sys.exit(77)
    promtool = found.stdout.strip()
    unittest.main()
