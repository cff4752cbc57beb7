"""`baton plan` as a person and a script run it."""
import json
import pathlib
import time

import pytest

from programs import assert_one_clear_line, run

TINY = str(pathlib.Path(__file__).resolve().parent.parent / "data" / "tiny" / "tiny-llama-q4_1.gguf")
RESULTS = [("pp64", 0, 1, 1500), ("pp512", 0, 1, 2000), ("pp512", 1024, 1, 1800),
           ("tg32", 0, 1, 250), ("tg32", 1024, 1, 200), ("tg32", 0, 16, 1600), ("tg32", 1024, 16, 900)]
RATES = {"model": "some", "device": "cpu", "layers": 30, "kv_bytes_per_token": 23040, "block_size": 32,
         "max_num_batched_tokens": 512,
         "results": [{"test": test, "depth": depth, "batch": batch, "tokens_per_s": rate}
                     for test, depth, batch, rate in RESULTS]}


@pytest.fixture(name="files", scope="module")
def _files(tmp_path_factory):
    """Rates, a trace of 200 requests that come every 100 ms and share pages, and one without times."""
    folder = tmp_path_factory.mktemp("plan")
    (folder / "rates").write_text(json.dumps(RATES))
    (folder / "trace").write_text("".join(
        json.dumps({"timestamp": 100 * i, "input_length": 600 + i % 90, "output_length": 5 + i % 20,
                    "hash_ids": [i % 4, 10 + i]}) + "\n" for i in range(200)))
    (folder / "pages").write_text("20,3,7 8\n")
    return folder


def plan(*args):
    return run("baton", "plan", *map(str, args))


def planned(*args):
    done = plan(*args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_the_engines_bench_prints_is_what_a_plan_reads(tmp_path):
    done = run("baton", "bench", "engine", "--model", TINY, "-p", "32,64", "-d", "0,48", "-n", "4", "-b", "1,3", "-r", "1",
               "--threads=1", "--json")
    assert done.returncode == 0, done.stderr
    (tmp_path / "rates").write_bytes(done.stdout)
    report = planned("--rates", tmp_path / "rates", "--request-rate=20", "--duration=5s", "--input-len=40", "--output-len=8",
                     "--prefill-workers=2", "--decode-workers=1")
    assert report["completed"] == report["offered"] > 50 and report["refused"] == 0
    assert report["tokens_per_s"] > 0 and report["ttft_ms"]["p50"] > 3
    assert report["prefill"]["workers"] == 2 and report["decode"]["workers"] == 1


def test_a_trace_is_replayed_and_the_smallest_fleet_is_found(files):
    given = ["--rates", files / "rates", "--trace", files / "trace"]
    fixed = planned(*given, "--prefill-workers=8", "--decode-workers=2")
    assert fixed["completed"] == 200 and fixed["cached_share"] > 0.5
    assert "search" not in fixed
    objective = ["--objective=ttft=1s,itl_p95=40ms", "--goodput-target=0.95"]
    found = planned(*given, *objective)
    assert found["good_share"] >= 0.95 and found["search"]["is_smallest"]
    assert found["search"]["total"] == found["prefill"]["workers"] + found["decode"]["workers"] <= 10
    again = planned(*given, *objective)
    assert again == found
    twice = planned(*given, "--time-scale=0.25", *objective)
    assert twice["search"]["total"] > found["search"]["total"]
    table = plan(*given, *objective).stdout.decode()
    assert "the least number that meets the objective" in table and "| ttft_ms " in table


def test_a_fleet_of_thousands_takes_seconds(files):
    begin = time.monotonic()
    report = planned("--rates", files / "rates", "--request-rate=2000", "--duration=10s", "--input-len=1000", "--output-len=20",
                     "--prefill-workers=2000", "--decode-workers=1000")
    assert report["completed"] == report["offered"] > 19_000
    assert time.monotonic() - begin < 60


def test_an_objective_that_nobody_can_keep_is_one_clear_line(files):
    done = plan("--rates", files / "rates", "--trace", files / "trace", "--objective=ttft=1ms")
    assert_one_clear_line(done, "no fleet", "--objective", "--goodput-target", code=1)


@pytest.mark.parametrize("args, words", [
    ([], ["--rates", "baton bench engine"]),
    (["--rates=nowhere"], ["--trace", "--request-rate"]),
    (["--rates=nowhere", "--trace=trace", "--prefill-workers=1"], ["--objective", "--decode-workers"]),
    (["--rates=nowhere", "--trace=trace", "--objective=ttft=1s"], ["--rates", "nowhere"]),
    (["--rates=trace", "--trace=trace", "--objective=ttft=1s"], ["--rates", "baton bench engine"]),
    (["--rates=rates", "--trace=nowhere", "--objective=ttft=1s"], ["nowhere"]),
    (["--rates=rates", "--trace=rates", "--objective=ttft=1s"], ["rates:1", "timestamp"]),
    (["--rates=rates", "--trace=pages", "--objective=ttft=1s"], ["pages", "no times"]),
    (["--rates=rates", "--trace=trace", "--objective=speed=1s"], ["--objective", "speed"]),
    (["--rates=rates", "--trace=trace", "--input-len=5"], ["--trace", "--input-len"]),
    (["--rates=rates", "--request-rate=1", "--time-scale=2"], ["--time-scale", "--trace"]),
    (["--rates=rates", "--trace=trace", "--duration=2s"], ["--duration", "--request-rate"]),
    (["--rates=rates", "--request-rate=1", "--objective=ttft=1s", "--disaggregate=never"], ["--disaggregate", "never"]),
    (["--rates=rates", "--request-rate=1", "--objective=ttft=1s", "--policy=best"], ["--policy", "best"]),
    (["--rates=rates", "--request-rate=1", "--objective=ttft=1s", "--goodput-target=2"], ["--goodput-target", "2"]),
    (["--rates=rates", "--request-rate=1", "--objective=ttft=1s", "--kv-cache-memory-bytes=1M"], ["--kv-cache-memory-bytes"]),
    (["--rates=rates", "--request-rate=1", "--objective=ttft=1s", "--link-bytes-per-second=0"], ["--link-bytes-per-second"]),
    (["--rates=rates", "--prefill-workers=-1"], ["--prefill-workers", "-1"]),
])
def test_what_cannot_be_planned_is_one_clear_line(files, args, words):
    done = run("baton", "plan", *args, cwd=files)
    assert_one_clear_line(done, *words)


def test_rates_of_another_model_are_refused(files, tmp_path):
    (tmp_path / "other").write_text(json.dumps({**RATES, "layers": 16}))
    done = plan("--rates", files / "rates", "--decode-rates", tmp_path / "other", "--request-rate=1", "--prefill-workers=1",
                "--decode-workers=1")
    assert_one_clear_line(done, "--decode-rates", "--kv-cache-dtype")
