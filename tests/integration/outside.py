"""Another machine, as the parts of Baton see it: calls that come from beyond loopback."""
import contextlib
import dataclasses
import socket
import subprocess


@dataclasses.dataclass(frozen=True)
class Outside:
    """`run` starts a client there; `address` is the IPv4 address at which it reaches this machine."""
    address: str
    enter: tuple = ()  # what goes before a command line

    def run(self, *argv, timeout=60, **options):
        """What the program at the other machine ends with; its output is text."""
        return subprocess.run([*self.enter, *map(str, argv)], capture_output=True, text=True, timeout=timeout, check=False,
                              **options)


def own_address():
    """This machine's own address beyond loopback. No packet goes to the one it is asked for by."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return probe.getsockname()[0]


def _link(process):
    """Joins the namespace of `process` to this one by a cable of their own; the address of this end, if that may be done."""
    pid = process.pid
    network = f"198.18.{pid // 64 % 256}.{{}}"  # in the range for benchmarks; four addresses each
    here, there = network.format(pid % 64 * 4 + 1), network.format(pid % 64 * 4 + 2)
    cable = f"baton{pid}"
    steps = (f"ip link add {cable} type veth peer name outside netns {pid}",
             f"ip address add {here}/30 dev {cable}", f"ip link set {cable} up",
             f"nsenter -t {pid} -n ip address add {there}/30 dev outside", f"nsenter -t {pid} -n ip link set outside up",
             f"nsenter -t {pid} -n ip link set lo up")
    try:
        for step in steps:
            subprocess.run(step.split(), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return here


@contextlib.contextmanager
def another_machine():
    """A network namespace that a cable joins to this one. Where none can be made, calls come from this machine's own address
    beyond loopback, which no program can tell from another machine's."""
    try:
        namespace = subprocess.Popen(["unshare", "-n", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError:
        yield Outside(own_address())
        return
    try:
        namespace.stdin.write(b"\n")  # comes back once the namespace is there
        namespace.stdin.flush()
        address = _link(namespace) if namespace.stdout.readline() else None
        enter = ("nsenter", "-t", str(namespace.pid), "-n")
        yield Outside(own_address()) if address is None else Outside(address, enter)
    finally:
        with contextlib.suppress(BrokenPipeError):
            namespace.stdin.close()  # the namespace ends with its last process, and takes the cable along
        namespace.stdout.close()
        namespace.wait(10)
