"""The units are well-formed and as closed as they are said to be, and the programs take what the units give them.

    systemd_test.py FOLDER_OF_BINARIES      (or BATON_BIN in the environment)
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import deploy_tree  # noqa: E402
import systemd_tree as tree  # noqa: E402

BINARIES = pathlib.Path(os.environ.get("BATON_BIN", "."))
MOST_EXPOSURE = 2.0
SERVE = "serve"
ALL = {**tree.PARTS, SERVE: tree.SERVE}
UNITS = [unit for unit, _ in ALL.values()]


def analyze(*arguments):
    return subprocess.run(["systemd-analyze", *map(str, arguments)], check=False, capture_output=True, text=True, timeout=60)


class Units(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)

    def changed(self, unit, old, new):
        """A copy of the unit with `new` in place of `old`."""
        text = unit.read_text()
        self.assertIn(old, text)
        copy = self.root / unit.name
        copy.write_text(text.replace(old, new))
        return copy

    def installed(self, unit):
        """A copy of the unit whose program is where the build has it."""
        return self.changed(unit, "ExecStart=/usr/local/bin/", f"ExecStart={BINARIES.resolve()}/")

    def test_systemd_understands_every_line(self):
        # It ignores what it does not understand, and says so.
        result = analyze("verify", "--man=no", *map(self.installed, UNITS))
        self.assertEqual((result.returncode, result.stdout + result.stderr), (0, ""))

    def test_a_line_that_systemd_does_not_understand_would_be_noticed(self):
        self.installed(UNITS[0])
        broken = self.changed(self.root / UNITS[0].name, "NoNewPrivileges=", "NoMorePrivileges=")
        self.assertIn("NoMorePrivileges", analyze("verify", "--man=no", broken).stderr)

    def exposure(self, unit):
        """In tenths, as the option has it: whether the unit is exposed at most that much."""
        return analyze("security", "--offline=true", f"--threshold={MOST_EXPOSURE * 10:.0f}", "--no-pager", unit)

    def test_units_are_closed(self):
        for unit in UNITS:
            with self.subTest(unit=unit.name):
                result = self.exposure(unit)
                self.assertEqual(result.returncode, 0, result.stdout)

    def test_an_open_unit_would_be_noticed(self):
        for line in ("SystemCallFilter=", "CapabilityBoundingSet="):
            with self.subTest(line=line):
                unit = self.changed(UNITS[0], line, "#")
                self.assertNotEqual(self.exposure(unit).returncode, 0)

    def test_units_of_workers_differ_in_the_role_only(self):
        prefill, decode = (tree.PARTS[role][0] for role in ("prefill", "decode"))
        self.assertEqual(prefill.read_text().replace("prefill", "decode"), decode.read_text())

    def test_the_drop_in_for_gpus_is_understood(self):
        for role in ("decode", SERVE):
            with self.subTest(role=role):
                unit = self.installed(ALL[role][0])
                drop_in = self.root / f"{unit.name}.d" / "gpu.conf"
                drop_in.parent.mkdir()
                drop_in.write_text((tree.SYSTEMD / "gpu.conf").read_text())
                result = analyze("verify", "--man=no", unit)
                self.assertEqual((result.returncode, result.stdout + result.stderr), (0, ""))

    def test_stopping_leaves_the_time_to_drain(self):
        for role, (unit, config) in ALL.items():
            with self.subTest(role=role):
                drain = deploy_tree.seconds(deploy_tree.parse_toml(config.read_text())["shutdown-timeout"])
                self.assertGreaterEqual(deploy_tree.seconds(tree.only(unit, "TimeoutStopSec")), drain + 10)


def with_model(text):
    """The example in which the model is named."""
    return text.replace("# model =", "model =")


class Programs(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        (self.root / "var/lib/baton/models").mkdir(parents=True)
        (self.root / "var/lib/baton/models/model.gguf").symlink_to(tree.MODEL)
        etc = self.root / "etc/baton"
        self.baton("certs", "init", f"--folder={etc}")
        (etc / SERVE).mkdir()
        for role in tree.PARTS:
            self.baton("certs", "issue", role, f"--folder={etc}")
            (etc / role).mkdir()
            for name in ("ca.crt", "ca.crl", f"{role}.crt", f"{role}.key", "fleet-secret"):
                shutil.copy(etc / name, etc / role)
        self.baton("keys", "new", "--tenant=me", f"--file={etc}/router/keys.toml")

    def baton(self, *arguments):
        subprocess.run([BINARIES / "baton", *arguments], check=True, capture_output=True, timeout=60)

    def start(self, role, change=lambda text: text):
        """What the unit's command says of its configuration, with the paths below the test's folder."""
        unit, config = ALL[role]

        def here(text):
            for folder in ("/etc/baton/", "/var/lib/baton/"):
                text = text.replace(folder, f"{self.root}/@{folder[1:]}")
            return text.replace("/@", "/")

        (self.root / "etc/baton" / role / config.name).write_text(change(here(config.read_text())))
        program, *arguments = here(tree.only(unit, "ExecStart").replace("%i", config.stem)).split()
        command = [str(BINARIES / pathlib.Path(program).name), *arguments, "--check-config"]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("BATON_")}
        environment["XDG_STATE_HOME"] = str(self.root)
        return subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=60)

    def test_examples_are_accepted(self):
        for role in ALL:
            with self.subTest(role=role):
                result = self.start(role, with_model)
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_what_starting_again_does_not_mend_is_not_started_again(self):
        wrong = {
            "a key": lambda text: text + 'no-such-flag = "1"\n',
            "a model": lambda text: text.replace("model.gguf", "none.gguf"),
            "a certificate": lambda text: text.replace("ca.crt", "none.crt").replace('# tls-', 'tls-'),
        }
        for role, (unit, _) in ALL.items():
            for what, change in wrong.items():
                with self.subTest(role=role, what=what):
                    result = self.start(role, lambda text: change(with_model(text)))
                    self.assertEqual(str(result.returncode), tree.only(unit, "RestartPreventExitStatus"), result.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        BINARIES = pathlib.Path(sys.argv.pop(1))
    unittest.main()
