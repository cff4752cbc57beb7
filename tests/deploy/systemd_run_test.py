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
UNITS = {"router": "baton-router", "prefill": "baton-prefill-worker@0", "decode": "baton-decode-worker@0"}
CPU = min(os.sched_getaffinity(0))
machine = None  # where everything below happens


def commands_of_readme():
    """What the README says to do on one machine, with the programs and the model that are there."""
    section = (tree.ROOT / "deploy/README.md").read_text().partition("\n## One machine\n")[2]
    commands = "".join(re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[:2])
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
                status = dict(line.split(":\t") for line in machine.run("cat", f"/proc/{pid(role)}/status").stdout.splitlines()
                              if ":\t" in line)
                self.assertNotIn("0", status["Uid"].split())
                self.assertEqual(status["CapBnd"].strip("0"), "")
                self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
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


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        BINARIES = pathlib.Path(sys.argv.pop(1))
    try:
        PrivateSystemd().close()
    except NotAllowed as reason:
        print(f"skipped: {reason}; no unit was run")
        sys.exit(77)
    unittest.main(failfast=True)  # what one breaks the next ones would wait for
