"""`baton bench transfer` as a person and a script run it."""
import json

import pytest

from programs import assert_one_clear_line, run

SMALL = ("--shape=smollm2-135m", "--bytes=3000000", "--message=65536,1048576", "--connections=1,2",
         "--rounds=1")


def bench(*args):
    return run("baton", "bench", "transfer", *args)


def test_json_has_exactly_the_agreed_fields():
    done = bench(*SMALL, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert list(report) == ["grpc_gb_s", "socket_gb_s", "socket_best_gb_s", "protobuf_bytes_gb_s",
                            "grpc_cpu_s_per_gb", "socket_cpu_s_per_gb", "crc_share", "sweep"]
    for name in list(report)[:6]:
        assert report[name] > 0, name
    assert report["crc_share"] < 1
    assert report["socket_best_gb_s"] >= report["socket_gb_s"]
    assert [(row["bytes"], row["connections"]) for row in report["sweep"]] == [
        (65536, 1), (1048576, 1), (65536, 2), (1048576, 2)]
    for row in report["sweep"]:
        assert row["grpc_gb_s"] > 0 and row["socket_gb_s"] > 0
        assert row["grpc_cpu_s_per_gb"] > 0 and row["socket_cpu_s_per_gb"] > 0


def test_a_converting_push_says_what_it_converts_to():
    done = bench(*SMALL, "--kv-wire-dtype=int8", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["kv_wire_dtype"] == "int8" and report["grpc_gb_s"] > 0


def test_the_table_is_for_people():
    done = bench(*SMALL)
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    for part in ("smollm2-135m", "| push, checked ", "| socket, calls of 1 MiB ", "CRC and digest"):
        assert part in text


@pytest.mark.parametrize("args, words", [
    (["--shape=gpt-5"], ["--shape", "gpt-5", "llama-3.1-8b"]),
    (["--bytes=1000"], ["--bytes", "1000", "4194304"]),
    (["--bytes=x"], ["--bytes", "x"]),
    (["--message=1"], ["--message", "16384"]),
    (["--connections=0"], ["--connections", "0"]),
    (["--rounds=0"], ["--rounds", "0"]),
    (["--no-crc"], ["--no-crc"]),
    (["--kv-wire-dtype=int3"], ["--kv-wire-dtype", "int3", "int8"]),
])
def test_what_cannot_be_measured_is_one_clear_line(args, words):
    assert_one_clear_line(bench(*args), *words)
