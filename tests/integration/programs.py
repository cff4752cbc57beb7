"""The programs as a person runs them."""
import subprocess

from cluster import BIN


def run(*args, stdin=None, timeout_s=120, **options):
    """Runs the program args[0] to its end. `stdin` is piped to it; None: nothing."""
    given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run([str(BIN / args[0]), *args[1:]], timeout=timeout_s, **given, **{**output, **options})


def assert_one_clear_line(done, *words, code=2):
    error = done.stderr.decode()
    assert done.returncode == code, error
    lines = [line for line in error.splitlines() if line.strip()]
    assert len(lines) == 1, error
    for word in words:
        assert word in error, error
