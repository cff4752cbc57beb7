"""One turn of OpenVINO GenAI: loads a GGUF file and prints {"pp512": tokens/s, "tg64": tokens/s} as JSON.

Runs in the environment that compare_peers.py makes:    peer_openvino.py FILE THREADS TEST...
"""

import json
import random
import re
import sys

import numpy
import openvino
import openvino_genai

SHORT_PROMPT = 8  # tokens before a decode test; the pipeline does not begin with none


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


def main() -> None:
    path, threads, *tests = sys.argv[1:]
    pipeline = openvino_genai.LLMPipeline(path, "CPU", INFERENCE_NUM_THREADS=int(threads))
    results = {}
    for test in tests:
        kind, tokens = re.fullmatch(r"(pp|tg)(\d+)", test).groups()
        for _ in range(2):  # the first one warms up
            if kind == "pp":
                steps = generate(pipeline, int(tokens), 1)
                results[test] = int(tokens) / steps[0]
            else:
                steps = generate(pipeline, SHORT_PROMPT, int(tokens) + 1)
                results[test] = (len(steps) - 1) / sum(steps[1:])
    print(json.dumps(results))


if __name__ == "__main__":
    main()
