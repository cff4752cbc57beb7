#!/usr/bin/python3
"""Whether anything that a client sees tells which prompts another tenant holds in the prefix caches.

    bench/tenant_privacy.py --model MODEL.gguf [--bin build/dev] [--requests 10000] [--json FILE]

Before each request of the prober, the other tenant sends a prompt: the same one, or one that nobody asks again; which it is, is
drawn. Everything in the answer, its headers and its times is one observable. The AUC of each is printed: the chance that a held
prompt has a larger value than one that nobody holds, ties counted half, or the reverse if that is larger. Said to be right when no
AUC is above 0.52. Servers run on CPU 0, the clients on CPU 1. 10,000 requests take some 30 minutes; with fewer than that, chance
alone passes the bar."""
import argparse
import json
import os
import pathlib
import random
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BAR = 0.52


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", required=True)
    parser.add_argument("--requests", type=int, default=10_000, help="of the prober")
    parser.add_argument("--prompt", type=int, default=65, help="tokens of a prompt; whole blocks of 32 could be found")
    parser.add_argument("--disaggregate", default="always", help="as the router's flag")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def auc(held, others):
    """The chance that one of `held` is larger than one of `others`, by the sum of ranks; or the reverse if that is larger."""
    ranked = sorted([(value, True) for value in held] + [(value, False) for value in others])
    ranks, begin = 0.0, 0
    while begin < len(ranked):
        end = begin
        while end < len(ranked) and ranked[end][0] == ranked[begin][0]:
            end += 1
        ranks += (begin + 1 + end) / 2 * sum(is_held for _, is_held in ranked[begin:end])
        begin = end
    chance = (ranks - len(held) * (len(held) + 1) / 2) / (len(held) * len(others))
    return max(chance, 1 - chance)


def main():
    args = parse()
    os.environ["BATON_BIN"], os.environ["BATON_TEST_MODEL"] = str(args.bin.resolve() / "bin"), args.model
    os.environ.setdefault("BATON_STUBS", tempfile.mkdtemp(prefix="baton-stubs-"))
    sys.path.insert(0, str(ROOT / "tests/integration"))
    from cluster import Cluster, request
    from observables import observe
    from programs import bearer, new_key

    drawn = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "keys.toml"
        holder, prober = (bearer(new_key(file, f"--tenant={name}")) for name in ("holder", "prober"))

        def ask(cluster, ids, key):
            return observe(cluster.stub, request(ids=ids, temperature=0, ignore_eos=True, max_tokens=2, seed=1), key)

        cluster = Cluster(router_args=[f"--api-keys={file}", f"--disaggregate={args.disaggregate}"])
        for server in cluster.servers:
            server.argv = ["taskset", "-c", "0", *server.argv]
        os.sched_setaffinity(0, {1})
        samples = {True: {}, False: {}}
        with cluster:
            for i in range(args.requests + 20):  # the first ones warm up
                held = drawn.random() < 0.5
                mine, other = ([1] + [drawn.randrange(17, 10_000) for _ in range(args.prompt - 1)] for _ in range(2))
                ask(cluster, mine if held else other, holder)
                seen = ask(cluster, mine, prober)
                for name, value in {**seen.counts, **{f"{name} (s)": value for name, value in seen.times.items()}}.items():
                    if i >= 20:
                        samples[held].setdefault(name, []).append(value)
    result = {name: auc(samples[True][name], samples[False][name]) for name in samples[True]}
    for name, value in sorted(result.items(), key=lambda entry: -entry[1]):
        print(f"  {'kept  ' if value <= BAR else 'MISSED'} {name:45} AUC {value:.4f} <= {BAR}")
    if args.json is not None:
        args.json.write_text(json.dumps({"requests": args.requests, "prompt_tokens": args.prompt, "auc": result}, indent=2) + "\n",
                             encoding="utf-8")
    return 0 if all(value <= BAR for value in result.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
