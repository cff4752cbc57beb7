"""`baton doctor` of a real fleet that is well, and of one with a wrong certificate and a cut model."""
import json
import pathlib

import pytest

from cluster import Cluster, free_port
from programs import assert_one_clear_line, issue, make_authority, run, tls_flags

TINY = pathlib.Path(__file__).resolve().parent.parent / "data/tiny/tiny-llama-q4_1.gguf"


def doctor(*args):
    """Its exit code, and its checks as a list."""
    done = run("baton", "doctor", "--json", *map(str, args))
    assert done.stderr == b"", done.stderr
    report = json.loads(done.stdout)
    assert done.returncode == (1 if report["failed"] else 0)
    assert sum(report[verdict] for verdict in ("ok", "warning", "failed", "skipped")) == len(report["checks"])
    return done.returncode, report["checks"]


def failed(checks):
    return [check for check in checks if check["verdict"] == "failed"]


def one(checks, name, subject=""):
    """The only check of that name and subject."""
    (found,) = [check for check in checks if check["check"] == name and subject in check.get("subject", "")]
    return found


def write_config(path, server, http, folder=None, name=None, **values):
    """The TOML file of a server that has those addresses and that certificate."""
    lines = {"listen": server.address, "health-listen": f"127.0.0.1:{server.health_port}",
             "metrics-listen": f"127.0.0.1:{server.metrics_port}", "model": str(TINY), **values}
    if http:
        lines["http-listen"] = http
    if folder:
        lines |= dict(flag.removeprefix("--").split("=") for flag in tls_flags(folder, name))
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items()))
    return path


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    make_authority(folder)
    for role in ("router", "prefill", "decode", "operator"):
        issue(folder, role)
    http = f"127.0.0.1:{free_port()}"
    cluster = Cluster(model=TINY, prefill_args=tls_flags(folder, "prefill"), decode_args=tls_flags(folder, "decode"),
                      router_args=[*tls_flags(folder, "router"), f"--http-listen={http}"])
    with cluster:
        router, prefill, decode = cluster.router, cluster.prefill[0], cluster.decode[0]
        cluster.folder, cluster.http = folder, http
        cluster.configs = [
            write_config(folder / "router.toml", router, http, folder, "router", prefill=[prefill.address],
                         decode=[decode.address]),
            write_config(folder / "prefill.toml", prefill, None, folder, "prefill", device="cpu"),
            write_config(folder / "decode.toml", decode, None, folder, "decode", device="cpu")]
        yield cluster


def test_nothing_fails_in_a_fleet_that_is_well(fleet):
    code, checks = doctor(*fleet.configs, f"--server={fleet.router.address}", f"--http=https://{fleet.http}",
                          *tls_flags(fleet.folder, "operator")[:3])
    assert failed(checks) == [] and code == 0
    assert one(checks, "fleet.roles")["found"] == "1 prefill and 1 decode workers can be used"
    assert one(checks, "fleet.model")["found"] == "all workers serve the same model"
    assert one(checks, "fleet.numerics")["verdict"] == "ok"
    assert one(checks, "clock.offset")["verdict"] == "ok"
    for subject in ("prefill worker", "decode worker", "router of --server"):
        assert one(checks, "server.health", subject)["found"] == "ready, over TLS"
    ports = [check for check in checks if check["check"] == "port.free"]
    assert len(ports) == 10 and all("already runs there" in check["found"] for check in ports)
    assert "the model's workers already run" in one(checks, "model.memory")["found"]


def test_a_certificate_of_another_role_and_a_cut_model_fail(fleet, tmp_path):
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(TINY.read_bytes()[:-100])
    # A router that would show the certificate of a decode worker.
    wrong = write_config(tmp_path / "router.toml", fleet.router, None, fleet.folder, "decode",
                         decode=[fleet.decode[0].address])
    code, checks = doctor(wrong, f"--model={cut}")
    assert code == 1
    assert {check["check"] for check in failed(checks)} == {"model.served", "certificate.role", "server.health"}
    assert "role is decode, but must be router" in one(checks, "certificate.role")["found"]
    assert str(cut) in one(checks, "model.served")["found"]
    assert one(checks, "server.reachable")["verdict"] == "ok", "it is there, and takes no such caller"


def test_lines_for_people_say_what_to_do(tmp_path):
    (tmp_path / "broken.toml").write_text("listen = ")
    done = run("baton", "doctor", str(tmp_path / "broken.toml"), "--model=/nowhere.gguf")
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 1 and lines[0].startswith("failed   config.file"), lines
    assert lines[1].strip().startswith("-> ")
    assert any(line.startswith("failed   model.served") and "/nowhere.gguf" in line for line in lines)
    assert " failed, " in lines[-1]


def test_wrong_flags_are_one_clear_line():
    assert_one_clear_line(run("baton", "doctor", "--server=nonsense"), "--server", "nonsense")
