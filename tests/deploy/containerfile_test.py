"""The images are built of what the manifests expect of them."""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import deploy_tree as tree  # noqa: E402


class Containerfile(unittest.TestCase):
    TEXT = (tree.ROOT / "deploy" / "Containerfile").read_text()
    TARGETS = {"router": "router", "prefill": "prefill-worker", "decode": "decode-worker"}

    def target(self, name):
        """The lines of an image."""
        return re.search(rf"^FROM \S+ AS {name}\n((?:(?!FROM).*\n)*)", self.TEXT, re.MULTILINE)[1]

    def servers(self):
        """The target and the Deployment of every server of every overlay."""
        return [(self.TARGETS[role], item) for overlay in tree.OVERLAYS for role, item in tree.deployments(overlay).items()]

    def test_fetches_nothing_and_runs_nothing(self):
        self.assertEqual(set(re.findall(r"^FROM (\S+)", self.TEXT, re.MULTILINE)), {"scratch"})
        self.assertNotRegex(self.TEXT, r"(?m)^(RUN|ADD)")

    def test_has_a_target_for_every_server_as_the_user_of_the_manifests(self):
        for role, target in self.TARGETS.items():
            self.assertIn(f"COPY {target}/ /\nUSER 65532:65532\n", self.target(target))
            self.assertIn(f'ENTRYPOINT ["{tree.BINARIES[role]}"]', self.target(target))

    def test_the_image_of_baton_serves_beyond_the_loopback_of_its_container_unless_it_is_told_otherwise(self):
        lines = self.target("baton")
        self.assertIn("COPY baton/ /\n", lines)
        self.assertIn("\nUSER 65532:65532\n", lines)
        self.assertIn('ENTRYPOINT ["baton", "serve"]', lines)
        variables = dict(each.split("=") for each in re.search(r"^ENV (.*)$", lines, re.MULTILINE)[1].split())
        self.assertEqual(variables.pop("BATON_INSECURE"), "true")
        # Variables, since flags and the container's own variables take precedence over them.
        self.assertEqual(set(variables), {"BATON_LISTEN", "BATON_HTTP_LISTEN"})
        exposed = re.search(r"^EXPOSE (.*)$", lines, re.MULTILINE)[1].split()
        self.assertEqual({f"0.0.0.0:{port}" for port in exposed}, set(variables.values()))

    def test_the_front_is_what_deploy_haproxy_says(self):
        lines = self.target("front")
        self.assertIn("COPY front/ /\nUSER 65532:65532\n", lines)
        folder = re.search(r'^ENTRYPOINT \["/(\S+)/start.sh"\]', lines, re.MULTILINE)[1]
        self.assertIn(f"deploy/haproxy:{folder}", (tree.ROOT / "scripts/build_images.sh").read_text())

    def test_exposes_the_ports_of_the_manifests(self):
        for target, deployment in self.servers():
            exposed = re.search(r"^EXPOSE (.*)$", self.target(target), re.MULTILINE)[1].split()
            self.assertEqual(set(exposed), {str(port["containerPort"]) for port in tree.container(deployment)["ports"]})

    def test_the_manifests_have_the_names_and_tags_that_the_script_gives(self):
        version = re.search(r"project\(baton VERSION ([0-9.]+)", (tree.ROOT / "CMakeLists.txt").read_text())[1]
        for target, deployment in self.servers():
            name = f"baton-{target}:{version}"
            self.assertIn(tree.container(deployment)["image"].rpartition("/")[2], (name, f"{name}-cuda"))


if __name__ == "__main__":
    unittest.main()
