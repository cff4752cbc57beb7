"""What the resolver of the policy test does not know is an error, never ignored."""

import copy
import pathlib
import sys
import tempfile
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import kustomize_subset  # noqa: E402


class Subset(unittest.TestCase):
    def test_refuses_patches_that_match_nothing_or_replace_nothing(self):
        item = {"kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [1, 2]}}
        with self.assertRaises(ValueError):
            kustomize_subset._patch([item], {"target": {"kind": "Pod"}, "patch": "[]"})
        with self.assertRaises(ValueError):
            kustomize_subset._apply(item, {"op": "replace", "path": "/spec/type", "value": 1})
        with self.assertRaises(ValueError):
            kustomize_subset._matches(item, {"annotationSelector": "x"})

    def test_applies_json_patches(self):
        item = {"spec": {"ports": [1, 2]}}
        expected = copy.deepcopy(item)
        expected["spec"]["ports"] = [0, 2, 3]
        for operation in (
            {"op": "add", "path": "/spec/ports/-", "value": 3},
            {"op": "replace", "path": "/spec/ports/0", "value": 0},
            {"op": "add", "path": "/spec/a~1b", "value": 1},
            {"op": "remove", "path": "/spec/a~1b"},
        ):
            kustomize_subset._apply(item, operation)
        self.assertEqual(item, expected)

    def test_a_patch_deletes_all_its_targets_and_says_what_else_it_may_not_do(self):
        items = [{"kind": kind, "metadata": {"name": name}} for kind in ("Service", "Secret") for name in ("a", "b")]
        kustomize_subset._patch(items, {"target": {"name": "a"}, "patch": "{$patch: delete, kind: Any, metadata: {name: any}}"})
        self.assertEqual([item["metadata"]["name"] for item in items], ["b", "b"])
        with self.assertRaises(ValueError):
            kustomize_subset._patch(items, {"target": {"name": "b"}, "patch": "{kind: Any, spec: {}}"})

    def test_an_operation_tests_a_value(self):
        item = {"spec": {"args": ["--a"]}}
        kustomize_subset._apply(item, {"op": "test", "path": "/spec/args/0", "value": "--a"})
        with self.assertRaises(ValueError):
            kustomize_subset._apply(item, {"op": "test", "path": "/spec/args/0", "value": "--b"})
        self.assertEqual(item, {"spec": {"args": ["--a"]}})

    def test_names_generated_maps_by_their_content_unless_told_otherwise(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "a.txt").write_text("content")
            made = {"configMapGenerator": [{"name": "map", "files": ["a.txt"]}]}
            for options, expected in (
                ({}, r"map-[0-9a-f]{10}"),
                ({"disableNameSuffixHash": True, "labels": {"a": "1"}}, "map"),
            ):
                (folder / "kustomization.yaml").write_text(yaml.safe_dump({**made, "generatorOptions": options}))
                (item,) = kustomize_subset.build(folder)
                self.assertRegex(item["metadata"]["name"], f"^{expected}$")
                self.assertEqual(item["metadata"].get("labels", {}), options.get("labels", {}))
            (folder / "kustomization.yaml").write_text(yaml.safe_dump({**made, "generatorOptions": {"immutable": True}}))
            with self.assertRaises(ValueError):
                kustomize_subset.build(folder)


if __name__ == "__main__":
    unittest.main()
