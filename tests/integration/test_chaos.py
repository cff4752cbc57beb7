"""Nothing is lost with a server: short forms of scripts/chaos.sh."""
import pytest

from chaos import chaos


@pytest.mark.parametrize("how,every_s,routers", [("kill", 1.5, 2), ("restart", 1, 1), ("stop", 1, 1), ("rolling", 0, 1)])
def test_no_request_notices(how, every_s, routers):
    report = chaos(60, how, every_s, prefill=2, decode=2, routers=routers)
    assert not report["wrong"], report
    assert sum(report[how].values()) >= 1, report


def test_workers_that_stop_for_ever_are_not_missed():
    report = chaos(60, "stop", 1, prefill=2, decode=2, stopped_s=None)
    assert not report["wrong"] and report["stop"], report


def test_a_router_that_was_killed_is_whole_again_with_its_next_start():
    """Clients that had a stream there ask again; the workers free what the dead router left."""
    report = chaos(60, "router", 2, prefill=2, decode=2)
    assert not report["wrong"] and report["router"]["router"] >= 1, report
    assert report["router_back_s"]["max"] < 15, "2 s where the machine does nothing else; docs/benchmarks/chaos.md has figures"
