"""Requests of a real trace while servers are killed, restarted or stopped: none may fail, and every token must be that of an
undisturbed run. `scripts/chaos.sh` runs it long, test_chaos.py short."""
import argparse
import collections
import concurrent.futures
import itertools
import json
import pathlib
import random
import sys
import threading
import time

import grpc

from cluster import MODEL, Cluster, Failure, request
from disturb import Disturber

TRACE = pathlib.Path(__file__).parent.parent / "data" / "traces" / "mooncake_conversation_scaled.csv"
PAGE = 8  # tokens of one page number of the trace
VOCABULARY = 49152  # tokens of the tests' model
CLIENTS = 12  # requests that run at once, unless the load is given as a rate
DEADLINE_S = 300
GAP_S = 0.5  # shorter gaps between tokens are ignored
PROGRESS_S = 15
LOAD = 0.8  # rate while workers are restarted in turn, as a share of the rate served undisturbed


def load_requests(count, seed, vocabulary=VOCABULARY):
    """Prompt lengths, shared prefixes and output lengths of the trace; every second request is sampled. The model has at least
    `vocabulary` tokens."""
    lines = [line for line in TRACE.read_text().splitlines() if not line.startswith("#")]
    made = []
    for number in range(count):
        prompt, output, pages = lines[number % len(lines)].split(",")
        ids = []
        for page in pages.split():
            content = random.Random(f"{seed} {number // len(lines)} {page}")
            ids += [content.randrange(20, vocabulary) for _ in range(PAGE)]
        made.append(request(ids=ids[:int(prompt)], stream=True, max_tokens=int(output), ignore_eos=True,
                            temperature=0.8 * (number % 2), seed=number))
    return made


class Outcome:
    """What one client saw of its stream. With `retries` it sends the request again if its router is gone."""

    def __init__(self, stub, made, retries=False):
        self.retried = 0
        until = time.monotonic() + DEADLINE_S
        while not self.serve(stub, made) and retries and time.monotonic() < until:
            if self.failure.code != grpc.StatusCode.UNAVAILABLE:
                return
            self.retried += 1
            time.sleep(0.05)

    def serve(self, stub, made):
        """Reads the stream to its end; returns whether it did not fail."""
        self.ids, self.failure, self.timings, self.usage = [], None, None, None
        self.gaps, last = [], time.time()  # gaps: (begin, end) of those of GAP_S and more
        self.longest_gap_s = 0
        try:
            for response in stub.Generate(made, timeout=DEADLINE_S):
                now = time.time()
                if now - last > GAP_S:
                    self.gaps.append((last, now))
                self.longest_gap_s, last = max(self.longest_gap_s, now - last), now
                self.ids += response.chunk.token_ids
                if response.HasField("complete"):
                    self.timings, self.usage = response.complete.timings, response.complete.usage
        except grpc.RpcError as error:
            self.failure = Failure(error)
        return self.failure is None


class Load:
    """Requests, given to the routers in turn; tells how far it is."""

    def __init__(self, cluster, requests, log, retries=False):
        self.cluster, self.requests, self.log, self.retries = cluster, requests, log, retries
        self.lock, self.ended, self.failed, self.begin = threading.Lock(), 0, 0, time.monotonic()
        self.told = self.begin

    def serve(self, number):
        stubs = self.cluster.stubs
        outcome = Outcome(stubs[number % len(stubs)], self.requests[number % len(self.requests)], self.retries)
        with self.lock:
            self.ended += 1
            self.failed += outcome.failure is not None
            now = time.monotonic()
            if now - self.told > PROGRESS_S:
                self.told = now
                self.log(f"{self.ended} requests in {now - self.begin:.0f} s, {self.failed} failed")
        return outcome

    def run_all(self):
        """One outcome for each request, CLIENTS at once."""
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            return list(pool.map(self.serve, range(len(self.requests))))

    def run_at(self, rate, seed, until):
        """Outcomes of requests that come at `rate` a second (Poisson), until until()."""
        gaps, futures = random.Random(seed), []
        with concurrent.futures.ThreadPoolExecutor(256) as pool:
            for number in itertools.count():
                if until():
                    break
                futures.append(pool.submit(self.serve, number))
                time.sleep(gaps.expovariate(rate))
            return [future.result() for future in futures]


def what_is_wrong(number, made, right, seen):
    """Nothing if the request has all that it should."""
    if right.failure or seen.failure:
        return f"request {number} failed: {right.failure or seen.failure}"
    if seen.ids != right.ids or len(seen.ids) != made.sampling_params.max_tokens:
        return f"request {number} has other tokens: {seen.ids}, not {right.ids}"
    if seen.usage.completion_tokens != len(seen.ids) or seen.usage.prompt_tokens != right.usage.prompt_tokens:
        return f"request {number} counts {seen.usage}"
    if seen.timings.local_prefill or not seen.timings.exact:
        return f"request {number}: {seen.timings}"
    return None


def spread(values):
    values = sorted(values)
    if not values:
        return None
    return {"p50": round(values[len(values) // 2], 2), "p99": round(values[len(values) * 99 // 100], 2),
            "max": round(values[-1], 2)}


def stalls(outcomes, given_up):
    """What a stopped worker cost the streams on it: how long until the router gave it up, and from there the next attempt's
    time to its first token."""
    resumed = []
    for outcome in outcomes:
        for begin, until in outcome.gaps if outcome.timings and outcome.timings.attempts > 1 else ():
            within = [at for _, at in given_up if at is not None and begin < at < until]
            resumed += [until - max(within)] if within else []
    return {"until_given_up_s": spread([at - when for when, at in given_up if at is not None]),
            "next_attempts_first_token_s": spread(resumed)}


def chaos(count, how="kill", every_s=2, seed=1, prefill=3, decode=3, routers=1, stopped_s=5, model=MODEL,
          vocabulary=VOCABULARY, log=print):
    """The report, as a dict; its "wrong" lists what must not be."""
    requests = load_requests(count, seed, vocabulary)
    with Cluster(prefill=prefill, decode=decode, routers=routers, model=model,
                 router_args=["--disaggregate=always"]) as cluster:
        begin = time.monotonic()
        undisturbed = Load(cluster, requests, log).run_all()
        rate = count / (time.monotonic() - begin)
        log(f"undisturbed: {count} requests, {rate:.1f} a second")
        begin, disturber = time.monotonic(), Disturber(cluster, how, every_s, seed, stopped_s)
        load = Load(cluster, requests, log, retries=how == "router")
        disturber.start()
        disturbed = load.run_at(LOAD * rate, seed, disturber.ended.is_set) if how == "rolling" else load.run_all()
        took = time.monotonic() - begin
        disturber.end()
        log(f"{how}, {sum(disturber.done.values())} times: {took:.0f} s")
        cluster.wait_idle(10)
        used = cluster.used_blocks()

    wrong = [what_is_wrong(number, requests[number % count], undisturbed[number % count], seen)
             for number, seen in enumerate(disturbed)]
    wrong = [what for what in wrong if what]
    if set(disturber.exit_codes) - {0}:
        wrong.append(f"exit codes {dict(disturber.exit_codes)}")
    if any(used):
        wrong.append(f"blocks left in use: {used}")
    attempts = collections.Counter(seen.timings.attempts for seen in disturbed if seen.timings)
    report = {"requests": len(disturbed), "failed": load.failed, "wrong": wrong, how: dict(disturber.done),
              "seconds": round(took, 1), "attempts": dict(sorted(attempts.items())),
              "longest_gap_s": spread([seen.longest_gap_s for seen in disturbed])}
    if how == "stop":
        report.update(stalls(disturbed, disturber.given_up()))
    if how == "router":
        report["asked_anew"] = sum(seen.retried > 0 for seen in disturbed)
        report["router_back_s"] = spread(disturber.back_s)
    return report


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--requests", type=int, default=1000)
    flags.add_argument("--how", choices=["kill", "restart", "stop", "rolling", "router"], default="kill")
    flags.add_argument("--every", type=float, default=2, metavar="SECONDS")
    flags.add_argument("--stopped", type=float, default=5, metavar="SECONDS", help="of --how stop; 0: for ever")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--prefill", type=int, default=3)
    flags.add_argument("--decode", type=int, default=3)
    flags.add_argument("--routers", type=int, default=1)
    flags.add_argument("--model", type=pathlib.Path, default=MODEL)
    flags.add_argument("--vocabulary", type=int, default=VOCABULARY, metavar="TOKENS", help="that the model has at least")
    options = flags.parse_args()
    report = chaos(options.requests, options.how, options.every, options.seed, options.prefill, options.decode,
                   options.routers, options.stopped or None, options.model, options.vocabulary,
                   log=lambda line: print(line, file=sys.stderr, flush=True))
    print(json.dumps(report, indent=2))
    return 1 if report["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
