"""One turn of OpenVINO GenAI: loads a GGUF file and prints {"pp512": tokens/s, "tg64": tokens/s} as JSON.

Each figure is the median of RUNS runs after one that warms up.
Runs in the environment that compare_peers.py makes:    peer_openvino.py FILE THREADS RUNS TEST...
"""

import json
import random
import re
import statistics
import sys

import numpy
import openvino
import openvino_genai

SHORT_PROMPT = 8  # tokens of the prompt before a decode test, since the pipeline needs a prompt


def generate(pipeline: openvino_genai.LLMPipeline, prompt_tokens: int, new_tokens: int) -> list[float]:
    """The seconds of each step's inference: the prompt's, then one per further token.

    Every prompt is new, so the prefix cache never helps.
    """
    ids = numpy.array([[random.randrange(1000, 40000) for _ in range(prompt_tokens)]], dtype=numpy.int64)
    inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = new_tokens
    config.ignore_eos = True
    config.do_sample = False
    metrics = pipeline.generate(inputs, config).perf_metrics
    return [step / 1e6 for step in metrics.raw_metrics.token_infer_durations]


def measure(pipeline: openvino_genai.LLMPipeline, test: str) -> float:
    kind, tokens = re.fullmatch(r"(pp|tg)(\d+)", test).groups()
    if kind == "pp":
        return int(tokens) / generate(pipeline, int(tokens), 1)[0]
    steps = generate(pipeline, SHORT_PROMPT, int(tokens) + 1)
    return (len(steps) - 1) / sum(steps[1:])


def main() -> None:
    path, threads, runs, *tests = sys.argv[1:]
    pipeline = openvino_genai.LLMPipeline(path, "CPU", INFERENCE_NUM_THREADS=int(threads))
    results = {}
    for test in tests:
        samples = [measure(pipeline, test) for _ in range(1 + int(runs))]
        results[test] = statistics.median(samples[1:])
    print(json.dumps(results))


if __name__ == "__main__":
    main()
