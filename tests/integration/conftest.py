import pytest

from cluster import MODEL, Cluster


def pytest_collection_modifyitems(items):
    if not MODEL:
        for item in items:
            item.add_marker(pytest.mark.skip(reason="BATON_TEST_MODEL is not set: scripts/test.sh sets it"))


@pytest.fixture(scope="module")
def cluster():
    """One prefill and one decode worker; every request is handed off."""
    with Cluster(router_args=["--disaggregate=always"]) as running:
        yield running
