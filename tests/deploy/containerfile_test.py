"""The images are built of what the manifests expect of them."""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import deploy_tree as tree  # noqa: E402


class Containerfile(unittest.TestCase):
    TEXT = (tree.ROOT / "deploy" / "Containerfile").read_text()

    def test_has_a_target_for_every_server(self):
        for target, binary in (
            ("router", "baton-router"),
            ("prefill-worker", "baton-prefill-worker"),
            ("decode-worker", "baton-decode-worker"),
        ):
            self.assertRegex(
                self.TEXT, rf'FROM runtime AS {target}\nCOPY --from=build /out/bin/{binary} .*\nENTRYPOINT \["{binary}"\]'
            )

    def test_the_front_is_what_deploy_haproxy_says(self):
        front = self.TEXT.partition("FROM runtime AS front\n")[2]
        copied = re.search(r"^COPY (.*) (/\S+/)$", front, re.MULTILINE)
        self.assertEqual(sorted(copied[1].split()), sorted(f"deploy/haproxy/{file.name}" for file in
                                                           (tree.ROOT / "deploy/haproxy").iterdir()))
        self.assertIn(f'ENTRYPOINT ["{copied[2]}start.sh"]', front)
        self.assertEqual(re.findall(r"^USER (\S+)", front, re.MULTILINE)[-1], "65532:65532")

    def test_the_router_has_its_grammar_compiler_beside_it(self):
        self.assertRegex(self.TEXT, r"COPY --from=build /out/bin/baton-router /out/bin/baton-grammar-compiler /usr/local/bin/")

    def test_takes_its_base_images_as_arguments_and_pins_them(self):
        for line in re.findall(r"^FROM (\S+)", self.TEXT, re.MULTILINE):
            self.assertIn(line, ("${BUILD_IMAGE}", "${RUNTIME_IMAGE}", "runtime"))
        for image in re.findall(r"_IMAGE=(\S+)", self.TEXT):
            self.assertRegex(image, r":[^:]+$")
            self.assertNotRegex(image, r":latest$")

    def test_ends_as_the_user_of_the_manifests(self):
        self.assertEqual(re.findall(r"^USER (\S+)", self.TEXT, re.MULTILINE), ["65532:65532", "root", "65532:65532"])

    def test_builds_with_presets_that_exist(self):
        presets = (tree.ROOT / "CMakePresets.json").read_text()
        for preset in re.findall(r"PRESET=([a-z]+)", self.TEXT):
            self.assertIn(f'"name": "{preset}"', presets)


if __name__ == "__main__":
    unittest.main()
