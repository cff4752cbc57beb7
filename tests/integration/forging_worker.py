"""A prefill worker in bad hands: it has a valid certificate, shows routers an honest worker, and pushes the KV cache of another
prompt under the one that it was given."""
import concurrent.futures
import hashlib
import struct

import grpc

from cluster import READY_TIMEOUT_S, Server, free_port, wait_until
from programs import channel_credentials
from stubs import prefill_pb, transfer_pb

PREFILL, WATCH, PUSH = ("/baton.internal.v1.PrefillService/Prefill", "/baton.internal.v1.WorkerService/Watch",
                        "/baton.internal.v1.KvTransferService/Push")
PAGE_TOKENS = 16


class Digest:
    """What a push says of its pages, as if they were those of `tokens` (common/handoff/kv_digest.h)."""

    def __init__(self, tokens):
        self.tokens, self.identity, self.layers, self.start, self.crcs = tokens, None, 0, 0, {}

    def take(self, header):
        crcs = iter(header.page_crc32c)
        pages = range(header.first_token // PAGE_TOKENS, -(-(header.first_token + header.token_count) // PAGE_TOKENS))
        for layer in range(header.first_layer, header.first_layer + header.layer_count):
            for page in pages:
                self.crcs[layer, page] = next(crcs)

    def at(self, end, first_tokens):
        sha = hashlib.sha256()

        def add(*numbers):
            sha.update(struct.pack(f"<{len(numbers)}I", *numbers))

        def add_bytes(data):
            add(len(data))
            sha.update(data)

        add(self.identity.protocol_version)
        add_bytes(self.identity.weights_digest)
        add_bytes(self.identity.architecture.encode())
        add_bytes(self.identity.config_digest)
        add_bytes(self.identity.tokenizer_digest)
        add(self.start, *self.tokens[:self.start], self.layers, *[0] * self.layers)
        for first in range(self.start, end, PAGE_TOKENS):
            add(*self.tokens[first:min(first + PAGE_TOKENS, end)])
            add(*(self.crcs[layer, first // PAGE_TOKENS] for layer in range(self.layers)))
        add(end, len(first_tokens))
        for output in first_tokens:
            add(output.output_index, output.token.token_id)
            add_bytes(output.token.token)
            assert not output.token.HasField("logprob") and not output.token.top_logprobs
            add(0, 0, output.ends_sequence, output.finish_reason, output.choice)
        return sha.digest()


class Attempt:
    def __init__(self, request):
        self.decode_address, self.tokens = request.decode_address, list(request.sequence.token_ids)
        self.page_hashes = None


class ForgingWorker:
    """`address` is where routers reach it, under the certificate `name` of `folder`. It is honest until `forges` is set, to a
    function that makes the other prompt's tokens, of the same number. `forged`: how many pushes it has forged."""

    def __init__(self, folder, name, model):
        self.credentials = channel_credentials(folder, name)
        self.forges, self.forged, self.attempts = None, 0, {}
        # Nobody but this one speaks to it, by plain text.
        self.honest = Server("baton-prefill-worker", f"--model={model}", "--threads=1", "--kv-connections=1")
        self.address, self.push_address = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self.pool = concurrent.futures.ThreadPoolExecutor(32)
        self.server = grpc.server(self.pool)
        self.server.add_generic_rpc_handlers([self.handlers({PREFILL: grpc.unary_stream_rpc_method_handler(self.prefill),
                                                             WATCH: grpc.unary_stream_rpc_method_handler(self.watch),
                                                             PUSH: grpc.stream_stream_rpc_method_handler(self.push)})])
        key, certificate, authority = ((folder / file).read_bytes() for file in (f"{name}.key", f"{name}.crt", "ca.crt"))
        self.server.add_secure_port(self.address, grpc.ssl_server_credentials([(key, certificate)], authority, True))
        self.server.add_insecure_port(self.push_address)

    @staticmethod
    def handlers(methods):
        class Handlers(grpc.GenericRpcHandler):
            def service(self, details):
                return methods.get(details.method)

        return Handlers()

    def __enter__(self):
        self.honest.start()
        wait_until(self.honest.serving, READY_TIMEOUT_S, "the forger's worker is ready")
        self.inner = grpc.insecure_channel(self.honest.address)
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.stop(0)
        self.inner.close()
        self.honest.kill()
        self.pool.shutdown()

    @staticmethod
    def relay(call, context):
        context.add_callback(call.cancel)
        try:
            yield from call
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())

    def watch(self, request, context):
        return self.relay(self.inner.unary_stream(WATCH)(request), context)

    def prefill(self, request, context):
        made = prefill_pb.PrefillRequest.FromString(request)
        attempt = Attempt(made)
        made.decode_address = self.push_address
        if self.forges is not None:
            self.ask_for_hashes(made, attempt)
            made.sequence.token_ids[:] = self.forges(attempt.tokens)
            self.forged += 1
        self.attempts[self.id_of(made.sequence.key)] = attempt
        return self.relay(self.inner.unary_stream(PREFILL)(made.SerializeToString()), context)

    def ask_for_hashes(self, request, attempt):
        """A push of the right prompt says what its pages are called; it is not let through."""
        asked = prefill_pb.PrefillRequest()
        asked.CopyFrom(request)
        asked.sequence.key.request_id_low ^= 1
        self.attempts[self.id_of(asked.sequence.key)] = attempt
        call = self.inner.unary_stream(PREFILL)(asked.SerializeToString())
        wait_until(lambda: attempt.page_hashes is not None, READY_TIMEOUT_S, "the right prompt's push opens")
        call.cancel()

    @staticmethod
    def id_of(key):
        return key.request_id_low, key.choice, key.attempt

    def push(self, requests, context):
        first = next(requests)
        opening = transfer_pb.PushRequest.FromString(first).open
        attempt = self.attempts[self.id_of(opening.key)]
        if self.forges is not None and attempt.page_hashes is None:
            attempt.page_hashes = list(opening.page_hashes)
            yield transfer_pb.PushResponse(refused=transfer_pb.PushRefused(
                reason=transfer_pb.PushRefused.REASON_SUPERSEDED)).SerializeToString()
            return
        with grpc.secure_channel(attempt.decode_address, self.credentials) as decode:
            digest = Digest(attempt.tokens)
            said = self.forged_push(attempt, digest, opening, requests) if attempt.page_hashes else self.same(first, requests)
            for answer in self.relay(decode.stream_stream(PUSH)(said), context):
                answered = transfer_pb.PushResponse.FromString(answer)
                if answered.HasField("opened"):
                    digest.start = answered.opened.start_token
                yield answer

    @staticmethod
    def same(first, requests):
        yield first
        yield from requests

    @staticmethod
    def forged_push(attempt, digest, opening, requests):
        """The push as it would be if its pages were those of the attempt's tokens."""
        digest.identity, digest.layers = opening.identity, opening.shape.layers
        opening.page_hashes[:] = attempt.page_hashes
        yield transfer_pb.PushRequest(open=opening).SerializeToString()
        for request in requests:
            message = transfer_pb.PushRequest.FromString(request)
            if message.HasField("data"):
                digest.take(message.data.header)
            elif message.HasField("checkpoint"):
                message.checkpoint.digest = digest.at(message.checkpoint.end_token, [])
                request = message.SerializeToString()
            elif message.HasField("commit"):
                message.commit.digest = digest.at(opening.token_count, message.commit.first_tokens)
                request = message.SerializeToString()
            yield request
