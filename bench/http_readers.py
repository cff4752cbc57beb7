#!/usr/bin/python3
"""Event streams of a router's HTTP, and how long their readers wait between events. Prints JSON like that of `baton bench serve`.

    bench/http_readers.py --port PORT [--streams 256] [--slow 0] [--warmup 2] [--duration 10]

Some of the streams are slow: their readers take 256 bytes every two seconds, and are not measured."""
import argparse
import json
import random
import select
import socket
import time

from http_load import summary

SLOW_BYTES, SLOW_S = 256, 2
PROMPT_TOKENS, OUTPUT_TOKENS = 32, 8000


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--slow", type=int, default=0, help="of them")
    parser.add_argument("--warmup", type=float, default=2)
    parser.add_argument("--duration", type=float, default=10)
    return parser.parse_args()


def open_stream(port, source, slow):
    made = socket.socket()
    if slow:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect(("127.0.0.1", port))
    body = json.dumps({"prompt": [source.randrange(17, 10000) for _ in range(PROMPT_TOKENS)], "max_tokens": OUTPUT_TOKENS,
                       "ignore_eos": True, "temperature": 0, "stream": True}).encode()
    made.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    made.setblocking(False)
    return made


class Readers:
    def __init__(self, args):
        self.poller = select.epoll()
        source = random.Random(1)
        self.slow = [open_stream(args.port, source, True) for _ in range(args.slow)]
        self.streams = {made.fileno(): made for made in
                        (open_stream(args.port, source, False) for _ in range(args.streams - args.slow))}
        for fd in self.streams:
            self.poller.register(fd, select.EPOLLIN)
        self.last, self.gaps, self.events, self.failed = {}, [], 0, 0

    def run(self, begin, end):
        """Reads until `end`, and measures from `begin` on."""
        slow_at = time.monotonic() + SLOW_S
        while (now := time.monotonic()) < end:
            for fd, _ in self.poller.poll(0.1):
                self.take(fd, begin)
            if now >= slow_at:
                slow_at += SLOW_S
                for made in self.slow:
                    try:
                        made.recv(SLOW_BYTES)
                    except BlockingIOError:
                        pass

    def take(self, fd, begin):
        data = self.streams[fd].recv(65536)
        now = time.monotonic()
        events = data.count(b"data: {")
        if not data or b'{"error"' in data:
            self.failed += 1
            self.poller.unregister(fd)
        elif events > 0:
            if now >= begin and fd in self.last:
                self.events += events
                self.gaps += [(now - self.last[fd]) * 1e3] + [0] * (events - 1)
            self.last[fd] = now


def main():
    args = parse()
    start = time.monotonic()
    readers = Readers(args)
    begin = start + args.warmup
    readers.run(begin, begin + args.duration)
    print(json.dumps({"itl_ms": summary(readers.gaps), "tokens_per_s": readers.events / args.duration, "failed": readers.failed}))


if __name__ == "__main__":
    main()
