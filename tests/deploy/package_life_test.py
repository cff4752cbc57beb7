"""The Debian package is installed, upgraded, removed and purged as Debian has it, in a fresh Debian 12 with a systemd of its own.

    package_life_test.py FOLDER_OF_BUILD       (BATON_TEST_MODEL as for tests/integration)

Exits 77, CTest's "skipped", with the reason where such a Debian or systemd cannot be made.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import systemd_tree as tree  # noqa: E402
from private_systemd import NOT_ALLOWED, NotAllowed, PrivateSystemd, until  # noqa: E402

BUILD = None  # the folder of the build whose programs are packed
REAL_MODEL = pathlib.Path(os.environ["BATON_TEST_MODEL"])
UNITS = ["baton-router", "baton-prefill-worker@0", "baton-decode-worker@0"]
SERVE = "baton"  # the unit of `baton serve`, which the test of a fleet leaves alone
CONFIGS = ["/etc/baton/router/router.toml", "/etc/baton/prefill/0.toml", "/etc/baton/decode/0.toml", "/etc/baton/serve/serve.toml"]
INSTALL_S = 300  # dpkg writes much, and the machine may be busy
APT = ["apt-get", "-q", "-y", "--no-install-recommends", "-o", "APT::Sandbox::User=root"]


def build_package(out, release):
    """The paths of the package and of the archive."""
    done = subprocess.run([tree.ROOT / "scripts/build_package.sh", "--out", out, "--release", str(release), BUILD], check=True,
                          stdout=subprocess.PIPE, text=True, timeout=INSTALL_S,
                          env={**os.environ, "BATON_PACKAGE_COMPRESSION": "zstd"})
    return done.stdout.split()


def fresh_debian(package):
    done = subprocess.run([tree.ROOT / "tests/deploy/fresh_debian.sh", package], check=False, capture_output=True, text=True)
    if done.returncode == NOT_ALLOWED:
        raise NotAllowed(done.stderr.strip())
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout.strip()


def answer_of(run, *command):
    """The facts of the greedy answer of that `baton run`."""
    return json.loads(run(*command, "--temperature=0", "--max-tokens=12", "--json", "hello").stdout)


def here(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, timeout=INSTALL_S)


class Life(unittest.TestCase):
    """One long test: each step needs the one before."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.packages = pathlib.Path(folder.name)
        (self.packages / "1").mkdir()
        (self.packages / "2").mkdir()
        self.first, self.archive = build_package(self.packages / "1", 1)
        self.second, _ = build_package(self.packages / "2", 2)
        try:
            self.machine = PrivateSystemd(tree.ROOT, self.packages, REAL_MODEL.parent, root=fresh_debian(self.first))
        except NotAllowed as reason:
            self.skipTest(str(reason))
        self.addCleanup(self.machine.close)
        self.run_in = self.machine.run

    def states(self, question, units):
        return self.run_in("systemctl", question, *units, check=False).stdout.split()

    def files(self):
        """Everything of Baton that is on the disk, whoever made it."""
        others = [word for path in ("/var/cache/*", "/var/log/*") for word in ("-not", "-path", path)]
        return self.run_in("find", "/", "-xdev", "-iname", "*baton*", *others).stdout.split()

    def assert_answers_of_the_build(self, program):
        """They take prefill, hand-off and decode."""
        for model in (tree.MODEL, REAL_MODEL):
            flags = ["run", f"--model={model}", "--disaggregate=always"]
            seen, right = answer_of(self.run_in, program, *flags), answer_of(here, BUILD / "bin/baton", *flags)
            self.assertGreater(int(seen["timings"]["kv_transfer_bytes"]), 0)
            self.assertEqual(seen["token_ids"], right["token_ids"])

    def test_the_life_of_the_package(self):
        self.run_the_archive()
        before = self.files()
        self.install()
        self.follow_the_readme()
        self.upgrade()
        self.remove()
        self.purge(before)

    def run_the_archive(self):
        self.run_in("tar", "-C", "/opt", "-xzf", self.archive)
        (program,) = self.run_in("find", "/opt", "-path", "*/bin/baton").stdout.split()
        self.assert_answers_of_the_build(program)
        self.run_in("bash", "-c", "rm -r /opt/baton-*")

    def install(self):
        self.run_in(*APT, "install", self.first, timeout=INSTALL_S)
        self.assertEqual(self.states("is-enabled", [*UNITS, SERVE]), ["disabled"] * 4)
        self.assertEqual(self.states("is-active", [*UNITS, SERVE]), ["inactive"] * 4)
        name, _, uid, _, _, home, shell = self.run_in("getent", "passwd", "baton").stdout.strip().split(":")
        self.assertEqual((name, home, shell), ("baton", "/var/lib/baton", "/usr/sbin/nologin"))
        self.assertLess(int(uid), 1000)
        verified = self.run_in("systemd-analyze", "verify", "--man=no", *(f"{unit}.service" for unit in [*UNITS, SERVE]))
        self.assertEqual(verified.stdout + verified.stderr, "")
        for role in (*tree.PARTS, "serve"):
            self.assertEqual(self.run_in("stat", "-c", "%U:%G %a", f"/etc/baton/{role}").stdout.strip(), "baton:baton 750")
        self.assert_answers_of_the_build("baton")
        self.run_in("tee", "/root/schema.json", input='{"type": "boolean"}')
        held = self.run_in("baton", "run", f"--model={tree.MODEL}", "--json-schema=/root/schema.json", "hello")
        self.assertIn(held.stdout.strip(), ("true", "false"))

    def follow_the_readme(self):
        """Its commands for one machine, without the first ones, which the package stands for."""
        section = (tree.ROOT / "deploy/README.md").read_text().partition("\n## One machine\n")[2]
        _, commands = re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[:2]
        printed = self.run_in("bash", "-euc", commands.replace("MODEL.gguf", str(REAL_MODEL))).stdout
        key = re.search(r"^\S{20,}$", printed, re.MULTILINE).group()
        self.client = ["env", f"BATON_API_KEY={key}", "baton", "run", "--server=127.0.0.1:50051",
                       "--tls-ca=/root/baton-certs/ca.crt"]
        until(self.answered, "an answer of the installed servers")
        right = answer_of(here, BUILD / "bin/baton", "run", f"--model={REAL_MODEL}")
        self.assertEqual(answer_of(self.run_in, *self.client)["token_ids"], right["token_ids"])

    def answered(self):
        return self.run_in(*self.client, "--max-tokens=4", "hello", check=False).returncode == 0

    def upgrade(self):
        self.run_in("systemctl", "disable", "--now", UNITS[1])
        self.run_in("sed", "-i", "$a # mine", CONFIGS[0])
        before = [self.machine.property(unit, "MainPID") for unit in UNITS]
        self.run_in(*APT, "install", self.second, timeout=INSTALL_S)
        self.assertEqual(self.run_in("dpkg-query", "-W", "-f=${Version}", "baton").stdout[-2:], "-2")
        after = [self.machine.property(unit, "MainPID") for unit in UNITS]
        for unit, old, new in zip(UNITS, before, after):
            # What ran runs anew, with the new programs; what did not run does not.
            self.assertEqual(new == old, unit == UNITS[1], unit)
        self.assertEqual(self.states("is-enabled", UNITS), ["enabled", "disabled", "enabled"])
        self.assertEqual(self.run_in("tail", "-n", "1", CONFIGS[0]).stdout, "# mine\n")
        until(self.answered, "an answer after the upgrade")

    def remove(self):
        self.run_in(*APT, "remove", "baton", timeout=INSTALL_S)
        self.assertEqual(self.run_in("find", "/proc", "-maxdepth", "1", "-user", "baton").stdout, "")
        self.assertFalse([path for path in self.files() if path.startswith(("/usr/bin", "/usr/libexec", "/usr/lib/systemd"))])
        for path in [*CONFIGS, "/etc/baton/router/keys.toml", "/etc/baton/decode/decode.key", "/var/lib/baton/models/model.gguf"]:
            self.run_in("test", "-e", path)

    def purge(self, before):
        self.run_in(*APT, "purge", "baton", timeout=INSTALL_S)
        self.run_in("rm", "-r", "/root/baton-certs")  # the authority, which the README lets root keep
        self.assertEqual(self.files(), before)
        self.assertEqual(self.run_in("dpkg-query", "-W", "baton", check=False).returncode, 1)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    result = unittest.main(exit=False, verbosity=2).result
    sys.exit(77 if result.skipped else not result.wasSuccessful())
