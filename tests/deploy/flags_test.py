"""Every server accepts, with --check-config, the arguments and the configuration that the manifests give it.

    flags_test.py FOLDER_OF_BINARIES      (or BATON_BIN in the environment)
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import deploy_tree as tree  # noqa: E402

MODEL = tree.ROOT / "tests" / "data" / "tiny" / "tiny-llama-f32.gguf"
BINARIES = pathlib.Path(os.environ.get("BATON_BIN", "."))


def make_certificates(folder, *extensions):
    """An authority and one certificate of it, as files of the names that the Secrets have."""
    folder.mkdir(parents=True)

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj", "/CN=test")
    openssl("req", *curve, "-keyout", "tls.key", "-out", "tls.csr", "-subj", "/CN=baton.internal",
            *(word for extension in extensions for word in ("-addext", extension)))
    openssl("x509", "-req", "-in", "tls.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-copy_extensions", "copy", "-out", "tls.crt")


class CheckConfig(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        (self.root / "models").mkdir()
        for name in ("model.gguf", "model-b.gguf"):
            (self.root / "models" / name).symlink_to(MODEL)
        make_certificates(self.root / "etc" / "baton-tls")
        (self.root / "etc" / "baton-fleet").mkdir()
        (self.root / "etc" / "baton-fleet" / "fleet-secret").write_text("5a" * 32)
        (self.root / "etc" / "baton-keys").mkdir()
        (self.root / "etc" / "baton-keys" / "keys.toml").write_text('[tenants."acme"]\n')

    def here(self, text):
        """The text with the container's paths moved below the test's folder."""
        for folder in ("/etc/baton-tls/", "/etc/baton-fleet/", "/etc/baton-keys/", "/etc/baton/", "/models/"):
            text = text.replace(folder, f"{self.root}/@{folder[1:]}")
        return text.replace("/@", "/")

    def run_server(self, overlay, role, deployment, *more):
        for path, text in tree.config_files(overlay, deployment).items():
            target = self.root / path[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self.here(text))
        container = tree.container(deployment)
        command = [str(BINARIES / container["command"][0])]
        command += [self.here(argument) for argument in tree.arguments(deployment, "192.0.2.7")] + ["--check-config", *more]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("BATON_")}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    def test_every_overlay_is_accepted(self):
        for overlay in tree.OVERLAYS:
            for role, deployment in tree.deployments(overlay).items():
                with self.subTest(overlay=overlay.name, role=role):
                    result = self.run_server(overlay, role, deployment)
                    self.assertEqual(result.returncode, 0, result.stderr)

    def test_what_components_add_is_accepted(self):
        folder = self.root / "overlay"
        folder.mkdir()
        components = [str(tree.KUBERNETES / "components" / name) for name in ("api-keys", "traces", "no-prefill")]
        (folder / "kustomization.yaml").write_text(json.dumps({
            "resources": [str(tree.KUBERNETES / "overlays" / "local-cpu")], "components": components}))
        for role, deployment in tree.deployments(folder).items():
            with self.subTest(role=role):
                result = self.run_server(folder, role, deployment)
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_base_alone_is_refused(self):
        base = tree.KUBERNETES / "base"
        for role, deployment in tree.deployments(base).items():
            with self.subTest(role=role):
                result = self.run_server(base, role, deployment)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn("--insecure", result.stderr)

    def test_an_unknown_flag_would_be_noticed(self):
        overlay = tree.OVERLAYS[0]
        for role, deployment in tree.deployments(overlay).items():
            with self.subTest(role=role):
                result = self.run_server(overlay, role, deployment, "--no-such-flag=1")
                self.assertEqual(result.returncode, 2, result.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        BINARIES = pathlib.Path(sys.argv.pop(1))
    unittest.main()
