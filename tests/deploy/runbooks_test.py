"""docs/runbooks.md speaks of what there is: alerts, metrics, flags, commands, checks of the doctor, panels, lines of the log."""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import alerts_test  # noqa: E402
import dashboards  # noqa: E402

ROOT = alerts_test.ROOT
PAGE = (ROOT / "docs/runbooks.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.*?)\n\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
CLIENT = "\n".join(path.read_text() for folder in ("client", "bench") for path in sorted((ROOT / folder).rglob("*.cc")))
# Neighbouring literals are one to the compiler.
TEXTS = re.sub(r'"\s*\n\s*"', "", alerts_test.SOURCES + CLIENT)
LITERALS = set(re.findall(r'"([^"\n]*)"', TEXTS)) | alerts_test.LITERALS
STATUSES = {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", *alerts_test.STATUSES}
OTHERS = ("kubectl", "systemctl", "journalctl", "apt", "sysctl", "ulimit", "chown")  # programs that are not ours
FLAGS_OF_OTHERS = {"since", "allow-downgrades"}
# What stands between backticks; a command may go on in the next line.
CODE = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL))]
COMMANDS = CODE + re.findall(r"^baton .*?(?= #|$)", PAGE, re.MULTILINE)


def anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


class Runbooks(unittest.TestCase):
    def test_there_are_ten_and_more_and_each_says_all_that_it_must(self):
        self.assertGreaterEqual(len(SECTIONS), 10)
        for heading, text in SECTIONS.items():
            with self.subTest(runbook=heading):
                places = [text.find(part) for part in ("**Symptom**:", "**First look**:", "\n|---|", "**It is over** when")]
                self.assertNotIn(-1, places)
                self.assertEqual(places, sorted(places))
                self.assertGreaterEqual(len(re.findall(r"^\| ", text, re.MULTILINE)), 4)

    def test_each_alert_leads_to_the_runbook_that_names_it_as_a_symptom(self):
        operations = (ROOT / "docs/operations.md").read_text()
        by_anchor = {anchor(heading): (heading, text) for heading, text in SECTIONS.items()}
        for name, alert in alerts_test.alerts().items():
            with self.subTest(alert=name):
                page, _, section = alert["annotations"]["runbook"].partition("#")
                self.assertEqual(page, "docs/runbooks.md")
                self.assertIn(section, by_anchor)
                heading, text = by_anchor[section]
                self.assertIn(name, text[:text.index("**First look**")])
                (of_alert,) = re.findall(rf"^### {name}\n(.*?)(?=^#|\Z)", operations, re.MULTILINE | re.DOTALL)
                self.assertIn(f"- **Runbook** [{heading}](runbooks.md#{section}).", of_alert)

    def test_alerts_are_those_of_the_rules(self):
        self.assertLessEqual(set(re.findall(r"\bBaton[A-Z]\w+", PAGE)), set(alerts_test.alerts()))

    def test_metrics_exist(self):
        labels_of_targets = set(dashboards.pod_labels())
        self.assertEqual(sorted(set(alerts_test.unknown_metrics(PAGE)) - labels_of_targets), [])

    def test_flags_exist(self):
        flags = set(re.findall(r"(?<![\w-])--([a-z][a-z0-9-]+)", PAGE)) - FLAGS_OF_OTHERS
        self.assertGreater(len(flags), 20)
        self.assertEqual(sorted(flags - LITERALS), [])

    def test_commands_exist(self):
        known = set(re.findall(r'"(\w+)"', (ROOT / "client/commands.cc").read_text()))
        used = [command.split()[1:3] for command in COMMANDS if command.startswith("baton ")]
        self.assertGreater(len(used), 5)
        for command, *more in used:
            self.assertIn(command, known)
            if command in ("certs", "keys", "bench"):
                self.assertIn(more[0], known)

    def test_checks_of_the_doctor_exist(self):
        checks = {name for name in LITERALS if re.fullmatch(r"[a-z]+\.[a-z_]+", name)}
        kinds = {name.split(".")[0] for name in checks}
        used = [match for code in CODE if (match := re.fullmatch(r"([a-z]+)\.([a-z_]+|\*)", code)) and match[1] in kinds]
        self.assertGreater(len(used), 10)
        for match in used:
            self.assertTrue(match[2] == "*" or match[0] in checks, match[0])

    def test_panels_exist(self):
        titles = {panel["title"] for board in dashboards.read().values() for panel in board["panels"]}
        prose = re.sub(r"`[^`]*`", "", PAGE)
        quoted = {" ".join(title.split()) for title in re.findall(r'"([A-Z][^"]*)"', prose)}
        self.assertGreater(len(quoted), 15)
        self.assertEqual(sorted(quoted - titles), [])

    def test_the_programs_say_what_is_quoted_of_their_logs_and_errors(self):
        quoted = [code for code in CODE if " " in code and not code.startswith(("baton ", "--", *OTHERS))]
        self.assertGreater(len(quoted), 10)
        self.assertEqual([text for text in quoted if text not in TEXTS], [])

    def test_reasons_and_statuses_exist(self):
        reasons = set(re.findall(r"\b[A-Z]+_[A-Z_]+\b", PAGE))
        self.assertGreater(len(reasons), 8)
        self.assertEqual(sorted(reasons - LITERALS - STATUSES), [])


if __name__ == "__main__":
    unittest.main()
