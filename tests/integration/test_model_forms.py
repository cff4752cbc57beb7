"""One model as a GGUF file, as several, and as a Hugging Face folder: every server takes each form, and the tokens are the same.
A tokenizer may list more tokens than the model has rows."""
import json
import pathlib
import shutil
import struct

import pytest

from cluster import Cluster, complete, request
from split_gguf import ARRAY, Reader, padded, split, text

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


EXTRA = "<extra>"


def file_with_one_more_token(folder):
    """The model's file, whose tokenizer lists a user-defined token for which the embedding has no row."""
    more = {b"tokenizer.ggml.tokens": text(EXTRA.encode()), b"tokenizer.ggml.token_type": struct.pack("<i", 4)}
    data = (DATA / "llama-hf-twin-f16.gguf").read_bytes()
    reader = Reader(data)
    reader.at = 8  # behind the magic and the version
    tensor_count, key_count = reader.take("Q"), reader.take("Q")
    keys = b""
    for _ in range(key_count):
        begin = reader.at
        key = reader.text()
        kind = reader.take("I")
        value = reader.at
        reader.skip(kind)
        if key in more:
            assert kind == ARRAY
            of, count = struct.unpack_from("<IQ", data, value)
            keys += data[begin:value] + struct.pack("<IQ", of, count + 1) + data[value + 12:reader.at] + more.pop(key)
        else:
            keys += data[begin:reader.at]
    assert not more
    infos_begin = reader.at
    for _ in range(tensor_count):
        reader.text()
        dimensions = reader.take("I")
        reader.at += 8 * dimensions + 4 + 8
    tensors = data[reader.at + -reader.at % 32:]
    path = folder / "more.gguf"
    path.write_bytes(padded(data[:24] + keys + data[infos_begin:reader.at]) + tensors)
    return path


def folder_with_one_more_token(folder):
    """The model's folder with an added token behind a gap, as fine-tunes have one."""
    path = shutil.copytree(DATA / "llama-hf", folder / "more")
    tokenizer = json.loads((path / "tokenizer.json").read_text())
    tokenizer["added_tokens"].append({"id": 320, "content": EXTRA, "special": False})
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    return path


@pytest.mark.parametrize("made", [file_with_one_more_token, folder_with_one_more_token])
def test_a_token_without_a_row_is_text_and_forms_are_answered(made, tmp_path):
    with Cluster(model=made(tmp_path), router_args=["--disaggregate=always"]) as cluster:
        assert "tokens without a row" in cluster.router.log_text()
        held = request(prompt="a", max_tokens=9, temperature=0)
        held.response_format.choice.texts.extend(["yes", "no"])
        assert complete(cluster.stub, held).text in ("yes", "no")
        plain = complete(cluster.stub, request(prompt=f"a {EXTRA} b", max_tokens=3, temperature=0))
        assert plain.usage.prompt_tokens > 3, "the literal is several tokens of text"
        assert all(server.process.poll() is None for server in cluster.servers)
