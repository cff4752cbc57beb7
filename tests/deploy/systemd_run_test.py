"""The commands of deploy/README.md install units under which the programs run as they should, with a real systemd.

    systemd_run_test.py FOLDER_OF_BINARIES      (or BATON_BIN in the environment)

Exits 77, CTest's "skipped", with the reason where a systemd of one's own is not allowed.
"""

import json
import os
import pathlib
import re
import resource
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import systemd_tree as tree  # noqa: E402
from private_systemd import NotAllowed, PrivateSystemd, until  # noqa: E402

BINARIES = pathlib.Path(os.environ.get("BATON_BIN", "."))
SERVE = "baton"  # the unit of `baton serve`, which takes the place of the three
UNITS = {"router": "baton-router", "prefill": "baton-prefill-worker@0", "decode": "baton-decode-worker@0"}
CPU = min(os.sched_getaffinity(0))
machine = None  # where everything below happens


def blocks_of_readme():
    """The commands of its section about one machine: two blocks for a fleet, and one for `baton serve`."""
    section = (tree.ROOT / "deploy/README.md").read_text().partition("\n## One machine\n")[2]
    return re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[:3]


def commands_of_readme():
    """What the README says to do for a fleet on one machine, with the programs and the model that are there."""
    commands = "".join(blocks_of_readme()[:2])
    for old, new in (("build/release/bin", BINARIES.resolve()), ("MODEL.gguf", tree.MODEL)):
        assert commands.count(old) == 1, commands
        commands = commands.replace(old, str(new))
    return commands


def setUpModule():
    global machine
    machine = PrivateSystemd(tree.ROOT, BINARIES.resolve())
    unittest.addModuleCleanup(machine.close)
    machine.run("rm", "-rf", "/etc/baton", "/root/baton-certs", "/var/lib/baton")  # left if the README was followed here
    installed = machine.run("bash", "-euc", f"cd {tree.ROOT}\n{commands_of_readme()}")
    machine.key = re.search(r"^\S{20,}$", installed.stdout, re.MULTILINE).group()
    add_line("router", 'disaggregate = "always"')  # so that an answer takes both workers
    for role in ("prefill", "decode"):
        add_line(role, f'cpu-set = "{CPU}"')
    machine.run("systemctl", "restart", *UNITS.values())


def file(role, name=None):
    return f"/etc/baton/{role}/{name or tree.PARTS[role][1].name}"


def add_line(role, line):
    machine.run("sed", "-i", f"$a {line}", file(role))


def pid(role):
    return machine.property(UNITS[role], "MainPID")


def assert_no_privileges(test, process):
    text = machine.run("cat", f"/proc/{process}/status").stdout
    status = dict(line.split(":\t") for line in text.splitlines() if ":\t" in line)
    test.assertNotIn("0", status["Uid"].split())
    test.assertEqual(status["CapBnd"].strip("0"), "")
    test.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))


def metric(address, name):
    program = f"import urllib.request as r; print(r.urlopen('http://{address}/metrics').read().decode())"
    text = machine.run("python3", "-c", program).stdout
    return float(re.search(rf"^{name}{{.*}} (\S+)$", text, re.MULTILINE).group(1))


def ask(*flags):
    """The answer that a client with the key gets, None without one."""
    done = machine.run("env", f"BATON_API_KEY={machine.key}", "baton", "run", "--server=127.0.0.1:50051",
                       "--tls-ca=/root/baton-certs/ca.crt", "--max-tokens=8", "--json", "--stats", *flags, "hello", check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def answered():
    """Whether there is an answer, which takes all three parts."""
    answer = ask()
    return answer is not None and int(answer["timings"]["kv_transfer_bytes"]) > 0


class Fleet(unittest.TestCase):
    def setUp(self):
        until(answered, "an answer before the test")

    def tearDown(self):
        until(answered, "an answer after the test")

    def test_parts_have_no_privileges(self):
        for role in UNITS:
            with self.subTest(role=role):
                assert_no_privileges(self, pid(role))
                limits = machine.run("cat", f"/proc/{pid(role)}/limits").stdout
                files = min(int(tree.only(tree.PARTS[role][0], "LimitNOFILE")), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
                self.assertRegex(limits, rf"Max open files +{files} +{files}")

    def test_workers_may_keep_their_threads_on_cores(self):
        for role in ("prefill", "decode"):
            with self.subTest(role=role):
                threads = machine.run("bash", "-c", f"grep -h ^Cpus_allowed_list: /proc/{pid(role)}/task/*/status").stdout
                self.assertIn(f"Cpus_allowed_list:\t{CPU}", threads.splitlines())

    def test_the_router_may_start_the_compiler_of_grammars(self):
        machine.run("tee", "/root/schema.json", input='{"type": "boolean"}')
        self.assertIn(ask("--json-schema=/root/schema.json")["text"], ("true", "false"))

    def test_renewed_certificates_and_lists_are_taken_and_new_keys(self):
        machine.run("bash", "-euc", """
            cd /root/baton-certs
            baton certs issue decode --force --folder . && baton certs revoke --folder .
            cp decode.crt decode.key ca.crl /etc/baton/decode/""")
        until(lambda: metric("127.0.0.1:9093", "baton_tls_reloads_total") >= 1, "they are taken")
        before, machine.key = machine.key, machine.run("runuser", "-u", "baton", "--", "baton", "keys", "new",
                                                       f"--file={file('router', 'keys.toml')}", "--tenant=you").stdout.strip()
        self.assertNotEqual(machine.key, before)  # tearDown asks with the new one

    def test_a_part_sees_its_own_keys_only_and_cannot_write_them(self):
        for role in UNITS:
            with self.subTest(role=role):
                inside = ["nsenter", f"--target={pid(role)}", "--mount", "--wd=/"]
                self.assertEqual(machine.run(*inside, "ls", "/etc/baton").stdout.split(), [role])
                # Even root, which this is.
                for folder in (f"/etc/baton/{role}", "/var/lib/baton", "/usr/local/bin"):
                    done = machine.run(*inside, "touch", f"{folder}/new", check=False)
                    self.assertIn("Read-only file system", done.stderr)
                self.assertNotEqual(machine.run(*inside, "ls", "/root/baton-certs", check=False).returncode, 0)

    def test_a_part_that_dies_is_started_again(self):
        former = {role: pid(role) for role in UNITS}
        machine.run("kill", f"-{signal.SIGKILL}", *former.values())
        for role, unit in UNITS.items():
            until(lambda: pid(role) not in ("0", former[role]), f"{unit} runs again")

    def test_a_part_with_a_wrong_file_says_so_once(self):
        unit = UNITS["prefill"]
        add_line("prefill", "no-such-flag = 1")
        self.assertNotEqual(machine.run("systemctl", "restart", unit, check=False).returncode, 0)
        until(lambda: machine.property(unit, "ActiveState") == "failed", f"{unit} failed")
        self.assertEqual([machine.property(unit, name) for name in ("ExecMainStatus", "NRestarts")], ["2", "0"])
        self.assertIn("no-such-flag", machine.output(unit).splitlines()[-1])
        machine.run("sed", "-i", "$d", file("prefill"))
        machine.run("systemctl", "start", unit)

    def test_stopping_is_a_clean_end(self):
        for unit in UNITS.values():
            with self.subTest(unit=unit):
                machine.run("systemctl", "stop", unit)
                self.assertEqual([machine.property(unit, name) for name in ("Result", "ExecMainStatus")], ["success", "0"])
                machine.run("systemctl", "start", unit)


class Server(unittest.TestCase):
    """`baton serve` as a unit, which the README's commands start."""

    @classmethod
    def setUpClass(cls):
        machine.run("systemctl", "disable", "--now", *UNITS.values())
        machine.run("bash", "-euc", blocks_of_readme()[2])

    def tearDown(self):
        until(self.answered, "an answer after the test")

    def processes(self):
        """The server and its children."""
        server = machine.property(SERVE, "MainPID")
        return [server, *machine.run("cat", f"/proc/{server}/task/{server}/children").stdout.split()]

    @staticmethod
    def answered():
        asked = machine.run("baton", "run", "--server=127.0.0.1:50051", "--max-tokens=4", "hello", check=False)
        return asked.returncode == 0

    def test_it_is_started_when_it_answers_by_grpc_and_by_http(self):
        machine.run("systemctl", "restart", SERVE)
        self.assertTrue(self.answered())
        program = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8080/v1/models').status)"
        self.assertEqual(machine.run("python3", "-c", program).stdout.strip(), "200")

    def test_its_parts_have_no_privileges_and_write_its_own_folders_only(self):
        server, *parts = self.processes()
        self.assertEqual(len(parts), 3)
        for process in (server, *parts):
            assert_no_privileges(self, process)
        inside = ["nsenter", f"--target={server}", "--mount", "--wd=/"]
        self.assertEqual(machine.run(*inside, "ls", "/etc/baton").stdout.split(), ["serve"])
        for folder in ("/etc/baton/serve", "/var/lib/baton", "/usr/local/bin"):
            self.assertIn("Read-only file system", machine.run(*inside, "touch", f"{folder}/new", check=False).stderr)
        machine.run("test", "-s", "/var/lib/baton/serve/baton/fleet-secret")

    def test_a_part_that_dies_is_started_again_by_the_server_and_the_server_by_systemd(self):
        server, *parts = self.processes()
        machine.run("kill", f"-{signal.SIGKILL}", parts[0])
        until(lambda: len(self.processes()) == 4 and parts[0] not in self.processes(), "the part runs again")
        self.assertEqual(self.processes()[0], server)
        machine.run("kill", f"-{signal.SIGKILL}", server)
        until(lambda: machine.property(SERVE, "MainPID") not in ("0", server), "the server runs again")
        self.assertEqual(machine.property(SERVE, "NRestarts"), "1")

    def test_a_file_that_names_no_model_or_an_unknown_flag_says_so_once(self):
        toml = "/etc/baton/serve/serve.toml"
        machine.run("cp", toml, "/root/serve.toml")
        for change, said in (("s/^model/# model/", "--model"), ("$a no-such-flag = 1", "no-such-flag")):
            with self.subTest(said):
                machine.run("sed", "-i", change, toml)
                self.assertNotEqual(machine.run("systemctl", "restart", SERVE, check=False).returncode, 0)
                until(lambda: machine.property(SERVE, "ActiveState") == "failed", "it failed")
                self.assertEqual([machine.property(SERVE, name) for name in ("ExecMainStatus", "NRestarts")], ["2", "0"])
                self.assertIn(said, machine.output(SERVE).splitlines()[-1])
                machine.run("cp", "/root/serve.toml", toml)
        machine.run("systemctl", "start", SERVE)

    def test_stopping_is_a_clean_end_of_all_parts(self):
        machine.run("systemctl", "stop", SERVE)
        self.assertEqual([machine.property(SERVE, name) for name in ("Result", "ExecMainStatus")], ["success", "0"])
        self.assertEqual(machine.run("find", "/proc", "-maxdepth", "1", "-user", "baton").stdout, "")
        machine.run("systemctl", "start", SERVE)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        BINARIES = pathlib.Path(sys.argv.pop(1))
    try:
        PrivateSystemd().close()
    except NotAllowed as reason:
        print(f"skipped: {reason}; no unit was run")
        sys.exit(77)
    unittest.main(failfast=True)  # what one breaks the next ones would wait for
