"""Requests whose answers are held to the schemas of tests/data/schemas."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import schema_cases

from cluster import complete, request
from disturb import Disturber
from stubs import pb

SEEDS = (1, 2, 3)
OTHER_TOKENS = 150  # tokens of an answer whose schema has no instance
LENGTHS = 3  # an answer may be so many times as long as the longest instance


def compiled_cases():
    """The cases of schemas that are not refused, those that people write first."""
    return [case for case in schema_cases.cases() if schema_cases.title(case) not in schema_cases.refused()]


def prompt_of(case):
    """The schema, and an example of an answer, which a small model needs."""
    example = schema_cases.written(case["valid"][0], case["schema"]) if case["valid"] else "{}"
    schema = json.dumps(case["schema"], ensure_ascii=False)
    return f"Answer with JSON alone, by this schema:\n{schema[:2000]}\nAn example of an answer:\n{example}"


def longest_instance(stub, case):
    """Tokens of it; None if the case has no instance."""
    counts = [complete(stub, request(prompt=schema_cases.written(instance, case["schema"]), max_tokens=1)).usage.prompt_tokens
              for instance in case["valid"]]
    return max(counts, default=None)


def asked(stub, case, seeds=SEEDS):
    """A request for each seed."""
    longest = longest_instance(stub, case)
    made = []
    for seed in seeds:
        one = request(chat=[("user", prompt_of(case))], max_tokens=LENGTHS * longest if longest else OTHER_TOKENS,
                      temperature=0.5, top_p=1, seed=seed)
        one.response_format.json_schema = json.dumps(case["schema"], ensure_ascii=False)
        made.append(one)
    return made


def fault(case, done):
    """What is wrong with an answer; None if it is valid, or was cut by its limit."""
    if done.finish_reason == pb.FINISH_REASON_LENGTH:
        return None
    if done.finish_reason != pb.FINISH_REASON_STOP:
        return f"{schema_cases.title(case)}: it ended by {done.finish_reason}"
    try:
        error = next(schema_cases.validator(case["schema"]).iter_errors(schema_cases.parsed(done.text)), None)
    except ValueError as no_json:
        error = no_json
    return error and f"{schema_cases.title(case)}: {done.text!r} is not valid: {str(error).splitlines()[0]}"


class DecodeKiller(Disturber):
    """Every `every_s` seconds a decode worker, drawn at random, is killed and started again."""

    def __init__(self, cluster, every_s, seed):
        super().__init__(cluster, "kill", every_s, seed)

    def run(self):
        while not self.ended.wait(self.every_s):
            self.kill("decode", self.random.choice(self.cluster.decode))
