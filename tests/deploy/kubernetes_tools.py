"""Kustomize, the schemas of Kubernetes and yamllint, from PyPI at the versions and hashes of requirements.txt.

Debian 12 has no Kustomize, and its kubectl is of 1.20, which knows no components. So the first call of a machine fetches
50 MB into the cache folder: ${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}.
"""

import ctypes
import functools
import json
import os
import pathlib
import sys
import tempfile

import yaml

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "support")]
import deploy_tree  # noqa: E402
import pypi_packages  # noqa: E402

COMPONENTS = sorted(path.parent.name for path in deploy_tree.KUBERNETES.glob("components/*/kustomization.yaml"))
# What a component says that it comes after.
BEFORE = {"front": ["tls"], "gateway": ["tls", "api-keys"], "ingress": ["insecure", "api-keys"], "mig": ["gpu"]}
SCHEMAS = deploy_tree.ROOT / "tests/data/kubernetes"  # schemas of custom resources by kind
REQUIREMENTS = pathlib.Path(__file__).resolve().parent / "requirements.txt"


def install():
    # pykustomize asks for Python 3.14 on account of its own Python files; only its library is used here.
    return pypi_packages.install(REQUIREMENTS, "--ignore-requires-python")


@functools.cache
def _kustomize():
    library = ctypes.CDLL(str(install() / "pykustomize" / "_lib" / "linux-amd64" / "libpykustomize.so"))
    library.pykustomize_last_error.restype = ctypes.c_char_p
    return library


def render(folder):
    """What Kustomize makes of the kustomization in `folder`: the list of Kubernetes objects."""
    text = ctypes.c_char_p()
    if _kustomize().pykustomize_build(str(folder).encode(), b"{}", ctypes.byref(text)) != 0:
        raise ValueError(_kustomize().pykustomize_last_error().decode())
    return [item for item in yaml.safe_load_all(text.value) if item]


def render_components(names, **more):
    """What Kustomize makes of the base with the components, and of what else a kustomization may say."""
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.relpath(deploy_tree.KUBERNETES, os.path.realpath(folder))
        kustomization = {"resources": [f"{root}/base"], "components": [f"{root}/components/{name}" for name in names], **more}
        (pathlib.Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        return render(folder)


@functools.cache
def everything():
    """All that is rendered, by name: each overlay, and the base with each component. Not to be changed by who gets it."""
    overlays = {overlay.name: render(overlay) for overlay in deploy_tree.OVERLAYS}
    return {**overlays, **{f"base-{name}": render_components([*BEFORE.get(name, []), name]) for name in COMPONENTS}}


@functools.cache
def _custom_validator(kind):
    """None for what is of Kubernetes itself."""
    schema = SCHEMAS / f"{kind}.json"
    if not schema.is_file():
        return None
    install()
    import jsonschema

    read = json.loads(schema.read_text())
    jsonschema.Draft202012Validator.check_schema(read)
    return jsonschema.Draft202012Validator(read)


def validate(item, version):
    """Raises an error unless the object is one of that version of Kubernetes, or a custom resource, without unknown fields."""
    if (custom := _custom_validator(item["kind"])) is not None:
        custom.validate(item)
        return
    install()
    import kubernetes_validate

    kubernetes_validate.validate(item, version, strict=True)
