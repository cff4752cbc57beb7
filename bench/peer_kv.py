#!/usr/bin/python3
"""What the types of llama.cpp's KV cache do to a model's distributions, over the tokens of kv_types_smollm2_test.

    bench/peer_kv.py --model MODEL.gguf [--peers FOLDER]

Prints, of each type, the KL divergence from llama.cpp's own f16 cache, pooled over the tokens of the passages, and the perplexity
of the passages, as that test prints Baton's. peer_server.py builds the library if it is not there. Takes half a minute then."""
import argparse
import json
import pathlib
import subprocess
import tempfile

from peer_server import DEFAULT_FOLDER, server
from peer_tools import BENCH, run_checked
from serving import ROOT

TOKENS = 400  # tokens of each passage, as in kv_types_smollm2_test
# Each needs those behind it.
ARCHIVES = ("src/libllama.a", "ggml/src/libggml.a", "ggml/src/libggml-cpu.a", "ggml/src/libggml-base.a")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--peers", type=pathlib.Path, default=DEFAULT_FOLDER)
    args = parser.parse_args()
    build = server(args.peers).parent.parent
    reference = json.loads((ROOT / "tests/data/reference/smollm2.json").read_text(encoding="utf-8"))
    passages = [" ".join(map(str, passage["token_ids"][:TOKENS])) for passage in reference["passages"]]
    with tempfile.TemporaryDirectory(prefix="baton-peer-kv-") as folder:
        program = f"{folder}/peer_kv"
        run_checked(["c++", "-std=c++20", "-O2", f"-I{build / 'include'}", str(BENCH / "peer_kv.cc"),
                     *(str(build / archive) for archive in ARCHIVES), "-pthread", "-ldl", "-o", program], "the compiler")
        subprocess.run([program, args.model], input="\n".join(passages), text=True, check=True)


if __name__ == "__main__":
    main()
