"""One model as a GGUF file, as several, and as a Hugging Face folder: every server takes each form, and the tokens are the same."""
import pathlib

import pytest

from cluster import Cluster, complete, request
from split_gguf import split

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "arch"


def tokens_of(model):
    with Cluster(model=model, router_args=["--disaggregate=always"]) as cluster:
        done = complete(cluster.stub, request(ids=[1, 5, 9, 12], max_tokens=24, ignore_eos=True, temperature=0))
        assert not done.timings.local_prefill
        return list(done.token_ids)


@pytest.mark.plain
def test_a_folder_and_a_split_file_have_the_tokens_of_the_file(tmp_path):
    file = DATA / "llama-hf-twin-f16.gguf"
    right = tokens_of(file)
    assert len(right) == 24
    assert tokens_of(DATA / "llama-hf") == right
    assert tokens_of(split(file, tmp_path, 3)) == right
