import pathlib
import re
import signal
import subprocess

import pytest

from cluster import BIN, MODEL, STATE, Cluster

LOG_LINES = 30


def pytest_configure(config):
    config.addinivalue_line("markers", "plain: one test of its kind, which scripts/test.sh runs without --thorough")


def pytest_collection_modifyitems(items):
    if not MODEL:
        for item in items:
            item.add_marker(pytest.mark.skip(reason="BATON_TEST_MODEL is not set: scripts/test.sh sets it"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(call):
    """With a test that failed stand the last lines that its servers logged meanwhile."""
    report = (yield).get_result()
    if not report.failed:
        return
    for log in sorted(pathlib.Path(STATE.name).glob("*.log")):
        if log.stat().st_mtime >= call.start:
            lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
            report.sections.append((log.name, "\n".join(lines)))


@pytest.fixture(scope="module")
def cluster():
    """One prefill and one decode worker; every request is handed off."""
    with Cluster(router_args=["--disaggregate=always"]) as running:
        yield running


@pytest.fixture(scope="module")
def served():
    """`baton serve`, and the address that it printed when it was ready, without its scheme."""
    process = subprocess.Popen([str(BIN / "baton"), "serve", MODEL, "--listen=127.0.0.1:0", "--max-model-len=600",
                                "--prefill-workers=1", "--decode-workers=1"], stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    yield process, re.fullmatch(r"ready: grpc://(127\.0\.0\.1:\d+)\n", line).group(1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(40) == 0
