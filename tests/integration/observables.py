"""What a client can see of an answer, as numbers."""
import time
from dataclasses import dataclass, field

CONTENT = ("text", "token_ids", "logprobs", "prompt_logprobs", "chunk")  # what was asked for; it differs with the prompt


@dataclass
class Observed:
    """By name, such as complete.usage.cached_tokens. A field that is not set counts as 0, and a text as its length."""
    times: dict = field(default_factory=dict)  # seconds
    counts: dict = field(default_factory=dict)

    def add(self, message, prefix=""):
        for part in message.DESCRIPTOR.fields:
            name, value = prefix + part.name, getattr(message, part.name)
            if part.name in CONTENT:
                continue
            if part.message_type is None:
                self.counts[name] = float(len(value) if isinstance(value, (str, bytes)) else value)
            elif part.message_type.full_name == "google.protobuf.Duration":
                self.times[name] = value.seconds + value.nanos * 1e-9
            else:
                self.add(value, name + ".")


def observe(stub, made, metadata):
    """Sends the request, whose answer must be one message."""
    observed, begin = Observed(), time.perf_counter()
    call = stub.Generate(made, timeout=120, metadata=metadata)
    for key, value in call.initial_metadata():
        observed.counts[f"header {key}"] = float(len(value))
    observed.times["headers"] = time.perf_counter() - begin
    (response,) = call
    observed.times["end"] = time.perf_counter() - begin
    for key, value in call.trailing_metadata():
        observed.counts[f"trailer {key}"] = float(len(value))
    observed.add(response)
    return observed
