"""docs/runbooks.md names only things that exist: alerts, metrics, flags, commands, checks of the doctor, panels, log lines.

Words of log lines and errors stand in one table of the page, "Log lines". They must equal what the programs print, so a changed log
line changes its row there and nothing else. The other prose of the page is free.
"""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import alerts_test  # noqa: E402
import dashboards  # noqa: E402
from cpp_outline import string_literals  # noqa: E402

ROOT = alerts_test.ROOT
PAGE = (ROOT / "docs/runbooks.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.*?)\n\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
# (words, printed by, heading of the runbook, anchor of the runbook, first command) of each row.
LOG_LINES = re.findall(r"^\| `(.*?)` \| (.*?) \| \[(.*?)\]\(#(.*?)\) \| (.*?) \|$", SECTIONS.pop("Log lines"), re.MULTILINE)
CLIENT = "\n".join(path.read_text() for folder in ("client", "bench") for path in sorted((ROOT / folder).rglob("*.cc")))
LITERALS = set(string_literals(alerts_test.SOURCES + CLIENT))
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

    def test_the_programs_print_the_words_of_each_log_line(self):
        self.assertGreater(len(LOG_LINES), 20)
        for words, *_ in LOG_LINES:
            with self.subTest(words=words):
                self.assertTrue(any(words in literal for literal in LITERALS), "no text of the programs has these words")

    def test_each_log_line_leads_to_a_runbook_and_a_first_command(self):
        for words, _, heading, target, command in LOG_LINES:
            with self.subTest(words=words):
                self.assertIn(heading, SECTIONS)
                self.assertEqual(target, anchor(heading))
                self.assertRegex(command, rf"^(`({'|'.join(('baton', *OTHERS))}) .*`|none: .*)$")

    def test_words_of_log_lines_stand_in_their_table_alone(self):
        quoted = [code for code in CODE if " " in code and not code.startswith(("baton ", "--", *OTHERS))]
        self.assertEqual(sorted(quoted), sorted(words for words, *_ in LOG_LINES))

    def test_reasons_and_statuses_exist(self):
        reasons = set(re.findall(r"\b[A-Z]+_[A-Z_]+\b", PAGE))
        self.assertGreater(len(reasons), 8)
        self.assertEqual(sorted(reasons - LITERALS - STATUSES), [])


if __name__ == "__main__":
    unittest.main()
