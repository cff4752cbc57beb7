"""`baton run` as a person and a script use it."""
import json
import os
import signal
import subprocess
import time

import pytest

from cluster import BIN, MODEL, free_port, wait_until
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


def test_a_piped_text_follows_the_prompt(ask):
    both = json.loads(ask("--json", "-n", "1", "Answer this:", stdin=f"{QUESTION}\n".encode()).stdout)
    joined = json.loads(ask("--json", "-n", "1", f"Answer this:\n\n{QUESTION}").stdout)
    assert both["usage"]["prompt_tokens"] == joined["usage"]["prompt_tokens"] > 37
    assert both["token_ids"] == joined["token_ids"]


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


def test_without_flags_a_server_and_a_model_of_its_own_sample_alike(served):
    asked = ["--seed", "3", "-n", "16", "--json", "--stats", QUESTION]
    own = run("baton", "run", "--model", MODEL, *asked)
    assert "temperature 0.7, top-p 0.95, max-tokens 16, seed 3\n" in own.stderr.decode(), own.stderr
    left_open = run("baton", "run", "--server", served[1], *asked)
    assert "max-tokens 16, seed 3; the rest by the server's defaults\n" in left_open.stderr.decode(), left_open.stderr
    named = run("baton", "run", "--server", served[1], "--temperature", "0.7", "--top-p", "0.95", *asked)
    assert len({json.dumps(json.loads(done.stdout)["token_ids"]) for done in (own, left_open, named)}) == 1
    short = run("baton", "run", "--server", served[1], "--stats", "--stop", " ", QUESTION)
    assert "max-tokens 512" in short.stderr.decode(), short.stderr


def test_other_defaults_of_sampling_are_for_a_model_of_its_own(served):
    greedy = ["--default-temperature", "0", "--default-top-p", "0.5"]
    done = run("baton", "run", "--model", MODEL, *greedy, "--stats", QUESTION)
    assert done.stdout.decode() == ANSWER + "\n"
    assert "temperature 0, top-p 0.5, max-tokens 512" in done.stderr.decode(), done.stderr
    assert_one_clear_line(run("baton", "run", "--server", served[1], *greedy, QUESTION), "--default-temperature", "--model")


def test_a_drawn_seed_is_told_and_draws_the_same_again(ask):
    first = ask("--temperature", "1", "-n", "8", "--json", "--stats", QUESTION)
    answer = json.loads(first.stdout)
    assert f"seed {answer['seed']};" in first.stderr.decode()
    again = ask("--temperature", "1", "-n", "8", "--json", "--seed", str(answer["seed"]), QUESTION)
    assert json.loads(again.stdout)["token_ids"] == answer["token_ids"]


def test_the_limit_of_tokens_gives_way_to_a_context_that_leaves_fewer(ask):
    done = ask("--stats", "--stop", " ", "--raw", "word " * 120)  # the prompt has 600 tokens
    assert done.returncode == 0 and b"max_tokens" not in done.stderr, done.stderr


def test_several_choices_are_shown_one_after_the_other(ask):
    done = ask("--n", "2", QUESTION)
    assert done.stdout.decode() == f"choice 1 of 2:\n{ANSWER}\n\nchoice 2 of 2:\n{ANSWER}\n", done.stderr
    choices = json.loads(ask("--n", "2", "--json", QUESTION).stdout)["choices"]
    assert [choice["text"] for choice in choices] == [ANSWER, ANSWER]


def test_log_probabilities_are_in_the_json(ask):
    answer = json.loads(ask("--json", "--logprobs", "2", QUESTION).stdout)
    assert [token["token_id"] for token in answer["logprobs"]] == answer["token_ids"]
    for token in answer["logprobs"]:
        assert token["logprob"] <= 0 and len(token["top_logprobs"]) == 2
    assert "".join(token["token"] for token in answer["logprobs"]) == ANSWER
    assert_one_clear_line(ask("--logprobs", "2", QUESTION), "--logprobs", "--json")


def test_the_answer_may_be_made_longer(ask):
    answer = json.loads(ask("--json", "--ignore-eos", "-n", "30", QUESTION).stdout)
    assert len(answer["token_ids"]) == 30 and answer["finish_reason"] == "length"
    assert json.loads(ask("--json", "--min-tokens", "20", "-n", "20", QUESTION).stdout)["usage"]["completion_tokens"] == 20


def test_a_deadline_says_how_far_the_answer_came(ask):
    long = ["--timeout", "300ms", "--ignore-eos", "-n", "500"]
    done = ask(*long, "--json", QUESTION)
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert answer["error"]["code"] == "DEADLINE_EXCEEDED" and answer["finish_reason"] is None
    count = len(answer["token_ids"])
    far = "before the first token" if count == 0 else f"after {count} token{'s' if count > 1 else ''}"
    assert answer["error"]["message"] == f"the deadline of 300ms (--timeout) passed {far}"
    assert_one_clear_line(done, answer["error"]["message"], code=1)
    assert bool(answer["text"]) == (count > 0)


def test_input_that_would_be_dropped_is_refused(served):
    for args, words in [
        (["--raw", "--system", "x", "hi"], ["--raw", "--system"]),
        (["--server", served[1], "--model", MODEL, "hi"], ["--server", "--model"]),
        (["--disaggregate", "auto", "hi"], ["--disaggregate", "--model"]),
        (["--kv-cache-dtype", "int4", "hi"], ["--kv-cache-dtype", "--model"]),
        (["--seed", "-1", "hi"], ["--seed", "-1"]),
        ([], ["no prompt"]),
        (["hello", "world"], ["hello", "quote"]),
        (["hello", "world", "again"], ["again", "quote"]),
        ([MODEL, "--model", MODEL, "hi"], ["--model", MODEL]),
        ([MODEL, "--server", served[1], "hi"], ["--server", MODEL]),
    ]:
        assert_one_clear_line(run("baton", "run", *args), *words)
    environment = {**os.environ, "BATON_SYSTEM": "x"}
    assert_one_clear_line(run("baton", "run", "--raw", "hi", env=environment), "--system (from BATON_SYSTEM)")


def test_text_that_is_not_utf8_is_refused_before_it_is_sent():
    nobody = ["--server", f"127.0.0.1:{free_port()}"]
    assert_one_clear_line(run("baton", "run", *nobody, b"ab\xff"), "the prompt", "byte 3")
    assert_one_clear_line(run("baton", "run", *nobody, stdin=b"ab\xff"), "standard input", "byte 3")
    assert_one_clear_line(run("baton", "run", *nobody, b"--system=\xff", "hi"), "--system", "byte 1")
    assert_one_clear_line(run("baton", "run", *nobody, b"--stop=a\xff", "hi"), "--stop", "byte 2")
    environment = {**os.environb, b"BATON_SYSTEM": b"a\xff"}
    assert_one_clear_line(run("baton", "run", *nobody, "hi", env=environment), "--system (from BATON_SYSTEM)", "byte 2")


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
    done = run("baton", "run", "--model", MODEL, "--temperature", "0", "--stats", QUESTION)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == ANSWER + "\n"
    assert "tokens: 1.5 MB; int8 0.8 MB, int4 0.4 MB\n" in done.stderr.decode(), done.stderr


def test_a_model_may_stand_before_the_prompt_or_alone():
    done = run("baton", "run", MODEL, QUESTION, "--temp", "0")
    assert done.stdout.decode() == ANSWER + "\n", done.stderr
    done = run("baton", "run", MODEL, "--temp", "0", stdin=QUESTION.encode())
    assert done.stdout.decode() == ANSWER + "\n", done.stderr


def test_a_request_without_a_server_fails_in_bounded_time():
    begin = time.monotonic()
    done = run("baton", "run", "--server", f"127.0.0.1:{free_port()}", "Hello")
    assert done.returncode == 1 and b"127.0.0.1" in done.stderr
    assert done.stdout == b""
    assert time.monotonic() - begin < 10


class ChatOnTerminal:
    """`baton run` with a terminal as its standard input."""

    def __init__(self, *args):
        self.terminal, terminal = os.openpty()
        self.process = subprocess.Popen([str(BIN / "baton"), "run", *args], stdin=terminal, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        os.close(terminal)
        self.seen = {self.process.stdout: b"", self.process.stderr: b""}
        for stream in self.seen:
            os.set_blocking(stream.fileno(), False)

    def type(self, text):
        os.write(self.terminal, text.encode())

    def read(self, stream):
        """Everything that the terminal has shown so far."""
        while data := stream.read():
            self.seen[stream] += data
        return self.seen[stream].decode()

    def await_output(self, text, stream=None):
        stream = stream or self.process.stdout
        wait_until(lambda: text in self.read(stream), 60, f"{text!r} in {self.seen}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)


def test_a_chat_on_a_terminal(served, ask):
    lines = ask("What is\n2+2?").stdout.decode()
    with ChatOnTerminal("--server", served[1]) as chat:
        chat.await_output(">>> ", chat.process.stderr)
        chat.type("/set temperature 0\n/set\n")
        chat.await_output("temperature 0", chat.process.stderr)
        chat.type(f"{QUESTION}\n")
        chat.await_output(ANSWER + "\n")
        chat.type('/clear\n"""\nWhat is\n2+2?\n"""\n')
        chat.await_output(ANSWER + "\n" + lines)
        chat.type("/help\n")
        chat.await_output("/system TEXT", chat.process.stderr)
        chat.type("/bye\n")
        assert chat.process.wait(30) == 0


def test_the_end_of_input_ends_a_chat_and_an_interrupt_only_its_answer(served):
    with ChatOnTerminal("--server", served[1], "--ignore-eos", "--temperature", "0") as chat:
        chat.type(f"{QUESTION}\n")
        chat.await_output(ANSWER)
        chat.process.send_signal(signal.SIGINT)
        wait_until(lambda: chat.read(chat.process.stderr).count(">>> ") >= 2, 30, "the chat goes on")
        chat.type("\x04")
        assert chat.process.wait(30) == 0


def test_a_chat_takes_no_flags_that_it_would_ignore():
    for flags in (["--raw"], ["--n", "2"]):
        with ChatOnTerminal(*flags) as chat:
            assert chat.process.wait(30) == 2
            assert flags[0] in chat.read(chat.process.stderr)
