"""What the resolver of the policy test does not know is an error, never ignored."""

import copy
import pathlib
import sys
import unittest

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


if __name__ == "__main__":
    unittest.main()
