"""The programs as a person runs them."""
import pathlib
import subprocess
import sys

import grpc

from cluster import BIN, MODEL

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import pypi_packages  # noqa: E402


def run(*args, stdin=None, timeout_s=120, **options):
    """Runs the program args[0] to its end. `stdin` is piped to it; None: nothing."""
    given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run([str(BIN / args[0]), *args[1:]], timeout=timeout_s, **given, **{**output, **options})


def hugging_face_folder():
    """The test's model as an F16 GGUF, and as the Hugging Face folder that is written from it."""
    pypi_packages.or_skip(pypi_packages.fetch, ROOT / "scripts/requantise_requirements.txt")

    def path(*command):
        done = subprocess.run([sys.executable, *command], check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        return done.stdout.strip()

    gguf = path("scripts/requantise_model.py", MODEL, "F16")
    return gguf, path("scripts/hugging_face_folder.py", gguf)


def assert_one_clear_line(done, *words, code=2):
    error = done.stderr.decode()
    assert done.returncode == code, error
    lines = [line for line in error.splitlines() if line.strip()]
    assert len(lines) == 1, error
    for word in words:
        assert word in error, error


def new_key(file, *flags):
    """A new API key, whose hash and tenant (--tenant=NAME) `baton keys` adds to `file`."""
    done = run("baton", "keys", "new", f"--file={file}", *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


def bearer(key):
    """The metadata of a call that shows the key."""
    return (("authorization", f"Bearer {key}"),)


def make_authority(folder):
    """Makes a certificate authority in `folder`."""
    done = run("baton", "certs", "init", f"--folder={folder}")
    assert done.returncode == 0, done.stderr


def issue(folder, *args):
    """Makes a certificate of `folder`'s authority there, and returns its SPIFFE id."""
    done = run("baton", "certs", "issue", f"--folder={folder}", *args)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().split(": ")[0]


def revoke(folder, *args):
    """Revokes certificates of `folder`'s authority."""
    done = run("baton", "certs", "revoke", f"--folder={folder}", *args)
    assert done.returncode == 0, done.stderr


def tls_flags(folder, name):
    """What a server with that certificate is started with."""
    return [f"--tls-cert={folder}/{name}.crt", f"--tls-key={folder}/{name}.key", f"--tls-ca={folder}/ca.crt",
            f"--tls-crl={folder}/ca.crl"]


def channel_credentials(folder, name="client", ca=None):
    """What a client with that certificate shows, who trusts the authority in `ca`, or else its own."""
    return grpc.ssl_channel_credentials(((ca or folder) / "ca.crt").read_bytes(), (folder / f"{name}.key").read_bytes(),
                                        (folder / f"{name}.crt").read_bytes())
