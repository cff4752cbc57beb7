"""The clients of OpenAI and Anthropic talk to /v1/responses and /v1/messages: sdk_types_test.py PLAY_ANSWERS.

Requests are what the clients send, answers what the router's translations make of given texts, without a socket between them. Each
body and event must be of the clients' types in pydantic's strict mode, and what a stream tells must add up to the whole answer.
"""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import pypi_packages

PLAY_ANSWERS = sys.argv.pop(1)
pypi_packages.or_end(pypi_packages.install, pathlib.Path(__file__).with_name("sdk_requirements.txt"))
sys.dont_write_bytecode = False  # the packages' bytecode stays beside them: without it they take seconds to load
import anthropic  # noqa: E402
import httpx2  # noqa: E402
import openai  # noqa: E402
import openai.types.responses  # noqa: E402
from pydantic import BaseModel, TypeAdapter  # noqa: E402

EVENTS = {"/v1/responses": TypeAdapter(openai.types.responses.ResponseStreamEvent),
          "/v1/messages": TypeAdapter(anthropic.types.RawMessageStreamEvent)}
WHOLE = {"/v1/responses": TypeAdapter(openai.types.responses.Response),
         "/v1/messages": TypeAdapter(anthropic.types.Message)}
# Fields of Open Responses that OpenAI's types do not have.
MORE_THAN_THE_TYPES = {"presence_penalty", "frequency_penalty", "store", "bytes"}

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
TEXT = "Wärme \U0001f642, so\nit is."
CALL = '~rI think~tI look.~cget~a{"city": "Ås"}~cput~a{}'


def unknown_fields(value):
    if isinstance(value, BaseModel):
        fields = {name: getattr(value, name) for name in type(value).model_fields}
        return set(value.model_extra or ()) | set().union(*map(unknown_fields, fields.values()), set())
    if isinstance(value, (list, tuple)):
        return set().union(*map(unknown_fields, value), set())
    return set()


def plain(parts):
    """The fields of the clients' objects that the router has sent, without the fields that the clients add."""
    if isinstance(parts, list):
        return [plain(part) for part in parts]
    if isinstance(parts, dict):
        return {name: plain(part) for name, part in parts.items() if not name.startswith("parsed")}
    return parts


class Router:
    """Answers the clients' requests, and checks its answers; `answer` is what the model says."""

    def __init__(self):
        self.program = subprocess.Popen([PLAY_ANSWERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer = {}

    def __call__(self, request):
        path = request.url.path
        line = {"path": path, "body": request.content.decode(), **self.answer}
        self.program.stdin.write(json.dumps(line) + "\n")
        self.program.stdin.flush()
        answer = json.loads(self.program.stdout.readline())
        stream = json.loads(request.content).get("stream", False)
        if answer["status"] == 200:
            check(path, answer["body"], stream)
        kind = "text/event-stream" if stream and answer["status"] == 200 else "application/json"
        return httpx2.Response(answer["status"], text=answer["body"], headers={"content-type": kind})

    def close(self):
        self.program.communicate()


def check(path, body, stream):
    if not stream:
        parsed = [WHOLE[path].validate_json(body, strict=True)]
    else:
        data = [event.split("\ndata: ")[1] for event in body.split("\n\n") if event]
        parsed = [EVENTS[path].validate_json(text, strict=True) for text in data
                  if json.loads(text)["type"] not in ("ping", "error")]
    unknown = unknown_fields(parsed) - MORE_THAN_THE_TYPES
    if unknown:
        raise AssertionError(f"{path} answers with {unknown}, which the client does not know")


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.router = Router()
        transport = httpx2.MockTransport(cls.router)
        options = {"api_key": "key", "max_retries": 0}
        cls.openai = openai.OpenAI(base_url="http://router/v1", http_client=httpx2.Client(transport=transport), **options)
        cls.anthropic = anthropic.Anthropic(base_url="http://router", http_client=httpx2.Client(transport=transport), **options)

    @classmethod
    def tearDownClass(cls):
        cls.router.close()

    def responses(self, answer, **request):
        """The response as a whole and as a stream's end."""
        self.router.answer = answer
        request = {"model": "m", "input": "Hi", **request}
        whole = self.openai.responses.create(**request)
        with self.openai.responses.stream(**request) as stream:
            events = list(stream)
        self.assertEqual(plain(events[-1].response.to_dict()["output"]), whole.to_dict()["output"])
        self.assertEqual(events[-1].response.usage, whole.usage)
        return whole, events

    def messages(self, answer, **request):
        self.router.answer = answer
        request = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], **request}
        whole = self.anthropic.messages.create(**request)
        with self.anthropic.messages.stream(**request) as stream:
            final = stream.get_final_message()
        self.assertEqual(plain(final.to_dict()["content"]), whole.to_dict()["content"])
        self.assertEqual(final.usage, whole.usage)
        self.assertEqual((final.stop_reason, final.stop_sequence), (whole.stop_reason, whole.stop_sequence))
        return whole

    def test_a_response_is_a_text(self):
        whole, events = self.responses({"text": TEXT}, instructions="Be brief.", metadata={"a": "b"}, temperature=0.5,
                                       reasoning={"effort": "low"}, store=True, user="u")
        self.assertEqual(whole.output_text, TEXT)
        self.assertEqual((whole.status, whole.metadata, whole.temperature), ("completed", {"a": "b"}, 0.5))
        self.assertEqual("".join(event.delta for event in events if event.type == "response.output_text.delta"), TEXT)
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))

    def test_a_response_reasons_and_calls_tools(self):
        tools = [{"type": "function", "name": name, "parameters": SCHEMA, "strict": True} for name in ("get", "put")]
        whole, _ = self.responses({"text": CALL}, tools=tools, tool_choice="required", parallel_tool_calls=True)
        self.assertEqual([item.type for item in whole.output], ["reasoning", "message", "function_call", "function_call"])
        self.assertEqual(json.loads(whole.output[2].arguments), {"city": "Ås"})
        # The items are taken back as they are.
        history = [{"role": "user", "content": "Hi"}, *(item.to_dict() for item in whole.output),
                   {"type": "function_call_output", "call_id": whole.output[2].call_id, "output": "warm"}]
        self.responses({"text": TEXT}, input=history)

    def test_a_response_has_log_probabilities(self):
        tokens = list("Hi there")
        whole, events = self.responses({"text": "Hi there", "tokens": tokens}, include=["message.output_text.logprobs"],
                                       top_logprobs=1)
        logprobs = whole.output[0].content[0].logprobs
        self.assertEqual([token.token for token in logprobs], tokens)
        streamed = [token.logprob for event in events if event.type == "response.output_text.delta" for token in event.logprobs]
        self.assertEqual(streamed, [token.logprob for token in logprobs])

    def test_a_response_that_was_cut_off_is_incomplete(self):
        whole, events = self.responses({"text": "~rI thi", "finish_reason": "length"}, max_output_tokens=3)
        self.assertEqual((whole.status, whole.incomplete_details.reason), ("incomplete", "max_output_tokens"))
        self.assertEqual(events[-1].type, "response.incomplete")

    def test_a_response_that_breaks_has_failed(self):
        self.router.answer = {"text": "It i", "fails": True}
        events = list(self.openai.responses.create(model="m", input="Hi", stream=True))
        self.assertEqual(events[-1].type, "response.failed")
        self.assertEqual(events[-1].response.error.code, "server_error")

    def test_a_response_in_a_form(self):
        form = {"format": {"type": "json_schema", "name": "place", "schema": SCHEMA, "strict": True}}
        whole, _ = self.responses({"text": '{"city": "Oslo"}'}, text=form)
        self.assertEqual(whole.text.format.schema_, SCHEMA)

    def test_a_wrong_response_names_its_field(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.openai.responses.create(model="m", input="Hi", previous_response_id="resp_1")
        self.assertEqual(caught.exception.param, "previous_response_id")

    def test_a_message_is_a_text(self):
        whole = self.messages({"text": TEXT}, system="Be brief.", extra_body={"temperature": 0.5}, metadata={"user_id": "u"},
                              thinking={"type": "adaptive"})
        self.assertEqual((whole.content[0].text, whole.stop_reason), (TEXT, "end_turn"))
        self.assertEqual((whole.usage.input_tokens, whole.usage.cache_read_input_tokens, whole.usage.output_tokens), (3, 4, 9))

    def test_a_message_thinks_and_uses_tools(self):
        tools = [{"name": name, "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}} for name in ("get", "put")]
        whole = self.messages({"text": CALL}, tools=tools, tool_choice={"type": "any"})
        self.assertEqual([block.type for block in whole.content], ["thinking", "text", "tool_use", "tool_use"])
        self.assertEqual((whole.content[2].input, whole.stop_reason), ({"city": "Ås"}, "tool_use"))
        results = [{"type": "tool_result", "tool_use_id": whole.content[2].id, "content": "warm"}]
        self.messages({"text": TEXT}, tools=tools, messages=[{"role": "user", "content": "Hi"}, whole.to_param(),
                                                             {"role": "user", "content": results}])

    def test_a_message_tells_why_it_ended(self):
        whole = self.messages({"text": "It", "stop": " END"}, stop_sequences=[" END"])
        self.assertEqual((whole.stop_reason, whole.stop_sequence), ("stop_sequence", " END"))
        self.assertEqual(self.messages({"text": "It", "finish_reason": "length"}).stop_reason, "max_tokens")

    def test_a_message_that_breaks_is_an_error(self):
        self.router.answer = {"text": "It i", "fails": True}
        stream = self.anthropic.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}], stream=True)
        with self.assertRaises(anthropic.APIStatusError) as caught:
            list(stream)
        self.assertEqual(caught.exception.body["error"], {"type": "overloaded_error", "message": "no worker"})

    def test_a_wrong_message_names_its_field(self):
        with self.assertRaisesRegex(anthropic.BadRequestError, "max_tokens: must be"):
            self.anthropic.messages.create(model="m", max_tokens=0, messages=[{"role": "user", "content": "Hi"}])


if __name__ == "__main__":
    unittest.main()
