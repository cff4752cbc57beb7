"""A systemd for tests: process 1 of namespaces of its own, on a copy of files, such as this machine's, that is thrown away."""

import os
import pathlib
import subprocess
import tempfile
import time

SCRIPT = pathlib.Path(__file__).with_suffix(".sh")
PATIENCE_S = 30
NOT_ALLOWED = 77  # exit code of the script
# The environment of the commands in there, without the caller's variables, such as a proxy.
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}


class NotAllowed(Exception):
    """This machine, or this user, cannot have one. Says why."""


def until(condition, what):
    """The first true value of condition()."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE_S} s: {what}")
        time.sleep(0.02)
    return value


class PrivateSystemd:
    def __init__(self, *paths, root="/"):
        """Boots what is below `root`. The `paths` of this machine are there too, and read-only, wherever they are mounted."""
        if os.geteuid() != 0:
            raise NotAllowed("only root may boot a systemd of its own")
        self.folder = tempfile.TemporaryDirectory(prefix="baton-systemd-")
        command = ["unshare", "--mount", "--propagation", "private", str(SCRIPT), str(root), self.folder.name, *map(str, paths)]
        self.script = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.pid = self.script.stdout.readline().strip()
        try:
            until(self.booted, "systemd is up")
        except BaseException:
            self.close()
            raise

    def booted(self):
        if self.script.poll() is not None:
            reason = self.script.stderr.read().strip()
            if self.script.returncode == NOT_ALLOWED or reason.startswith("unshare: "):
                raise NotAllowed(reason)
            raise AssertionError(f"{SCRIPT.name} ended: {reason}")
        return self.run("systemctl", "is-system-running", check=False).stdout.strip() == "running"

    def run(self, *command, check=True, timeout=PATIENCE_S, **options):
        """Runs a command in there, and returns what it was, with its output as text."""
        done = subprocess.run(["nsenter", f"--target={self.pid}", "--all", "--root", "--wd", *command], check=False,
                              capture_output=True, text=True, timeout=timeout, env=ENVIRONMENT, **options)
        if check and done.returncode != 0:
            raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def property(self, unit, name):
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).stdout.strip()

    def output(self, unit):
        """What the unit's processes wrote so far."""
        return self.run("cat", f"/run/output-{unit}.service").stdout

    def close(self):
        self.script.communicate()  # its end of input is the end of that systemd
        self.folder.cleanup()
