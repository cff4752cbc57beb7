"""Kustomize and the schemas of Kubernetes, from PyPI at the versions and hashes of requirements.txt.

Debian 12 has no Kustomize, and its kubectl is of 1.20, which knows no components. So the first call of a machine fetches
50 MB into the cache folder: ${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}.
"""

import ctypes
import functools
import pathlib
import sys

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import pypi_packages  # noqa: E402

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


def validate(item, version):
    """Raises an error unless the object is one of that version of Kubernetes, without unknown fields."""
    install()
    import kubernetes_validate

    kubernetes_validate.validate(item, version, strict=True)
