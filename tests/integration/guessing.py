"""Random requests with guessed tokens and without, on every way that a request can take: each token, log probability and text
must be that of the answer without guesses. `scripts/guessing.sh` runs it long, test_guessing.py short."""
import argparse
import concurrent.futures
import json
import random
import sys
import threading

from cluster import MODEL, Cluster, complete, request, wait_until
from stubs import pb

NONE = {"none": pb.SPECULATIVE_NONE}
MODES = {**NONE, "ngram": pb.SPECULATIVE_NGRAM, "draft": pb.SPECULATIVE_DRAFT}
# A worker without a draft model guesses in this mode only what a form forces.
FORCED_MODES = {**NONE, "forced": pb.SPECULATIVE_DRAFT}
FORM = r'\{"identifier": "[a-z]{4,12}", "temperature": [0-9]{2}, "description of the place": "[a-z ]{10,30}", "open": (true|false)\}'
SAMPLINGS = {
    "greedy": {"temperature": 0.0},
    "seeded": {"temperature": 1.0, "top_p": 0.5, "presence_penalty": 0.1, "frequency_penalty": 0.05, "repetition_penalty": 1.01},
}
WAYS = {"handed off": 4, "local": 4, "killed": 4, "16 at once": 16}  # requests at once
ENOUGH = 20  # guesses that a cell accepts at least, and refuses


def load_requests(count, sampling, seed, max_tokens, form=""):
    """Passages of words at random, again and again: the model copies them, until what it samples leads it astray. Answers are
    held to `form`, a regular expression, if it is given."""
    rng, made = random.Random(seed), []
    for number in range(count):
        passage = [rng.randrange(100, 20000) for _ in range(rng.randint(8, 40))]
        ids = passage * rng.randint(2, 4) + passage[:rng.randint(1, 8)]
        one = request(ids=ids, max_tokens=rng.randint(max_tokens // 2, max_tokens), ignore_eos=True, logprobs=2, seed=number,
                      **SAMPLINGS[sampling])
        if form:
            one.response_format.regex = form
        made.append(one)
    return made


def outcome(done):
    """All that must be equal; floats compare by their bits."""
    return (list(done.token_ids), [t.SerializeToString(deterministic=True) for t in done.logprobs], done.text,
            done.finish_reason, done.usage.completion_tokens)


class Killer(threading.Thread):
    """Kills a decode worker that is busy, starts it again, and does the same a second later, until it is ended."""

    def __init__(self, workers):
        super().__init__(daemon=True)
        self.workers, self.ended, self.kills = workers, threading.Event(), 0

    def run(self):
        pause_s = 0.05
        while not self.ended.wait(pause_s):
            busy = [w for w in self.workers if w.metric("baton_kv_cache_blocks", state="used")]
            if not busy:
                continue
            busy[0].kill()
            busy[0].start()
            self.kills += 1
            pause_s = 1
            wait_until(busy[0].serving, 60, "the killed worker is back")

    def end(self):
        self.ended.set()
        self.join()


def serving(draft_model=MODEL):
    """One prefill and two decode workers with this draft model, or none; a router that hands every request off, and one that
    hands none off."""
    cluster = Cluster(prefill=1, decode=2, routers=2, router_args=["--disaggregate=always"],
                      decode_args=[f"--draft-model={draft_model}"] if draft_model else [])
    argv = cluster.routers[1].argv
    argv[argv.index("--disaggregate=always")] = "--disaggregate=never"
    return cluster


class Cell:
    """What the requests gave in one mode, a pair of its name and number, on one way. No prompt is cached."""

    def __init__(self, cluster, requests, mode, way, name):
        self.mode, number = mode
        self.way = way

        def ask(made):
            asked = type(made)()
            asked.CopyFrom(made)
            asked.speculative, asked.cache_salt = number, f"{name} {self.mode} {way}"
            return complete(cluster.stubs[way == "local"], asked, timeout_s=300)

        killer = Killer(cluster.decode) if way == "killed" else None
        if killer is not None:
            killer.start()
        with concurrent.futures.ThreadPoolExecutor(WAYS[way]) as pool:
            self.done = list(pool.map(ask, requests))
        self.kills = 0
        if killer is not None:
            killer.end()
            self.kills = killer.kills
            cluster.wait_ready()

    def account(self):
        resumed = [done for done in self.done if done.timings.attempts > 1]
        return {"accepted": sum(done.usage.accepted_prediction_tokens for done in self.done),
                "refused": sum(done.usage.rejected_prediction_tokens for done in self.done),
                "kills": self.kills, "resumed": len(resumed)}

    def faults(self, expected):
        """What is wrong, as a list of texts."""
        faults = [f"request {i}: {outcome(done)[:1]}, not {right[:1]}"
                  for i, (done, right) in enumerate(zip(self.done, expected)) if outcome(done) != right]
        faults += [f"request {i} went another way: {done.timings}" for i, done in enumerate(self.done)
                   if done.timings.local_prefill != (self.way == "local") or not done.timings.exact]
        account = self.account()
        if self.mode == "none":
            if account["accepted"] + account["refused"] > 0:
                faults.append("tokens were guessed")
        elif min(account["accepted"], account["refused"]) < ENOUGH:
            faults.append(f"fewer than {ENOUGH} guesses were accepted, or refused: {account}")
        if self.way == "killed" and account["resumed"] == 0:
            faults.append("nobody lost a worker")
        return faults


def compare(cluster, count, max_tokens, modes, seed=1, form="", log=print):
    """Each cell's account; what is wrong with it, under "wrong". `modes`: numbers by name."""
    report = {}
    for sampling in SAMPLINGS:
        requests = load_requests(count, sampling, seed, max_tokens, form)
        right = [outcome(done) for done in Cell(cluster, requests, *NONE.items(), "handed off", f"right {sampling}").done]
        for mode in modes.items():
            for way in WAYS:
                cell = Cell(cluster, requests, mode, way, sampling)
                name = f"{mode[0]}, {sampling}, {way}"
                report[name] = {**cell.account(), "wrong": cell.faults(right)}
                log(f"{name}: {json.dumps(report[name])}")
    return report


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--requests", type=int, default=500)
    flags.add_argument("--max-tokens", type=int, default=64)
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--draft-model", default=MODEL, help="a GGUF file; default: the model itself, whose guesses all come true")
    options = flags.parse_args()

    def compare_on(draft_model, modes, form=""):
        with serving(draft_model) as cluster:
            return compare(cluster, options.requests, options.max_tokens, modes, options.seed, form,
                           log=lambda line: print(line, flush=True))

    report = compare_on(options.draft_model, MODES)
    report.update({f"in a form: {name}": cell for name, cell in compare_on("", FORCED_MODES, FORM).items()})
    return 1 if any(cell["wrong"] for cell in report.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
