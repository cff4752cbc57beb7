"""What the router's page reads: the fleet, a request's waterfall, the KV; and `baton status`, which shows it in a terminal."""
import contextlib
import json
import os
import signal
import subprocess
import urllib.error
import urllib.request

import pytest

from cluster import BIN, Cluster, free_port, wait_until
from programs import assert_one_clear_line, run

LANES = {"queue": "queue_ms", "prefill_queue": "prefill_queue_ms", "prefill": "prefill_ms", "transfer": "kv_transfer_ms",
         "decode_queue": "decode_queue_ms", "decode": "decode_ms"}
WORDS = "one two three four five six seven eight nine ten "


@pytest.fixture(scope="module")
def served():
    port = free_port()
    with Cluster(prefill=1, decode=2, prefill_args=["--max-num-batched-tokens=128"],
                 router_args=[f"--http-listen=127.0.0.1:{port}", "--disaggregate=always"]) as cluster:
        cluster.http = f"127.0.0.1:{port}"
        yield cluster


def get(served, path):
    with urllib.request.urlopen(f"http://{served.http}{path}", timeout=10) as response:
        return json.loads(response.read())


def complete(served, request_id, **body):
    made = urllib.request.Request(f"http://{served.http}/v1/completions",
                                  json.dumps({"return_timings": True, "temperature": 0, "seed": 1, **body}).encode(),
                                  {"Content-Type": "application/json", "x-request-id": request_id})
    with urllib.request.urlopen(made, timeout=60) as response:
        return json.loads(response.read())["choices"][0]


def test_the_lanes_of_a_request_are_as_long_as_its_timings_say(served):
    choice = complete(served, "waterfall", prompt=WORDS * 40, max_tokens=12, ignore_eos=True)
    told = get(served, "/page/requests/waterfall")
    assert told["timings"] == choice["timings"]
    assert told["state"] == "done" and told["output_tokens"] == 12 and len(told["tries"]) == 1
    for lane, name in LANES.items():
        spans = [span for span in told["spans"] if span["lane"] == lane]
        assert spans, lane
        extent = max(span["end_ms"] for span in spans) - min(span["start_ms"] for span in spans)
        assert extent == pytest.approx(told["timings"][name], abs=0.001), lane
    assert max(span["end_ms"] for span in told["spans"]) <= told["total_ms"] + 50
    chunks = [span for span in told["spans"] if span["lane"] == "prefill"]
    assert len(chunks) > 1 and sum(span["tokens"] for span in chunks) == told["prompt_tokens"] - told["cached_tokens"]
    for before, after in zip(chunks, chunks[1:]):
        assert before["end_ms"] == after["start_ms"]
    sent = [span for span in told["spans"] if span["lane"] == "transfer" and "bytes" in span]
    assert sum(span["bytes"] for span in sent) == told["transfer"]["bytes"] == told["timings"]["kv_transfer_bytes"]
    assert {layer for span in sent for layer in range(span["layers"][0], span["layers"][1] + 1)} == set(range(30))
    assert "three" not in json.dumps(told), "no text"


def test_pages_that_requests_find_held_are_counted(served):
    for number in range(3):
        complete(served, f"prefix-{number}", prompt=WORDS * 20 + str(number), max_tokens=2)

    def reused():
        pages = get(served, "/page/kv")["prefixes"]
        return pages if pages and pages[0]["reused"] >= 1 else None

    pages = wait_until(reused, 5, "pages that were reused")
    assert "parent" not in pages[0] and pages[0]["depth_tokens"] == pages[0]["tokens"] == 16
    assert pages[0]["workers"]
    kv = get(served, "/page/kv")["workers"]
    assert {worker["role"] for worker in kv} == {"prefill", "decode"}
    for worker in kv:
        assert worker["bytes_per_token_of"]["f16"] == worker["bytes_per_token"] == 23040
        assert worker["bytes_per_token_of"]["int8"] == 2 * 30 * 3 * (64 + 4)
        assert worker["bytes_per_token_of"]["int4"] == 2 * 30 * 3 * (32 + 4)
        assert worker["blocks"]["total"] > 0


@pytest.mark.parametrize("form", ["{}", "http://{}", "http://{}/v1/"])
def test_status_takes_every_form_of_a_routers_address(served, form):
    done = run("baton", "status", "--http=" + form.format(served.http))
    assert done.returncode == 0 and b"ROUTER" in done.stdout, done.stderr


def test_status_shows_the_fleet_as_a_table_and_as_json(served):
    done = run("baton", "status", f"--http={served.http}")
    assert done.returncode == 0, done.stderr
    table = done.stdout.decode()
    assert "ROUTER" in table and table.count("ready") >= 3 and "ADVICE" in table
    twice = run("baton", "status", f"--http={served.http}", f"--http={served.http}", "--json")
    fleet = json.loads(twice.stdout)
    assert len(fleet["routers"]) == 2 and len(fleet["workers"]) == 3, "each worker once"
    ready = {role: fleet["advice"][role]["ready"] for role in ("prefill", "decode")}
    assert sum(ready.values()) == 3 and all(fleet["advice"][role]["why"] for role in ready)


def test_status_says_what_is_wrong():
    port = free_port()
    assert_one_clear_line(run("baton", "status", f"--http=127.0.0.1:{port}"), f"127.0.0.1:{port}", "--http-listen", code=1)
    assert_one_clear_line(run("baton", "status", "--http=example.org:80"), "example.org", code=1)
    assert_one_clear_line(run("baton", "status", "--http=nonsense"), "--http")
    assert_one_clear_line(run("baton", "doctor", "--http=grpc://127.0.0.1:1"), "--http", "http://host:port")
    assert_one_clear_line(run("baton", "status", f"--http=https://127.0.0.1:{port}"), "https://", "--tls-ca", code=1)


@contextlib.contextmanager
def watching(command, *args, **streams):
    process = subprocess.Popen([str(BIN / "baton"), *command, *args], **streams)
    try:
        yield process
        assert process.poll() is None, "it goes on until it is interrupted"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == -signal.SIGINT
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("command", [["top"], ["status", "--watch"]], ids=["top", "watch"])
def test_the_fleet_is_shown_again_and_again(served, command):
    with watching(command, f"--http={served.http}", "--json", stdout=subprocess.PIPE) as shown:
        first, second = (json.loads(shown.stdout.readline()) for _ in range(2))
        assert second["now"] > first["now"] and len(second["workers"]) == 3


def test_a_terminal_shows_the_newest_alone(served):
    clear = "\033[H\033[2J\033[3J"
    terminal, its_end = os.openpty()
    with watching(["top"], f"--http={served.http}", stdout=its_end):
        os.close(its_end)
        text = ""
        while text.count(clear) < 2 or not text.endswith("\n"):
            text += os.read(terminal, 65536).decode()
    os.close(terminal)
    shown = text.split(clear)
    assert shown[0] == "" and all(one.count("ROUTER") == 1 for one in shown[1:])


def test_a_router_that_is_not_there_is_asked_again():
    address = f"127.0.0.1:{free_port()}"
    with watching(["top"], f"--http={address}", stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as shown:
        assert all(address in shown.stderr.readline() for _ in range(2))


def test_a_killed_worker_is_seen_and_its_request_keeps_its_broken_try(served):
    with pytest.raises(urllib.error.HTTPError) as unknown:
        get(served, "/page/requests/unknown")
    assert unknown.value.code == 404
    body = {"prompt": WORDS, "max_tokens": 400, "ignore_eos": True, "stream": True}
    made = urllib.request.Request(f"http://{served.http}/v1/completions", json.dumps(body).encode(),
                                  {"Content-Type": "application/json", "x-request-id": "broken"})
    with urllib.request.urlopen(made, timeout=60) as response:
        while b"text" not in response.readline():
            pass

        def decoding():  # the first token may come before it
            record = get(served, "/page/requests/broken")
            return record["state"] == "decode" and record

        told = wait_until(decoding, 30, "the request decodes")
        workers = {worker["name"]: worker["address"] for worker in get(served, "/page/fleet")["workers"]}
        next(w for w in served.decode if w.address == workers[told["decode_worker"]]).kill()
        assert b"[DONE]" in response.read()

    def down():
        return next((event for event in get(served, "/page/fleet")["events"] if event["kind"] == "worker_down"), None)

    assert wait_until(down, 10, "the fleet shows the killed worker")["worker"] == told["decode_worker"]
    told = get(served, "/page/requests/broken")
    assert told["state"] == "done" and told["attempts"] == 2
    first, second = told["tries"]
    assert first["failure"] and "failure" not in second and second["decode_worker"] != first["decode_worker"]
    assert any(span["try"] == first["number"] and span["lane"] == "decode" for span in told["spans"])
    kinds = [event["kind"] for event in get(served, "/page/fleet")["events"] if event.get("request") == "broken"]
    assert kinds == ["retried", "resumed"]
