"""`baton bench engine` as a person and a script run it."""
import json
import pathlib

import pytest

from programs import assert_one_clear_line, run

TINY = str(pathlib.Path(__file__).resolve().parent.parent / "data" / "tiny" / "tiny-llama-q4_1.gguf")


def bench(*args):
    return run("baton", "bench", "engine", *args)


def test_json_has_every_test_and_the_walls_of_the_same_run():
    done = bench("--model", TINY, "-p", "32,64", "-n", "4", "-d", "0,48", "-b", "1,3", "-r", "2", "--threads=2",
                 "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    for wall in ("memory_read_gb_s", "int8_gops", "f32_gflops"):
        assert report[wall] > 0
    assert report["model"] and report["cpu"] and report["threads"] == 2
    assert report["isa"] in ("avx512", "avx2-vnni", "avx2-no-vnni", "portable")
    rows = [(row["test"], row["depth"], row["batch"]) for row in report["results"]]
    assert rows == [(test, depth, batch) for depth in (0, 48)
                    for test, batch in (("pp32", 1), ("pp64", 1), ("tg4", 1), ("tg4", 3))] + [("gemm512", 0, 1)]
    for row in report["results"]:
        share = "share_of_bandwidth" if row["test"].startswith("tg") else "share_of_peak"
        assert 0 < row[share] and row["tokens_per_s"] > 0 and row["stdev"] >= 0
        assert len(row["samples"]) == 2
        assert row["tokens_per_s"] == pytest.approx(sum(row["samples"]) / 2)


def test_the_table_is_for_people():
    done = bench("--model", TINY, "-p", "16", "-n", "0", "-r", "1", "--cpu-isa=portable")
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    assert "portable" in text and "| pp16 " in text and "| tg" not in text


def test_a_random_shape_can_be_written_and_measured(tmp_path):
    path = tmp_path / "random.gguf"
    done = bench("--shape=smollm2-135m", "--weights=q4_0", f"--write-gguf={path}")
    assert done.returncode == 0, done.stderr
    tokens = run("baton", "tokenize", "--model", str(path), "ab")
    assert json.loads(tokens.stdout), tokens.stderr
    done = bench("--model", str(path), "-p", "0", "-n", "1", "-r", "1", "--json")
    assert json.loads(done.stdout)["model"] == "smollm2-135m (random)", done.stderr


@pytest.mark.parametrize("args, words", [
    ([], ["--model"]),
    (["--model", TINY, "--shape", "smollm2-135m"], ["--model", "--shape"]),
    (["--shape", "gpt-5"], ["--shape", "gpt-5", "llama-3.2-1b"]),
    (["--shape", "smollm2-135m", "--weights", "q3_k"], ["--weights", "q3_k"]),
    (["--shape", "smollm2-135m", "--weights", "q4_k"], ["q4_k", "576"]),
    (["--model", TINY, "--write-gguf", "x"], ["--write-gguf", "--shape"]),
    (["--model", TINY, "-d", "4096"], ["--n-depth", "4096", "context"]),
    (["--model", TINY, "-b", "0"], ["--batch", "0"]),
    (["--model", TINY, "-p", "x"], ["--n-prompt", "x"]),
    (["--model", TINY, "-r", "0"], ["--repetitions", "0"]),
    (["--model", TINY, "--device", "tpu"], ["--device", "tpu"]),
    (["--model", TINY, "--cpu-isa", "sse"], ["--cpu-isa", "sse"]),
    (["--model", TINY, "--cpu-set", "9999"], ["--cpu-set", "9999"]),
    (["--model", TINY, "--kv-cache-dtype", "q8"], ["--kv-cache-dtype", "q8"]),
    (["--model", TINY, "--block-size", "24"], ["--block-size", "24"]),
    (["--model", "/nowhere.gguf"], ["/nowhere.gguf"]),
])
def test_what_cannot_be_measured_is_one_clear_line(args, words):
    assert_one_clear_line(bench(*args), *words)
