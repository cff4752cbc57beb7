"""`baton bench serve` by gRPC and by HTTP on a router with mock workers: its figures are those that follow from its record."""
import json
import pathlib
import re
import sys
import xml.etree.ElementTree

import pytest

from cluster import BIN
from programs import ROOT, assert_one_clear_line, run

sys.path += [str(ROOT / "bench"), str(ROOT / "tests/bench/serve")]
from record_figures import figures_of  # noqa: E402
from serving import Serving, free_port  # noqa: E402

MODEL = str(ROOT / "tests/data/tokenizer/smollm2-vocab.gguf")
OBJECTIVES = {"grpc": "ttft=30s,itl_p95=20s,e2e=1000s", "completions": "ttft=20ms,itl_p95=7ms", "chat": "itl=9ms,tpot=6ms,e2e=60ms"}


@pytest.fixture(scope="module")
def router():
    """A router whose workers take 5 ms for a step, and the port of its HTTP."""
    http = free_port()
    with_workers = Serving(BIN.parent, MODEL, ["--disaggregate=always", f"--http-listen=127.0.0.1:{http}",
                                               "--max-waiting-requests=4"])
    with_workers.add_mock_workers(2, "--between-tokens=5ms", "--per-prompt-token=100us")
    with with_workers:
        yield with_workers.port, http


def bench(*args):
    return run("baton", "bench", "serve", *args)


def target(router, door):
    grpc, http = router
    return {"grpc": [f"--server=127.0.0.1:{grpc}"], "completions": [f"--http=http://127.0.0.1:{http}"],
            "chat": [f"--http=http://127.0.0.1:{http}/v1", "--endpoint=chat"]}[door]


def trace(path, requests):
    """Mooncake's lines: requests every 20 ms, which share their first 512 tokens and some more."""
    path.write_text("".join(json.dumps({"timestamp": 20 * i, "input_length": 520 + 3 * i, "output_length": 5 + i % 7,
                                        "hash_ids": [1, 10 + i % 3]}) + "\n" for i in range(requests)))
    return path


def assert_equal_figures(report, record):
    """To the last digit."""
    again = figures_of(record)
    for name, value in again.items():
        if name != "classes":
            assert report[name] == value, name
    assert list(report["classes"]) == list(again["classes"])
    for name, figures in again["classes"].items():
        row = report["classes"][name]
        assert sorted(row) == sorted(figures)
        for field, value in figures.items():
            assert row[field] == value, (name, field)


@pytest.mark.parametrize("door", ["grpc", "completions", "chat"])
def test_the_figures_follow_from_the_record_to_the_last_digit(router, door, tmp_path):
    record, html = tmp_path / "record.jsonl", tmp_path / "report.html"
    done = bench(*target(router, door), f"--trace={trace(tmp_path / 'trace', 40)}", "--input-scale=0.1",
                 f"--objective={OBJECTIVES[door]}",
                 f"--record={record}", f"--html={html}", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert_equal_figures(report, record)
    row = report["classes"]["all"]
    assert row["offered"] == 40 == row["completed"] + row["refused"] + row["failed"], row
    assert row["completed"] > 10 and row["good"] <= row["completed"], row
    assert door != "grpc" or row["good"] == row["completed"], row
    assert row["itl_ms"]["p50"] > 2 and row["stages"]["queue_ms"]["samples"] == row["completed"], row
    assert row["uncounted"] == row["spread"] == row["shorter"] == 0, row
    page = html.read_text(encoding="utf-8")
    charts = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(charts) == 6
    for chart in charts:
        xml.etree.ElementTree.fromstring(chart)


@pytest.mark.parametrize("door", ["grpc", "completions"])
def test_overload_is_refused_counted_and_recorded(router, door, tmp_path):
    record = tmp_path / "record.jsonl"
    done = bench(*target(router, door), "--class=open:rate=150,input=300,output=3",
                 "--class=closed:concurrency=2,input=20,output=4",
                 "--duration=700ms", "--warmup=100ms", f"--record={record}", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert_equal_figures(report, record)
    row = report["classes"]["open"]
    assert row["refused"] > 0 and row["refused"] == sum(row["kinds"].values()) - row["failed"], row
    assert row["ttft_ms"]["mean"] >= row["ttft_from_sent_ms"]["mean"]


def test_the_table_is_for_people(router):
    done = bench(*target(router, "completions"), "--request-rate=20", "--duration=300ms", "--warmup=0s", "--input-len=8")
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    for part in ("all: offered", "goodput", "| ttft_ms ", "|   queue_ms ", "nearest rank"):
        assert part in text, text


@pytest.mark.parametrize("args, words", [
    (["--http=ftp://localhost:80"], ["--http", "http://"]),
    (["--http=127.0.0.1:1"], ["--http", "127.0.0.1:1", "connect"]),
    (["--http=http://127.0.0.1:1", "--server=127.0.0.1:1"], ["--http", "--server"]),
    (["--endpoint=chat"], ["--endpoint", "--http"]),
    (["--time-scale=2"], ["--time-scale", "--trace"]),
    (["--http=http://127.0.0.1:1"], ["--http", "127.0.0.1:1", "connect"]),
    (["--html=/no/such/folder/report"], ["/no/such/folder"])], ids=str)
def test_what_cannot_be_measured_is_one_clear_line(args, words):
    assert_one_clear_line(bench("--request-rate=1", *args), *words)


def test_a_malformed_trace_is_named_by_its_line(router, tmp_path):
    path = pathlib.Path(tmp_path / "trace")
    path.write_text('{"timestamp": 0, "input_length": 1, "output_length": 1}\n{"timestamp": 0}\n')
    assert_one_clear_line(bench(*target(router, "grpc"), f"--trace={path}"), f"{path}:2:", "input_length")
