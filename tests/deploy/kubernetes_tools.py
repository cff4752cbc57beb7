"""Kustomize and the schemas of Kubernetes, from PyPI at the versions and hashes of requirements.txt.

Debian 12 has no Kustomize, and its kubectl is of 1.20, which knows no components. So the first call of a machine fetches
50 MB into the cache folder: ${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}.
"""

import ctypes
import functools
import hashlib
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import yaml

REQUIREMENTS = pathlib.Path(__file__).resolve().parent / "requirements.txt"


def lacking():
    """Why this machine cannot run the pinned wheels, None where it can."""
    here = (platform.system(), platform.machine(), platform.python_implementation(), *sys.version_info[:2])
    if here != ("Linux", "x86_64", "CPython", 3, 11):
        return f"requirements.txt pins wheels for CPython 3.11 on Linux x86-64, and this is {here}"
    return None


@functools.cache
def install():
    """The folder of the packages, in `sys.path` from now on. Fetches them where they are not in the cache yet."""
    caches = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    cache = pathlib.Path(os.environ.get("BATON_CACHE") or pathlib.Path(caches) / "baton")
    folder = cache / f"kubernetes-tools-{hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        _fetch(folder)
    sys.path.insert(0, str(folder))
    return folder


def _fetch(folder):
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        # pykustomize asks for Python 3.14 on account of its own Python files; only its library is used here.
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir",
                   "--no-compile", "--no-deps", "--ignore-requires-python", "--only-binary", ":all:",
                   "--require-hashes", "--requirement", str(REQUIREMENTS), "--target", f"{work}/packages"]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"pip could not install {REQUIREMENTS}; is PyPI reachable?\n{done.stdout}")
        try:
            os.rename(f"{work}/packages", folder)  # the last step, so that a cut download never looks whole
        except OSError:
            if not folder.is_dir():  # else another process was faster
                raise


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
