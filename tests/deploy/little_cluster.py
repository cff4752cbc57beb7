"""A cluster of one machine for tests of the manifests: Deployments with rolling updates, and Services by name, on pods of
little_kubelet.py. Every number is the manifest's. Policies, budgets, priorities and quotas are not played."""
import contextlib
import json
import random
import signal
import socket
import struct
import threading
import time

from little_kubelet import Pod

NETWORK = "pods"
SUBNET = "10.89.73"
RESOLVER = f"{SUBNET}.1"  # the node's end of the pods' network
DOMAIN = "svc.cluster.local"
LAST_WAIT_S = 30  # for the pods that are removed at the end
FREEBIND = 15  # IP_FREEBIND: the address comes with the first pod


class Names(threading.Thread):
    """The cluster's DNS: the name of a Service has the addresses of its listed pods, be it headless or not, for there is no
    virtual address here."""

    def __init__(self, addresses):
        super().__init__(daemon=True)
        self.addresses = addresses  # by name; None for a name that does not exist
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.IPPROTO_IP, FREEBIND, 1)
        self.socket.bind((RESOLVER, 53))
        self.start()

    def run(self):
        while True:
            try:
                query, client = self.socket.recvfrom(512)
                self.socket.sendto(self.answer(query), client)
            except OSError:  # closed
                return

    def answer(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += 1 + query[at]
        question = query[12:at + 5]
        kind = struct.unpack("!H", question[-4:-2])[0]
        addresses = self.addresses(".".join(labels).lower())
        told = addresses if addresses and kind == 1 else []  # only A; others are there and empty
        records = [b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 0, 4) + socket.inet_aton(address) for address in told]
        header = struct.pack("!HHHHHH", struct.unpack("!H", query[:2])[0], 0x8580 if addresses is not None else 0x8583,
                             1, len(records), 0, 0)
        return header + question + b"".join(records)


class Deployment:
    """The Deployment and its pods: those of the present template, and older ones that a rolling update replaces."""

    def __init__(self, name):
        self.name, self.item, self.pods = name, None, []

    def live(self):
        return [pod for pod in self.pods if not pod.terminating]

    def done(self):
        live = self.live()
        return len(live) == self.item["spec"]["replicas"] and all(pod.ready and pod.template == self.template for pod in live)

    def apply(self, item):
        self.item, self.template = item, json.dumps(item["spec"]["template"], sort_keys=True)

    def reconcile(self, start):
        """One step towards the manifest. `start(template)` makes a pod."""
        self.pods = [pod for pod in self.pods if not pod.gone.is_set()]
        live, replicas = self.live(), self.item["spec"]["replicas"]
        new = [pod for pod in live if pod.template == self.template]
        old = [pod for pod in live if pod.template != self.template]
        update = self.item["spec"]["strategy"]["rollingUpdate"]
        room = replicas + (update["maxSurge"] if old else 0) - len(live)
        for _ in range(min(room, replicas - len(new))):
            pod = start(self.item["spec"]["template"])
            pod.template = self.template
            self.pods.append(pod)
        if not old:
            for pod in sorted(new, key=lambda pod: pod.ready)[:max(0, len(new) - replicas)]:
                pod.delete()
            return
        # Old pods may end as long as enough are ready without them; those that are not ready first.
        unready = sum(not pod.ready for pod in new)
        spare = len(live) - unready - (replicas - update["maxUnavailable"])
        for pod in sorted(old, key=lambda pod: pod.ready)[:max(0, spare)]:
            pod.delete()


class Cluster:
    """Runs the objects of one rendered overlay. `claims` are the folders of persistent volume claims."""

    def __init__(self, podman, claims):
        self.podman, self.lock, self.deployments, self.objects = podman, threading.RLock(), {}, []
        self.next_address, self.error, self.closed = 2, None, threading.Event()
        podman("network", "create", "--disable-dns", "--subnet", f"{SUBNET}.0/24", "--gateway", RESOLVER, NETWORK)
        podman.try_a_pod(NETWORK)
        for name, folder in claims.items():
            podman("volume", "create", "--opt", "type=none", "--opt", "o=rbind", "--opt", f"device={folder}", name)
        self.names = Names(self.resolve)
        threading.Thread(target=self._reconcile, daemon=True).start()

    def close(self):
        with self.lock:
            self.closed.set()
        pods = self.all_pods()
        for pod in pods:
            pod.delete()
            with contextlib.suppress(ProcessLookupError, TypeError):  # it has ended, or not begun
                pod.signal(signal.SIGKILL)
        for pod in pods:
            pod.gone.wait(LAST_WAIT_S)
        self.names.socket.close()

    def apply(self, objects):
        """The objects are what is wanted from now on."""
        with self.lock:
            self.objects = objects
            for item in self.of_kind("Deployment"):
                name = item["metadata"]["name"]
                self.deployments.setdefault(name, Deployment(name)).apply(item)

    def of_kind(self, kind):
        return [item for item in self.objects if item["kind"] == kind]

    def all_pods(self):
        with self.lock:
            return [pod for deployment in self.deployments.values() for pod in deployment.pods]

    def pods(self, deployment):
        """Its pods that are not being ended."""
        with self.lock:
            return self.deployments[deployment].live()

    def listed(self, service):
        """The pods that the Service has now."""
        (item,) = [item for item in self.of_kind("Service") if item["metadata"]["name"] == service]
        selector = item["spec"]["selector"].items()
        return [pod for pod in self.all_pods() if pod.listed and selector <= pod.labels.items()]

    def resolve(self, name):
        """The addresses of SERVICE.NAMESPACE.svc.cluster.local, in any order."""
        for item in self.of_kind("Service"):
            if name == f"{item['metadata']['name']}.{item['metadata']['namespace']}.{DOMAIN}":
                addresses = [pod.address for pod in self.listed(item["metadata"]["name"])]
                return random.sample(addresses, len(addresses))
        return None

    def wait(self, condition, what, timeout_s):
        """The first true value of condition(); an error of a pod ends the waiting."""
        deadline = time.monotonic() + timeout_s
        while not (value := condition()):
            if self.error:
                raise self.error
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout_s} s: {what}\n{self.describe()}")
            time.sleep(0.01)
        return value

    def wait_rolled_out(self, timeout_s):
        self.wait(lambda: all(deployment.done() for deployment in self.deployments.values()), "rolled out", timeout_s)

    def describe(self):
        """Every pod, and the end of its log."""
        lines = []
        for pod in self.all_pods():
            begin = pod.history[0][0] if pod.history else 0
            told = ", ".join(f"{what} at {at - begin:.1f} s" for at, what in pod.history)
            lines.append(f"{pod.name} {pod.address}: {told}; exit codes {pod.exit_codes}")
            with contextlib.suppress(RuntimeError):  # its container is gone
                lines += self.podman("logs", f"{pod.name}-server").splitlines()[-10:]
        return "\n".join(lines)

    def _start(self, deployment, namespace):
        def start(template):
            address = f"{SUBNET}.{self.next_address}"
            name = f"{deployment}-{self.next_address}"
            self.next_address += 1
            files = {item["metadata"]["name"]: item[data] for kind, data in (("ConfigMap", "data"), ("Secret", "stringData"))
                     for item in self.of_kind(kind)}
            dns = {"nameservers": [RESOLVER], "searches": [f"{namespace}.{DOMAIN}", DOMAIN],
                   "options": [{"name": "ndots", "value": "5"}]}
            return Pod(self.podman, name, namespace, template, files, NETWORK, address, dns)
        return start

    def _reconcile(self):
        while not self.closed.wait(0.05):
            with self.lock:
                self.error = self.error or next((pod.error for pod in self.all_pods() if pod.error), None)
                try:
                    for deployment in self.deployments.values() if not (self.error or self.closed.is_set()) else ():
                        deployment.reconcile(self._start(deployment.name, deployment.item["metadata"]["namespace"]))
                except Exception as error:  # told by who waits
                    self.error = error
