"""Requests of a real trace while workers are killed, restarted or stopped: none may fail, and every token must be that of an
undisturbed run. `scripts/chaos.sh` runs it long, test_chaos.py short."""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import random
import signal
import sys
import threading
import time

import grpc

from cluster import Cluster, Failure, request

TRACE = pathlib.Path(__file__).parent.parent / "data" / "traces" / "mooncake_conversation_scaled.csv"
PAGE = 8  # tokens that an id of the trace stands for
CLIENTS = 12  # requests at once
DEADLINE_S = 300
STOPPED_S = 5


def load_requests(count, seed):
    """Prompt lengths, shared prefixes and output lengths of the trace; every second request is sampled."""
    lines = [line for line in TRACE.read_text().splitlines() if not line.startswith("#")]
    made = []
    for number in range(count):
        prompt, output, pages = lines[number % len(lines)].split(",")
        ids = []
        for page in pages.split():
            content = random.Random(f"{seed} {number // len(lines)} {page}")
            ids += [content.randrange(20, 49152) for _ in range(PAGE)]
        made.append(request(ids=ids[:int(prompt)], stream=True, max_tokens=int(output), ignore_eos=True,
                            temperature=0.8 * (number % 2), seed=number))
    return made


class Outcome:
    """What one client saw of its stream."""

    def __init__(self, stub, made):
        self.ids, self.failure, self.timings, self.usage = [], None, None, None
        self.longest_gap_s, last = 0, time.monotonic()
        try:
            for response in stub.Generate(made, timeout=DEADLINE_S):
                self.longest_gap_s, last = max(self.longest_gap_s, time.monotonic() - last), time.monotonic()
                self.ids += response.chunk.token_ids
                if response.HasField("complete"):
                    self.timings, self.usage = response.complete.timings, response.complete.usage
        except grpc.RpcError as error:
            self.failure = Failure(error)


def run_all(cluster, requests):
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(lambda made: Outcome(cluster.stub, made), requests))


class Disturber(threading.Thread):
    """Every `every_s` seconds one worker, drawn at random: `kill` (SIGKILL), `restart` (SIGTERM, and its exit code must be 0),
    both started again at once, or `stop` (SIGSTOP) for STOPPED_S."""

    def __init__(self, cluster, how, every_s, seed):
        super().__init__(daemon=True)
        self.cluster, self.how, self.every_s, self.random = cluster, how, every_s, random.Random(seed)
        self.ended, self.done, self.exit_codes = threading.Event(), collections.Counter(), collections.Counter()

    def run(self):
        while not self.ended.wait(self.every_s):
            role = self.random.choice(["prefill", "decode"])
            getattr(self, self.how)(self.random.choice(getattr(self.cluster, role)))
            self.done[role] += 1

    def kill(self, worker):
        worker.kill()
        worker.start()

    def restart(self, worker):
        self.exit_codes[worker.stop(60)] += 1
        worker.start()

    def stop(self, worker):
        worker.process.send_signal(signal.SIGSTOP)
        self.ended.wait(STOPPED_S)
        worker.process.send_signal(signal.SIGCONT)

    def end(self):
        self.ended.set()
        self.join()
        self.cluster.wait_ready()


def chaos(count, how="kill", every_s=2, seed=1, prefill=3, decode=3, log=print):
    """The report, as a dict; its "wrong" lists what must not be."""
    requests = load_requests(count, seed)
    with Cluster(prefill=prefill, decode=decode, router_args=["--disaggregate=always"]) as cluster:
        begin = time.monotonic()
        undisturbed = run_all(cluster, requests)
        log(f"undisturbed: {count} requests in {time.monotonic() - begin:.0f} s")
        begin, disturber = time.monotonic(), Disturber(cluster, how, every_s, seed)
        disturber.start()
        disturbed = run_all(cluster, requests)
        took = time.monotonic() - begin
        disturber.end()
        log(f"{how}, {sum(disturber.done.values())} times: {took:.0f} s")
        cluster.wait_idle(10)
        used = cluster.used_blocks()

    wrong = []
    for number, (made, right, seen) in enumerate(zip(requests, undisturbed, disturbed)):
        if right.failure or seen.failure:
            wrong.append(f"request {number} failed: {right.failure or seen.failure}")
        elif seen.ids != right.ids or len(seen.ids) != made.sampling_params.max_tokens:
            wrong.append(f"request {number} has other tokens: {seen.ids}, not {right.ids}")
        elif seen.usage.completion_tokens != len(seen.ids) or seen.usage.prompt_tokens != right.usage.prompt_tokens:
            wrong.append(f"request {number} counts {seen.usage}")
        elif seen.timings.local_prefill or not seen.timings.exact:
            wrong.append(f"request {number}: {seen.timings}")
    if set(disturber.exit_codes) - {0}:
        wrong.append(f"exit codes {dict(disturber.exit_codes)}")
    if any(used):
        wrong.append(f"blocks left in use: {used}")
    attempts = collections.Counter(seen.timings.attempts for seen in disturbed if seen.timings)
    gaps = sorted(seen.longest_gap_s for seen in disturbed)
    return {"requests": count, "failed": sum(1 for seen in disturbed if seen.failure), "wrong": wrong,
            how: dict(disturber.done), "seconds": round(took, 1), "attempts": dict(sorted(attempts.items())),
            "longest_gap_s": {"p50": round(gaps[len(gaps) // 2], 2), "p99": round(gaps[len(gaps) * 99 // 100], 2),
                              "max": round(gaps[-1], 2)}}


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--requests", type=int, default=1000)
    flags.add_argument("--how", choices=["kill", "restart", "stop"], default="kill")
    flags.add_argument("--every", type=float, default=2, metavar="SECONDS")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--prefill", type=int, default=3)
    flags.add_argument("--decode", type=int, default=3)
    options = flags.parse_args()
    report = chaos(options.requests, options.how, options.every, options.seed, options.prefill, options.decode,
                   log=lambda line: print(line, file=sys.stderr, flush=True))
    print(json.dumps(report, indent=2))
    return 1 if report["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
