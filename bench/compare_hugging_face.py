#!/usr/bin/env python3
"""Decode and batching beside Hugging Face's `generate` on the same device, with random weights of one shape.

    bench/compare_hugging_face.py [--bin FOLDER] [--device cuda|cpu] [--rows generation,batching] [--json FILE]

Needs PyTorch and transformers. `generate` runs in eager mode with sdpa attention and bf16 weights, as most people run it.
generation: time for each token of one sequence. batching: the requests of a trace (their prompt and output lengths), here in
groups of --batch that are padded to their longest prompt and run to their longest output, there as Baton serves them, as
many at once; counted are the tokens that were asked for.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRACE = ROOT / "tests" / "data" / "traces" / "azure_conversation.csv"
# The shapes of bench/model/random_model.cc: layers, width, feed-forward width, heads, KV heads, head dimension,
# vocabulary size, tied.
SHAPES = {
    "smollm2-135m": (30, 576, 1536, 9, 3, 64, 49152, True),
    "llama-3.2-1b": (16, 2048, 8192, 32, 8, 64, 128256, True),
    "llama-3.1-8b": (32, 4096, 14336, 32, 8, 128, 128256, False),
}
PROMPT_TOKENS = 128  # tokens of the prompt in the generation row


def lengths(count, most):
    """(prompt tokens, output tokens) of the trace's first `count` requests with at most `most` tokens together."""
    lines = (line for line in TRACE.read_text().splitlines() if not line.startswith("#"))
    pairs = [tuple(int(tokens) for tokens in line.split(",")[:2]) for line in lines]
    return [pair for pair in pairs if sum(pair) <= most][:count]


class HuggingFace:
    def __init__(self, shape, device):
        import torch
        import transformers

        self.torch, self.device = torch, device
        layers, width, feed_forward, heads, kv_heads, head_dim, vocabulary, tied = SHAPES[shape]
        config = transformers.LlamaConfig(
            num_hidden_layers=layers, hidden_size=width, intermediate_size=feed_forward, num_attention_heads=heads,
            num_key_value_heads=kv_heads, head_dim=head_dim, vocab_size=vocabulary, tie_word_embeddings=tied,
            max_position_embeddings=8192, bos_token_id=0, eos_token_id=None, pad_token_id=0)
        self.vocabulary = vocabulary
        with torch.device(device):
            model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.bfloat16)
        self.model = model.eval()
        self.versions = f"PyTorch {torch.__version__}, transformers {transformers.__version__}"

    def generate_s(self, prompts, outputs):
        """Seconds for `outputs` tokens after each prompt. `prompts` are lengths in tokens; prompts are padded on the left."""
        torch = self.torch
        longest = max(prompts)
        ids = torch.randint(1, self.vocabulary, (len(prompts), longest), device=self.device)
        mask = torch.ones_like(ids)
        for row, tokens in enumerate(prompts):
            mask[row, : longest - tokens] = 0
        self._wait()
        begin = time.perf_counter()
        with torch.inference_mode():
            self.model.generate(ids, attention_mask=mask, do_sample=False, min_new_tokens=outputs, max_new_tokens=outputs)
        self._wait()
        return time.perf_counter() - begin

    def _wait(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()


def generation(peer, options):
    peer.generate_s([PROMPT_TOKENS], 8)  # warms up
    theirs = []
    for _ in range(3):
        first = peer.generate_s([PROMPT_TOKENS], 1)
        theirs.append((peer.generate_s([PROMPT_TOKENS], options.tokens + 1) - first) / options.tokens)
    ours = subprocess.run(
        [options.bin / "baton", "bench", "engine", "--device", options.device, "--shape", options.shape, "--weights", "bf16",
         "-p", "0", "-n", str(options.tokens), "-d", str(PROMPT_TOKENS), "-r", "3", "--json"],
        check=True, stdout=subprocess.PIPE, text=True, timeout=300)
    rate = json.loads(ours.stdout)["results"][0]["tokens_per_s"]
    return {"hugging_face_tokens_per_s": 1 / statistics.median(theirs), "baton_tokens_per_s": rate}


def static_batching(peer, requests, batch):
    """Requested tokens/s of `generate` over padded groups of requests."""
    seconds = 0.0
    for i in range(0, len(requests), batch):
        group = requests[i:i + batch]
        seconds += peer.generate_s([prompt for prompt, _ in group], max(output for _, output in group))
        print(f"compare_hugging_face: {min(i + batch, len(requests))} of {len(requests)} requests, {seconds:.0f} s", file=sys.stderr)
    return sum(output for _, output in requests) / seconds


def continuous_batching(options, requests):
    """Requested tokens/s of our server with --batch requests at once, over a window of --seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        model, trace = scratch / "model.gguf", scratch / "trace.csv"
        subprocess.run([options.bin / "baton", "bench", "engine", "--shape", options.shape, "--weights", "bf16", "--write-gguf",
                        model], check=True, capture_output=True, timeout=300)
        trace.write_text("".join(f"{prompt},{output},\n" for prompt, output in requests))
        server = subprocess.Popen(
            [options.bin / "baton", "serve", f"--model={model}", f"--device={options.device}", "--listen=127.0.0.1:0",
             "--disaggregate=never", f"--max-num-seqs={options.batch}", "--log-level=error"], stdout=subprocess.PIPE, text=True)
        try:
            line = ""
            while not line.startswith("ready: grpc://"):
                line = server.stdout.readline()
                if not line:
                    sys.exit("compare_hugging_face: baton serve ended before it was ready")
            address = line.split("grpc://")[1].strip()
            run = subprocess.run(
                [options.bin / "baton", "bench", "serve", f"--server={address}", f"--max-concurrency={options.batch}",
                 f"--trace={trace}", f"--vocab-size={SHAPES[options.shape][6]}", f"--duration={options.seconds}s", "--json"],
                check=True, stdout=subprocess.PIPE, text=True, timeout=options.seconds + 120)
        finally:
            server.terminate()
            server.wait(timeout=60)
    return json.loads(run.stdout)["classes"]["all"]["tokens_per_s"]


def batching(peer, options):
    requests = lengths(options.requests, 4096)
    peer.generate_s([requests[0][0]], 8)
    theirs = static_batching(peer, requests, options.batch)
    return {"requests": len(requests), "batch": options.batch, "hugging_face_tokens_per_s": theirs,
            "baton_tokens_per_s": continuous_batching(options, requests)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    beside = ROOT / "bin"  # in a bundle
    parser.add_argument("--bin", type=pathlib.Path, default=beside if beside.is_dir() else ROOT / "build" / "cuda" / "bin",
                        help="folder of baton")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--shape", choices=SHAPES, default="llama-3.2-1b")
    parser.add_argument("--rows", default="generation,batching")
    parser.add_argument("--tokens", type=int, default=128, help="of the generation row")
    parser.add_argument("--requests", type=int, default=128, help="of the batching row")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=30, help="that the batching row serves")
    parser.add_argument("--json", type=pathlib.Path, help="also write the result there")
    options = parser.parse_args()
    rows = {"generation": generation, "batching": batching}
    unknown = [name for name in options.rows.split(",") if name not in rows]
    if unknown:
        parser.error(f"--rows: {unknown[0]}: must be of {', '.join(rows)}")
    try:
        peer = HuggingFace(options.shape, options.device)
    except ImportError as error:
        sys.exit(f"compare_hugging_face: {error}; install PyTorch and transformers")
    result = {"shape": options.shape, "peer": peer.versions}
    for name in options.rows.split(","):
        row = rows[name](peer, options)
        row["ratio"] = row["baton_tokens_per_s"] / row["hugging_face_tokens_per_s"]
        result[name] = row
        print(f"{name}: {row['baton_tokens_per_s']:.1f} against {row['hugging_face_tokens_per_s']:.1f} tokens/s: "
              f"{row['ratio']:.2f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
