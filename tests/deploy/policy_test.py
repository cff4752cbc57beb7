"""Rules that every overlay of deploy/kubernetes must keep. Needs PyYAML only."""

import functools
import pathlib
import sys
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import deploy_tree as tree  # noqa: E402
import kustomize_subset  # noqa: E402


SECURE = ["multi-node-gpu", "production", "production-b"]  # by certificates
FRONTED = ["production", "production-b"]
OVERLAYS = ["local-cpu", *SECURE, "single-node-gpu"]


def labels_match(selector, labels):
    return all(labels.get(key) == value for key, value in selector.items())


def ports(deployment):
    return {port["name"]: port["containerPort"] for port in tree.container(deployment)["ports"]}


def pod_labels(deployment):
    return deployment["spec"]["template"]["metadata"]["labels"]


def selected(peer, deployment):
    """Whether a NetworkPolicy's peer names the pods of a deployment in the same namespace."""
    selector = peer.get("podSelector")
    return selector is not None and "namespaceSelector" not in peer and labels_match(
        selector.get("matchLabels", {}), pod_labels(deployment)
    )


def probe_budget(probe):
    return probe["periodSeconds"] * probe["failureThreshold"]


def rules(overlay, deployment, direction):
    """The NetworkPolicy rules ("ingress" or "egress") that hold for the deployment's pods."""
    return [
        rule
        for policy in tree.objects(overlay, "NetworkPolicy")
        if labels_match(policy["spec"]["podSelector"].get("matchLabels", {}), pod_labels(deployment))
        for rule in policy["spec"].get(direction, [])
    ]


def allows(rule_list, side, deployment, port):
    return any(
        any(selected(peer, deployment) for peer in rule[side]) and any(p["port"] == port for p in rule["ports"])
        for rule in rule_list
    )


def for_each_deployment(test):
    """Runs `test(self, overlay, role, deployment)` for every Deployment of every overlay."""

    @functools.wraps(test)
    def run(self):
        self.assertEqual([overlay.name for overlay in tree.OVERLAYS], OVERLAYS)
        for overlay in tree.OVERLAYS:
            deployments = tree.deployments(overlay)
            self.assertEqual(sorted(deployments), sorted(tree.ROLES))
            for role, deployment in deployments.items():
                with self.subTest(overlay=overlay.name, role=role):
                    test(self, overlay, role, deployment)

    return run


class Overlays(unittest.TestCase):
    @for_each_deployment
    def test_selectors_find_their_own_pods_and_no_others(self, overlay, role, deployment):
        selectors = [deployment["spec"]["selector"]["matchLabels"]]
        for kind in ("Service", "PodDisruptionBudget"):
            (item,) = [i for i in tree.objects(overlay, kind) if i["metadata"]["name"] == f"baton-{role}"]
            selector = item["spec"]["selector"]
            selectors.append(selector.get("matchLabels", selector))
        for constraint in kustomize_subset.pod_spec(deployment)["topologySpreadConstraints"]:
            selectors.append(constraint["labelSelector"]["matchLabels"])
        for other_role, other in tree.deployments(overlay).items():
            for selector in selectors:
                self.assertTrue(selector)
                self.assertEqual(labels_match(selector, pod_labels(other)), other_role == role)

    @for_each_deployment
    def test_every_named_thing_exists(self, overlay, role, deployment):
        spec = kustomize_subset.pod_spec(deployment)
        names = {
            kind: {item["metadata"]["name"] for item in tree.objects(overlay, kind)}
            for kind in ("ServiceAccount", "PriorityClass", "ConfigMap", "PersistentVolumeClaim")
        }
        self.assertIn(spec["serviceAccountName"], names["ServiceAccount"])
        self.assertIn(spec["priorityClassName"], names["PriorityClass"])
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        mounts = tree.container(deployment)["volumeMounts"]
        self.assertEqual(sorted(volumes), sorted(mount["name"] for mount in mounts))
        for volume in volumes.values():
            if "configMap" in volume:
                self.assertIn(volume["configMap"]["name"], names["ConfigMap"])
                self.assertRegex(volume["configMap"]["name"], "-[0-9a-f]{10}$")  # new content, new pods
            if "persistentVolumeClaim" in volume:
                self.assertIn(volume["persistentVolumeClaim"]["claimName"], names["PersistentVolumeClaim"])
        flags = tree.settings(overlay, deployment)
        self.assertIn(flags["config"], tree.config_files(overlay, deployment))
        for flag in ("model", "tls-cert", "tls-key", "tls-ca", "fleet-secret-file", "api-keys"):
            if flag in flags:
                self.assertIn(str(pathlib.PurePosixPath(flags[flag]).parent), [m["mountPath"] for m in mounts])

    @for_each_deployment
    def test_ports_of_services_probes_and_flags_are_declared(self, overlay, role, deployment):
        declared = ports(deployment)
        (service,) = [s for s in tree.objects(overlay, "Service") if s["metadata"]["name"] == f"baton-{role}"]
        for port in service["spec"]["ports"]:
            self.assertIn(port["targetPort"], declared)
            self.assertEqual(port["port"], declared[port["targetPort"]])
        flags = tree.settings(overlay, deployment)
        listening = {"grpc": "listen", "health": "health-listen", "metrics": "metrics-listen"}
        if role == "router":
            listening["http"] = "http-listen"
        self.assertEqual(set(declared), set(listening))
        for name, flag in listening.items():
            self.assertEqual(flags[flag], f"0.0.0.0:{declared[name]}")
        self.assertEqual(flags["advertise"], f"$(POD_IP):{declared['grpc']}")
        for name in ("startup", "liveness", "readiness"):
            probe = tree.container(deployment)[f"{name}Probe"]
            self.assertEqual(probe["grpc"], {"port": declared["health"], "service": name})
        self.assertGreaterEqual(
            probe_budget(tree.container(deployment)["startupProbe"]), 180 if role == "router" else 1800
        )

    @for_each_deployment
    def test_workers_are_found_by_headless_services(self, overlay, role, deployment):
        (service,) = [s for s in tree.objects(overlay, "Service") if s["metadata"]["name"] == f"baton-{role}"]
        if role == "router":
            self.assertNotEqual(service["spec"].get("clusterIP"), "None")
            flags = tree.settings(overlay, deployment)
            self.assertEqual(flags["prefill"], ["dns:///baton-prefill:50051"])
            self.assertEqual(flags["decode"], ["dns:///baton-decode:50051"])
        else:
            self.assertEqual(service["spec"]["clusterIP"], "None")
            self.assertIs(service["spec"]["publishNotReadyAddresses"], False)

    @for_each_deployment
    def test_pods_have_time_to_drain(self, overlay, role, deployment):
        spec = kustomize_subset.pod_spec(deployment)
        pre_stop = tree.container(deployment)["lifecycle"]["preStop"]["sleep"]["seconds"]
        drain = tree.seconds(tree.settings(overlay, deployment)["shutdown-timeout"])
        self.assertGreaterEqual(spec["terminationGracePeriodSeconds"], pre_stop + drain)
        # Readiness must be gone before the server is told to stop.
        self.assertGreater(pre_stop, 2)

    @for_each_deployment
    def test_pods_are_restricted(self, overlay, role, deployment):
        spec = kustomize_subset.pod_spec(deployment)
        container = tree.container(deployment)
        self.assertIs(spec["securityContext"]["runAsNonRoot"], True)
        self.assertEqual(spec["securityContext"]["runAsUser"], 65532)
        self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
        self.assertIs(container["securityContext"]["allowPrivilegeEscalation"], False)
        self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
        self.assertIs(container["securityContext"]["readOnlyRootFilesystem"], True)
        self.assertIs(spec["automountServiceAccountToken"], False)
        self.assertIs(spec["enableServiceLinks"], False)
        for key in ("hostNetwork", "hostPID", "hostIPC", "initContainers"):
            self.assertNotIn(key, spec)
        for volume in spec["volumes"]:
            self.assertLessEqual(
                set(volume) - {"name"}, {"configMap", "emptyDir", "persistentVolumeClaim", "secret"}
            )
            if "emptyDir" in volume:  # it counts against the node's disk, or its memory
                self.assertRegex(volume["emptyDir"].get("sizeLimit", "none"), r"^\d+Mi$")
        for mount in container["volumeMounts"]:
            self.assertTrue(mount.get("readOnly") or mount["mountPath"] == "/tmp", mount)
        (account,) = [
            item
            for item in tree.objects(overlay, "ServiceAccount")
            if item["metadata"]["name"] == spec["serviceAccountName"]
        ]
        self.assertIs(account["automountServiceAccountToken"], False)

    def test_the_namespace_admits_restricted_pods_only(self):
        for overlay in tree.OVERLAYS:
            (namespace,) = tree.objects(overlay, "Namespace")
            self.assertEqual(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted")

    @for_each_deployment
    def test_images_are_pinned_and_run_their_own_binary(self, overlay, role, deployment):
        container = tree.container(deployment)
        self.assertRegex(container["image"], rf"(^|/){tree.BINARIES[role]}:\d+\.\d+\.\d+(-cuda)?$")
        self.assertEqual(container["command"], [tree.BINARIES[role]])

    @for_each_deployment
    def test_resources_are_bounded_and_gpus_are_whole(self, overlay, role, deployment):
        resources = tree.container(deployment)["resources"]
        self.assertEqual(resources["requests"]["memory"], resources["limits"]["memory"])
        self.assertIn("cpu", resources["requests"])
        self.assertNotIn("cpu", resources["limits"])
        gpus = resources["limits"].get("nvidia.com/gpu")
        self.assertEqual(resources["requests"].get("nvidia.com/gpu"), gpus)
        self.assertEqual(gpus, None if overlay.name == "local-cpu" or role == "router" else "1")

    def test_gpu_workers_of_two_roles_never_share_a_node(self):
        deployments = tree.deployments(tree.KUBERNETES / "overlays" / "multi-node-gpu")
        selectors = {}
        for role in ("prefill", "decode"):
            spec = kustomize_subset.pod_spec(deployments[role])
            selectors[role] = spec["nodeSelector"]
            self.assertIn({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, spec["tolerations"])
            self.assertEqual(tree.container(deployments[role])["args"].count("--device=cuda"), 1)
            self.assertTrue(tree.container(deployments[role])["image"].endswith("-cuda"))
        common = set(selectors["prefill"]) & set(selectors["decode"])
        self.assertTrue(any(selectors["prefill"][key] != selectors["decode"][key] for key in common))
        for role in ("prefill", "decode"):  # no GPU waits for a surge
            self.assertEqual(deployments[role]["spec"]["strategy"]["rollingUpdate"]["maxSurge"], 0)

    @for_each_deployment
    def test_parts_trust_each_other_by_certificates_or_by_an_explicit_word(self, overlay, role, deployment):
        flags = tree.settings(overlay, deployment)
        secure = {"tls-cert", "tls-key", "tls-ca"} <= set(flags)
        self.assertNotEqual(secure, "insecure" in flags)
        self.assertEqual(secure, overlay.name in SECURE)

    @for_each_deployment
    def test_a_pod_mounts_the_secrets_of_its_own_role_and_no_others(self, overlay, role, deployment):
        secure = "tls-cert" in tree.settings(overlay, deployment)
        mounted = [v["secret"]["secretName"] for v in kustomize_subset.pod_spec(deployment)["volumes"] if "secret" in v]
        routers_own = ["baton-fleet-secret", *(["baton-api-keys"] if overlay.name in FRONTED else [])] if role == "router" else []
        self.assertEqual(sorted(mounted), sorted([f"baton-{role}-tls", *routers_own]) if secure else [])
        self.assertEqual("fleet-secret-file" in tree.settings(overlay, deployment), secure and role == "router")

    def test_every_role_has_a_certificate_of_its_own(self):
        for overlay in tree.OVERLAYS:
            certificates = {item["metadata"]["name"]: item["spec"] for item in tree.objects(overlay, "Certificate")}
            deployments = tree.deployments(overlay)
            secure = "tls-cert" in tree.settings(overlay, deployments["router"])
            fronted = overlay.name in FRONTED
            expected = ["baton-ca", "baton-client", *(f"baton-{role}" for role in tree.ROLES),
                        *(["baton-client-ca", "baton-front", "baton-operator"] if fronted else [])]
            self.assertEqual(sorted(certificates), sorted(expected) if secure else [])
            authority = certificates.pop("baton-ca", None)
            certificates.pop("baton-client-ca", None)
            for name, spec in certificates.items():
                with self.subTest(overlay=overlay.name, certificate=name):
                    role = name.removeprefix("baton-")
                    self.assertEqual(spec["secretName"], f"baton-{role}-tls")
                    self.assertEqual(spec["uris"], [f"{authority['uris'][0]}/baton/{role}/{role}"])
                    self.assertEqual(spec["duration"], "24h")
                    self.assertEqual(spec["privateKey"]["rotationPolicy"], "Always")
                    issuer = "baton-clients" if fronted and role == "client" else "baton"
                    self.assertEqual(spec["issuerRef"], {"kind": "Issuer", "name": issuer})
                    self.assertNotIn("isCA", spec)
                    self.assertEqual("server auth" in spec["usages"], role in (*tree.ROLES, "front"))
                    if role in tree.ROLES:
                        name = tree.settings(overlay, deployments[role])["tls-server-name"]
                        self.assertEqual(spec["dnsNames"], [name])

    def test_nobody_gets_plain_text_without_asking(self):
        base = tree.deployments(tree.KUBERNETES / "base")
        for deployment in base.values():
            self.assertNotIn("insecure", tree.settings(tree.KUBERNETES / "base", deployment))

    def test_network_policies_deny_by_default(self):
        for overlay in tree.OVERLAYS:
            default = [p for p in tree.objects(overlay, "NetworkPolicy") if p["spec"]["podSelector"] == {}]
            self.assertEqual(len(default), 1)
            self.assertEqual(default[0]["spec"], {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
            for policy in tree.objects(overlay, "NetworkPolicy"):
                for direction, side in (("ingress", "from"), ("egress", "to")):
                    for rule in policy["spec"].get(direction, []):
                        self.assertTrue(rule[side] and rule["ports"], "an empty list would allow everything")
                        self.assertIn(direction.capitalize(), policy["spec"]["policyTypes"])

    @for_each_deployment
    def test_network_policies_cover_every_port_but_that_of_the_probes(self, overlay, role, deployment):
        open_ports = {port["port"] for rule in rules(overlay, deployment, "ingress") for port in rule["ports"]}
        self.assertEqual(open_ports, set(ports(deployment)) - {"health"})

    def test_network_policies_allow_exactly_the_calls_that_baton_makes(self):
        calls = {("router", "prefill"), ("router", "decode"), ("prefill", "decode")}
        for overlay in tree.OVERLAYS:
            deployments = tree.deployments(overlay)
            for caller in tree.ROLES:
                for callee in tree.ROLES:
                    egress = allows(rules(overlay, deployments[caller], "egress"), "to", deployments[callee], "grpc")
                    ingress = allows(rules(overlay, deployments[callee], "ingress"), "from", deployments[caller], "grpc")
                    self.assertEqual((egress, ingress), ((caller, callee) in calls,) * 2, (caller, callee))

    def test_clients_reach_both_doors_of_the_router_or_of_the_front_and_no_other_pod(self):
        for overlay in tree.OVERLAYS:
            label = "baton-operator" if overlay.name in FRONTED else "baton-client"
            client = {"podSelector": {"matchLabels": {label: "true"}}}
            for role, deployment in tree.deployments(overlay).items():
                opened = [
                    {port["port"] for port in rule["ports"]}
                    for rule in rules(overlay, deployment, "ingress")
                    if client in rule["from"]
                ]
                self.assertEqual(opened, [{"grpc", "http"}] if role == "router" else [])
            (service,) = [s for s in tree.objects(overlay, "Service") if s["metadata"]["name"] == "baton-router"]
            self.assertEqual([port["name"] for port in service["spec"]["ports"]], ["grpc", "http"])

    def test_the_router_may_ask_dns(self):
        for overlay in tree.OVERLAYS:
            dns = [
                port
                for rule in rules(overlay, tree.deployments(overlay)["router"], "egress")
                for port in rule["ports"]
                if port["port"] == 53
            ]
            self.assertEqual({port["protocol"] for port in dns}, {"UDP", "TCP"})

    @for_each_deployment
    def test_disruption_budgets_let_nodes_drain(self, overlay, role, deployment):
        (budget,) = [
            b for b in tree.objects(overlay, "PodDisruptionBudget") if b["metadata"]["name"] == f"baton-{role}"
        ]
        replicas = tree.replicas(overlay, deployment)
        may_go = budget["spec"].get("maxUnavailable", replicas - budget["spec"].get("minAvailable", 0))
        self.assertGreaterEqual(may_go, 1)
        self.assertLessEqual(may_go, replicas)

    def test_everything_lives_in_one_namespace(self):
        for overlay in tree.OVERLAYS:
            for item in tree.build(overlay):
                if item["kind"] not in kustomize_subset.CLUSTER_SCOPED:
                    self.assertEqual(item["metadata"]["namespace"], "baton")

    def test_the_model_loader_is_as_restricted_as_the_rest(self):
        pod = yaml.safe_load((tree.KUBERNETES / "model-loader.yaml").read_text())
        self.assertIs(pod["spec"]["securityContext"]["runAsNonRoot"], True)
        self.assertEqual(pod["spec"]["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
        (container,) = pod["spec"]["containers"]
        self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
        self.assertIs(container["securityContext"]["allowPrivilegeEscalation"], False)
        self.assertNotIn("app.kubernetes.io/name", pod["metadata"].get("labels", {}))  # no policy opens it


if __name__ == "__main__":
    unittest.main()
