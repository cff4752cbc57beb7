"""Resolves the part of kustomize that deploy/kubernetes uses; whatever else is met is an error.

Used are: resources, components, namespace, images (newTag, newName), replicas, configMapGenerator (files), generatorOptions
(labels, disableNameSuffixHash), JSON 6902 patches with a target of kind, name or labelSelector, which may rename what they patch,
and the patch that deletes its targets.
"""

import copy
import hashlib
import pathlib

import yaml

KNOWN_KEYS = {
    "apiVersion",
    "kind",
    "resources",
    "components",
    "namespace",
    "images",
    "replicas",
    "configMapGenerator",
    "generatorOptions",
    "patches",
}
CLUSTER_SCOPED = {"Namespace", "PriorityClass"}
MAY_BE_ABSENT = {"ScaledObject", "HorizontalPodAutoscaler"}  # components/revision-b renames those that there are


def build(folder):
    """The list of Kubernetes objects that the kustomization in `folder` stands for."""
    return _accumulate(pathlib.Path(folder), [])


def pod_spec(item):
    """The pod's spec inside a Deployment or a Pod, None for other kinds."""
    if item["kind"] == "Pod":
        return item["spec"]
    return item["spec"]["template"]["spec"] if item["kind"] == "Deployment" else None


def _accumulate(folder, objects):
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    unknown = set(kustomization) - KNOWN_KEYS
    if unknown:
        raise ValueError(f"{folder}: not in the subset: {sorted(unknown)}")
    for name in kustomization.get("resources", []):
        path = folder / name
        if path.is_dir():
            objects = _accumulate(path, objects)
        else:
            objects = objects + [item for item in yaml.safe_load_all(path.read_text()) if item]
    options = kustomization.get("generatorOptions", {})
    generated = [_config_map(folder, entry, options) for entry in kustomization.get("configMapGenerator", [])]
    objects = objects + generated
    for name in kustomization.get("components", []):
        objects = _accumulate(folder / name, objects)
    for patch in kustomization.get("patches", []):
        _patch(objects, patch)
    if "namespace" in kustomization:
        for item in objects:
            if item["kind"] not in CLUSTER_SCOPED:
                item["metadata"]["namespace"] = kustomization["namespace"]
    for image in kustomization.get("images", []):
        _set_image(objects, image)
    for replicas in kustomization.get("replicas", []):
        _one(objects, "Deployment", replicas["name"])["spec"]["replicas"] = replicas["count"]
    if not options.get("disableNameSuffixHash", False):
        _rename_config_maps(objects, {item["metadata"]["name"]: item for item in generated})
    return objects


def _config_map(folder, entry, options):
    if set(entry) != {"name", "files"}:
        raise ValueError(f"configMapGenerator {entry}: only name and files are in the subset")
    if not set(options) <= {"labels", "disableNameSuffixHash"}:
        raise ValueError(f"generatorOptions {options}: only labels and disableNameSuffixHash are in the subset")
    data = {pathlib.Path(name).name: (folder / name).read_text() for name in entry["files"]}
    metadata = {"name": entry["name"], **({"labels": dict(options["labels"])} if "labels" in options else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _rename_config_maps(objects, generated):
    """Adds the hash of the content to the names of generated maps and to the references to them."""
    names = {}
    for name, item in generated.items():
        digest = hashlib.sha256(repr(sorted(item["data"].items())).encode()).hexdigest()[:10]
        names[name] = f"{name}-{digest}"
        item["metadata"]["name"] = names[name]
    for item in objects:
        for volume in (pod_spec(item) or {}).get("volumes", []):
            if volume.get("configMap", {}).get("name") in names:
                volume["configMap"]["name"] = names[volume["configMap"]["name"]]


def _one(objects, kind, name):
    found = [item for item in objects if item["kind"] == kind and item["metadata"]["name"] == name]
    if len(found) != 1:
        raise ValueError(f"{len(found)} objects {kind} {name}")
    return found[0]


def _set_image(objects, image):
    if not set(image) <= {"name", "newTag", "newName"}:
        raise ValueError(f"images {image}: only name, newTag and newName are in the subset")
    for item in objects:
        for container in (pod_spec(item) or {}).get("containers", []):
            name, _, tag = container["image"].partition(":")
            if name == image["name"]:
                tag = image.get("newTag", tag)
                container["image"] = image.get("newName", name) + (f":{tag}" if tag else "")


def _matches(item, target):
    if not set(target) <= {"kind", "name", "labelSelector"}:
        raise ValueError(f"patch target {target}: only kind, name and labelSelector are in the subset")
    if "labelSelector" in target:
        key, _, value = target["labelSelector"].partition("=")
        if item["metadata"].get("labels", {}).get(key) != value:
            return False
    return target.get("kind", item["kind"]) == item["kind"] and target.get(
        "name", item["metadata"]["name"]
    ) == item["metadata"]["name"]


def _patch(objects, patch):
    if set(patch) - {"options"} != {"target", "patch"} or patch.get("options", {}) not in ({}, {"allowNameChange": True}):
        raise ValueError(f"patches {patch}: only target, an inline patch and allowNameChange are in the subset")
    operations = yaml.safe_load(patch["patch"])
    targets = [item for item in objects if _matches(item, patch["target"])]
    if not targets and patch["target"].get("kind") not in MAY_BE_ABSENT:
        raise ValueError(f"no object for the patch of {patch['target']}")
    if isinstance(operations, dict):
        if operations.get("$patch") != "delete":
            raise ValueError(f"the patch of {patch['target']}: only JSON 6902 and `$patch: delete` are in the subset")
        objects[:] = [item for item in objects if item not in targets]
        return
    for item in targets:
        name = item["metadata"]["name"]
        for operation in operations:
            _apply(item, operation)
        if item["metadata"]["name"] != name and "options" not in patch:
            raise ValueError(f"the patch of {patch['target']} renames it, which Kustomize does with allowNameChange only")


def _apply(item, operation):
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    place = item
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place[part]
    value = copy.deepcopy(operation.get("value"))
    if operation["op"] == "test":
        found = place[int(last)] if isinstance(place, list) else place[last]
        if found != value:
            raise ValueError(f"test of {operation['path']}: is {found}, not {value}")
    elif isinstance(place, list):
        if operation["op"] == "add":
            place.insert(len(place) if last == "-" else int(last), value)
        elif operation["op"] == "replace":
            place[int(last)] = value
        else:
            del place[int(last)]
    elif operation["op"] == "add":
        place[last] = value
    elif last not in place:
        raise ValueError(f"{operation['op']} of {operation['path']}, which is not there")
    elif operation["op"] == "replace":
        place[last] = value
    else:
        del place[last]
