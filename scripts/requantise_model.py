#!/usr/bin/env python3
"""Prints the path of a GGUF model in another type of weights, which is written into the cache folder
(${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}) at the first call:

    scripts/requantise_model.py MODEL.gguf TYPE

The matrices are dequantised and quantised again by PyPI's gguf. As in the Q4_1 file of SmolLM2 the embedding, which is
the head too, is Q8_0 in types below 8 bits."""

import hashlib
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
EMBEDDING = "token_embd.weight"


def requantise(source: pathlib.Path, target: str, type_name: str) -> None:
    """`type_name` is one of gguf's GGMLQuantizationType. gguf is imported here, since it may have to be installed first."""
    import numpy as np
    from gguf import GGMLQuantizationType as Type
    from gguf import GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType, quants

    reader = GGUFReader(source)
    writer = GGUFWriter(target, "llama")
    for name, entry in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        value_type = entry.types[0]
        sub_type = entry.types[1] if value_type == GGUFValueType.ARRAY else None
        writer.add_key_value(name, entry.contents(), value_type, sub_type)
    writer.add_file_type(LlamaFileType[f"MOSTLY_{type_name}"])
    for tensor in reader.tensors:
        wanted = Type[type_name]
        if tensor.tensor_type == Type.F32:
            wanted = Type.F32
        elif tensor.name == EMBEDDING and wanted not in (Type.F16, Type.BF16):
            wanted = Type.Q8_0
        data = tensor.data
        if tensor.tensor_type != wanted:
            data = quants.quantize(quants.dequantize(data, tensor.tensor_type), wanted)
        is_plain = wanted in (Type.F32, Type.F16)
        writer.add_tensor(tensor.name, np.ascontiguousarray(data), raw_dtype=None if is_plain else wanted)
    finish(writer)


def finish(writer) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def cached(source: pathlib.Path, type_name: str) -> pathlib.Path:
    """The file in the cache. Its name holds a digest of what it is made of."""
    sys.path.insert(0, str(ROOT / "tests/support"))
    import pypi_packages

    if lacking := pypi_packages.lacking():
        raise SystemExit(f"requantise_model: {lacking}")
    pypi_packages.install(ROOT / "scripts/requantise_requirements.txt")
    digest = hashlib.sha256(pathlib.Path(__file__).read_bytes() + source.read_bytes()).hexdigest()[:12]
    path = pypi_packages.cache_folder() / f"{source.stem.rsplit('.', 1)[0]}.{type_name}.{digest}.gguf"
    if not path.exists():
        print(f"writing {path.name}", file=sys.stderr, flush=True)
        partial = f"{path}.{os.getpid()}.partial"
        requantise(source, partial, type_name)
        os.replace(partial, path)  # the last step, so that a cut file never looks whole
    return path


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    print(cached(pathlib.Path(sys.argv[1]), sys.argv[2]))
