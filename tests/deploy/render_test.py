"""What Kustomize makes of every overlay, and of every component on the base, is valid Kubernetes, and what the policy test reads is
the same thing.

Exits 77, CTest's "skipped", with the reason where the pinned tools do not run or cannot be fetched.
"""

import copy
import pathlib
import re
import sys
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import deploy_tree as tree  # noqa: E402
import kubernetes_tools  # noqa: E402
import kustomize_subset  # noqa: E402

# The oldest that deploy/README.md names, one of the middle, and the newest that the schemas know.
VERSIONS = ("1.30.0", "1.34.0", "1.37.0")


def rendered(overlay):
    return kubernetes_tools.everything()[overlay.name]


def canonical(objects):
    """By kind and name, without the hashes of generated names, which differ in their alphabet."""
    text = yaml.safe_dump(sorted(objects, key=lambda item: (item["kind"], item["metadata"]["name"])))
    return re.sub(r"(baton-\w+-config)-[0-9a-z]{10}", r"\1", text)


class Rendering(unittest.TestCase):
    maxDiff = None

    def test_kustomize_agrees_with_the_resolver_of_the_policy_test(self):
        for overlay in tree.OVERLAYS:
            with self.subTest(overlay=overlay.name):
                self.assertEqual(canonical(rendered(overlay)), canonical(kustomize_subset.build(overlay)))

    def test_objects_satisfy_the_schemas(self):
        loader = yaml.safe_load((tree.KUBERNETES / "model-loader.yaml").read_text())
        seen = set()  # most are the same in several overlays
        for name, items in {**kubernetes_tools.everything(), "model-loader": [loader]}.items():
            for item in items:
                text = yaml.dump(item, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper))
                if text in seen:
                    continue
                seen.add(text)
                for version in VERSIONS:
                    with self.subTest(overlay=name, kind=item["kind"], item=item["metadata"]["name"], version=version):
                        kubernetes_tools.validate(item, version)

    def test_every_kind_of_custom_resource_is_used(self):
        kinds = {item["kind"] for items in kubernetes_tools.everything().values() for item in items}
        self.assertLessEqual({schema.stem for schema in kubernetes_tools.SCHEMAS.glob("*.json")}, kinds)

    def test_a_field_that_kubernetes_does_not_know_would_be_noticed(self):
        deployment = next(item for item in rendered(tree.OVERLAYS[0]) if item["kind"] == "Deployment")
        broken = copy.deepcopy(deployment)
        broken["spec"]["template"]["spec"]["containers"][0]["prots"] = []
        for version in VERSIONS:
            with self.subTest(version=version), self.assertRaisesRegex(Exception, "'prots' was unexpected"):
                kubernetes_tools.validate(broken, version)

    def test_a_field_that_a_custom_resource_does_not_have_would_be_noticed(self):
        for kind, path, name in (
            ("Certificate", ("spec", "issuerRef"), "nmae"),
            ("PodMonitor", ("spec", "podMetricsEndpoints", 0), "prot"),
            ("PrometheusRule", ("spec", "groups", 0, "rules", 0), "exper"),
            ("ScaledObject", ("spec", "triggers", 0), "threshold"),
            ("GRPCRoute", ("spec", "rules", 0, "matches", 0, "method"), "srevice"),
            ("HTTPRoute", ("spec", "rules", 0, "timeouts"), "requst"),
            ("BackendTLSPolicy", ("spec", "validation"), "host"),
        ):
            found = (item for items in kubernetes_tools.everything().values() for item in items if item["kind"] == kind)
            broken = copy.deepcopy(next(found))
            place = broken
            for step in path:
                place = place[step]
            place[name] = "1"
            with self.subTest(kind=kind), self.assertRaisesRegex(Exception, f"'{name}' was unexpected"):
                kubernetes_tools.validate(broken, VERSIONS[0])

    def test_a_digest_takes_the_place_of_a_tag(self):
        digest = "sha256:" + "5a" * 32
        items = kubernetes_tools.render_components(
            ["tls", "front"], images=[{"name": "baton-front", "newName": "registry.example.org/baton-front", "digest": digest}])
        images = [item["spec"]["template"]["spec"]["containers"][0]["image"] for item in items if item["kind"] == "Deployment"]
        self.assertIn(f"registry.example.org/baton-front@{digest}", images)

    def test_the_kustomization_of_the_readme_is_whole_and_names_a_model_and_its_size(self):
        readme = (tree.ROOT / "deploy/README.md").read_text()
        (whole,) = re.findall(r"```yaml\n(# deploy/kubernetes/overlays/my-model/.*?)```", readme, re.DOTALL)
        kustomization = yaml.safe_load(whole)
        root = "../../"  # the root seen from an overlay
        self.assertEqual(kustomization["resources"], [f"{root}base"])
        names = [path.removeprefix(f"{root}components/") for path in kustomization["components"]]
        rest = {key: value for key, value in kustomization.items() if key not in ("resources", "components")}
        items = kubernetes_tools.render_components(names, **rest)
        (source,) = [item for item in items if item["metadata"]["name"].startswith("baton-model-source-")]
        self.assertEqual(source["data"], {"URL": "https://models.example.org/model.gguf", "SHA256": "..."})
        servers = [item for item in items if item["kind"] == "Deployment"]
        self.assertEqual([item["spec"]["replicas"] for item in servers], [1, 1, 1])
        for item in servers:
            kubernetes_tools.validate(item, VERSIONS[0])
            spec = item["spec"]["template"]["spec"]
            (volume,) = [volume for volume in spec["volumes"] if volume["name"] == "model"]
            self.assertEqual(volume["emptyDir"], {"sizeLimit": "10240Mi"})
            self.assertEqual(spec["initContainers"][0]["envFrom"], [{"configMapRef": {"name": source["metadata"]["name"]}}])
            self.assertTrue({"--insecure", "--tls-cert"} & {a.partition("=")[0] for a in spec["containers"][0]["args"]})

    def test_the_patch_of_the_readme_opens_another_dns_server(self):
        readme = (tree.ROOT / "deploy/README.md").read_text()
        (patches,) = re.findall(r"```yaml\n(  patches:\n    - target: {kind: NetworkPolicy.*?)```", readme, re.DOTALL)
        items = kubernetes_tools.render_components(["insecure"], **yaml.safe_load(patches))
        (policy,) = [item for item in items if item["metadata"]["name"] == "baton-dns"]
        rule = policy["spec"]["egress"][0]
        self.assertIn({"ipBlock": {"cidr": "10.96.0.10/32"}}, rule["to"])
        self.assertEqual({port["port"] for port in rule["ports"]}, {53})
        kubernetes_tools.validate(policy, VERSIONS[0])

    def test_what_kustomize_cannot_build_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "no-such-overlay"):
            kubernetes_tools.render(tree.KUBERNETES / "overlays" / "no-such-overlay")


if __name__ == "__main__":
    kubernetes_tools.pypi_packages.or_end(kubernetes_tools.install)
    unittest.main()
