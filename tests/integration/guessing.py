"""Random requests and recorded ones, with guessed tokens and without, on every way that a request can take: each token, log
probability and text must be that of the answer without guesses. `scripts/guessing.sh` runs it long, test_guessing.py short."""
import argparse
import concurrent.futures
import json
import pathlib
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
REFERENCE = pathlib.Path(__file__).resolve().parent.parent / "data" / "reference" / "smollm2.json"
WIDE_MARGIN = 0.5  # between the reference's two likeliest tokens; if it is less, our arithmetic may choose otherwise


def make_request(ids, max_tokens, sampling, seed, form):
    made = request(ids=ids, max_tokens=max_tokens, ignore_eos=True, logprobs=2, seed=seed, **SAMPLINGS[sampling])
    if form:
        made.response_format.regex = form
    return made


def load_requests(count, sampling, seed, max_tokens, form=""):
    """Passages of words at random, again and again: the model copies them, until what it samples leads it astray. Answers are
    held to `form`, a regular expression, if it is given."""
    rng, made = random.Random(seed), []
    for number in range(count):
        passage = [rng.randrange(100, 20000) for _ in range(rng.randint(8, 40))]
        ids = passage * rng.randint(2, 4) + passage[:rng.randint(1, 8)]
        made.append(make_request(ids, rng.randint(max_tokens // 2, max_tokens), sampling, number, form))
    return made


class Goldens:
    """SmolLM2's prompts whose greedy answers an independent reference has recorded."""

    def __init__(self):
        self.cases = json.loads(REFERENCE.read_text())["cases"]

    def requests(self, sampling, form=""):
        return [make_request(case["token_ids"], 64 if form else len(case["greedy"]), sampling, number, form)
                for number, case in enumerate(self.cases)]

    def faults(self, answers):
        """What is wrong with greedy answers: they may leave the reference only if it has a token as good as its own."""
        faults = []
        for case, done in zip(self.cases, answers):
            for token, step, right in zip(done.token_ids, case["steps"], case["greedy"]):
                if token == right:
                    continue
                if step["margin"] >= WIDE_MARGIN or token not in [top for top, _ in step["top"]]:
                    faults.append(f"{case['name']}: {list(done.token_ids)}, not {case['greedy']}")
                break  # what follows another token is another answer
        return faults


def outcome(done):
    """All that must be equal; floats compare by their bits."""
    return (list(done.token_ids), [t.SerializeToString(deterministic=True) for t in done.logprobs], done.text,
            done.finish_reason, done.usage.completion_tokens)


class Killer(threading.Thread):
    """Kills a decode worker that is busy, starts it again, and does the same once some more requests are answered, until it is
    ended. So a request loses a worker or two: who loses more goes on without guesses."""

    def __init__(self, workers, answered):
        super().__init__(daemon=True)
        self.workers, self.answered, self.ended, self.kills = workers, answered, threading.Event(), 0

    def run(self):
        answered_before = 0
        while not self.ended.wait(0.05):
            busy = [w for w in self.workers if w.metric("baton_kv_cache_blocks", state="used")]
            if not busy or self.answered() < answered_before:
                continue
            answered_before = self.answered() + WAYS["killed"]
            busy[0].kill()
            busy[0].start()
            self.kills += 1
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
        answered = []

        def ask(made):
            asked = type(made)()
            asked.CopyFrom(made)
            asked.speculative, asked.cache_salt = number, f"{name} {self.mode} {way}"
            done = complete(cluster.stubs[way == "local"], asked, timeout_s=300)
            answered.append(done)
            return done

        killer = Killer(cluster.decode, lambda: len(answered)) if way == "killed" else None
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


def compare(cluster, count, max_tokens, modes, seed=1, form="", samplings=tuple(SAMPLINGS), ways=tuple(WAYS), goldens=None,
            log=print):
    """Each cell's account; what is wrong with it, under "wrong". `modes`: numbers by name; `goldens`, if given, are asked for
    beside the random requests."""
    report = {}
    for sampling in samplings:
        requests = load_requests(count, sampling, seed, max_tokens, form)
        if goldens is not None:
            requests += goldens.requests(sampling, form)
        undisturbed = Cell(cluster, requests, *NONE.items(), "handed off", f"right {sampling}").done
        if goldens is not None and sampling == "greedy" and not form:
            report["goldens"] = {"wrong": goldens.faults(undisturbed[count:])}
            log(f"goldens: {json.dumps(report['goldens'])}")
        right = [outcome(done) for done in undisturbed]
        for mode in modes.items():
            for way in ways:
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
    goldens = Goldens()

    def compare_on(draft_model, modes, form=""):
        with serving(draft_model) as cluster:
            return compare(cluster, options.requests, options.max_tokens, modes, options.seed, form, goldens=goldens,
                           log=lambda line: print(line, flush=True))

    report = compare_on(options.draft_model, MODES)
    report.update({f"in a form: {name}": cell for name, cell in compare_on("", FORCED_MODES, FORM).items()})
    return 1 if any(cell["wrong"] for cell in report.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
