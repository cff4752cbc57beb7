"""What --trace-file and --otlp-endpoint tell of requests, and that both agree with the timings of the answers."""
import base64
import concurrent.futures
import http.server
import json
import pathlib
import re
import sys
import threading
import urllib.request

import pytest
from google.protobuf import json_format

from cluster import Cluster, failure, free_port, request, wait_until

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import pypi_packages  # noqa: E402

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SECRET = "zanzibar"  # stands in prompts and answers, and must stand in no trace
SECONDS_NS = 1e9


class Collector:
    """A small collector for OTLP over HTTP in JSON."""

    def __init__(self):
        self.bodies, self.headers, self.lock = [], [], threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(handler):
                body = handler.rfile.read(int(handler.headers["content-length"]))
                with self.lock:
                    self.bodies.append((handler.path, body))
                    self.headers.append(dict(handler.headers))
                handler.send_response(200)
                handler.send_header("content-type", "application/json")
                handler.send_header("content-length", "2")
                handler.end_headers()
                handler.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self):
        with self.lock:
            bodies = list(self.bodies)
        return [span for _, body in bodies for resource in json.loads(body)["resourceSpans"]
                for scope in resource["scopeSpans"] for span in scope["spans"]]

    def of_request(self, request_id):
        """The spans of the request by that id, the request's own first; waits until they have come."""
        def find():
            spans = self.spans()
            for root in spans:
                if attributes(root).get("gen_ai.response.id") == request_id:
                    return [root] + [s for s in spans if s["traceId"] == root["traceId"] and s is not root]
            return None

        return wait_until(find, 20, f"the spans of {request_id}")

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def attributes(span):
    def plain(value):
        (kind, held), = value.items()
        if kind == "intValue":
            return int(held)
        return [plain(v) for v in held["values"]] if kind == "arrayValue" else held

    return {pair["key"]: plain(pair["value"]) for pair in span["attributes"]}


def ends(span):
    """When the span begins and when it ends, in nanoseconds."""
    return int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])


def length_ns(span):
    begin, end = ends(span)
    return end - begin


def seconds(timings, name):
    return getattr(timings, name).ToNanoseconds() / SECONDS_NS


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    collector = Collector()
    file = tmp_path_factory.mktemp("traces") / "trace.json"
    http_port = free_port()
    cluster = Cluster(router_args=[f"--trace-file={file}", f"--otlp-endpoint={collector.url}", "--disaggregate=always",
                                   f"--http-listen=127.0.0.1:{http_port}", "--metrics-vllm-names"],
                      worker_args=["--metrics-vllm-names"])
    cluster.router.environment = {"OTEL_SERVICE_NAME": "chat-router", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
                                  "OTEL_EXPORTER_OTLP_HEADERS": "x-scope=a%20b"}
    with cluster:
        cluster.collector, cluster.file, cluster.http_port = collector, file, http_port
        yield cluster
    collector.close()


def generate(cluster, made, metadata=()):
    *_, last = list(cluster.stub.Generate(made, timeout=60, metadata=metadata))
    return last.complete


def named(request_id, **fields):
    made = request(max_tokens=5, ignore_eos=True, **fields)
    made.request_id = request_id
    return made


def events_of(cluster, request_id):
    """The file's events of the request, its own first; the file need not have its end."""
    def find():
        text = cluster.file.read_text().rstrip().rstrip("]").rstrip()
        events = [event for event in json.loads(text + "]") if event["ph"] == "X"]
        for root in events:
            if root["args"].get("gen_ai.response.id") == request_id:
                # One request at a time: those within it are its own.
                return [root] + [e for e in events if e is not root and root["ts"] <= e["ts"]
                                 and e["ts"] + e["dur"] <= root["ts"] + root["dur"]]
        return None

    return wait_until(find, 20, f"the events of {request_id}")


def test_the_spans_the_events_and_the_answer_agree(traced):
    done = generate(traced, named("agree", ids=[40] + [30] * 900))
    spans, events = traced.collector.of_request("agree"), events_of(traced, "agree")
    t = done.timings
    told = attributes(spans[0])
    assert told["gen_ai.latency.e2e"] == pytest.approx(seconds(t, "total"), abs=1e-9)
    assert length_ns(spans[0]) == pytest.approx(seconds(t, "total") * SECONDS_NS, abs=1000)
    assert told["gen_ai.latency.time_in_queue"] == seconds(t, "queue")
    assert told["gen_ai.response.time_to_first_chunk"] == seconds(t, "time_to_first_token")
    assert told["baton.kv_transfer_bytes"] == t.kv_transfer_bytes
    assert told["gen_ai.usage.input_tokens"] == 901 and told["gen_ai.usage.output_tokens"] == 5
    by_name = {span["name"]: span for span in spans}
    for name, field in (("prefill.compute", "prefill"), ("prefill.queue", "prefill_queue"), ("kv.transfer", "kv_transfer"),
                        ("decode.queue", "decode_queue"), ("decode", "decode")):
        expected = seconds(t, field) * SECONDS_NS
        if name == "prefill.queue" and name not in by_name:
            assert expected == 0
            continue
        missing = expected - length_ns(by_name[name])
        assert missing >= -2000, name
        # A stage is cut only where it goes beyond its attempt: its worker's message came late to the router.
        assert missing <= 2000 or set(ends(by_name[name])) & set(ends(by_name["attempt"])), name
    # The file has the same stages, to the microsecond, and their pieces.
    for span in spans:
        begin, end = (int(span[f"{which}TimeUnixNano"]) // 1000 for which in ("start", "end"))
        assert [e for e in events if e["name"] == span["name"] and e["ts"] == begin and e["dur"] == end - begin], span
    pieces = [e for e in events if "bytes" in e["args"]]
    assert sum(e["args"]["bytes"] for e in pieces) == t.kv_transfer_bytes
    assert all("first_layer" in e["args"] for e in pieces)


def test_spans_hang_together_and_lie_within_their_parents(traced):
    generate(traced, named("nested", ids=[41] + [30] * 300), metadata=[("traceparent", f"00-{TRACE}-{PARENT}-01"),
                                                                      ("tracestate", "vendor=1")])
    spans = traced.collector.of_request("nested")
    by_id = {span["spanId"]: span for span in spans}
    root = spans[0]
    assert root["traceId"] == TRACE and root["parentSpanId"] == PARENT and root["kind"] == 2 and root["traceState"] == "vendor=1"
    assert root["name"].startswith("text_completion ")
    for span in spans[1:]:
        parent = by_id[span["parentSpanId"]]
        assert int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"])
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) <= int(parent["endTimeUnixNano"])
    assert {"attempt", "prefill.compute", "kv.transfer", "decode"} <= {span["name"] for span in spans}


def test_what_is_sent_is_otlp_by_its_own_messages(traced):
    pypi_packages.or_skip(pypi_packages.install, HERE.parent / "support" / "otlp_requirements.txt", "--no-deps")
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

    generate(traced, named("proto", ids=[42] + [30] * 100))
    traced.collector.of_request("proto")
    for (path, body), headers in zip(traced.collector.bodies, traced.collector.headers):
        assert path == "/v1/traces" and headers["Content-Type"] == "application/json" and headers["x-scope"] == "a b"

        def to_base64(match):  # OTLP writes ids as hexadecimal digits where protobuf's JSON has base64
            return f'"{match[1]}":"{base64.b64encode(bytes.fromhex(match[2])).decode()}"'

        text = re.sub(r'"(traceId|spanId|parentSpanId)":"([0-9a-f]+)"', to_base64, body.decode())
        message = json_format.Parse(text, trace_service_pb2.ExportTraceServiceRequest())
        resource = {a.key: a.value.string_value for a in message.resource_spans[0].resource.attributes}
        assert resource["service.name"] == "chat-router" and resource["deployment.environment"] == "test"
        for span in message.resource_spans[0].scope_spans[0].spans:
            assert len(span.trace_id) == 16 and len(span.span_id) == 8


def test_http_requests_join_the_callers_trace(traced):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": SECRET}], "max_tokens": 3}).encode()
    models = json.load(urllib.request.urlopen(f"http://127.0.0.1:{traced.http_port}/v1/models"))
    body = body.replace(b'"m"', json.dumps(models["data"][0]["id"]).encode(), 1)
    made = urllib.request.Request(f"http://127.0.0.1:{traced.http_port}/v1/chat/completions", body, {
        "content-type": "application/json", "x-request-id": "by-http", "traceparent": f"00-{TRACE[::-1]}-{PARENT}-01"})
    answer = json.load(urllib.request.urlopen(made, timeout=60))
    root = traced.collector.of_request("by-http")[0]
    told = attributes(root)
    assert root["traceId"] == TRACE[::-1] and root["parentSpanId"] == PARENT
    assert told["gen_ai.operation.name"] == "chat" and told["gen_ai.request.max_tokens"] == 3
    assert told["gen_ai.usage.output_tokens"] == answer["usage"]["completion_tokens"]


def test_a_caller_who_does_not_sample_has_its_way_but_the_file_has_all(traced):
    generate(traced, named("unsampled", ids=[43] * 20), metadata=[("traceparent", f"00-{TRACE}-{PARENT}-00")])
    generate(traced, named("after", ids=[43] * 21))
    traced.collector.of_request("after")
    assert "unsampled" not in {attributes(span).get("gen_ai.response.id") for span in traced.collector.spans()}
    assert events_of(traced, "unsampled")[0]["args"]["trace_id"] == TRACE


def test_events_are_what_the_format_asks_for(traced):
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda i: generate(traced, named(f"many-{i}", ids=[44 + i] + [30] * 200)), range(6)))
    for i in range(6):
        events_of(traced, f"many-{i}")
    events = json.loads(traced.file.read_text() + "]")
    tracks, names = {}, {}
    for event in events:
        assert event["ph"] in ("X", "M") and isinstance(event["pid"], int) and isinstance(event["tid"], int)
        if event["ph"] == "M":
            names[event["name"], event["tid"]] = event["args"]["name"]
            continue
        assert isinstance(event["ts"], int) and isinstance(event["dur"], int) and event["dur"] >= 0
        tracks.setdefault(event["tid"], []).append((event["ts"], -event["dur"], event["name"]))
    for track, of_track in tracks.items():
        assert ("thread_name", track) in names
        open_until = []
        for begin, minus, name in sorted(of_track):
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            assert not open_until or begin - minus <= open_until[-1], (track, name, "overlaps what it is not within")
            open_until.append(begin - minus)
    assert len({tid for tid, spans in tracks.items() if any(name.startswith("text_") for *_, name in spans)}) > 1


def test_no_text_of_a_prompt_or_an_answer_is_told(traced):
    done = generate(traced, named("secret", chat=[("user", f"Repeat: {SECRET}")], stop=[SECRET + "!"]))
    traced.collector.of_request("secret")
    told = traced.file.read_text() + "".join(body.decode() for _, body in traced.collector.bodies)
    assert SECRET not in told and (len(done.text) < 8 or done.text not in told)


def test_a_request_that_fails_says_so(traced):
    failed = failure(traced.stub, named("fails", ids=[10 ** 6]))
    assert failed.code is not None
    # Refused before it had a prompt, it is not traced; a client who leaves is.
    made = request(ids=[50] + [30] * 20, max_tokens=2000, ignore_eos=True, stream=True)
    made.request_id = "leaves"
    call = traced.stub.Generate(made, timeout=60)
    next(call)
    call.cancel()
    root = traced.collector.of_request("leaves")[0]
    assert root["status"]["code"] == 2 and attributes(root)["error.type"] == "CANCELLED"
    assert "fails" not in {attributes(span).get("gen_ai.response.id") for span in traced.collector.spans()}


def test_metrics_by_vllms_names_are_the_same_numbers(traced):
    generate(traced, named("counted", ids=[45] + [30] * 100))
    traced.wait_idle()
    router, prefill, decode = traced.router, traced.prefill[0], traced.decode[0]
    for part in (router, prefill, decode):
        names = part.metrics()
        assert part.metric("vllm:num_requests_waiting") >= 0
        assert any(name.startswith("vllm:kv_cache_usage_perc{") for name in names)
        for theirs, ours in (("vllm:prompt_tokens_total", "baton_prompt_tokens_total"),
                             ("vllm:request_prefill_time_seconds_count", "baton_request_prefill_seconds_count"),
                             ("vllm:num_requests_running", "baton_requests_running")):
            assert part.metric(theirs) == part.metric(ours), theirs
    assert router.metric("vllm:e2e_request_latency_seconds_count") == router.metric("baton_request_duration_seconds_count") > 0
    assert decode.metric("vllm:nixl_bytes_transferred_sum") == decode.metric("baton_kv_transfer_bytes_sum") > 0
    assert decode.metric("vllm:cache_config_info", block_size="32") == 1


def test_calls_and_steps_are_counted_on_every_part(traced):
    generate(traced, named("steps", ids=[46] + [30] * 100))
    router, prefill, decode = traced.router, traced.prefill[0], traced.decode[0]
    for part, method in ((router, "Generate"), (prefill, "Prefill"), (decode, "Decode"), (decode, "Push")):
        wait_until(lambda: any("baton_grpc_server_handled_total" in name and f'grpc_method="{method}"' in name
                               for name in part.metrics()), 10, f"{method} is counted")
        assert part.metric("baton_grpc_server_handled_total", grpc_method=method, grpc_code="OK") > 0
        assert part.metric("baton_grpc_server_handling_seconds_count", grpc_method=method) > 0
    for worker in (prefill, decode):
        assert worker.metric("baton_iteration_tokens_sum") >= worker.metric("baton_iteration_tokens_count") > 0
    assert router.metric("baton_config_info", disaggregate="always") == 1
    assert 0 <= router.metric("baton_router_kv_cache_usage_ratio") <= 1


def test_at_the_end_the_file_is_whole_and_what_was_taken_is_sent(tmp_path):
    collector, file = Collector(), tmp_path / "trace.json"
    with Cluster(prefill=0, decode=1, router_args=["--disaggregate=never", f"--trace-file={file}",
                                                   f"--otlp-endpoint={collector.url}"]) as cluster:
        generate(cluster, named("last", ids=[40] * 20))
        assert cluster.router.stop() == 0
        roots = [span for span in collector.spans() if "gen_ai.response.id" in attributes(span)]
        assert [attributes(root)["gen_ai.response.id"] for root in roots] == ["last"]
        assert [e["args"]["gen_ai.response.id"] for e in json.loads(file.read_text())
                if "gen_ai.response.id" in e["args"]] == ["last"]
        # Killed, it leaves a file without its end, and the one before beside it.
        cluster.revive()
        generate(cluster, named("killed", ids=[41] * 20))
        wait_until(lambda: "killed" in file.read_text(), 20, "it is written")
        cluster.router.kill()
        assert "killed" in json.dumps(json.loads(file.read_text() + "]"))
        assert "last" in (tmp_path / "trace.json.1").read_text()
    collector.close()


def test_a_collector_that_is_not_there_holds_up_neither_requests_nor_the_end(tmp_path):
    with Cluster(prefill=0, decode=1, router_args=["--disaggregate=never",
                                                   f"--otlp-endpoint=http://127.0.0.1:{free_port()}"]) as cluster:
        generate(cluster, named("alone", ids=[40] * 20))
        assert cluster.router.stop(timeout_s=8) == 0
