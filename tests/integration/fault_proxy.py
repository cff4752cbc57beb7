"""The project's TCP fault proxy between two processes."""
import os
import pathlib
import subprocess

PROGRAM = pathlib.Path(os.environ["BATON_BIN"]).parent / "tests" / "fault_proxy"


class FaultProxy:
    """Listens on .address and forwards to 127.0.0.1:target_port. Directions: "up" is from whoever connected, "down" from
    the target, "both"."""

    def __init__(self, target_port, seed=1):
        self.process = subprocess.Popen([PROGRAM, str(target_port), str(seed)], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.address = "127.0.0.1:" + self.process.stdout.readline().split()[1]

    def command(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        assert answer[0] == "ok", answer
        return answer[1:]

    def set(self, direction, **faults):
        """The faults of a direction, as fault_link.h names them; those not named are off."""
        self.command(f"set {direction} " + " ".join(f"{name}={value}" for name, value in faults.items()))

    def heal(self):
        """No faults any more; connections that lost bytes are reset."""
        self.command("heal")

    def stats(self):
        return {name: int(value) for name, value in (word.split("=") for word in self.command("stats"))}

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()
