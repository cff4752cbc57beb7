"""Rules that everything which Kustomize renders must keep: each overlay, and each component on the base.

policy_test.py has the rules of Baton's own three servers. Exits 77, CTest's "skipped", with the reason where the pinned tools do
not run or cannot be fetched.
"""

import json
import pathlib
import re
import sys
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import alerts_test  # noqa: E402
import dashboards  # noqa: E402
import deploy_tree as tree  # noqa: E402
import kubernetes_tools  # noqa: E402
from policy_test import DNS_SERVERS, labels_match, of_namespace  # noqa: E402

COMPONENTS = tree.KUBERNETES / "components"
RULES = tree.ROOT / "deploy/monitoring/rules.yml"
FRONTED = ("base-front", "production", "production-b")


def by_kind(items, kind):
    return [item for item in items if item["kind"] == kind]


def named(items, kind, name):
    (found,) = [item for item in by_kind(items, kind) if item["metadata"]["name"] == name]
    return found


def pod(deployment):
    return deployment["spec"]["template"]["spec"]


def labels(deployment):
    return deployment["spec"]["template"]["metadata"]["labels"]


def server(deployment):
    (only,) = pod(deployment)["containers"]
    return only


def ports(deployment):
    return {port["name"]: port["containerPort"] for port in server(deployment)["ports"]}


def selected(items, selector):
    return [item for item in by_kind(items, "Deployment") if labels_match(selector, labels(item))]


def scalers(items):
    return by_kind(items, "ScaledObject") + by_kind(items, "HorizontalPodAutoscaler")


def for_everything(test):
    """Runs `test(self, name, items)` for all that is rendered."""

    def run(self):
        for name, items in kubernetes_tools.everything().items():
            with self.subTest(rendered=name):
                test(self, name, items)

    return run


class Everything(unittest.TestCase):
    @for_everything
    def test_everything_lives_in_one_namespace(self, name, items):
        for item in items:
            if item["kind"] not in ("Namespace", "PriorityClass"):
                self.assertEqual(item["metadata"].get("namespace"), "baton", (item["kind"], item["metadata"]["name"]))

    @for_everything
    def test_selectors_lie_within_the_labels_of_pods_that_are_there(self, name, items):
        for deployment in by_kind(items, "Deployment"):
            self.assertTrue(labels_match(deployment["spec"]["selector"]["matchLabels"], labels(deployment)))
        for kind in ("Service", "PodDisruptionBudget"):
            for item in by_kind(items, kind):
                selector = item["spec"]["selector"]
                self.assertEqual(len(selected(items, selector.get("matchLabels", selector))), 1, item["metadata"]["name"])

    @for_everything
    def test_ports_that_are_named_are_declared(self, name, items):
        for service in by_kind(items, "Service"):
            for port in service["spec"]["ports"]:
                (deployment,) = selected(items, service["spec"]["selector"])
                self.assertIn(port["targetPort"], ports(deployment), service["metadata"]["name"])
        for policy in by_kind(items, "NetworkPolicy"):
            found = selected(items, policy["spec"]["podSelector"].get("matchLabels", {}))
            for rule in policy["spec"].get("ingress", []):
                for port in rule["ports"]:
                    for deployment in found:
                        self.assertIn(port["port"], ports(deployment), policy["metadata"]["name"])
        for deployment in by_kind(items, "Deployment"):
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                (asked,) = [server(deployment)[probe][how] for how in ("grpc", "httpGet") if how in server(deployment)[probe]]
                self.assertIn(asked["port"], {"grpc": ports(deployment).values(), "httpGet": ports(deployment)}[
                    "httpGet" if "path" in asked else "grpc"])

    @for_everything
    def test_network_policies_cover_every_port_but_that_of_the_probes(self, name, items):
        for deployment in by_kind(items, "Deployment"):
            opened = {
                port["port"]
                for policy in by_kind(items, "NetworkPolicy")
                if labels_match(policy["spec"]["podSelector"].get("matchLabels", {}), labels(deployment))
                for rule in policy["spec"].get("ingress", [])
                for port in rule["ports"]
            }
            self.assertEqual(opened, set(ports(deployment)) - {"health"}, deployment["metadata"]["name"])

    @for_everything
    def test_containers_are_restricted_and_their_resources_are_bounded(self, name, items):
        for deployment in by_kind(items, "Deployment"):
            self.assertIs(pod(deployment)["securityContext"]["runAsNonRoot"], True)
            for container in pod(deployment)["containers"] + pod(deployment).get("initContainers", []):
                self.assertIs(container["securityContext"]["allowPrivilegeEscalation"], False)
                self.assertIs(container["securityContext"]["readOnlyRootFilesystem"], True)
                self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
                resources = container["resources"]
                least, most = (tree.mebibytes(resources[what]["memory"]) for what in ("requests", "limits"))
                small = (name, deployment["metadata"]["name"]) in (("local-cpu", "baton-router"), ("base-cpu", "baton-router"))
                self.assertTrue(least <= most if small else least == most, deployment["metadata"]["name"])
                for resource in set(resources["requests"]) | set(resources["limits"]):
                    if "/" in resource:  # a device: it cannot be promised twice
                        self.assertEqual(resources["requests"].get(resource), resources["limits"].get(resource))

    @for_everything
    def test_budgets_let_a_node_drain(self, name, items):
        for budget in by_kind(items, "PodDisruptionBudget"):
            (deployment,) = selected(items, budget["spec"]["selector"]["matchLabels"])
            of_target = [s for s in scalers(items) if s["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]]
            replicas = deployment["spec"].get("replicas") or min(
                s["spec"].get("minReplicaCount", s["spec"].get("minReplicas")) for s in of_target)
            may_go = budget["spec"].get("maxUnavailable", replicas - budget["spec"].get("minAvailable", 0))
            self.assertTrue(1 <= may_go <= replicas, budget["metadata"]["name"])

    @for_everything
    def test_no_pod_can_read_the_key_of_an_authority(self, name, items):
        for deployment in by_kind(items, "Deployment"):
            for volume in pod(deployment)["volumes"]:
                secret = volume.get("secret", {})
                if secret.get("secretName", "").endswith("-ca"):
                    self.assertEqual(secret["secretName"], "baton-client-ca")
                    self.assertEqual([item["key"] for item in secret["items"]], ["tls.crt"])

    @for_everything
    def test_who_asks_dns_may_ask_each_kind_of_it(self, name, items):
        for policy in by_kind(items, "NetworkPolicy"):
            asked = [(peer, port["protocol"], port["port"]) for rule in policy["spec"].get("egress", ())
                     for peer in rule["to"] for port in rule["ports"] if port["port"] in (53, 5353)]
            if asked:
                every = [(peer, protocol, port) for peer, port in DNS_SERVERS for protocol in ("UDP", "TCP")]
                self.assertEqual(sorted(map(str, asked)), sorted(map(str, every)), policy["metadata"]["name"])

    def test_an_image_that_a_node_has_already_is_not_asked_for_elsewhere(self):
        pods = [pod(item) for items in kubernetes_tools.everything().values() for item in by_kind(items, "Deployment")]
        pods.append(yaml.safe_load((tree.KUBERNETES / "model-loader.yaml").read_text())["spec"])
        for spec in pods:
            for container in spec["containers"] + spec.get("initContainers", []):
                self.assertIn(container.get("imagePullPolicy"), ("IfNotPresent", "Never"), container["image"])

    def test_no_image_is_the_latest(self):
        for items in kubernetes_tools.everything().values():
            for deployment in by_kind(items, "Deployment"):
                for container in pod(deployment)["containers"] + pod(deployment).get("initContainers", []):
                    self.assertRegex(container["image"], r"^[a-z/-]+:\d+\.\d+\.\d+(-cuda)?$")

    def test_gpu_and_mig_give_workers_one_device_each(self):
        for name, resource in (("base-gpu", "nvidia.com/gpu"), ("base-mig", "nvidia.com/mig-3g.40gb")):
            items = kubernetes_tools.everything()[name]
            for role in ("prefill", "decode"):
                limits = server(named(items, "Deployment", f"baton-{role}"))["resources"]["limits"]
                self.assertEqual({key: value for key, value in limits.items() if "/" in key}, {resource: "1"})


class Front(unittest.TestCase):
    def fronts(self):
        for name in FRONTED:
            items = kubernetes_tools.everything()[name]
            yield items, named(items, "Deployment", "baton-front")

    def test_is_told_where_the_routers_are_and_by_what_certificate_they_are_known(self):
        for items, front in self.fronts():
            variables, arguments = tree.environment(front, "192.0.2.7"), tree.arguments(front, "192.0.2.7")
            start = (tree.ROOT / "deploy/haproxy/start.sh").read_text()
            self.assertLessEqual(set(variables) - {"POD_NAMESPACE"}, set(re.findall(r"BATON_FRONT_\w+", start)))
            service = named(items, "Service", "baton-router-pods")
            self.assertEqual(service["spec"]["clusterIP"], "None")
            host = "baton-router-pods.baton.svc.cluster.local"
            port = {port["name"]: port["port"] for port in service["spec"]["ports"]}
            self.assertEqual(arguments[3], f"{host}:{port['grpc']}")
            self.assertEqual(variables["BATON_FRONT_HTTP_ROUTER"], f"{host}:{port['http']}")
            (name,) = named(items, "Certificate", "baton-router")["spec"]["dnsNames"]
            self.assertEqual({variables["BATON_FRONT_HTTP_NAME"], variables["BATON_FRONT_ROUTER_NAME"]}, {name})
            listening = {"grpc": arguments[0], "http": variables["BATON_FRONT_HTTP"],
                         "health": variables["BATON_FRONT_HEALTH"]}
            self.assertEqual({name: f"0.0.0.0:{number}" for name, number in ports(front).items()}, listening)

    def test_asks_for_the_routers_of_its_own_namespace(self):
        items = kubernetes_tools.render_components(["tls", "front"], namespace="elsewhere")
        front = named(items, "Deployment", "baton-front")
        host = "baton-router-pods.elsewhere.svc.cluster.local"
        self.assertEqual(tree.arguments(front, "192.0.2.7")[3], f"{host}:50051")
        self.assertEqual(tree.environment(front, "192.0.2.7")["BATON_FRONT_HTTP_ROUTER"], f"{host}:8080")

    def test_believes_the_clients_authority_alone_which_the_routers_do_not_know(self):
        for items, front in self.fronts():
            volumes = {volume["name"]: volume["secret"]["secretName"] for volume in pod(front)["volumes"]}
            mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in server(front)["volumeMounts"]}
            self.assertEqual(mounts, {"/etc/baton-tls": "baton-front-tls", "/etc/baton-clients": "baton-client-ca"})
            self.assertEqual(server(front)["args"][1:3], ["/etc/baton-tls/tls.crt", "/etc/baton-clients/ca.crt"])
            clients = named(items, "Certificate", "baton-client")["spec"]["issuerRef"]["name"]
            self.assertEqual(named(items, "Issuer", clients)["spec"], {"ca": {"secretName": "baton-client-ca"}})
            for deployment in tree_servers(items):
                self.assertNotIn("baton-client-ca", str(pod(deployment)["volumes"]))
            certificate = named(items, "Certificate", "baton-front")["spec"]
            self.assertEqual(certificate["uris"], ["spiffe://cluster.local/baton/front/front"])

    def test_reaches_the_routers_whose_ports_are_closed_to_clients(self):
        for items, front in self.fronts():
            (ingress,) = named(items, "NetworkPolicy", "baton-router")["spec"]["ingress"]
            peers = [peer["podSelector"]["matchLabels"] for peer in ingress["from"]]
            self.assertEqual(len(peers), 2)
            self.assertTrue(labels_match(peers[0], labels(front)))
            self.assertEqual(peers[1], {"baton-operator": "true"})
            egress = named(items, "NetworkPolicy", "baton-front")["spec"]["egress"][0]
            self.assertTrue(selected(items, egress["to"][0]["podSelector"]["matchLabels"]))
            self.assertEqual({port["port"] for port in egress["ports"]}, {"grpc", "http"})

    def test_lets_streams_end_for_as_long_as_the_routers_do(self):
        for items, front in self.fronts():
            router = next(d for d in tree_servers(items) if labels(d)["app.kubernetes.io/component"] == "router")
            wait = server(front)["lifecycle"]["preStop"]["sleep"]["seconds"]
            config = tree.parse_toml((tree.KUBERNETES / "base/config/router.toml").read_text())
            drain = tree.seconds(config["shutdown-timeout"])
            self.assertGreaterEqual(pod(front)["terminationGracePeriodSeconds"], wait + drain)
            self.assertGreaterEqual(pod(front)["terminationGracePeriodSeconds"], pod(router)["terminationGracePeriodSeconds"])
        text = (tree.ROOT / "deploy/Containerfile").read_text()
        self.assertRegex(text, r"FROM scratch AS front\n(?:.*\n)*?STOPSIGNAL SIGUSR1\n")


def tree_servers(items):
    """The Deployments of Baton's own servers."""
    return [item for item in by_kind(items, "Deployment") if labels(item)["app.kubernetes.io/name"] == "baton"]


class Monitoring(unittest.TestCase):
    items = property(lambda self: kubernetes_tools.everything()["base-monitoring"])

    def test_the_rules_are_those_of_the_file(self):
        rules = named(self.items, "PrometheusRule", "baton")["spec"]
        self.assertEqual(rules, {"groups": yaml.safe_load(RULES.read_text())["groups"]},
                         "run deploy/kubernetes/components/monitoring/write_prometheus_rule.py")

    def test_all_parts_are_asked_under_the_name_that_the_rules_go_by(self):
        monitor = named(self.items, "PodMonitor", "baton")["spec"]
        (endpoint,) = monitor["podMetricsEndpoints"]
        (expression,) = monitor["selector"]["matchExpressions"]
        asked = [d for d in selected(self.items, monitor["selector"]["matchLabels"])
                 if labels(d)[expression["key"]] in expression["values"]]
        self.assertEqual(sorted(labels(d)["app.kubernetes.io/component"] for d in asked), sorted(tree.ROLES))
        for deployment in asked:
            self.assertIn(endpoint["port"], ports(deployment))
            self.assertEqual({labels(deployment)[monitor["jobLabel"]]}, set(re.findall(r'job="(\w+)"', RULES.read_text())))

    def test_the_dashboards_are_the_files_under_the_label_that_grafanas_sidecar_looks_for(self):
        maps = [item for item in by_kind(self.items, "ConfigMap") if item["metadata"].get("labels") == {"grafana_dashboard": "1"}]
        shown = {name: json.loads(text) for item in maps for name, text in item["data"].items()}
        self.assertEqual(shown, {f"{name}.json": board for name, board in dashboards.read().items()})
        for item in maps:
            self.assertRegex(item["metadata"]["name"], r"^baton-dashboard-[a-z-]+$")


class Autoscaling(unittest.TestCase):
    SCALED = ("base-autoscaling-hpa", "base-autoscaling-keda", "production", "production-b")

    def each(self):
        for name, items in kubernetes_tools.everything().items():
            self.assertEqual(bool(scalers(items)), name in self.SCALED, name)
            for scaler in scalers(items):
                yield items, scaler, named(items, "Deployment", scaler["spec"]["scaleTargetRef"]["name"])

    def test_each_worker_deployment_has_one_and_says_no_number_itself(self):
        for name in self.SCALED:
            items = kubernetes_tools.everything()[name]
            targets = sorted(scaler["spec"]["scaleTargetRef"]["name"] for scaler in scalers(items))
            workers = sorted(d["metadata"]["name"] for d in tree_servers(items)
                             if labels(d)["app.kubernetes.io/component"] != "router")
            self.assertEqual(targets, workers)
        for _, _, target in self.each():
            self.assertNotIn("replicas", target["spec"])

    def test_pods_go_one_at_a_time_and_slower_than_they_drain(self):
        for _, scaler, target in self.each():
            spec = scaler["spec"]
            behavior = spec.get("behavior") or spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
            (down,) = behavior["scaleDown"]["policies"]
            self.assertEqual((down["type"], down["value"]), ("Pods", 1))
            self.assertGreater(down["periodSeconds"], pod(target)["terminationGracePeriodSeconds"])
            self.assertGreater(behavior["scaleDown"]["stabilizationWindowSeconds"], down["periodSeconds"])

    def test_keda_asks_for_metrics_and_labels_that_the_programs_have(self):
        for _, scaler, target in self.each():
            for trigger in scaler["spec"].get("triggers", ()):
                query = trigger["metadata"]["query"]
                self.assertTrue(alerts_test.METRIC.findall(query))
                self.assertEqual(alerts_test.unknown_metrics(query), [])
                self.assertLessEqual(set(re.findall(r"(\w+)=", query)), {"job", "namespace", "role"})
                roles = {"router", labels(target)["app.kubernetes.io/component"]}
                self.assertLessEqual(set(re.findall(r'role="(\w+)"', query)), roles)

    def test_the_adapter_knows_the_metrics_of_the_autoscalers(self):
        rules = yaml.safe_load((COMPONENTS / "autoscaling-hpa/prometheus-adapter.yaml").read_text())["rules"]
        self.assertEqual(alerts_test.unknown_metrics(str(rules).replace("baton_(", "(")), [])
        given = {"Pods": set(), "External": set()}
        for kind, of_kind in (("Pods", rules["custom"]), ("External", rules["external"])):
            for rule in of_kind:
                several = re.search(r'"baton_\(([\w|]+)\)"', rule["seriesQuery"])
                given[kind] |= {f"baton_{name}" for name in several[1].split("|")} if several else {
                    rule.get("name", {}).get("as") or rule["seriesQuery"].partition("{")[0]}
        for name in given["Pods"]:
            self.assertEqual(alerts_test.unknown_metrics(name), [])
        asked = {"Pods": set(), "External": set()}
        for _, scaler, _ in self.each():
            for metric in scaler["spec"].get("metrics", ()):
                asked[metric["type"]].add(metric[metric["type"].lower()]["metric"]["name"])
        self.assertEqual(asked, given)


class PlainText(unittest.TestCase):
    def test_the_names_that_the_router_answers_to_follow_the_namespace_of_an_overlay(self):
        items = kubernetes_tools.render_components(["insecure"], namespace="elsewhere")
        router = named(items, "Deployment", "baton-router")
        hosts = [a.partition("=")[2] for a in tree.arguments(router, "192.0.2.7") if a.startswith("--http-allow-host=")]
        self.assertEqual(hosts, [f"baton-router.elsewhere{domain}" for domain in ("", ".svc", ".svc.cluster.local")])
        self.assertEqual(named(items, "Service", "baton-router")["metadata"]["namespace"], "elsewhere")


class Ingress(unittest.TestCase):
    def test_leads_to_the_port_of_the_service_which_asks_for_keys(self):
        items = kubernetes_tools.everything()["base-ingress"]
        spec = named(items, "Ingress", "baton")["spec"]
        self.assertEqual([host for entry in spec["tls"] for host in entry["hosts"]], [rule["host"] for rule in spec["rules"]])
        for rule in spec["rules"]:
            for path in rule["http"]["paths"]:
                backend = path["backend"]["service"]
                service = named(items, "Service", backend["name"])
                self.assertIn(backend["port"]["name"], [port["name"] for port in service["spec"]["ports"]])
                self.assertEqual(path["path"], "/v1")
        self.assertIn("--api-keys=/etc/baton-keys/keys.toml", server(named(items, "Deployment", "baton-router"))["args"])


class Traces(unittest.TestCase):
    def test_the_router_reaches_the_collector_that_it_is_told_of(self):
        items = kubernetes_tools.everything()["base-traces"]
        (endpoint,) = re.findall(r"--otlp-endpoint=http://[\w-]+\.([\w-]+):(\d+)'",
                                 str(server(named(items, "Deployment", "baton-router"))["args"]))
        policy = named(items, "NetworkPolicy", "baton-traces")["spec"]
        (rule,) = policy["egress"]
        self.assertEqual(rule, {"to": [of_namespace(endpoint[0])], "ports": [{"protocol": "TCP", "port": int(endpoint[1])}]})
        self.assertEqual([d["metadata"]["name"] for d in selected(items, policy["podSelector"]["matchLabels"])], ["baton-router"])


class NoPrefill(unittest.TestCase):
    def test_nothing_is_left_of_prefill_workers_whatever_other_components_gave_them(self):
        items = kubernetes_tools.render_components(["gpu", "mig", "tls", "autoscaling-keda", "no-prefill"])
        left = {item["kind"] for item in items if "prefill" in item["metadata"]["name"]}
        self.assertEqual(left, {"ConfigMap"})
        self.assertEqual(sorted(d["metadata"]["name"] for d in by_kind(items, "Deployment")), ["baton-decode", "baton-router"])
        args = server(named(items, "Deployment", "baton-router"))["args"]
        self.assertFalse([argument for argument in args if argument.startswith("--prefill")])
        self.assertIn("--decode=dns:///baton-decode:50051", args)
        self.assertIn("--disaggregate=never", args)


class Gateway(unittest.TestCase):
    items = property(lambda self: kubernetes_tools.everything()["base-gateway"])

    def test_routes_lead_to_ports_of_services_that_are_there(self):
        routes = by_kind(self.items, "GRPCRoute") + by_kind(self.items, "HTTPRoute")
        self.assertEqual(len(routes), 2)
        for route in routes:
            for rule in route["spec"]["rules"]:
                (backend,) = rule["backendRefs"]
                service = named(self.items, "Service", backend["name"])
                port = "grpc" if route["kind"] == "GRPCRoute" else "http"
                self.assertIn((port, backend["port"]), [(p["name"], p["port"]) for p in service["spec"]["ports"]])

    def test_services_and_paths_are_those_of_the_router(self):
        (method,) = [match["method"] for match in named(self.items, "GRPCRoute", "baton")["spec"]["rules"][0]["matches"]]
        package, _, service = method["service"].rpartition(".")
        proto = (tree.ROOT / "proto/baton/v1/generation.proto").read_text()
        self.assertIn(f"package {package};", proto)
        self.assertIn(f"service {service} {{", proto)
        documented = set(re.findall(r"`(?:GET|POST) (/[^`]*)`", (tree.ROOT / "docs/http.md").read_text()))
        for match in named(self.items, "HTTPRoute", "baton")["spec"]["rules"][0]["matches"]:
            self.assertTrue([path for path in documented if path.startswith(match["path"]["value"])], match)

    def test_the_routers_are_known_by_their_certificates(self):
        policy = named(self.items, "BackendTLSPolicy", "baton-router")["spec"]
        named(self.items, "Service", policy["targetRefs"][0]["name"])
        self.assertEqual([policy["validation"]["hostname"]], named(self.items, "Certificate", "baton-router")["spec"]["dnsNames"])


class TwoRevisions(unittest.TestCase):
    """While both are applied."""

    def test_pods_of_one_are_found_by_the_others_services_and_counted_by_its_own_deployment_alone(self):
        first, second = (kubernetes_tools.everything()[name] for name in ("production", "production-b"))
        both = {d["metadata"]["name"]: d for d in by_kind(first, "Deployment") + by_kind(second, "Deployment")}
        self.assertEqual(len(both), 2 * len(tree.ROLES) + 1)  # and one front
        for deployment in both.values():
            of = [d["metadata"]["name"] for d in both.values()
                  if labels_match(deployment["spec"]["selector"]["matchLabels"], labels(d))]
            self.assertEqual(of, [deployment["metadata"]["name"]])
        for role in tree.ROLES:
            selector = named(first, "Service", f"baton-{role}")["spec"]["selector"]
            found = [d for d in both.values() if labels_match(selector, labels(d))]
            self.assertEqual({labels(d)["baton-revision"] for d in found}, {"a", "b"})

    def test_routers_of_the_second_use_workers_of_both_and_those_of_the_first_when_they_are_told_to(self):
        told = {}
        for name in ("production", "production-b"):
            for deployment in by_kind(kubernetes_tools.everything()[name], "Deployment"):
                if labels(deployment).get("app.kubernetes.io/component") == "router":
                    (container,) = deployment["spec"]["template"]["spec"]["containers"]
                    told[name] = {variable["name"]: variable.get("value") for variable in container["env"]}
        self.assertNotIn("BATON_ALLOW_MIXED_REVISIONS", told["production"])
        self.assertEqual(told["production-b"]["BATON_ALLOW_MIXED_REVISIONS"], "true")
        walk = (tree.ROOT / "deploy/README.md").read_text().partition("\n## A new model or version\n")[2]
        self.assertLess(walk.index("BATON_ALLOW_MIXED_REVISIONS=true"), walk.index("kubectl apply -k"))
        self.assertGreater(walk.index("BATON_ALLOW_MIXED_REVISIONS-"), walk.index("delete scaledobject,deployment"))

    def test_all_else_is_the_same(self):
        first, second = (kubernetes_tools.everything()[name] for name in ("production", "production-b"))

        def rest(items):
            return [item for item in items if item["metadata"].get("labels", {}).get("baton-revision") is None]

        self.assertEqual(rest(first), rest(second))


if __name__ == "__main__":
    kubernetes_tools.pypi_packages.or_end(kubernetes_tools.install)
    unittest.main()
