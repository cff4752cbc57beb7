#!/usr/bin/python3
"""What a schema costs each token of an answer: inter-token times of answers by a schema, and of twins without one.

    bench/structured.py --model MODEL.gguf [--bin build/dev] [--runs 7] [--schemas 10] [--at-once 1 8] [--json FILE]

A twin has the same prompt and seed and the same number of tokens, which ignore_eos makes it have; its tokens are others. That is
fair here: a step computes the same for whichever token, so that its time depends on the number of tokens before it alone. Nothing is
guessed ahead in either, since forced tokens would make answers by a schema faster. Each run has both, and which comes first changes
from run to run. A figure is the median, least and most of the runs; a ratio is of neighbouring runs. Said to be right when the ratio
of means is at most 1.05 and that of the 99th percentiles at most 1.2."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODES = ("without", "with")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", required=True)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--schemas", type=int, default=10, help="so many of those that people write")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def gaps_ms(stub, made):
    """Times between the tokens of an answer, as its client sees them, and how many tokens it has."""
    times, tokens = [], 0
    for response in stub.Generate(made, timeout=300):
        if response.HasField("chunk") and response.chunk.token_ids:
            times.append(time.perf_counter())
            tokens += len(response.chunk.token_ids)
    return [(after - before) * 1e3 for before, after in zip(times, times[1:])], tokens


def run(stub, requests, at_once):
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        every = sorted(gap for gaps, _ in pool.map(lambda made: gaps_ms(stub, made), requests) for gap in gaps)
    return {"mean_ms": statistics.fmean(every), "p99_ms": every[len(every) * 99 // 100]}


def spread(samples):
    return {"median": statistics.median(samples), "min": min(samples), "max": max(samples)}


def pairs_of(stub, schema_requests, pb, count):
    """Requests by mode: answers by a schema, and their twins."""
    pairs = {mode: [] for mode in MODES}
    for case in schema_requests.compiled_cases()[:count]:
        for made in schema_requests.asked(stub, case):
            made.stream, made.speculative = True, pb.SPECULATIVE_NONE
            _, tokens = gaps_ms(stub, made)  # from here on its prompt is in the prefix cache, and its grammar in the router's
            twin = type(made).FromString(made.SerializeToString())
            twin.ClearField("response_format")
            twin.sampling_params.ignore_eos, twin.sampling_params.max_tokens = True, tokens
            if tokens > 1:
                pairs["with"].append(made)
                pairs["without"].append(twin)
    return pairs


def measure(stub, pairs, at_once, count):
    runs = {mode: [] for mode in MODES}
    for i in range(count):
        for mode in MODES if i % 2 == 0 else reversed(MODES):
            runs[mode].append(run(stub, pairs[mode], at_once))
    result = {}
    for figure in ("mean_ms", "p99_ms"):
        result[figure] = {mode: spread([one[figure] for one in runs[mode]]) for mode in MODES}
        result[figure]["ratio"] = spread([one[figure] / twin[figure] for one, twin in zip(runs["with"], runs["without"])])
    return result


def main():
    args = parse()
    os.environ["BATON_BIN"], os.environ["BATON_TEST_MODEL"] = str(args.bin.resolve() / "bin"), args.model
    os.environ.setdefault("BATON_STUBS", tempfile.mkdtemp(prefix="baton-stubs-"))
    sys.path.insert(0, str(ROOT / "tests/integration"))
    import schema_requests
    from cluster import Cluster
    from stubs import pb

    results = {}
    with Cluster(prefill=0, decode=1, router_args=["--disaggregate=never"], worker_args=["--threads=2"]) as cluster:
        pairs = pairs_of(cluster.stub, schema_requests, pb, args.schemas)
        for at_once in args.at_once:
            results[f"{at_once} at once"] = measure(cluster.stub, pairs, at_once, args.runs)
            print(f"{at_once} at once, {len(pairs['with'])} answers a run:", json.dumps(results[f"{at_once} at once"]), flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
