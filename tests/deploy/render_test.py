"""What Kustomize makes of every overlay is valid Kubernetes, and what the policy test reads is the same thing.

Exits 77, CTest's "skipped", with the reason where the pinned tools do not run or cannot be fetched.
"""

import copy
import functools
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

rendered = functools.cache(kubernetes_tools.render)  # not to be changed by who gets it


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
        for overlay in tree.OVERLAYS:
            for item in rendered(overlay) + [loader]:
                if item["apiVersion"].startswith("cert-manager.io/"):  # not of Kubernetes itself
                    continue
                for version in VERSIONS:
                    with self.subTest(overlay=overlay.name, item=item["metadata"]["name"], version=version):
                        kubernetes_tools.validate(item, version)

    def test_a_field_that_kubernetes_does_not_know_would_be_noticed(self):
        deployment = next(item for item in rendered(tree.OVERLAYS[0]) if item["kind"] == "Deployment")
        broken = copy.deepcopy(deployment)
        broken["spec"]["template"]["spec"]["containers"][0]["prots"] = []
        for version in VERSIONS:
            with self.subTest(version=version), self.assertRaisesRegex(Exception, "'prots' was unexpected"):
                kubernetes_tools.validate(broken, version)

    def test_what_kustomize_cannot_build_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "no-such-overlay"):
            kubernetes_tools.render(tree.KUBERNETES / "overlays" / "no-such-overlay")


if __name__ == "__main__":
    kubernetes_tools.pypi_packages.or_end(kubernetes_tools.install)
    unittest.main()
