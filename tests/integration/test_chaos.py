"""Nothing is lost with a worker: a short form of scripts/chaos.sh."""
from chaos import chaos


def test_no_request_notices_that_workers_are_killed():
    report = chaos(count=60, kill_every_s=1.5, prefill=2, decode=2)
    assert not report["wrong"], report
    assert sum(report["kills"].values()) >= 2 and max(report["attempts"]) > 1, report
