"""Baton reads a tokenizer.json as Hugging Face's tokenizers does: hugging_face_test.py TOKENIZE.

Tokenizers of the kinds that models have are trained on a few lines, and both encode strings from a seed. TOKENIZER_STRINGS=100000
tries so many for each, from the seed in TOKENIZER_SEED.
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import pypi_packages

TOKENIZE = sys.argv.pop(1)
COUNT, SEED = int(os.environ.get("TOKENIZER_STRINGS", 400)), int(os.environ.get("TOKENIZER_SEED", 0))
pypi_packages.or_end(pypi_packages.install, pathlib.Path(__file__).with_name("tokenizers_requirements.txt"))
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

CORPUS = ["The quick brown fox jumps over the lazy dog. Don't you think it's fine? I'LL see.", "for i in range(10):\n    print(i)\n\n\n",
          "1234567890 3.14 10,000", "naïve café École ÉCOLE déjà vu Äpfel über Straße", "Привет, мир! Быстрая лиса.", "中文分词 東京都 カタカナ ひらがな",
          "한국어 문장", "e\u0301 a\u0308 o\u0302", "🙂🙂 👩‍🔬", "  leading   and trailing  ", "\t\ttabs\r\n", "HTTPServer camelCase snake_case"] * 4
WORDS = " ".join(CORPUS).split(" ")
PIECES = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "é", "e\u0301", "\u0301", "\u0323\u0301", "\u1112\u1161\u11ab", "Å", "\u212b", "中", "🙂",
          "'s", "'S", "'", "1", "12", "3456", "٣", "½", ".", "...", "//", "\u00a0", "\u3000", "▁", "▁▁", "\u200d", "\x00", "ſ", "\u0085", "\ufb01",
          "<|im_end|>", "<|im", "<tool>", "<L>", " <L>", "<R> ", "<R>", "<W>", "a<W>", " <W> ", "<s>", "</s>", "<unk>", "<0x0A>", "_", "\U00050000"]
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + CONTRACTIONS +
         r"?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + CONTRACTIONS +
         r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace("{1,3}", "")
ADDED = [AddedToken("<|im_end|>", special=True, normalized=False), AddedToken("<tool>", normalized=False),
         AddedToken("<L>", special=True, lstrip=True, normalized=False), AddedToken("<R>", special=True, rstrip=True, normalized=False),
         AddedToken("<W>", single_word=True, normalized=False)]


def split(expression, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(expression), behavior=behavior, invert=invert)


def byte_level(*steps, regex=False, nfc=False, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*steps, last]) if steps else last
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=500, show_progress=False,
                                                              initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_tokens(ADDED)
    return tokenizer


def characters(normalizer, pre_tokenizer=None, decoder=None, added=()):
    """BPE of characters with byte fallback, trained with U+2581 for spaces."""
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=700, show_progress=False, special_tokens=special))
    stored = json.loads(tokenizer.to_str())
    stored["added_tokens"] = [token for token in stored["added_tokens"] if not token["content"].startswith("<0x")]
    tokenizer = Tokenizer.from_str(json.dumps(stored))
    tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder or decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                                      decoders.Strip(" ", 1, 0)])
    tokenizer.add_tokens([*ADDED, *added])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    return tokenizer


def with_template(tokenizer):
    number = tokenizer.token_to_id("<|im_end|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|im_end|> $A <|im_end|>", pair="$A $B", special_tokens=[("<|im_end|>", number)])])
    return tokenizer


SPACES = normalizers.Replace(" ", "▁")
KINDS = {
    "llama3": lambda: with_template(byte_level(split(LLAMA3), ignore_merges=True)),
    "qwen": lambda: byte_level(split(QWEN), nfc=True),
    "gpt2": lambda: byte_level(regex=True),
    "smollm": lambda: byte_level(pre_tokenizers.Digits(individual_digits=True), regex=True),
    "digits": lambda: byte_level(pre_tokenizers.Digits(individual_digits=False), regex=True),
    "gpt_oss": lambda: byte_level(split(O200K)),
    "deepseek": lambda: byte_level(split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"), split(r"\s?\p{P}+"), regex=True),
    "removed": lambda: byte_level(split(LLAMA3, "removed", invert=True)),
    "previous": lambda: byte_level(split("[ .]", "merged_with_previous")),
    "next": lambda: byte_level(split("[ .]", "merged_with_next")),
    "contiguous": lambda: byte_level(split("[ .]", "contiguous")),
    "at_places": lambda: byte_level(split(r"(?=(?:\p{N}{2})+(?!\p{N}))")),
    "llama2": lambda: characters(normalizers.Sequence([normalizers.Prepend("▁"), SPACES])),
    "mistral": lambda: characters(None, pre_tokenizers.Metaspace("▁", "first", split=False)),
    "metaspace": lambda: characters(None, pre_tokenizers.Metaspace("▁", "always", split=False),
                                    decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                                       decoders.Strip(" ", 1, 0)])),
    "gemma": lambda: characters(SPACES, pre_tokenizers.Split(" ", "merged_with_previous"),
                                decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]),
                                [AddedToken("\n\n", normalized=False), AddedToken("  ", normalized=False)]),
}


def texts():
    rng = random.Random(SEED)
    yield from ["", " ", *CORPUS[:12]]
    for _ in range(COUNT):
        yield "".join(rng.choice(PIECES if rng.random() < 0.5 else WORDS) for _ in range(rng.randint(1, 14)))


class HuggingFace(unittest.TestCase):
    def check(self, tokenizer):
        asked = list(texts())
        lines = [json.dumps({"tokenizer": tokenizer.to_str()})]
        lines += [json.dumps({"text": text, "special": True}) for text in asked]
        done = subprocess.run([TOKENIZE], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, text=True, check=True)
        answers = [json.loads(line) for line in done.stdout.rstrip("\n").split("\n")]
        self.assertEqual(len(answers), len(asked))
        for text, answer in zip(asked, answers):
            ids = tokenizer.encode(text).ids
            self.assertEqual(answer.get("ids", answer.get("error")), ids, repr(text))
            self.assertEqual(answer["text"], tokenizer.decode(ids), repr(text))


for name, make in KINDS.items():
    setattr(HuggingFace, f"test_{name}", lambda self, make=make: self.check(make()))

if __name__ == "__main__":
    unittest.main()
