"""The figures of `baton bench serve --json`, computed again from the file that --record writes.

    record_figures.py RECORD    prints them as JSON

It shares no code with the load generator. docs/load.md says what each figure is."""
import fractions
import json
import math
import sys

PERCENTS = (50, 90, 95, 99)
STAGES = ("queue", "prefill_queue", "prefill", "kv_transfer", "exposed_kv_transfer", "decode_queue", "decode", "server_ttft",
          "server_total")
UNITS_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
LATE_NS = 10_000_000
MOST_MESSAGES = 8


def percentile(samples, percent):
    """By nearest rank."""
    return sorted(samples)[max(1, math.ceil(fractions.Fraction(percent * len(samples), 100))) - 1]


def summary(samples):
    """In milliseconds, of samples in nanoseconds."""
    if not samples:
        return {"mean": 0, **{f"p{percent}": 0 for percent in PERCENTS}, "max": 0, "samples": 0}
    return {"mean": sum(samples) / (len(samples) * 1e6),
            **{f"p{percent}": percentile(samples, percent) / 1e6 for percent in PERCENTS},
            "max": max(samples) / 1e6, "samples": len(samples)}


def gaps(request):
    times = [at for at, _ in request["messages"]]
    return [later - sooner for sooner, later in zip(times, times[1:])]


def output_tokens(request):
    return sum(tokens for _, tokens in request["messages"])


def tpot(request):
    """To the nearest nanosecond, half up; 0 with fewer than two messages or tokens."""
    times, tokens = [at for at, _ in request["messages"]], output_tokens(request)
    if len(times) < 2 or tokens < 2:
        return 0
    return math.floor(fractions.Fraction(times[-1] - times[0], tokens - 1) + fractions.Fraction(1, 2))


def duration_ns(text):
    """Reads one number and its unit."""
    number = text.rstrip("numsh")
    return int(fractions.Fraction(number) * UNITS_NS[text[len(number):]])


def keeps(request, objective):
    for limit in filter(None, objective.split(",")):
        name, most = limit.split("=")
        if name == "ttft":
            value = request["messages"][0][0] - request["intended_ns"]
        elif name == "tpot":
            value = tpot(request)
        elif name == "e2e":
            value = request["end_ns"] - request["intended_ns"]
        else:
            between = gaps(request)
            percent = int(name.removeprefix("itl_p")) if name != "itl" else 100
            value = percentile(between, percent) if between else 0
        if value > duration_ns(most):
            return False
    return True


def counts(values):
    return {value: values.count(value) for value in sorted(set(values))}


def failure_messages(failed):
    """Counts of the first messages, and of all others together."""
    messages, others = {}, "(other messages)"
    for request in failed:
        known = request["error"] in messages or len(messages) < MOST_MESSAGES
        message = request["error"] if known else others
        messages[message] = messages.get(message, 0) + 1
    return messages


def class_figures(requests, window, objective):
    begin, end = window
    seconds = (end - begin) * 1e-9

    def measured(at):
        return begin <= at < end

    due = [request for request in requests if measured(request["intended_ns"])]
    by = {outcome: [request for request in due if request["outcome"] == outcome]
          for outcome in ("completed", "refused", "failed", "cut")}
    answered = [request for request in due if request["messages"]]
    completed = by["completed"]
    good = [request for request in completed if request["messages"] and keeps(request, objective)]
    messages = [(tokens, request, i) for request in requests for i, (at, tokens) in enumerate(request["messages"]) if measured(at)]
    tokens = sum(message[0] for message in messages)
    figures = {"offered": len(due), **{outcome: len(those) for outcome, those in by.items()}, "good": len(good)}
    whole = len(due) - len(by["cut"])
    figures["good_share"] = len(good) / whole if whole else 0
    figures["shorter"] = sum(output_tokens(request) < request["asked_output_tokens"] for request in completed)
    figures["offered_per_s"] = len(due) / seconds
    figures["completed_per_s"] = len(completed) / seconds
    figures["goodput_per_s"] = len(good) / seconds
    figures["tokens_per_s"] = tokens / seconds
    figures["input_tokens_per_s"] = sum(request["input_tokens"] for _, request, i in messages if i == 0) / seconds
    figures["tokens_per_message"] = tokens / len(messages) if messages else 0
    figures["spread"] = sum(request["count"] == "spread" for request in completed)
    figures["uncounted"] = sum(request["count"] == "messages" for request in completed)
    figures["resumed"] = sum(request["attempts"] > 1 for request in completed)
    figures["local_prefills"] = sum(request["local_prefill"] for request in completed)
    series = {
        "ttft_ms": [request["messages"][0][0] - request["intended_ns"] for request in answered],
        "ttft_from_sent_ms": [request["messages"][0][0] - request["sent_ns"] for request in answered],
        "itl_ms": [request["messages"][i][0] - request["messages"][i - 1][0] for _, request, i in messages if i > 0],
        "tpot_ms": [tpot(request) for request in completed if len(request["messages"]) > 1],
        "e2e_ms": [request["end_ns"] - request["intended_ns"] for request in completed],
        "e2e_from_sent_ms": [request["end_ns"] - request["sent_ns"] for request in completed],
        "refusal_ms": [request["end_ns"] - request["intended_ns"] for request in by["refused"]],
        "send_lag_ms": [request["sent_ns"] - request["intended_ns"] for request in due]}
    figures.update({name: summary(samples) for name, samples in series.items()})
    figures["stages"] = {f"{stage}_ms": summary([request["stages_ns"][stage] for request in completed
                                                 if stage in request["stages_ns"]])
                         for stage in STAGES if any(stage in request["stages_ns"] for request in completed)}
    figures["kinds"] = counts([request["kind"] for request in by["refused"] + by["failed"]])
    figures["failures"] = failure_messages(by["failed"])
    return figures


def figures_of(path):
    """What --json prints, without what the record does not have: the generator's CPU time and the sentences."""
    with open(path, encoding="utf-8") as file:
        head, *requests, window = [json.loads(line) for line in file]
    assert head["format"] == "baton-load-record-1", head
    begin, end = window["from_ns"], window["until_ns"]
    lags = [request["sent_ns"] - request["intended_ns"] for request in requests if begin <= request["intended_ns"] < end]
    return {"target": head["target"], "objective": head["objective"], "window_s": (end - begin) * 1e-9,
            "late_share": sum(lag > LATE_NS for lag in lags) / len(lags) if lags else 0,
            "classes": {name: class_figures([request for request in requests if request["class"] == name], (begin, end),
                                            head["objective"]) for name in head["classes"]}}


if __name__ == "__main__":
    print(json.dumps(figures_of(sys.argv[1]), indent=2))
