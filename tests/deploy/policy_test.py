"""Rules that every overlay of deploy/kubernetes must keep. Needs PyYAML only."""

import functools
import pathlib
import re
import sys
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import deploy_tree as tree  # noqa: E402
import kustomize_subset  # noqa: E402


SECURE = ["multi-node-gpu", "production", "production-b"]  # by certificates
FRONTED = ["production", "production-b"]
OVERLAYS = sorted(["local-cpu", *SECURE, "one-gpu", "single-node-gpu"])
GPU_OVERLAYS = [name for name in OVERLAYS if name != "local-cpu"]


def roles(overlay):
    return [role for role in tree.ROLES if overlay.name != "one-gpu" or role != "prefill"]


def rolling(deployment):
    return deployment["spec"]["strategy"]["rollingUpdate"]


def of_namespace(name):
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


# Who answers names, and at which port a policy sees it: pods of the cluster, NodeLocal DNSCache on the node, pods of OpenShift.
DNS_SERVERS = [(of_namespace("kube-system"), 53), ({"ipBlock": {"cidr": "169.254.20.10/32"}}, 53),
               (of_namespace("openshift-dns"), 5353)]


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
            self.assertEqual(sorted(deployments), sorted(roles(overlay)))
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
            asked = {worker: flags[worker] for worker in ("prefill", "decode") if worker in flags}
            self.assertEqual(asked, {worker: [f"dns:///baton-{worker}:50051"] for worker in roles(overlay) if worker != "router"})
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

    def test_the_readme_loads_the_images_that_local_cpu_asks_for(self):
        readme = (tree.ROOT / "deploy/README.md").read_text()
        loops = re.findall(r"for image in ([a-z -]+); do\n(.*?)done", readme, re.DOTALL)
        self.assertEqual(len(loops), 2)  # by docker, by podman
        images = [tree.container(d)["image"] for d in tree.deployments(tree.KUBERNETES / "overlays" / "local-cpu").values()]
        for names, body in loops:
            tags = {tag for tag in re.findall(r"\$image:(\S+)", body)}
            self.assertEqual(sorted(f"{name}:{tag}" for name in names.split() for tag in tags), sorted(images))

    @for_each_deployment
    def test_resources_are_bounded_and_gpus_are_whole(self, overlay, role, deployment):
        resources = tree.container(deployment)["resources"]
        if (overlay.name, role) == ("local-cpu", "router"):  # what it takes above its request, for compilations, it takes seldom
            self.assertLessEqual(*(tree.mebibytes(resources[what]["memory"]) for what in ("requests", "limits")))
        else:
            self.assertEqual(resources["requests"]["memory"], resources["limits"]["memory"])
        self.assertIn("cpu", resources["requests"])
        self.assertNotIn("cpu", resources["limits"])
        gpus = resources["limits"].get("nvidia.com/gpu")
        self.assertEqual(resources["requests"].get("nvidia.com/gpu"), gpus)
        self.assertEqual(gpus, None if overlay.name == "local-cpu" or role == "router" else "1")

    def test_a_machine_with_two_cpus_has_room_for_local_cpu_also_while_all_pods_are_replaced(self):
        """Kubernetes's own pods ask for up to 0.95 of minikube's 2 CPUs, and for 270 MiB of its 4000 MB or more."""
        overlay = tree.KUBERNETES / "overlays" / "local-cpu"
        cpus = mebibytes = 0
        for deployment in tree.deployments(overlay).values():
            requests = tree.container(deployment)["resources"]["requests"]
            cpus += tree.millicpus(requests["cpu"]) * (tree.replicas(overlay, deployment) + rolling(deployment)["maxSurge"])
            mebibytes += tree.mebibytes(requests["memory"]) * tree.replicas(overlay, deployment)
        self.assertLessEqual(cpus, 1000)
        self.assertLessEqual(mebibytes, 2560)

    def test_on_the_cpu_a_new_pod_is_ready_before_the_old_one_goes_and_on_gpus_none_waits_for_a_free_one(self):
        for overlay in tree.OVERLAYS:
            for role, deployment in tree.deployments(overlay).items():
                with self.subTest(overlay=overlay.name, role=role):
                    on_gpu = role != "router" and overlay.name in GPU_OVERLAYS
                    self.assertEqual(rolling(deployment), {"maxSurge": 0, "maxUnavailable": 1} if on_gpu
                                     else {"maxSurge": 1, "maxUnavailable": 0})

    def test_one_gpu_has_one_worker_and_its_router_asks_for_no_other(self):
        overlay = tree.KUBERNETES / "overlays" / "one-gpu"
        deployments = tree.deployments(overlay)
        self.assertEqual({role: tree.replicas(overlay, item) for role, item in deployments.items()}, {"router": 1, "decode": 1})
        flags = tree.settings(overlay, deployments["router"])
        self.assertNotIn("prefill", flags)
        self.assertEqual(flags["disaggregate"], "never")
        gpus = [tree.container(item)["resources"]["limits"].get("nvidia.com/gpu", "0") for item in deployments.values()]
        self.assertEqual(sorted(gpus), ["0", "1"])
        self.assertIn("--device=cuda", tree.container(deployments["decode"])["args"])
        (nodes,) = {str(kustomize_subset.pod_spec(item)["nodeSelector"]) for item in deployments.values()}  # one volume
        left = [(item["kind"], item["metadata"]["name"]) for item in tree.build(overlay) if "prefill" in item["metadata"]["name"]]
        self.assertEqual([kind for kind, _ in left], ["ConfigMap"])

    def test_in_plain_text_the_router_answers_to_each_name_of_its_service_and_else_it_looks_at_keys_and_certificates(self):
        for overlay in tree.OVERLAYS:
            hosts = tree.settings(overlay, tree.deployments(overlay)["router"]).get("http-allow-host", [])
            (service,) = [s for s in tree.objects(overlay, "Service") if s["metadata"]["name"] == "baton-router"]
            names = [f"{service['metadata']['name']}.$(POD_NAMESPACE){domain}" for domain in ("", ".svc", ".svc.cluster.local")]
            self.assertEqual(hosts, [] if overlay.name in SECURE else names)

    def test_the_routers_write_an_access_log_beside_their_own_in_one_format(self):
        for overlay in tree.OVERLAYS:
            flags = tree.settings(overlay, tree.deployments(overlay)["router"])
            self.assertEqual((flags["access-log"], flags["log-format"]), ("stderr", "json"))

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
            for caller in deployments:
                for callee in deployments:
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

    def test_the_router_may_ask_the_dns_of_the_cluster_of_the_node_and_of_openshift(self):
        for overlay in tree.OVERLAYS:
            asked = {
                (str(peer), port["protocol"], port["port"])
                for rule in rules(overlay, tree.deployments(overlay)["router"], "egress")
                for peer in rule["to"] for port in rule["ports"] if port["port"] in (53, 5353)
            }
            self.assertEqual(asked, {(str(peer), protocol, port) for peer, port in DNS_SERVERS for protocol in ("UDP", "TCP")})

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
