"""Python packages of tests that Debian has not, from PyPI at the versions and hashes of a file of requirements.

The first call of a machine fetches them into the cache folder: ${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}.
"""
import hashlib
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import unittest


def lacking():
    """Why this machine cannot run the pinned wheels, None if it can."""
    here = (platform.system(), platform.machine(), platform.python_implementation(), *sys.version_info[:2])
    if here != ("Linux", "x86_64", "CPython", 3, 11):
        return f"the requirements pin wheels for CPython 3.11 on Linux x86-64, and this is {here}"
    return None


def cache_folder():
    """Where downloaded files stay, those of this project's scripts too."""
    caches = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(os.environ.get("BATON_CACHE") or pathlib.Path(caches) / "baton")


def install(requirements, *options):
    """The folder of the packages of the file `requirements`, in `sys.path` from now on. `options` are pip's."""
    folder = fetch(requirements, *options)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return folder


def fetch(requirements, *options):
    """The same folder, for the PYTHONPATH of another process."""
    cache = cache_folder()
    folder = cache / f"packages-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        _install(requirements, options, folder)
    return folder


def or_skip(fetch, *arguments):
    """What `fetch(*arguments)` returns. The test of unittest or pytest that calls it is skipped, and says why, where the wheels do not
    run or PyPI is out of reach."""
    if (why := lacking()) is not None:
        raise unittest.SkipTest(why)
    try:
        return fetch(*arguments)
    except RuntimeError as error:
        raise unittest.SkipTest(str(error).splitlines()[0]) from error


def or_end(fetch, *arguments):
    """The same for a program that is a test: it ends as CTest's skipped ones do."""
    try:
        return or_skip(fetch, *arguments)
    except unittest.SkipTest as why:
        print(f"skipped: {why}")
        sys.exit(77)


def _install(requirements, options, folder):
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir",
                   "--no-deps", "--only-binary", ":all:", *options,
                   "--require-hashes", "--requirement", str(requirements), "--target", f"{work}/packages"]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"pip could not install {requirements}; is PyPI reachable?\n{done.stdout}")
        try:
            os.rename(f"{work}/packages", folder)  # the last step, so that a cut download never looks whole
        except OSError:
            if not folder.is_dir():  # else another process was faster
                raise
