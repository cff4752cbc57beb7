"""The images are built and the manifests of the overlay local-cpu run, without and with the front, on a network of pods.

    containers_test.py FOLDER_OF_BINARIES       (BATON_STUBS and BATON_TEST_MODEL as for tests/integration)

With BATON_CONTAINERS=all also scaling, rolling updates and kills under load, and what each number of a manifest does. Exits with 77
and the reason where podman cannot run. Policies of the network are not enforced here.
"""
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import threading
import time
import unittest

# First, since it enters the namespaces and says where the other modules are.
from played_fleet import (BILLS, CAPITAL, CLUSTER, LONG_FORM, PATIENCE_S, TOKENS, OnPods, deployment, overlay, pod_spec, podman,
                          right_tokens, rolled_out, told, tokens_over_http, tree)

import grpc

import front_in_fleet
import image_of_serve
from chaos import Load, load_requests
from cluster import complete, request
from stubs import rpc

PROGRAMS = {"baton-router": ["baton-router", "baton-grammar-compiler"], "baton-prefill-worker": ["baton-prefill-worker"],
            "baton-decode-worker": ["baton-decode-worker"]}  # programs of each image


class Routers:
    """Calls a router that its Service lists, over a connection of its own."""

    def Generate(self, made, timeout):
        pod = random.choice(CLUSTER.listed("baton-router"))
        with grpc.insecure_channel(f"{pod.address}:50051") as channel:
            yield from rpc.GenerationServiceStub(channel).Generate(made, timeout=timeout)

    stubs = property(lambda self: [self])  # what chaos.Load asks of a cluster


# Are run from here.
Front = front_in_fleet.Front
ImageOfServe = unittest.skipUnless(LONG_FORM, "scripts/test.sh --containers")(image_of_serve.ImageOfServe)


class Images(unittest.TestCase):
    def setUp(self):
        tag = pod_spec(overlay(), "router")["containers"][0]["image"].partition(":")[2]
        self.images = {name: f"{name}:{tag}" for name in PROGRAMS}

    def root(self, name):
        """The files of the image, mounted."""
        folder = pathlib.Path(podman("image", "mount", self.images[name]))
        self.addCleanup(podman, "image", "unmount", self.images[name])
        return folder

    def test_nothing_in_them_runs_commands_or_installs(self):
        for name in PROGRAMS:
            root = self.root(name)
            programs = {path.name for path in root.rglob("*")
                        if path.is_file() and os.access(path, os.X_OK) and ".so" not in path.name}
            self.assertEqual(programs, set(PROGRAMS[name]))
            self.assertIn("65532:65532", (root / "etc/passwd").read_text())

    def test_they_say_what_they_are_and_run_as_the_user_of_the_manifests(self):
        for name in PROGRAMS:
            (image,) = json.loads(podman("image", "inspect", self.images[name]))
            self.assertEqual(image["Config"]["User"], "65532:65532")
            self.assertEqual(image["Config"]["Labels"]["org.opencontainers.image.licenses"], "Apache-2.0")
            self.assertLess(image["Size"], 60e6)

    def test_every_library_is_of_a_package_of_the_bill(self):
        for name in PROGRAMS:
            bill = json.loads((BILLS / f"{self.images[name].replace(':', '-')}.spdx.json").read_text())
            self.assertEqual(bill["spdxVersion"], "SPDX-2.3")
            packages = {package["name"]: package for package in bill["packages"]}
            self.assertLessEqual({"libc6", "libgrpc++1.51", "libssl3", "ca-certificates", "xgrammar"}, set(packages))
            contained = [item["relatedSpdxElement"] for item in bill["relationships"] if item["relationshipType"] == "CONTAINS"]
            ids = {package["SPDXID"]: package for package in bill["packages"]}
            for element in contained:
                self.assertIn("pkg:deb/debian/", ids[element]["externalRefs"][0]["referenceLocator"])
            for library in (self.root(name) / "usr/lib/x86_64-linux-gnu").iterdir():
                owner = subprocess.run(["dpkg-query", "--search", f"*/{library.name}"], stdout=subprocess.PIPE, text=True,
                                       check=True)
                self.assertTrue(any(line.partition(":")[0] in packages for line in owner.stdout.splitlines()), library)


class Fleet(OnPods):
    """One pod of each."""

    @classmethod
    def setUpClass(cls):
        rolled_out(overlay(), "one pod of each is ready")

    def test_a_prompt_is_handed_off_and_has_the_source_trees_tokens_by_grpc_and_by_http(self):
        made = request(chat=[("user", CAPITAL)], max_tokens=TOKENS, temperature=0)
        # Where a prompt is computed follows the speeds that the router has measured, on a machine that does other things too.
        for salt in range(20):
            made.cache_salt = str(salt)  # no prefix is cached
            answer = complete(Routers(), made)
            if not answer.timings.local_prefill:
                break
        self.assertFalse(answer.timings.local_prefill)
        self.assertRegex(answer.timings.prefill_worker, "^prefill-")
        self.assertRegex(answer.timings.decode_worker, "^decode-")
        self.assertEqual(answer.token_ids, right_tokens())
        # As a forwarded port is called, and as another pod calls the Service in its namespace.
        for name in ("localhost", "baton-router.baton"):
            connected = socket.create_connection((CLUSTER.listed("baton-router")[0].address, 8080), PATIENCE_S)
            self.assertEqual(tokens_over_http(connected, name), right_tokens())
        told(f"{CAPITAL} {answer.text!r}")

    def test_a_killed_decode_pod_loses_nothing(self):
        made = request(prompt=CAPITAL, max_tokens=150, ignore_eos=True, temperature=0, stream=True)
        right = [id for response in Routers().Generate(made, PATIENCE_S) for id in response.chunk.token_ids]
        (decode,) = CLUSTER.pods("baton-decode")
        seen, restarts = [], decode.restarts
        for response in Routers().Generate(made, PATIENCE_S):
            seen += response.chunk.token_ids
            if len(seen) >= 20 and decode.restarts == restarts and decode.ready:
                killed_at = time.monotonic()
                decode.signal(signal.SIGKILL)
                CLUSTER.wait(lambda: not decode.listed, "the killed pod is not listed", PATIENCE_S)
        self.assertEqual(seen, right)
        # It may answer before the command that starts it has ended, which is when its restart counts.
        CLUSTER.wait(lambda: decode.restarts == restarts + 1 and decode.listed, "it is ready again", PATIENCE_S)
        told(f"a killed decode pod was ready again after {decode.history[-1][0] - killed_at:.1f} s; no token was lost")


@unittest.skipUnless(LONG_FORM, "scripts/test.sh --containers")
class UnderLoad(OnPods):
    """Streams of a trace, whose tokens must be those of an undisturbed fleet."""

    @classmethod
    def setUpClass(cls):
        rolled_out(overlay(), "one pod of each is ready")
        cls.requests = load_requests(24, seed=1)
        begin = time.monotonic()
        cls.right = Load(Routers(), cls.requests, told).run_all()
        cls.rate = len(cls.requests) / (time.monotonic() - begin)
        told(f"undisturbed: {len(cls.requests)} requests, {cls.rate:.1f} a second")

    def tearDown(self):
        rolled_out(overlay(), "one pod of each again")

    def load_while(self, work, share=0.5):
        """Serves the trace again and again, with that share of the load that one pod of each took, until work() has ended; returns
        the outcomes."""
        errors = []

        def worked():
            try:
                work()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=worked, daemon=True)
        thread.start()
        outcomes = Load(Routers(), self.requests, told).run_at(share * self.rate, 1, lambda: not thread.is_alive())
        if errors:
            raise errors[0]
        return outcomes

    def assert_nothing_lost(self, outcomes):
        for number, seen in enumerate(outcomes):
            self.assertIsNone(seen.failure, f"request {number}")
            self.assertEqual(seen.ids, self.right[number % len(self.right)].ids, f"request {number}")
        gaps = max(seen.longest_gap_s for seen in outcomes)
        again = sum(seen.timings.attempts > 1 for seen in outcomes)
        told(f"{len(outcomes)} requests, none lost, {again} with more than one attempt, longest gap {gaps:.1f} s")

    def test_decode_goes_from_one_to_three_and_each_is_used_within_5_s(self):
        objects = overlay()
        deployment(objects, "decode")["spec"]["replicas"] = 3
        listed, used = {}, {}

        def more():
            begin = time.monotonic()
            CLUSTER.apply(objects)
            while len(used) < 3:
                now = time.monotonic()
                for pod in CLUSTER.listed("baton-decode"):
                    listed.setdefault(pod.name, now)
                    if pod.name not in used and metric(pod, "baton_generation_tokens_total"):
                        used[pod.name] = now
                self.assertLess(now - begin, PATIENCE_S, f"{listed} {used}")
                time.sleep(0.05)
            told(f"from 1 to 3: used {max(used.values()) - begin:.1f} s after the change, "
                 f"{max(used[name] - at for name, at in listed.items()):.1f} s after they were ready")

        self.assert_nothing_lost(self.load_while(more, share=1))
        for name, at in listed.items():
            self.assertLess(used[name] - at, 5, name)

    def test_a_rolling_update_of_all_three_loses_nothing(self):
        objects = overlay()
        before = {pod.name for role in tree.ROLES for pod in CLUSTER.pods(f"baton-{role}")}
        for role in tree.ROLES:
            deployment(objects, role)["spec"]["template"]["metadata"]["annotations"] = {"rolled": "out"}
        old = [pod for role in tree.ROLES for pod in CLUSTER.pods(f"baton-{role}")]

        def roll():
            rolled_out(objects, "rolling update")
            CLUSTER.wait(lambda: all(pod.gone.is_set() for pod in old), "the old pods have drained", PATIENCE_S)

        self.assert_nothing_lost(self.load_while(roll))
        self.assertFalse(before & {pod.name for role in tree.ROLES for pod in CLUSTER.pods(f"baton-{role}")})
        for pod in old:
            self.assertEqual(pod.exit_codes[-1], 0, pod.name)

    def test_killed_workers_lose_nothing(self):
        objects = overlay()
        deployment(objects, "decode")["spec"]["replicas"] = 2
        rolled_out(objects, "two decode workers")

        def kill():
            for role in ("decode", "prefill", "decode"):
                pod = random.choice(CLUSTER.pods(f"baton-{role}"))
                restarts = pod.restarts
                CLUSTER.wait(lambda: role == "prefill" or metric(pod, "baton_requests_running"), "it has work", PATIENCE_S)
                pod.signal(signal.SIGKILL)
                CLUSTER.wait(lambda: pod.restarts > restarts and pod.ready, "it is back", PATIENCE_S)

        self.assert_nothing_lost(self.load_while(kill))


def metric(pod, name):
    """The sum of its samples of that name; 0 while it does not answer."""
    connection = http.client.HTTPConnection(pod.address, 9090, timeout=5)
    try:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    except OSError:
        return 0
    finally:
        connection.close()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{"))


@unittest.skipUnless(LONG_FORM, "scripts/test.sh --containers")
class Numbers(OnPods):
    """A number that is changed in the manifest changes what happens: the driver has none of its own."""

    def play(self, prestop_s=1, grace_s=4, **probes):
        """The decode pod of a manifest with these numbers; `probes` are changed fields of one."""
        objects = overlay()
        spec = pod_spec(objects, "decode")
        spec["terminationGracePeriodSeconds"] = grace_s
        spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"] = prestop_s
        for name, fields in probes.items():
            spec["containers"][0][name] |= fields
        rolled_out(objects, f"preStop {prestop_s} s, grace {grace_s} s, {probes}")
        (pod,) = CLUSTER.pods("baton-decode")
        return pod

    def assert_about(self, expected_s, seen_s):
        self.assertGreater(seen_s, expected_s - 0.1)
        self.assertLess(seen_s, expected_s + 2)

    def test_prestop_and_grace(self):
        for prestop_s, grace_s in ((1, 4), (3, 8)):
            pod = self.play(prestop_s, grace_s)
            pod.signal(signal.SIGSTOP)  # so that it takes no notice of SIGTERM
            pod.delete()
            self.assertFalse(pod.listed)
            CLUSTER.wait(pod.gone.is_set, "it is gone", PATIENCE_S)
            self.assert_about(prestop_s, pod.when("stopping") - pod.when("deleted"))
            self.assert_about(grace_s, pod.when("killed") - pod.when("deleted"))
            self.assertEqual(pod.exit_codes, [128 + signal.SIGKILL])

    def test_readiness(self):
        for threshold in (2, 6):
            pod = self.play(readinessProbe={"periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": threshold})
            begin = time.monotonic()
            pod.signal(signal.SIGSTOP)
            CLUSTER.wait(lambda: not pod.listed, "it is not ready", PATIENCE_S)
            self.assert_about(threshold, time.monotonic() - begin)
            pod.signal(signal.SIGCONT)
            CLUSTER.wait(lambda: pod.listed, "it is ready again", PATIENCE_S)
            self.assertEqual(pod.restarts, 0)

    def test_liveness(self):
        for threshold in (2, 6):
            pod = self.play(livenessProbe={"periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": threshold})
            begin = time.monotonic()
            pod.signal(signal.SIGSTOP)
            CLUSTER.wait(lambda: pod.restarts == 1 and pod.ready, "it was restarted", PATIENCE_S)
            self.assert_about(threshold + 1, pod.when("stopping") - begin)  # 1 s is preStop's

    def test_startup(self):
        never = {"grpc": {"port": 50052, "service": "no-such"}, "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 2}
        objects = overlay()
        pod_spec(objects, "decode")["containers"][0]["startupProbe"] = never
        CLUSTER.apply(objects)
        (old,) = CLUSTER.pods("baton-decode")
        CLUSTER.wait(lambda: len(CLUSTER.pods("baton-decode")) == 2, "a second pod", PATIENCE_S)
        (new,) = [pod for pod in CLUSTER.pods("baton-decode") if pod is not old]
        CLUSTER.wait(lambda: new.restarts == 1, "the new one was restarted", PATIENCE_S)
        self.assertTrue(old.listed, "maxUnavailable 0")
        rolled_out(overlay(), "one pod of each again")


if __name__ == "__main__":
    unittest.main(verbosity=2)
