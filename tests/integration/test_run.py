"""`baton run` as a person and a script use it."""
import json
import os
import signal
import subprocess
import time

import pytest

from cluster import BIN, MODEL, free_port
from programs import assert_one_clear_line, run

QUESTION = "What is 2+2?"
ANSWER = "The answer to this classic math problem is 4."


@pytest.fixture
def ask(served):
    """ask(...): `baton run` with these arguments, greedy unless told otherwise, from the module's server."""
    def ask(*args, **options):
        greedy = [] if "--temperature" in args else ["--temperature", "0"]
        return run("baton", "run", "--server", served[1], *greedy, *args, **options)

    return ask


def test_an_answer_is_streamed_from_a_server(ask):
    done = ask(QUESTION)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == ANSWER + "\n"


def test_the_printed_form_of_the_address_is_taken(served):
    done = run("baton", "run", "--server", f"grpc://{served[1]}", "--temperature", "0", QUESTION)
    assert done.stdout.decode() == ANSWER + "\n", done.stderr
    assert_one_clear_line(run("baton", "run", "--server", f"http://{served[1]}", QUESTION), "--server", "'http'")


def test_a_piped_prompt_is_read_and_json_printed(ask):
    done = ask("--json", "--stats", stdin=f"{QUESTION}\n".encode())
    answer = json.loads(done.stdout)
    assert answer["text"] == ANSWER
    assert answer["finish_reason"] == "stop" and answer["usage"]["prompt_tokens"] == 37
    stats = done.stderr.decode()
    for word in ("prefill", "KV transfer", "decode", "first token", "tokens/s"):
        assert word in stats, stats


def test_raw_text_is_sent_as_it_is(ask):
    prompt = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
              f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n")
    assert ask("--raw", prompt).stdout.decode() == ANSWER + "\n"
    assert ask("--raw", "-n", "1", "The capital of France is").stdout.decode() == " Paris\n"


def test_flags_come_from_the_environment_and_a_file(served, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text('system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"\njson = true\n')
    environment = {**os.environ, "BATON_SERVER": f"grpc://{served[1]}", "BATON_TEMPERATURE": "0", "BATON_MAX_TOKENS": "3"}
    answer = json.loads(run("baton", "run", "--config", str(config), QUESTION, env=environment).stdout)
    assert ANSWER.startswith(answer["text"]) and len(answer["token_ids"]) == 3


def test_output_that_cannot_be_written_is_an_error(served):
    load = ["--request-rate=100", "--duration=1ms", "--warmup=0s", "--output-len=1"]
    for args in (["run", "--server", served[1], "-n", "3", QUESTION], ["run", "--server", served[1], "-n", "3", "--json", QUESTION],
                 ["tokenize", "--model", MODEL, "Hello"], ["bench", "serve", "--server", served[1], *load],
                 ["bench", "serve", "--server", served[1], "--json", *load],
                 ["serve", MODEL, "--listen=127.0.0.1:0", "--log-level=error"], ["--help"], ["run", "--help"], ["--version"]):
        with open("/dev/full", "wb") as full:
            done = run("baton", *args, stdout=full)
        assert_one_clear_line(done, "cannot write to standard output: No space left on device", code=74)
    with open("/dev/full", "wb") as full:
        assert run("baton-router", "--help", stdout=full).returncode == 74


def test_a_reader_that_is_gone_ends_the_answer_quietly(served):
    process = subprocess.Popen([str(BIN / "baton"), "run", "--server", served[1], QUESTION], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == -signal.SIGPIPE


def test_with_a_model_it_starts_servers_of_its_own():
    done = run("baton", "run", "--model", MODEL, "--temperature", "0", QUESTION)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == ANSWER + "\n"


def test_a_request_without_a_server_fails_in_bounded_time():
    begin = time.monotonic()
    done = run("baton", "run", "--server", f"127.0.0.1:{free_port()}", "Hello")
    assert done.returncode == 1 and b"127.0.0.1" in done.stderr
    assert time.monotonic() - begin < 10
