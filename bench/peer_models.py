"""Writes the GGUF files that compare_peers.py needs beside the Q4_1 one, and prints {"Q8_0": path, ...} as JSON.

Runs in the environment that compare_peers.py makes:    peer_models.py SMOLLM2.Q4_1.gguf FOLDER TYPE...

The K-quants, whose blocks of 256 do not divide SmolLM2's width, are random blocks in the shape of Llama-3.2-1B. The
other types are SmolLM2, dequantised and quantised again; as in the Q4_1 file the embedding, which is the head too, is
Q8_0 in types below 8 bits. A file is made once: its name holds a digest of what it is made of.
"""

import hashlib
import json
import os
import pathlib
import sys
from collections.abc import Iterator

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter, LlamaFileType, TokenType

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
from requantise_model import EMBEDDING, finish, requantise  # noqa: E402

# The shape of Llama-3.2-1B.
VOCABULARY = 128256
WIDTH = 2048
FEED_FORWARD = 8192
LAYERS = 16
HEADS = 32
KV_HEADS = 8
HEAD_DIM = 64

BLOCK_VALUES = 256
# Bytes of a block, and the offsets of its float16 scales with values that make weights of about +-0.02.
K_BLOCKS = {
    "Q4_K": (144, {0: 4e-5, 2: 3e-4}),
    "Q5_K": (176, {0: 2e-5, 2: 3e-4}),
    "Q6_K": (210, {208: 1e-5}),
}


def random_blocks(rng: np.random.Generator, type_name: str, rows: int, columns: int) -> np.ndarray:
    block_bytes, scales = K_BLOCKS[type_name]
    count = rows * columns // BLOCK_VALUES
    blocks = rng.integers(0, 256, size=(count, block_bytes), dtype=np.uint8)
    for offset, scale in scales.items():
        values = scale * rng.uniform(0.5, 1.5, size=(count, 1))
        blocks[:, offset : offset + 2] = values.astype("<f2").view(np.uint8)
    return blocks.reshape(rows, -1)


def byte_letters() -> list[str]:
    """GPT-2's letters for the 256 bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def add_tokenizer(writer: GGUFWriter) -> None:
    """Bytes, all pairs of bytes, and fill: small, but one that every reader accepts."""
    letters = byte_letters()
    tokens = letters + [first + second for first in letters for second in letters]
    fill = VOCABULARY - len(tokens) - 2
    kinds = [TokenType.NORMAL] * len(tokens) + [TokenType.UNUSED] * fill + [TokenType.CONTROL] * 2
    tokens += [f"<|fill_{i}|>" for i in range(fill)] + ["<|begin_of_text|>", "<|end_of_text|>"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([f"{first} {second}" for first in letters for second in letters])
    writer.add_bos_token_id(VOCABULARY - 2)
    writer.add_eos_token_id(VOCABULARY - 1)
    writer.add_add_bos_token(True)


def matrices() -> Iterator[tuple[str, int, int]]:
    """Name, rows and columns."""
    yield EMBEDDING, VOCABULARY, WIDTH
    for layer in range(LAYERS):
        for name, rows, columns in (
            ("attn_q", HEADS * HEAD_DIM, WIDTH),
            ("attn_k", KV_HEADS * HEAD_DIM, WIDTH),
            ("attn_v", KV_HEADS * HEAD_DIM, WIDTH),
            ("attn_output", WIDTH, HEADS * HEAD_DIM),
            ("ffn_gate", FEED_FORWARD, WIDTH),
            ("ffn_up", FEED_FORWARD, WIDTH),
            ("ffn_down", WIDTH, FEED_FORWARD),
        ):
            yield f"blk.{layer}.{name}.weight", rows, columns


def write_random(target: str, type_name: str) -> None:
    rng = np.random.default_rng(1)
    writer = GGUFWriter(target, "llama")
    writer.add_name("random weights in the shape of Llama-3.2-1B")
    writer.add_file_type(LlamaFileType[f"MOSTLY_{type_name}" if type_name == "Q6_K" else f"MOSTLY_{type_name}_M"])
    writer.add_context_length(8192)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(500000.0)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    add_tokenizer(writer)
    for name, rows, columns in matrices():
        writer.add_tensor(name, random_blocks(rng, type_name, rows, columns), raw_dtype=Type[type_name])
    norms = [f"blk.{layer}.{name}.weight" for layer in range(LAYERS) for name in ("attn_norm", "ffn_norm")]
    for name in [*norms, "output_norm.weight"]:
        writer.add_tensor(name, np.ones(WIDTH, dtype=np.float32))
    finish(writer)


def main() -> None:
    source, folder, *types = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), *sys.argv[3:]
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(pathlib.Path(__file__).read_bytes() + source.read_bytes()).hexdigest()[:12]
    paths = {"Q4_1": str(source)}
    for type_name in types:
        shape = "llama-3.2-1b-random" if type_name in K_BLOCKS else "smollm2-135m"
        path = folder / f"{shape}.{type_name}.{digest}.gguf"
        paths.setdefault(type_name, str(path))
        if type_name == "Q4_1" or path.exists():
            continue
        print(f"writing {path.name}", file=sys.stderr, flush=True)
        for old in folder.glob(f"{shape}.{type_name}.*"):
            old.unlink()
        partial = f"{path}.{os.getpid()}.partial"
        if type_name in K_BLOCKS:
            write_random(partial, type_name)
        else:
            requantise(source, partial, type_name)
        os.replace(partial, path)  # the last step, so that a cut file never looks whole
    print(json.dumps(paths))


if __name__ == "__main__":
    main()
