"""aiperf puts load on the router; what it counts is what the router counts, and its times fit together (docs/clients.md)."""
import json
import os
import subprocess
import sys

import pytest

import fetched
from programs import hugging_face_folder

REQUESTS, WARMUP = 24, 2
PROMPT_TOKENS, OUTPUT_TOKENS = 48, 16


@pytest.fixture(scope="module")
def tokenizer():
    """The model's tokenizer as transformers reads it; aiperf makes prompts and counts their tokens with it."""
    return hugging_face_folder()[1]


def counted(served):
    return {which: served.router.metric(f"baton_{which}_tokens_total") for which in ("prompt", "generation")}


@pytest.fixture(scope="module", params=["chat", "completions"])
def profile(request, served, tokenizer, tmp_path_factory):
    """What aiperf reports of its warm-up and of what it measures, and by how much the router's own counts grew."""
    packages = fetched.packages("aiperf")
    folder = tmp_path_factory.mktemp("aiperf")
    before = counted(served)
    done = subprocess.run(
        [sys.executable, "-m", "aiperf", "profile", "--model", "smollm2", "--url", served.http, "--endpoint-type", request.param,
         "--streaming", "--tokenizer", tokenizer, "--concurrency", "4", "--request-count", str(REQUESTS),
         "--warmup-request-count", str(WARMUP), "--synthetic-input-tokens-mean", str(PROMPT_TOKENS),
         "--synthetic-input-tokens-stddev", "0", "--output-tokens-mean", str(OUTPUT_TOKENS), "--output-tokens-stddev", "0",
         "--extra-inputs", "ignore_eos:true", "--random-seed", "1", "--use-server-token-count", "--workers-max", "1",
         "--ui", "none", "--artifact-dir", str(folder / "out")],
        cwd=folder, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(packages), "HF_HOME": str(folder), "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stdout[-4000:]
    after = counted(served)
    reports = [json.loads((folder / "out" / "phases" / phase / "profile_export_aiperf.json").read_text(encoding="utf-8"))
               for phase in ("warmup", "profiling")]
    return reports, {which: after[which] - before[which] for which in before}


def test_no_request_fails_and_all_tokens_come(profile):
    for report, requests in zip(profile[0], (WARMUP, REQUESTS)):
        assert report["request_count"]["avg"] == requests
        assert report["request_error_rate"]["avg"] == 0
        length = report["output_sequence_length"]
        assert length["min"] == length["max"] == OUTPUT_TOKENS


def test_its_tokens_are_those_that_the_router_counts(profile):
    reports, grown = profile
    assert sum(report["input_sequence_length"]["sum"] for report in reports) == grown["prompt"]
    assert sum(report["output_sequence_length"]["sum"] for report in reports) == grown["generation"]


def test_its_times_fit_together(profile):
    report = profile[0][1]
    latency, first, between = (report[name]["avg"] for name in ("request_latency", "time_to_first_token", "inter_token_latency"))
    assert 0 < first < latency and between > 0
    assert latency == pytest.approx(first + between * (OUTPUT_TOKENS - 1), rel=1e-3)
