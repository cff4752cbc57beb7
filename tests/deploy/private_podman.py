"""A podman for tests: in namespaces of its own, with its images in memory, so that nothing is left of it however a test ends."""
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

MARK = "BATON_PRIVATE_PODMAN"  # set inside the namespaces
NEEDED = ("podman", "runc", "/usr/lib/podman/netavark", "catatonit", "iptables", "ip", "unshare")


class NotAllowed(Exception):
    """This machine, or this user, cannot run containers. Says why."""


def inside():
    """Runs this program again, with its arguments, in namespaces of its own, and ends with its exit code; returns there."""
    if os.environ.get(MARK):
        return
    if os.geteuid() != 0:
        raise NotAllowed("only root may make the namespaces of containers")
    for name in NEEDED:
        if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
            raise NotAllowed(f"{name} is missing: scripts/install_deps.sh --thorough")
    with tempfile.TemporaryDirectory(prefix="baton-podman-") as folder:
        # catatonit is process 1: with it every process of the containers ends, whatever ends the test.
        unshare = ["unshare", "--mount", "--propagation", "private", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        tried = subprocess.run([*unshare, "true"], stderr=subprocess.PIPE, text=True, check=False)
        if tried.returncode != 0:
            raise NotAllowed(tried.stderr.strip())
        done = subprocess.run([*unshare, "catatonit", "--", sys.executable, *sys.argv], env=environment(folder), check=False)
    sys.exit(done.returncode)


def environment(folder):
    """Ours without proxies, which know nothing of the pods."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return {**kept, MARK: folder, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}


class Podman:
    """The podman of these namespaces; its storage is a file system in memory."""

    def __init__(self):
        self.folder = pathlib.Path(os.environ[MARK])
        subprocess.run(["mount", "-t", "tmpfs", "podman", str(self.folder)], check=True)
        os.makedirs("/run/netns", exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "netns", "/run/netns"], check=True)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        processes = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        (self.folder / "containers.conf").write_text(f"""
[containers]
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
image_copy_tmp_dir = "{self.folder}"
[network]
network_backend = "netavark"
network_config_dir = "{self.folder}/networks"
""")
        (self.folder / "storage.conf").write_text(f"""
[storage]
driver = "overlay"
graphroot = "{self.folder}/images"
runroot = "{self.folder}/run"
""")
        os.environ |= {"CONTAINERS_CONF": f"{self.folder}/containers.conf", "TMPDIR": str(self.folder),
                       "CONTAINERS_STORAGE_CONF": f"{self.folder}/storage.conf"}
        tempfile.tempdir = None  # what is set above counts

    def __call__(self, *command, stdin=None):
        """Runs podman, returns what it prints; for logs also the container's errors."""
        done = subprocess.run(["podman", *command], input=stdin, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"podman {' '.join(command)}: {done.stderr.strip()}")
        return (done.stdout + (done.stderr if command[0] == "logs" else "")).strip()

    def try_a_pod(self, network):
        """Raises NotAllowed where no pod of pause alone starts on the network, which has nothing of ours in it."""
        try:
            self("pod", "create", "--name", "trial", "--network", network)
            self("pod", "start", "trial")
            self("pod", "rm", "--force", "--time", "0", "trial")
        except RuntimeError as error:
            raise NotAllowed(str(error)) from error
