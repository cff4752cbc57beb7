"""Other people's checkers find nothing in the manifests, but for the exceptions that checkov_exceptions.yml gives reasons for.

Exits 77, CTest's "skipped", with the reason where the pinned tools do not run or cannot be fetched.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import deploy_tree as tree  # noqa: E402
import kubernetes_tools  # noqa: E402
import pypi_packages  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
EXCEPTIONS = yaml.safe_load((HERE / "checkov_exceptions.yml").read_text())
CHECKOV = HERE / "checkov_requirements.txt"


def yamllint(*paths):
    environment = {**os.environ, "PYTHONPATH": str(kubernetes_tools.install())}
    return subprocess.run([sys.executable, "-m", "yamllint", "--strict", "-c", HERE / "yamllint.yml", "-f", "parsable", *paths],
                          env=environment, check=False, capture_output=True, text=True, timeout=120)


def findings(folder):
    """The checks that fail for the manifests in `folder`: pairs of a check's number and what it is about. Nothing is fetched."""
    environment = {**os.environ, "PYTHONPATH": str(pypi_packages.or_skip(pypi_packages.fetch, CHECKOV)), "LOG_LEVEL": "ERROR"}
    command = [sys.executable, "-m", "checkov.main", "-d", folder, "--framework", "kubernetes", "--compact", "--quiet",
               "--skip-download", "-o", "json"]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=240)
    report = json.loads(done.stdout)
    if report["summary"]["parsing_errors"] or not report["summary"]["resource_count"]:
        raise AssertionError(f"checkov did not read the manifests: {report['summary']}\n{done.stderr}")
    return {(check["check_id"], check["resource"]) for check in report["results"]["failed_checks"]}


class Lint(unittest.TestCase):
    def test_yamllint_finds_nothing(self):
        result = yamllint(tree.ROOT / "deploy")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_yamllint_would_find_a_key_that_comes_twice(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = pathlib.Path(folder) / "broken.yaml"
            broken.write_text("kind: Pod\nkind: Service\n")
            self.assertIn("duplication of key", yamllint(broken).stdout)

    def test_checkov_finds_the_exceptions_only_and_finds_what_is_wrong(self):
        """One run for all, since checkov is slow to start."""
        with tempfile.TemporaryDirectory() as folder:
            for name, items in kubernetes_tools.everything().items():
                (pathlib.Path(folder) / f"{name}.yaml").write_text(yaml.safe_dump_all(items))
            pod = yaml.safe_load((tree.KUBERNETES / "model-loader.yaml").read_text())
            pod["metadata"]["name"] = "broken"
            pod["spec"]["containers"][0]["securityContext"]["privileged"] = True
            (pathlib.Path(folder) / "broken.yaml").write_text(yaml.safe_dump(pod))
            found = findings(folder)
        self.assertTrue([resource for _, resource in found if resource.endswith("broken")])
        found = {(check, resource) for check, resource in found if not resource.endswith("broken")}
        self.assertEqual({pair for pair in found if pair[0] not in EXCEPTIONS}, set())
        self.assertEqual(set(EXCEPTIONS) - {check for check, _ in found}, set(), "exceptions that nothing needs")


if __name__ == "__main__":
    pypi_packages.or_end(kubernetes_tools.install)
    pypi_packages.or_end(pypi_packages.fetch, CHECKOV)
    unittest.main()
