"""Nothing is lost with a worker: short forms of scripts/chaos.sh."""
import pytest

from chaos import chaos


@pytest.mark.parametrize("how,every_s", [("kill", 1.5), ("restart", 1), ("stop", 1)])
def test_no_request_notices(how, every_s):
    report = chaos(60, how, every_s, prefill=2, decode=2)
    assert not report["wrong"], report
    assert sum(report[how].values()) >= 1, report
