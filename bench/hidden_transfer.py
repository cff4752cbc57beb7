#!/usr/bin/python3
"""How much of the KV transfer the prefill does not hide: a router, a prefill and a decode worker with one thread and one CPU
each, a new prompt for each sample.

    bench/hidden_transfer.py --bin build/dev/bin --model MODEL.gguf [--prompt 2000] [--repeat 5] [--link-mbit 100]

Prints the exposed transfer and its share of the time to first token; with --link-mbit, where the prefill worker reaches the
decode worker through a link of that rate, also what was predicted: max(last message / B, bytes / B - prefill). (The time to
the first layer, by which the transfer begins after the prefill, is a thousandth of the prefill and left out.)"""
import argparse
import os
import pathlib
import random
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev/bin")
    parser.add_argument("--model", required=True)
    parser.add_argument("--prompt", type=int, default=2000, help="tokens")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--link-mbit", type=float, default=0, help="10^6 bits per second; 0: no limit, no proxy")
    return parser.parse_args()


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def sample(timings, bytes_per_second):
    def ms(name):
        return getattr(timings, name).ToNanoseconds() * 1e-6

    exposed, prefill = ms("exposed_kv_transfer"), ms("prefill")
    row = {"ttft_ms": ms("time_to_first_token"), "prefill_ms": prefill, "transfer_ms": ms("kv_transfer"),
           "exposed_ms": exposed, "share": exposed / ms("time_to_first_token"),
           "mb": timings.kv_transfer_bytes * 1e-6, "messages": timings.kv_transfer_messages}
    if bytes_per_second:
        on_wire_ms = timings.kv_transfer_bytes / bytes_per_second * 1e3
        row["predicted_ms"] = max(on_wire_ms / timings.kv_transfer_messages, on_wire_ms - prefill)
        row["ratio"] = exposed / row["predicted_ms"]
    return row


def main():
    args = parse()
    os.environ["BATON_BIN"], os.environ["BATON_TEST_MODEL"] = str(args.bin.resolve()), args.model
    os.environ.setdefault("BATON_STUBS", tempfile.mkdtemp(prefix="baton-stubs-"))
    sys.path.insert(0, str(ROOT / "tests/integration"))
    from cluster import Cluster, complete, request

    cluster = Cluster(router_args=["--disaggregate=always"], with_links=args.link_mbit > 0)
    for cpu, worker in enumerate([cluster.prefill[0], cluster.decode[0]]):
        worker.argv.append(f"--cpu-set={cpu}")
    rng = random.Random(1)

    def run():
        ids = [rng.randrange(17, 49152) for _ in range(args.prompt)]
        return complete(cluster.stub, request(ids=ids, max_tokens=2, temperature=0, ignore_eos=True)).timings

    with cluster:
        run()  # warms up: connections, CPU clocks, and the engine's estimate of its own speed
        bytes_per_second = args.link_mbit * 1e6 / 8
        if bytes_per_second:
            cluster.links[0].set("both", bytes_per_second=bytes_per_second)
        rows = [sample(run(), bytes_per_second) for _ in range(args.repeat)]
    link = f"a link of {args.link_mbit:g} Mbit/s" if bytes_per_second else "loopback"
    print(f"{cpu_name()}; {args.prompt} tokens over {link}; median of {args.repeat}")
    for name in rows[0]:
        values = [row[name] for row in rows]
        digits = 4 if name in ("share", "ratio") else 2
        print(f"  {name:13} {statistics.median(values):10.{digits}f}   "
              + " ".join(f"{value:.{digits}f}" for value in values))


if __name__ == "__main__":
    main()
