"""lm-eval's local-completions, with the router's tokenizer, finds the log-likelihoods that gRPC tells (docs/clients.md)."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

import fetched
from cluster import complete, request
from stubs import pb

TASK = pathlib.Path(__file__).resolve().parent / "lm_eval_task"
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def samples(served, tmp_path_factory):
    """What lm-eval has written of each document of the task, and the scores of all."""
    packages = fetched.packages("lm_eval")
    folder = tmp_path_factory.mktemp("lm_eval")
    arguments = ",".join(["model=smollm2", f"base_url={served.http}/v1/completions", "tokenizer_backend=remote",
                          "num_concurrent=4", "max_retries=1"])
    done = subprocess.run(
        [sys.executable, "-m", "lm_eval", "run", "--model", "local-completions", "--model_args", arguments, "--tasks", "capitals",
         "--include_path", str(TASK), "--batch_size", "2", "--log_samples", "--output_path", str(folder / "out")],
        cwd=TASK, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240,
        env={**os.environ, "PYTHONPATH": str(packages), "HF_HOME": str(folder), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1",
             "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stdout[-4000:]
    (written,) = (folder / "out").rglob("samples_capitals_*.jsonl")
    (results,) = (folder / "out").rglob("results_*.json")
    lines = [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]
    return lines, json.loads(results.read_text(encoding="utf-8"))["results"]["capitals"]


def by_grpc(served, context, continuation):
    """The log-likelihood of the continuation, and whether each of its tokens was the most probable one."""
    asked = request(prompt=context + continuation, max_tokens=0, prompt_logprobs=1)
    begin = len(served.stub.Tokenize(pb.TokenizeRequest(text=context)).token_ids)
    entries = complete(served.stub, asked).prompt_logprobs[begin:]
    assert entries
    return sum(entry.logprob for entry in entries), all(e.token_id == e.top_logprobs[0].token_id for e in entries)


def test_log_likelihoods_are_those_of_grpc(served, samples):
    lines, _ = samples
    assert len(lines) == len((TASK / "capitals.jsonl").read_text(encoding="utf-8").splitlines())
    for line in lines:
        pairs = [tuple(pair.values()) for pair in line["arguments"].values()]
        assert len(pairs) == len(line["resps"]) == 3
        for (context, continuation), ((likelihood, is_greedy),) in zip(pairs, line["resps"]):
            expected, greedy = by_grpc(served, context, continuation)
            assert abs(float(likelihood) - expected) < TOLERANCE, (context, continuation)
            assert (str(is_greedy) == "True") == greedy


def test_the_score_is_the_share_of_documents_with_the_right_ending(served, samples):
    lines, scores = samples
    right = 0
    for line in lines:
        likelihoods = [by_grpc(served, *pair.values())[0] for pair in line["arguments"].values()]
        right += likelihoods.index(max(likelihoods)) == line["doc"]["answer"]
    assert scores["acc,none"] == pytest.approx(right / len(lines))
    assert scores["acc,none"] > 0.4
