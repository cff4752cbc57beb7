#!/usr/bin/env python3
"""Prints the path of a Hugging Face folder of a GGUF model, which is written into the cache folder
(${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}) at the first call:

    scripts/hugging_face_folder.py MODEL.gguf

For Llama models of F32, F16 or BF16 weights with the tokenizer of SmolLM2. The weights are the GGUF's, bit for bit; vectors,
which a GGUF has in F32, take the matrices' type where that holds them exactly. The rows of Q and K are put back into
Hugging Face's order: a GGUF has the two halves of a head's rotated rows in turns."""

import hashlib
import json
import os
import pathlib
import shutil
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONTROL, USER_DEFINED = 3, 4  # tokenizer.ggml.token_type
NAMES = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
         "output.weight": "lm_head.weight"}
LAYER_NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
               "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
               "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def their_name(name: str) -> str:
    if name in NAMES:
        return NAMES[name]
    _, layer, part, weight = name.split(".")
    return f"model.layers.{layer}.{LAYER_NAMES[part]}.{weight}"


def in_halves(rows, heads: int):
    """The rows of heads [rows, columns], of which the GGUF has the halves in turns."""
    return rows.reshape(heads, -1, 2, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)


def config_of(key) -> dict:
    """config.json. `key` gives the value of a key of the GGUF."""
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
            "attention_bias": False, "mlp_bias": False, "rope_scaling": None,
            "hidden_size": key("llama.embedding_length"), "intermediate_size": key("llama.feed_forward_length"),
            "num_hidden_layers": key("llama.block_count"), "num_attention_heads": key("llama.attention.head_count"),
            "num_key_value_heads": key("llama.attention.head_count_kv"),
            "max_position_embeddings": key("llama.context_length"), "rope_theta": key("llama.rope.freq_base"),
            "rms_norm_eps": key("llama.attention.layer_norm_rms_epsilon"), "vocab_size": len(key("tokenizer.ggml.tokens")),
            "bos_token_id": key("tokenizer.ggml.bos_token_id"), "eos_token_id": key("tokenizer.ggml.eos_token_id")}


def tokenizer_of(key) -> dict:
    """tokenizer.json: byte-level BPE, whose numbers are split into digits."""
    if (key("tokenizer.ggml.model"), key("tokenizer.ggml.pre")) != ("gpt2", "smollm"):
        raise SystemExit("hugging_face_folder: the tokenizer is not SmolLM2's, the only one that can be written")
    tokens = key("tokenizer.ggml.tokens")
    added = [{"id": i, "content": tokens[i], "special": kind == CONTROL, "normalized": False, "lstrip": False,
              "rstrip": False, "single_word": False}
             for i, kind in enumerate(key("tokenizer.ggml.token_type")) if kind in (CONTROL, USER_DEFINED)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": {"type": "Sequence",
                              "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
            "post_processor": None, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "vocab": {token: i for i, token in enumerate(tokens)}, "merges": key("tokenizer.ggml.merges")}}


def weights_of(reader, heads: int, kv_heads: int) -> tuple[dict, str]:
    """Arrays by their name in the folder, and the type of the matrices. BF16 is in arrays of 16-bit integers."""
    import numpy as np
    from gguf import GGMLQuantizationType as Type

    matrices = {tensor.tensor_type for tensor in reader.tensors if len(tensor.shape) > 1}
    if len(matrices) != 1 or not matrices <= {Type.F32, Type.F16, Type.BF16}:
        raise SystemExit(f"hugging_face_folder: the weights are {[type.name for type in matrices]}, not one of F32, F16, BF16; "
                         "scripts/requantise_model.py makes such a file")
    (type,) = matrices
    arrays = {}
    for tensor in reader.tensors:
        data = np.asarray(tensor.data)
        if tensor.tensor_type == Type.BF16:
            data = data.view(np.uint16)
        if ".attn_q." in tensor.name or ".attn_k." in tensor.name:
            data = in_halves(data, heads if ".attn_q." in tensor.name else kv_heads)
        if data.ndim == 1 and type == Type.F16 and (data.astype(np.float16).astype(np.float32) == data).all():
            data = data.astype(np.float16)
        arrays[their_name(tensor.name)] = np.ascontiguousarray(data)
    return arrays, type.name


def write_safetensors(arrays: dict, path: pathlib.Path) -> None:
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, array in arrays.items():
        dtype = {"float32": "F32", "float16": "F16", "uint16": "BF16"}[array.dtype.name]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(array.tobytes())


def write_folder(source: pathlib.Path, folder: pathlib.Path) -> None:
    from gguf import GGUFReader

    reader = GGUFReader(source)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    if fields["general.architecture"] != "llama":
        raise SystemExit(f"hugging_face_folder: the architecture is {fields['general.architecture']}, not llama")
    key = fields.__getitem__
    arrays, type_name = weights_of(reader, key("llama.attention.head_count"), key("llama.attention.head_count_kv"))
    config = config_of(key)
    config["tie_word_embeddings"] = "lm_head.weight" not in arrays
    config["torch_dtype"] = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}[type_name]
    tokens = key("tokenizer.ggml.tokens")
    generation = {"bos_token_id": config["bos_token_id"], "eos_token_id": config["eos_token_id"]}
    generation |= {theirs: fields[f"general.sampling.{ours}"]
                   for ours, theirs in (("temp", "temperature"), ("top_p", "top_p"), ("top_k", "top_k"))
                   if f"general.sampling.{ours}" in fields}
    settings = {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False,
                "add_bos_token": fields.get("tokenizer.ggml.add_bos_token", False),
                "bos_token": tokens[config["bos_token_id"]], "eos_token": tokens[config["eos_token_id"]],
                "chat_template": fields.get("tokenizer.chat_template")}
    files = {"config.json": config, "generation_config.json": generation, "tokenizer.json": tokenizer_of(key),
             "tokenizer_config.json": settings}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    write_safetensors(arrays, folder / "model.safetensors")


def cached(source: pathlib.Path) -> pathlib.Path:
    """The folder in the cache. Its name holds a digest of what it is made of."""
    sys.path.insert(0, str(ROOT / "tests/support"))
    import pypi_packages

    if lacking := pypi_packages.lacking():
        raise SystemExit(f"hugging_face_folder: {lacking}")
    pypi_packages.install(ROOT / "scripts/requantise_requirements.txt")
    digest = hashlib.sha256(pathlib.Path(__file__).read_bytes() + source.read_bytes()).hexdigest()[:12]
    path = pypi_packages.cache_folder() / f"{source.stem.rsplit('.', 1)[0]}.{digest}"
    if not path.exists():
        print(f"writing {path.name}", file=sys.stderr, flush=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        partial.mkdir()
        try:
            write_folder(source, partial)
            os.replace(partial, path)  # the last step, so that a cut folder never looks whole
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return path


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print(cached(pathlib.Path(sys.argv[1])))
