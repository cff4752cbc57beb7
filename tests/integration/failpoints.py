"""The failpoints of running servers of the preset `failpoints`: armed over their sockets, and what was armed must be hit."""
import collections
import pathlib
import re
import signal
import socket
import tempfile

from cluster import wait_until

TABLE = pathlib.Path(__file__).parent.parent.parent / "common" / "base" / "failpoint_table.h"
Count = collections.namedtuple("Count", ["hits", "fired"])


def table():
    """{name: form} of every point."""
    return dict(re.findall(r'\{"([\w.]+)", FailpointForm::k(\w+)\}', TABLE.read_text()))


class Failpoints:
    """The failpoints of one Server, which starts with them from now on. `plan` is armed whenever it starts."""

    def __init__(self, server, plan=""):
        self.server = server
        self.path = tempfile.mktemp(prefix="failpoints-")
        server.environment = {"BATON_FAILPOINT_SOCKET": self.path, "BATON_FAILPOINTS": plan}

    def _ask(self, command):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(self.path)
            connection.sendall(command.encode() + b"\n")
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()
        assert not answer.startswith("error"), answer
        return answer

    def arm(self, plan):
        self._ask(f"arm {plan}")

    def disarm(self):
        self._ask("disarm")

    def counts(self):
        """{name: Count}"""
        lines = (line.split() for line in self._ask("count").splitlines())
        return {name: Count(int(hits), int(fired)) for name, hits, fired in lines}

    def fired(self, name):
        """How often, by what the server wrote: a dead one cannot be asked."""
        return len(re.findall(rf"^failpoint {re.escape(name)}: ", self.server.log_text(), re.MULTILINE))

    def wait_killed(self, timeout_s, what):
        """The server has killed itself at a point. One that has not fails the test: an armed point is hit."""
        wait_until(lambda: self.server.process.poll() is not None, timeout_s, f"hit: {what}")
        assert self.server.process.returncode == -signal.SIGKILL, self.server.log_text()

    def wait_stopped(self, timeout_s, what):
        def stopped():
            return pathlib.Path(f"/proc/{self.server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"

        wait_until(stopped, timeout_s, f"hit: {what}")
