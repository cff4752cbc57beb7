"""A real router whose model says what a test tells it to. No small model can be counted on to call tools of its own accord."""
import concurrent.futures
import pathlib
import struct
import subprocess

import grpc

from cluster import BIN, SOON_S, Server, free_port, wait_until
from stubs import common_pb, decode_pb, pb, rpc, worker_pb

VOCABULARY = pathlib.Path(__file__).resolve().parents[1] / "data" / "tokenizer" / "smollm2-vocab.gguf"
CONTEXT = 131072  # tokens; what coding agents send before the first question is more than SmolLM2's 8192
WATCH, DECODE = "/baton.internal.v1.WorkerService/Watch", "/baton.internal.v1.DecodeService/Decode"
END_OF_TURN = "<|im_end|>"


class ScriptedModel:
    """A router with HTTP at `http`, and the one worker behind it. The file of the model is SmolLM2's without weights, with a longer
    context. The worker is one of tests/mock_workers in all but its answers, which are those of `answers`, one after another.
    `prompts` has the text of each prompt that was answered so far. REQUIRES: one request at a time."""

    def __init__(self, folder):
        self.answers, self.prompts = [], []
        self.model = with_longer_context(folder / "model.gguf")
        self.pool = concurrent.futures.ThreadPoolExecutor(8)
        self.worker = grpc.server(self.pool)
        self.worker.add_generic_rpc_handlers([Handlers({WATCH: grpc.unary_stream_rpc_method_handler(self.watch),
                                                        DECODE: grpc.stream_stream_rpc_method_handler(self.decode)})])
        address, http_port = f"127.0.0.1:{free_port()}", free_port()
        self.worker.add_insecure_port(address)
        self.router = Server("baton-router", f"--model={self.model}", f"--decode={address}", "--served-model-name=smollm2",
                             f"--http-listen=127.0.0.1:{http_port}")
        self.http = f"http://127.0.0.1:{http_port}"
        self.to_router = grpc.insecure_channel(self.router.address)
        self.stub = rpc.GenerationServiceStub(self.to_router)
        workers_file = folder / "workers"
        self.mock = subprocess.Popen([str(BIN.parent / "tests/mock_workers"), f"--model={self.model}",
                                      f"--workers-file={workers_file}", "--prefill=0", "--decode=1"],
                                     stdout=subprocess.PIPE, text=True)
        assert self.mock.stdout.readline() == "ready\n"
        self.to_mock = grpc.insecure_channel(workers_file.read_text().split()[1])

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        self.worker.start()
        self.router.start()
        wait_until(lambda: self.router.serving("all_workers"), SOON_S, "the router knows the scripted worker")

    def __exit__(self, *_):
        self.to_router.close()
        if self.router.process is not None:
            self.router.kill()
        self.worker.stop(0)
        self.to_mock.close()
        self.mock.terminate()
        self.mock.wait(10)
        self.pool.shutdown()

    def will_say(self, *answers):
        """The next answers. Those of an earlier script that nobody asked for are forgotten, and so are its prompts."""
        self.answers[:], self.prompts[:] = answers, []

    def watch(self, request, context):
        call = self.to_mock.unary_stream(WATCH)(request)
        context.add_callback(call.cancel)
        try:
            for message in call:
                self.note_shape(message)
                yield message
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())

    def note_shape(self, message):
        told = worker_pb.WatchResponse.FromString(message)
        if told.HasField("info"):
            self.shape = told.info.shape

    def decode(self, requests, context):
        sequence = decode_pb.DecodeRequest.FromString(next(requests)).start.sequence
        asked = list(sequence.token_ids[:sequence.prompt_length])
        yield said(accepted=decode_pb.DecodeAccepted(shape=self.shape))
        self.prompts.append(self.stub.Detokenize(pb.DetokenizeRequest(token_ids=asked, skip_special_tokens=False)).text)
        text = self.answers.pop(0) if self.answers else "The script has ended."
        ids = self.stub.Tokenize(pb.TokenizeRequest(text=text + END_OF_TURN, add_special_tokens=False, parse_special=True)).token_ids
        ids = ids[:sequence.sampling.max_tokens]
        tokens = [common_pb.OutputToken(output_index=index, token=pb.TokenLogprob(token_id=token), choice=sequence.key.choice)
                  for index, token in enumerate(ids)]
        tokens[-1].ends_sequence = True
        tokens[-1].finish_reason = pb.FINISH_REASON_STOP if len(ids) < sequence.sampling.max_tokens else pb.FINISH_REASON_LENGTH
        yield said(tokens=decode_pb.DecodeTokens(tokens=tokens))
        yield said(finished=decode_pb.DecodeFinished(exact=True, choice=sequence.key.choice))


class Handlers(grpc.GenericRpcHandler):
    def __init__(self, methods):
        self.methods = methods

    def service(self, details):
        return self.methods.get(details.method)


def said(**event):
    return decode_pb.DecodeResponse(**event).SerializeToString()


def with_longer_context(path):
    """Writes the vocabulary's file with CONTEXT as its context length to `path`, and returns that."""
    key, content = b"llama.context_length", bytearray(VOCABULARY.read_bytes())
    at = content.index(key) + len(key) + 4  # behind the value's type
    assert struct.unpack_from("<I", content, at) == (8192,)
    struct.pack_into("<I", content, at, CONTEXT)
    path.write_bytes(content)
    return path
