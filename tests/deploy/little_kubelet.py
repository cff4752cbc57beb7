"""What the kubelet does and `podman kube play` of Debian 12 (4.3) does not: the downward API, probes, restarts, preStop and the
grace period. Every number is the manifest's: one that is missing, or a field of a probe that is not known here, is an error."""
import contextlib
import copy
import json
import os
import re
import select
import signal
import threading
import time
import urllib.request

import grpc

MINIMUM_GRACE_S = 2  # what the kubelet leaves a container after a preStop hook that used up the grace
BACKOFF_S, LONGEST_BACKOFF_S = 10, 300  # the kubelet's: before the second restart, doubled with each one, up to the longest
HEALTHY = b"\x08\x01"  # a grpc.health.v1.HealthCheckResponse that says SERVING
PROBES = {"startupProbe", "livenessProbe", "readinessProbe"}
KNOWN_PROBES = [{how, "periodSeconds", "timeoutSeconds", "failureThreshold"} for how in ("grpc", "httpGet")]
NOT_PLAYED = PROBES | {"lifecycle", "ports"}  # fields of a container; podman would open its ports on the node


def probe_once(pod, probe):
    """Whether the probe succeeds."""
    if "httpGet" in probe:
        (port,) = [item["containerPort"] for item in pod.container["ports"] if item["name"] == probe["httpGet"]["port"]]
        with contextlib.suppress(OSError):  # a status that is an error is one too
            urllib.request.urlopen(f"http://{pod.address}:{port}{probe['httpGet']['path']}", None, probe["timeoutSeconds"]).close()
            return True
        return False
    service = probe["grpc"]["service"].encode()
    with grpc.insecure_channel(f"{pod.address}:{probe['grpc']['port']}") as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        try:
            return check(b"\x0a" + bytes([len(service)]) + service, timeout=probe["timeoutSeconds"]).startswith(HEALTHY)
        except grpc.RpcError:
            return False


def watch(pod, probe, ended, result):
    """Probes until result(success) is not true or the container has `ended`; result is told when a threshold is reached."""
    failures, next_s = 0, time.monotonic()
    while not ended.wait(max(0, next_s - time.monotonic())):
        next_s = max(next_s + probe["periodSeconds"], time.monotonic())
        success = probe_once(pod, probe)
        failures = 0 if success else failures + 1
        if (success or failures >= probe["failureThreshold"]) and not result(success):
            return


class Pod:
    """One pod with one container. Its thread plays it, keeps it alive and, after delete(), ends it."""

    def __init__(self, podman, name, namespace, template, files, network, address, dns):
        self.podman, self.name, self.address = podman, name, address
        self.labels, self.spec, self.network = template["metadata"]["labels"], template["spec"], network
        (self.container,) = self.spec["containers"]
        for probe in PROBES:
            if set(self.container[probe]) not in KNOWN_PROBES:
                raise ValueError(f"{name}: {probe} has {set(self.container[probe])}, none of {KNOWN_PROBES}, which are known here")
        self.document = self._played(namespace, files, dns)
        self.ready, self.terminating, self.gone = False, False, threading.Event()
        self.restarts, self.exit_codes, self.error = 0, [], None
        self.history = []  # (time.monotonic(), what) of: started, ready, unready, deleted, stopping, killed, ended
        self.wanted = threading.Event()  # set: to be ended
        self.grace_s = self.spec["terminationGracePeriodSeconds"]
        self.pid = None
        threading.Thread(target=self._live, daemon=True).start()

    @property
    def listed(self):
        """Whether Services have its address."""
        return self.ready and not self.terminating

    def tell(self, what):
        self.history.append((time.monotonic(), what))

    def when(self, what):
        """The first moment of that."""
        return next(at for at, told in self.history if told == what)

    def delete(self):
        if not self.terminating:
            self.terminating = True
            self.tell("deleted")
            self.wanted.set()

    def signal(self, number):
        """A signal from outside."""
        os.kill(self.pid, number)

    def _played(self, namespace, files, dns):
        """The documents for podman: what podman does itself, with its own names for what it would share between pods."""
        fields = {"metadata.name": self.name, "metadata.namespace": namespace, "status.podIP": self.address}
        container = copy.deepcopy({key: value for key, value in self.container.items() if key not in NOT_PLAYED})
        values = {}  # values of the variables so far

        def expanded(text):
            return re.sub(r"\$\((\w+)\)", lambda match: values[match[1]], text)

        for item in container.get("env", []):
            values[item["name"]] = (expanded(item["value"]) if "value" in item
                                    else fields[item["valueFrom"]["fieldRef"]["fieldPath"]])
        container["env"] = [{"name": key, "value": value} for key, value in values.items()]
        container["args"] = [expanded(argument) for argument in container["args"]]
        spec = {**copy.deepcopy(self.spec), "containers": [container], "restartPolicy": "Never",
                "dnsPolicy": "None", "dnsConfig": dns}
        documents = []
        for volume in spec["volumes"]:
            if "configMap" in volume or "secret" in volume:  # a Secret is played as a ConfigMap, whose files have the same bytes
                source = volume.pop("secret", None) or volume["configMap"]
                name = source.get("secretName") or source["name"]
                of_pod = f"{self.name}-{name}"
                documents.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": of_pod}, "data": files[name]})
                volume["configMap"] = {"name": of_pod, "items": source.get("items", [])}
            elif "emptyDir" in volume:
                of_pod = f"{self.name}-{volume['name']}"
                for mount in container["volumeMounts"]:
                    mount["name"] = of_pod if mount["name"] == volume["name"] else mount["name"]
                volume["name"] = of_pod
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": self.name, "labels": self.labels}, "spec": spec}
        return "\n---\n".join(json.dumps(document) for document in [*documents, pod])

    def _live(self):
        try:
            # A hardware address of its own stays with the pod when its container is started again.
            mac = "02:00:" + ":".join(f"{int(part):02x}" for part in self.address.split("."))
            self.podman("kube", "play", "--network", self.network, "--ip", self.address, "--mac-address", mac, "-",
                        stdin=self.document)
            while not self.wanted.is_set():
                self._run_once()
                backoff_s = min(BACKOFF_S * 2 ** (self.restarts - 1), LONGEST_BACKOFF_S) if self.restarts else 0
                if not self.wanted.wait(backoff_s):
                    self.podman("pod", "stop", "--time", "0", self.name)  # podman ends a pod with its last container
                    self.podman("pod", "start", self.name)
                    self.restarts += 1
        except Exception as error:  # told by who waits for the pod
            self.error = error
        finally:
            self.ready = False
            self._remove()
            self.gone.set()

    def _run_once(self):
        """One life of the container, from its start to its end."""
        state = self.podman("inspect", "--format", "{{.State.Pid}} {{.Config.StopSignal}}", f"{self.name}-server")
        self.pid, self.stop_signal = map(int, state.split())
        ended, to_end = threading.Event(), threading.Event()
        self.tell("started")
        threading.Thread(target=self._await_end, args=(self.pid, ended), daemon=True).start()
        threading.Thread(target=self._probe, args=(ended, to_end), daemon=True).start()
        while not ended.wait(0.02):
            if self.wanted.is_set() or to_end.is_set():
                self._end(ended)
        self.ready = False
        to_end.set()
        self.exit_codes.append(int(self.podman("wait", f"{self.name}-server")))
        self.tell("ended")

    @staticmethod
    def _await_end(pid, ended):
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:  # it has ended already
            ended.set()
            return
        select.select([descriptor], [], [])
        os.close(descriptor)
        ended.set()

    def _probe(self, ended, to_end):
        """Startup first; when it has succeeded, liveness and readiness side by side."""
        def ready(success):
            if self.ready != success and not ended.is_set():
                self.ready = success
                self.tell("ready" if success else "unready")
            return True

        watch(self, self.container["startupProbe"], ended, lambda success: None if success else to_end.set())
        if not ended.is_set() and not to_end.is_set():
            liveness = (self, self.container["livenessProbe"], to_end, lambda success: success or to_end.set())
            threading.Thread(target=watch, args=liveness, daemon=True).start()
            watch(self, self.container["readinessProbe"], ended, ready)

    def _end(self, ended):
        """preStop, the image's stop signal, and SIGKILL when the grace is over, of which preStop uses its part."""
        begin = time.monotonic()
        hook = self.container.get("lifecycle", {}).get("preStop", {"sleep": {"seconds": 0}})
        if not ended.wait(min(hook["sleep"]["seconds"], self.grace_s)):
            self._signal(self.stop_signal, "stopping")
            left_s = self.grace_s - (time.monotonic() - begin)
            if not ended.wait(max(left_s, MINIMUM_GRACE_S) if self.grace_s else 0):
                self._signal(signal.SIGKILL, "killed")
                ended.wait()

    def _signal(self, number, what):
        self.tell(what)
        with contextlib.suppress(ProcessLookupError):
            self.signal(number)

    def _remove(self):
        self.podman("pod", "rm", "--force", "--ignore", "--time", "0", self.name)
        for volume in self.podman("volume", "ls", "--quiet").split():
            if volume.startswith(f"{self.name}-"):
                self.podman("volume", "rm", "--force", volume)
