"""What kubectl makes of every overlay is valid Kubernetes, and what the policy test reads is the same thing.

Needs kubectl; the check against the schemas needs PyPI kubernetes-validate as well. Exits 77, CTest's "skipped", with
the reason when one is missing (after running what can run).
"""

import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import deploy_tree as tree  # noqa: E402
import kustomize_subset  # noqa: E402

try:
    import kubernetes_validate
except ImportError:
    kubernetes_validate = None

# preStop.sleep and gRPC probes are there from 1.30 on.
VERSIONS = ("1.30.0", "1.32.0", "1.34.0")


def rendered(overlay):
    output = subprocess.run(["kubectl", "kustomize", str(overlay)], check=True, capture_output=True, text=True).stdout
    return [item for item in yaml.safe_load_all(output) if item]


def canonical(objects):
    """By kind and name, without the hashes of generated names, which differ in their alphabet."""
    text = yaml.safe_dump(sorted(objects, key=lambda item: (item["kind"], item["metadata"]["name"])))
    return re.sub(r"(baton-\w+-config)-[0-9a-z]{10}", r"\1", text)


class Rendering(unittest.TestCase):
    maxDiff = None

    def test_kubectl_agrees_with_the_resolver_of_the_policy_test(self):
        for overlay in tree.OVERLAYS:
            with self.subTest(overlay=overlay.name):
                self.assertEqual(canonical(rendered(overlay)), canonical(kustomize_subset.build(overlay)))

    @unittest.skipIf(kubernetes_validate is None, "kubernetes-validate is not installed")
    def test_objects_satisfy_the_schemas(self):
        loader = yaml.safe_load((tree.KUBERNETES / "model-loader.yaml").read_text())
        for overlay in tree.OVERLAYS:
            for item in rendered(overlay) + [loader]:
                for version in VERSIONS:
                    with self.subTest(overlay=overlay.name, item=item["metadata"]["name"], version=version):
                        kubernetes_validate.validate(item, version, strict=True)


def main():
    if shutil.which("kubectl") is None:
        print("skipped: kubectl is not installed; nothing was rendered")
        return 77
    result = unittest.main(exit=False).result
    if not result.wasSuccessful():
        return 1
    if kubernetes_validate is None:
        print("skipped: kubernetes-validate (PyPI) is not installed; the schemas were not checked")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
