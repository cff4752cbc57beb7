"""Requests of HTTP that are wrong in one way, made from right ones by a seed, and what may be answered to them."""
import json
import re
import typing

ROUTES = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/responses/input_tokens", "/v1/messages",
          "/v1/messages/count_tokens", "/tokenize", "/detokenize")
SAMPLED = {"temperature": 1, "top_p": 0.9}
BODIES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, **SAMPLED},
    "/v1/completions": {"prompt": "a", "max_tokens": 1, **SAMPLED},
    "/v1/responses": {"input": "a", "max_output_tokens": 1, **SAMPLED},
    "/v1/responses/input_tokens": {"input": "a", **SAMPLED},
    "/v1/messages": {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1},
    "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "a"}]},
    "/tokenize": {"prompt": "a"},
    "/detokenize": {"tokens": [20, 21]},
}
# What no field of the bodies can be: each is of another type than every one of them, or out of its range.
WRONG_VALUES = ({"a": 1}, -1, 1e300, -(2**63), [[[]]], [{"a": []}], True)
CONTROL = [bytes([byte]) for byte in range(32) if byte not in (9, 10, 13)] + [b"\x7f"]
REFUSED = {400, 403, 404, 405, 408, 413, 415, 417, 431, 501, 505}


class Malformed(typing.NamedTuple):
    kind: str
    data: bytes
    statuses: frozenset  # allowed statuses of its answer
    may_be_unfinished: bool = False  # it is not answered then, since more could come


def body_of(route):
    return json.loads(json.dumps(BODIES[route]))


def head(route, headers=(), method=b"POST", version=b"HTTP/1.1"):
    lines = [method + b" " + route.encode() + b" " + version, b"Host: localhost", b"Content-Type: application/json", *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def sized(route, body, headers=()):
    return head(route, [b"Content-Length: %d" % len(body), *headers]) + body


def dumped(value):
    return json.dumps(value).encode()


class Maker:
    """`random`: whose seed makes the same requests again."""

    def __init__(self, random):
        self.random = random
        self.kinds = [self.request_line, self.version, self.header, self.long_headers, self.two_lengths, self.bad_length,
                      self.both_lengths, self.coding, self.chunk_size, self.chunk_end, self.cut_body, self.bad_json, self.field,
                      self.long_body, self.flipped, self.route, self.method, self.media_type, self.expect, self.host, self.noise]

    def make(self):
        kind = self.random.choice(self.kinds)
        made = kind()
        return made._replace(kind=kind.__name__)

    def any_route(self):
        return self.random.choice(ROUTES)

    def right(self):
        route = self.any_route()
        return sized(route, dumped(body_of(route)))

    def request_line(self):
        target = self.any_route().encode()
        lines = [b"POST " + target, b"POST  " + target + b" HTTP/1.1", b"P(ST " + target + b" HTTP/1.1", b"POST HTTP/1.1",
                 b" POST " + target + b" HTTP/1.1", b"POST " + target + b" HTTP/1.1 ", b"POST " + target + b" HTTP/x.1",
                 b"POST " + target + b" http/1.1", b"POST v1 HTTP/1.1", b"POST /%zz HTTP/1.1", b"POST " + target + b" HTTP/1.11"]
        rest = self.right().split(b"\r\n", 1)[1]
        return Malformed("", self.random.choice(lines) + b"\r\n" + rest, {400})

    def version(self):
        version = b"HTTP/%d.%d" % (self.random.choice([0, 2, 3, 9]), self.random.randrange(10))
        return Malformed("", head(self.any_route(), version=version), {505})

    def header(self):
        wrong = [b"No colon", b"Blank : x", b": x", b"B(d: x", b"X: a\r\n folded", b"X: " + self.random.choice(CONTROL), b"X: a\rb",
                 b"X: a\nY: b", b"\xc3\xa9: x", b"Host: localhost"]
        route = self.any_route()
        return Malformed("", sized(route, dumped(body_of(route)), [self.random.choice(wrong)]), {400})

    def long_headers(self):
        length = self.random.randrange(17 << 10, 60 << 10)
        wrong = self.random.choice([b"X: " + b"a" * length, b"\r\n".join(b"X%d: a" % i for i in range(length // 6))])
        return Malformed("", head(self.any_route(), [wrong]), {431})

    def two_lengths(self):
        first, second = self.random.sample(range(1000), 2)
        return Malformed("", head(self.any_route(), [b"Content-Length: %d" % first, b"Content-Length: %d" % second]), {400})

    def bad_length(self):
        length = self.random.choice([b"-1", b"+5", b"0x10", b"1.0", b"1 2", b"3, 4", b"ten", b"", b"1e3"])
        return Malformed("", head(self.any_route(), [b"Content-Length: " + length]) + b"{}", {400})

    def both_lengths(self):
        headers = [b"Content-Length: 3", b"Transfer-Encoding: chunked"]
        self.random.shuffle(headers)
        return Malformed("", head(self.any_route(), headers) + b"0\r\n\r\n", {400})

    def coding(self):
        coding = self.random.choice([b"gzip", b"gzip, chunked", b"chunked, chunked", b"identity", b"xchunked", b"chunked, gzip"])
        return Malformed("", head(self.any_route(), [b"Transfer-Encoding: " + coding]) + b"0\r\n\r\n", {501})

    def chunked(self, chunks):
        return head(self.any_route(), [b"Transfer-Encoding: chunked"]) + chunks

    def chunk_size(self):
        size = self.random.choice([b"-1", b"0x2", b"g", b"", b"2 2", b"1" * 17, b";a=b", b"2\r", b"+2"])
        return Malformed("", self.chunked(size + b"\r\n{}\r\n0\r\n\r\n"), {400})

    def chunk_end(self):
        wrong = self.random.choice([b"2\r\n{}}\r\n0\r\n\r\n", b"2\r\n{}\n0\r\n\r\n", b"2\n{}\r\n0\r\n\r\n",
                                    b"2;" + b"a" * 2000 + b"\r\n{}\r\n0\r\n\r\n", b"2\r\n{}\r\n0\r\nno colon\r\n\r\n"])
        return Malformed("", self.chunked(wrong), {400})

    def cut_body(self):
        """Less of a body than was announced."""
        whole = self.right()
        return Malformed("", whole[:self.random.randrange(1, len(whole))], REFUSED, may_be_unfinished=True)

    def bad_json(self):
        route = self.any_route()
        body = dumped(body_of(route))
        depth = self.random.randrange(200, 100_000)
        wrong = [body[:self.random.randrange(len(body))], body + self.random.choice([b"}", b",", b"\0", b"{}"]), b"[" * depth,
                 b'{"a":' * depth, b"null", b"[]", b'"text"', b"1", b"", b"\xff" + body, body.replace(b'"a"', b'"\xc3"', 1),
                 b'{"a": nan}', body.replace(b":", b"=", 1), b"'" + body + b"'"]
        return Malformed("", sized(route, self.random.choice([made for made in wrong if made != body])), {400})

    def field(self):
        """A field of another type, or out of its range: the error names it."""
        route = self.any_route()
        body = body_of(route)
        name = self.random.choice(sorted(body))
        body[name] = self.random.choice(WRONG_VALUES)
        return Malformed("", sized(route, dumped(body)), {400})

    def long_body(self):
        """It is refused before it comes."""
        length = self.random.choice([(4 << 20) + 1, 10**9, 2**63, 10**30])
        return Malformed("", head(self.any_route(), [b"Content-Length: %d" % length]), {413})

    def flipped(self):
        """Some bytes are others: nobody knows what that asks for, perhaps something right."""
        data = bytearray(self.right())
        for _ in range(self.random.randrange(1, 6)):
            where = self.random.randrange(len(data))
            data[where] = self.random.choice([self.random.randrange(256), data[where] ^ 1 << self.random.randrange(8)])
        return Malformed("", bytes(data), REFUSED | {200}, may_be_unfinished=True)

    def route(self):
        path = self.random.choice(["/", "/v2/models", "/v1/completions/", "/v1//completions", "/v1/nothing", "/../v1/models",
                                   "/v1/completions%00"])
        return Malformed("", sized(path, b"{}"), {400, 404, 405})

    def method(self):
        method = self.random.choice([b"PUT", b"DELETE", b"GET", b"PATCH", b"post", b"TRACE", b"X"])
        return Malformed("", head(self.any_route(), method=method), {405})

    def media_type(self):
        """Without a key a page in a browser could send these."""
        route = self.any_route()
        kind = self.random.choice([b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data; boundary=a", b"json",
                                   b"application/json; charset=utf-16"])
        return Malformed("", sized(route, dumped(body_of(route))).replace(b"application/json", kind), {415})

    def expect(self):
        route = self.any_route()
        return Malformed("", sized(route, dumped(body_of(route)), [b"Expect: " + self.random.choice([b"200", b"a, b"])]), {417})

    def host(self):
        host, status = self.random.choice([(b"evil.example", 403), (b"a b", 400), (b"a/b", 400), (b"user@localhost", 400)])
        return Malformed("", self.right().replace(b"localhost", host, 1), {status})

    def noise(self):
        data = self.random.randbytes(self.random.randrange(1, 500))
        return Malformed("", data, REFUSED, may_be_unfinished=True)


def answers(received, is_head=False):
    """The (status, headers, body) of each answer in `received`, which must be whole."""
    result = []
    while received:
        text, end, received = received.partition(b"\r\n\r\n")
        assert end, f"headers without an end: {text[:200]}"
        first, *lines = text.decode("latin-1").split("\r\n")
        status = int(re.fullmatch(r"HTTP/1\.1 (\d{3}) [ -~]*", first).group(1))
        if status == 100:
            continue
        headers = dict(line.lower().split(": ", 1) for line in lines)
        length = int(headers.get("content-length", 0))
        assert "transfer-encoding" not in headers, "none of these requests is for a stream"
        body, received = ("", received) if is_head else (received[:length], received[length:])
        assert is_head or len(body) == length, f"{len(body)} bytes of {length}"
        result.append((status, headers, body))
    return result


def check_error(status, headers, body):
    """That a refusal says in JSON what is wrong, as OpenAI or Anthropic would."""
    assert headers.get("content-type", "").startswith("application/json"), headers
    error = json.loads(body)["error"]
    assert error["message"] and error["type"], body
    assert (status >= 500) == (error["type"] in ("server_error", "not_supported_error", "unavailable_error", "api_error",
                                                 "overloaded_error", "timeout_error")), (status, body)
