"""Gemma 3 as its definition has it: float32 over the dequantised weights of a GGUF file, without a KV cache; and its tokenizer by
Google's SentencePiece. Independent of the product's code. Needs gguf, NumPy and sentencepiece."""
import math
import struct

import numpy as np
from gguf import GGUFReader, dequantize

PREFIX = "gemma3."
LAYERS_OF_A_PERIOD = 6  # the last one sees all keys, the others those of the window
LOCAL_BASE = 10000.0


def rms_norm(x, gain, epsilon):
    return x / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + np.float32(epsilon)) * gain


def gelu(x):
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    return x * np.float32(0.5) * (1 + np.tanh(inner))


def rotate(x, base):
    """x: [tokens, heads, head size]. Value i turns against value i + half."""
    tokens, _, size = x.shape
    angles = np.outer(np.arange(tokens), base ** (-2 * np.arange(size // 2) / size))[:, None, :]
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    first, second = x[..., :size // 2], x[..., size // 2:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def attend(queries, keys, values, window):
    """[tokens, heads, size], [tokens, kv heads, size] twice; window 0: none. Returns [tokens, heads * size]."""
    tokens, heads, size = queries.shape
    distance = np.arange(tokens)[:, None] - np.arange(tokens)[None, :]
    hidden = (distance < 0) | (distance >= window if window else False)
    of_head = np.arange(heads) // (heads // keys.shape[1])
    scores = np.einsum("qhd,khd->hqk", queries, keys[:, of_head]) / np.float32(math.sqrt(size))
    scores[:, hidden] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("hqk,khd->qhd", weights, values[:, of_head]).reshape(tokens, heads * size)


class GemmaReference:
    def __init__(self, path):
        reader = GGUFReader(path)
        self.fields = {name: field.contents() for name, field in reader.fields.items()}
        assert self.fields["general.architecture"] == "gemma3" and PREFIX + "rope.scaling.type" not in self.fields
        self.weights = {tensor.name: dequantize(tensor.data, tensor.tensor_type).astype(np.float32) for tensor in reader.tensors}
        self.epsilon = self.key("attention.layer_norm_rms_epsilon")

    def key(self, name):
        return self.fields[PREFIX + name]

    def norm(self, x, name):
        return rms_norm(x, self.weights[name + ".weight"], self.epsilon)

    def product(self, x, name):
        return x @ self.weights[name + ".weight"].T

    def log_probabilities(self, tokens, first):
        """The values for each next token, after tokens[:first + 1] and so on: [len(tokens) - first, vocabulary]."""
        x = self.weights["token_embd.weight"][tokens] * np.float32(math.sqrt(self.key("embedding_length")))
        size = self.key("attention.key_length")
        for layer in range(self.key("block_count")):
            name = f"blk.{layer}."
            is_local = layer % LAYERS_OF_A_PERIOD != LAYERS_OF_A_PERIOD - 1
            base = LOCAL_BASE if is_local else self.key("rope.freq_base")
            h = self.norm(x, name + "attn_norm")
            q, k, v = (self.product(h, name + f"attn_{part}").reshape(len(tokens), -1, size) for part in "qkv")
            q, k = (rotate(self.norm(part, name + f"attn_{which}_norm"), base) for part, which in ((q, "q"), (k, "k")))
            attended = attend(q, k, v, self.key("attention.sliding_window") if is_local else 0)
            x = x + self.norm(self.product(attended, name + "attn_output"), name + "post_attention_norm")
            h = self.norm(x, name + "ffn_norm")
            gated = gelu(self.product(h, name + "ffn_gate")) * self.product(h, name + "ffn_up")
            x = x + self.norm(self.product(gated, name + "ffn_down"), name + "post_ffw_norm")
        logits = self.product(self.norm(x[first:], "output_norm"), "token_embd").astype(np.float64)
        logits -= logits.max(axis=-1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))

    def sentencepiece(self):
        """The file's vocabulary as a model of SentencePiece."""
        import sentencepiece
        return sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model(
            self.fields["tokenizer.ggml.tokens"], self.fields["tokenizer.ggml.scores"], self.fields["tokenizer.ggml.token_type"],
            self.fields["tokenizer.ggml.unknown_token_id"]))


NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4  # the same in GGUF and SentencePiece


def varint(number):
    encoded = b""
    while number > 127:
        encoded, number = encoded + bytes([number & 127 | 128]), number >> 7
    return encoded + bytes([number])


def number_field(number, value):
    return varint(number << 3) + varint(value)


def bytes_field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def sentencepiece_model(tokens, scores, types, unknown_id):
    """A ModelProto (sentencepiece_model.proto): BPE with a token for each byte, and no normalising."""
    types = list(types)
    types[unknown_id] = UNKNOWN  # a GGUF may call it a control token
    pieces = b"".join(
        bytes_field(1, bytes_field(1, token.replace(" ", "\u2581").encode()) + varint(2 << 3 | 5) + struct.pack("<f", score) +
                    number_field(3, kind))
        for token, score, kind in zip(tokens, scores, types))
    trainer = number_field(3, 2) + number_field(35, 1) + number_field(40, unknown_id) + b"".join(
        bytes_field(field, tokens[i].encode()) for field, i in ((45, unknown_id), (46, 2), (47, 1), (48, 0)))
    trainer += number_field(41, 2) + number_field(42, 1) + number_field(43, 0)  # bos, eos, pad
    normalizer = bytes_field(1, b"identity") + number_field(3, 0) + number_field(4, 0) + number_field(5, 1)
    return pieces + bytes_field(2, trainer) + bytes_field(3, normalizer)
