"""What the tests of other people's clients share: a cluster with HTTP, a scripted model, and packages from PyPI."""
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "integration"), str(HERE.parent / "support")]
import pypi_packages  # noqa: E402
from cluster import Cluster, free_port  # noqa: E402
from scripted import ScriptedModel  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def runs_wheels():
    if (why := pypi_packages.lacking()) is not None:
        pytest.skip(why)


@pytest.fixture(scope="module")
def served():
    port = free_port()
    with Cluster(prefill=1, decode=1, router_args=[f"--http-listen=127.0.0.1:{port}", "--served-model-name=smollm2"]) as cluster:
        cluster.http = f"http://127.0.0.1:{port}"
        yield cluster


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    with ScriptedModel(tmp_path_factory.mktemp("scripted")) as model:
        yield model
