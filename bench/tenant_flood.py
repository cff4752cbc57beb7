#!/usr/bin/python3
"""What one tenant with very many connections takes from another.

    bench/tenant_flood.py --model MODEL.gguf [--bin build/dev] [--seconds 60] [--connections 1000] [--streams N]
                          [--requests-per-second R] [--json FILE]

The attacker opens its connections and sends requests on all of them without a pause, as ever other users and of any priority.
Meanwhile the victim keeps some streams open, and its time to first token is compared with a control, in which a process that only
burns the CPU time that the attacker was measured to take stands in the attacker's place. Said to be right when the victim's p99 is
at most 1.2 times the control's, and it gets at least 45 % of the tokens. `--streams` limits each tenant, `--requests-per-second`
the attacker's alone, as docs/tenants.md tells to limit who is not to be noticed by others; what is refused is sent again at once.
Servers run on CPU 0, the clients on CPU 1. Takes twice the seconds and half a minute."""
import argparse
import asyncio
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

from serving import ROOT, Beside, Serving

RATIO, SHARE = 1.2, 0.45
PROMPT, OUTPUT = 64, 16  # tokens


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model")
    parser.add_argument("--seconds", type=float, default=60, help="that are measured in each of the two runs")
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--victims", type=int, default=4, help="streams that the victim keeps open")
    parser.add_argument("--streams", type=int, default=0, help="limit of each tenant; 0: none")
    parser.add_argument("--requests-per-second", type=float, default=0, help="limit of the attacker's tenant; 0: none")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--attack", metavar="ADDRESS", help=argparse.SUPPRESS)  # be the attacker
    return parser.parse_args()


async def attack(address, connections, key):
    import grpc

    sys.path.insert(0, str(ROOT / "tests/integration"))
    from stubs import pb, rpc

    drawn, metadata = random.Random(1), (("authorization", f"Bearer {key}"),)

    async def send(stub):
        while True:
            made = pb.GenerateRequest(user=f"user {drawn.random()}", priority=drawn.randrange(-2**31, 2**31))
            made.prompt_token_ids.ids.extend(drawn.randrange(17, 10_000) for _ in range(PROMPT))
            made.sampling_params.max_tokens, made.sampling_params.ignore_eos = OUTPUT, True
            made.sampling_params.temperature, made.sampling_params.top_p = 1, 1
            try:
                async for _ in stub.Generate(made, metadata=metadata):
                    pass
            except grpc.aio.AioRpcError as error:
                if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                    print(error.code(), error.details(), file=sys.stderr)
                    await asyncio.sleep(0.1)

    channels = [grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) for _ in range(connections)]
    await asyncio.gather(*(channel.channel_ready() for channel in channels))
    print("ready", flush=True)
    await asyncio.gather(*(send(rpc.GenerationServiceStub(channel)) for channel in channels))


def tokens_of(serving):
    """Tokens that each tenant got so far."""
    counted = re.findall(r'^baton_tenant_tokens_total\{.*tenant="(\w+)".*\} (\S+)$', serving.metrics(), re.MULTILINE)
    return {"attacker": 0.0, "victim": 0.0} | {tenant: float(tokens) for tenant, tokens in counted}


def measure(serving, args, beside):
    """What the victim sees beside that process, which tenant got how many tokens, and the CPUs that the process took."""
    before, cpu_s, begin = tokens_of(serving), beside.cpu_s(), time.monotonic()
    report = serving.load(args.seconds, f"--max-concurrency={args.victims}", f"--input-len={PROMPT}", f"--output-len={OUTPUT}",
                          warmup=2)
    cpus = (beside.cpu_s() - cpu_s) / (time.monotonic() - begin)
    row, after = report["classes"]["all"], tokens_of(serving)
    got = {tenant: after[tenant] - before[tenant] for tenant in after}
    return {"ttft_ms": row["ttft_ms"], "completed": row["completed"], "refused": row["refused"], "failed": row["failed"],
            "tokens": got, "victims_share": got["victim"] / max(sum(got.values()), 1), "cpus_beside": cpus}


def main():
    args = parse()
    if args.attack is not None:
        return asyncio.run(attack(args.attack, args.connections, os.environ["BATON_ATTACKERS_KEY"]))
    os.environ.setdefault("BATON_STUBS", tempfile.mkdtemp(prefix="baton-stubs-"))
    with tempfile.TemporaryDirectory() as folder:
        def new_key(tenant, requests_per_second=0):
            limit = [f"--streams={args.streams}"] if args.streams else []
            limit += [f"--requests-per-second={requests_per_second}"] if requests_per_second else []
            return subprocess.run([str(args.bin / "bin/baton"), "keys", "new", f"--file={folder}/keys.toml",
                                   f"--tenant={tenant}", *limit], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

        keys = {"BATON_ATTACKERS_KEY": new_key("attacker", args.requests_per_second)}
        os.environ["BATON_API_KEY"] = new_key("victim")
        serving = Serving(args.bin, args.model, [f"--api-keys={folder}/keys.toml", "--disaggregate=always"], 0, 1)
        for role in ("prefill", "decode"):
            serving.add_worker(role, "--threads=1", "--cpu-set=0", cpu=0)
        with serving:
            serving.load(2, f"--max-concurrency={args.victims}", f"--input-len={PROMPT}", f"--output-len={OUTPUT}")
            with Beside(1, __file__, f"--attack=127.0.0.1:{serving.port}", f"--connections={args.connections}",
                        environment=keys) as attacker:
                attacked = measure(serving, args, attacker)
            with Beside(1, ROOT / "bench/flood_peer.py", "burn", attacked["cpus_beside"]) as burner:
                burner.begin()
                control = measure(serving, args, burner)
    ratio = attacked["ttft_ms"]["p99"] / control["ttft_ms"]["p99"]
    for name, run in (("attacked", attacked), ("control", control)):
        print(f"{name:9} TTFT p50 {run['ttft_ms']['p50']:.0f} p99 {run['ttft_ms']['p99']:.0f} ms; completed {run['completed']}, "
              f"refused {run['refused']}, failed {run['failed']}; beside it {run['cpus_beside']:.2f} CPUs; tokens {run['tokens']}")
    print(f"  {'kept  ' if ratio <= RATIO else 'MISSED'} p99 TTFT, of the control's {ratio:.2f} <= {RATIO}")
    share = attacked["victims_share"]
    print(f"  {'kept  ' if share >= SHARE else 'MISSED'} the victim's share of the tokens {share:.2f} >= {SHARE}")
    if args.json is not None:
        told = {"connections": args.connections, "victims": args.victims, "streams": args.streams,
                "requests_per_second": args.requests_per_second, "attacked": attacked, "control": control, "ratio": ratio}
        args.json.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    return 0 if ratio <= RATIO and share >= SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
