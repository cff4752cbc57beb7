"""The load of `baton bench serve` for a llama-server: streams that are always open, and prompts that arrive whatever became of
the others. Times count from when a request was to be sent."""

import asyncio
import json
import math
import random
import time


def percentile(samples, p):
    if not samples:
        return 0.0
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(p * len(ordered)) - 1)]


def summary(samples):
    return {"p50": percentile(samples, 0.5), "p90": percentile(samples, 0.9), "p99": percentile(samples, 0.99),
            "max": percentile(samples, 1), "samples": len(samples)}


class HttpLoad:
    """`streams` of (input, output) tokens each, and long prompts of (input, output) at `rate`."""

    def __init__(self, port, streams, steady, rate, long, seed=1, vocab_size=10000):
        self.port, self.streams, self.steady, self.rate, self.long = port, streams, steady, rate, long
        self.random, self.vocab_size = random.Random(seed), vocab_size
        self.gaps, self.ttft, self.failed = [], [], 0

    def run(self, warmup, seconds):
        """The inter-token latencies of the streams and the times to first token of the prompts, in milliseconds."""
        asyncio.run(self._run(warmup, seconds))
        return {"itl_ms": summary(self.gaps), "long_ttft_ms": summary(self.ttft), "failed": self.failed}

    async def _run(self, warmup, seconds):
        self.begin = time.monotonic()
        self.measured = (self.begin + warmup, self.begin + warmup + seconds)
        steady = [asyncio.create_task(self._stream()) for _ in range(self.streams)]
        prompts = []
        at = self.begin
        while self.rate > 0:
            at += self.random.expovariate(self.rate)
            if at >= self.measured[1]:
                break
            await asyncio.sleep(max(0, at - time.monotonic()))
            prompts.append(asyncio.create_task(self._request(*self.long, at, is_long=True)))
        await asyncio.sleep(max(0, self.measured[1] - time.monotonic()))
        for task in steady:
            task.cancel()
        await asyncio.gather(*prompts, *steady, return_exceptions=True)

    async def _stream(self):
        while True:
            await self._request(*self.steady, time.monotonic(), is_long=False)

    async def _request(self, tokens, output, intended, is_long):
        ids = [self.random.randrange(17, self.vocab_size) for _ in range(tokens)]
        body = json.dumps({"prompt": ids, "n_predict": output, "stream": True, "ignore_eos": True, "temperature": 0,
                           "cache_prompt": False}).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(b"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
                         + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            last = None
            async for line in reader:
                if not line.startswith(b"data: "):
                    continue
                event = json.loads(line[6:])
                if "error" in event:
                    self.failed += 1
                    return
                if event.get("stop"):
                    return
                now = time.monotonic()
                if last is None and is_long and self.measured[0] <= intended:
                    self.ttft.append((now - intended) * 1e3)
                if last is not None and not is_long and self.measured[0] <= now < self.measured[1]:
                    self.gaps.append((now - last) * 1e3)
                last = now
            self.failed += last is None
        finally:
            writer.close()
