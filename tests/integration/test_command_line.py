"""The programs as a person runs them: what they print, and how they end."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest

from cluster import BIN, MODEL, Server, free_port, is_serving, wait_until
from programs import assert_one_clear_line, run

PROGRAMS = ["baton-router", "baton-prefill-worker", "baton-decode-worker"]
TINY = pathlib.Path(__file__).parent.parent / "data" / "tiny" / "tiny-llama-q4_1.gguf"
COMMANDS = [["baton", "run"], ["baton", "serve"], ["baton", "models"], ["baton", "tokenize"], ["baton", "bench", "engine"],
            ["baton", "bench", "serve"], ["baton", "bench", "transfer"], *([program] for program in PROGRAMS)]


def children(process):
    text = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in text.split()]


def test_serve_divides_the_share_of_a_gpu_among_its_workers(served):
    commands = [pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in children(served[0])]
    assert sum(b"--gpu-memory-utilization=0.45" in command for command in commands) == 2, commands


def test_serve_gives_the_router_the_flags_of_routers_alone(tmp_path):
    flags = [f"--trace-file={tmp_path / 'traces.json'}", "--trace-file-bytes=2MiB", "--otlp-endpoint=http://127.0.0.1:1",
             "--otlp-sample-ratio=0.5", "--default-temperature=0.5", "--default-top-p=0.9"]
    process = subprocess.Popen([str(BIN / "baton"), "serve", f"--model={MODEL}", "--listen=127.0.0.1:0", *flags],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        def commands():
            read = [pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0") for pid in children(process)]
            known = [command for command in read if pathlib.Path(command[0]).name in PROGRAMS]
            return len(known) == 3 and known
        for command in wait_until(commands, 10, "children"):
            is_router = pathlib.Path(command[0]).name == "baton-router"
            assert [flag for flag in flags if flag in command] == (flags if is_router else []), command
    finally:
        process.kill()
        process.wait()


def test_a_worker_that_died_is_started_again(served):
    process, address = served
    before = children(process)
    assert len(before) == 3
    os.kill(before[0], signal.SIGKILL)
    wait_until(lambda: len(children(process)) == 3 and before[0] not in children(process), 10, "a new child")

    def answers():
        return run("baton", "run", "--server", address, "-n", "1", "Hello").returncode == 0

    wait_until(answers, 30, "answers again")


def test_children_end_with_a_killed_parent():
    process = subprocess.Popen([str(BIN / "baton"), "serve", f"--model={MODEL}", "--listen=127.0.0.1:0"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    pids = wait_until(lambda: len(children(process)) == 3 and children(process), 10, "children")
    process.kill()
    process.wait()
    wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}/cmdline").exists()
                               and pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids),
               40, "children gone")


@pytest.mark.parametrize("program", [*PROGRAMS, "baton serve"])
def test_a_server_outlives_the_reader_of_its_log(program):
    workers = ["--prefill=127.0.0.1:1", "--decode=127.0.0.1:2"] if program == "baton-router" else []
    server = Server(program, f"--model={TINY}", *workers)
    if program == "baton serve":
        server.argv[:1] = [str(BIN / "baton"), "serve", "--http-listen=none"]
    process = subprocess.Popen(server.argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: is_serving(server.health_port, "startup"), 30, "it serves")
        process.stderr.close()
        process.terminate()  # it logs that it drains
        assert process.wait(40) == 0
    finally:
        process.kill()
        process.wait()


def test_a_misspelt_variable_is_a_warning_and_those_of_other_programs_and_services_are_not():
    tokenize = ["baton", "tokenize", "--model", str(TINY), "a"]
    listed = [json.loads(run(program, "--help-json").stdout) for program in [*PROGRAMS, "baton"]]
    flags = {program["program"]: {flag["name"] for flag in program["flags"]} for facts in listed for program in facts}
    others = set().union(*flags.values()) - flags["baton tokenize"] - {"help", "help-all", "version", "config"}
    assert len(others) > 100
    environment = {"BATON_" + flag.upper().replace("-", "_"): "x" for flag in others}
    environment |= {"BATON_ROUTER_SERVICE_HOST": "10.0.0.1", "BATON_ROUTER_PORT": "tcp://10.0.0.1:80"}
    quiet = run(*tokenize, env={**os.environ, **environment})
    assert (quiet.returncode, quiet.stderr) == (0, b"")
    warned = run(*tokenize, env={**os.environ, "BATON_MODLE": "x"})
    assert warned.returncode == 0 and warned.stdout == quiet.stdout
    assert warned.stderr == (b"baton tokenize: warning: the variable BATON_MODLE is ignored: no flag has it; "
                             b"did you mean 'BATON_MODEL'?\n")
    served = run("baton", "serve", "--check-config", f"--model={TINY}", "--listen=127.0.0.1:0", "--max-num-seqs=1",
                 "--max-num-seqs=2", env={**os.environ, "BATON_MODLE": "x"})
    assert served.returncode == 0
    assert [line.split(b":")[0] for line in served.stderr.splitlines()] == [b"baton serve"] * 2, served.stderr
    assert b"--max-num-seqs is given 2 times; the last value, '2', counts" in served.stderr


def test_tokenize_prints_ids_and_needs_only_the_metadata(tmp_path):
    cut = tmp_path / "vocab.gguf"
    with open(MODEL, "rb") as model:
        cut.write_bytes(model.read(4_000_000))
    done = run("baton", "tokenize", "--model", str(cut), "Hello world<|im_end|>")
    plain = json.loads(done.stdout)
    assert 2 not in plain
    special = json.loads(run("baton", "tokenize", "--model", str(cut), "--special", "Hello world<|im_end|>").stdout)
    assert special[-1] == 2 and special[:2] == plain[:2]
    piped = json.loads(run("baton", "tokenize", "--model", str(cut), stdin=b"a\x80\x00b\n").stdout)
    assert len(piped) >= 4


def test_tokenize_refuses_what_has_no_token_unless_it_may_leave_it_out():
    tokenize = ["baton", "tokenize", "--model", MODEL]
    assert_one_clear_line(run(*tokenize, stdin=b"ab\xffcd"), "0xFF", "offset 2", "--lossy")
    lossy = run(*tokenize, "--lossy", stdin=b"ab\xffcd")
    assert lossy.returncode == 0, lossy.stderr
    assert lossy.stdout == run(*tokenize, "abcd").stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_bad_flag_is_one_clear_line(program):
    assert_one_clear_line(run(program, f"--model={MODEL}", "--no-such-flag=1"), "no-such-flag")
    assert_one_clear_line(run(program, f"--model={MODEL}", "--listen=nonsense"), "--listen", "nonsense")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_flag_that_help_names_is_a_key_of_the_file(command, tmp_path):
    flags = re.findall(r"^  (?:-\w, |    )--(?:\[no-\])?([a-z][a-z0-9-]*)", run(*command, "--help-all").stdout.decode(), re.MULTILINE)
    flags = [flag for flag in flags if flag not in ("help", "help-all", "version", "config")]
    assert flags
    config = tmp_path / "config.toml"
    config.write_text("".join(f"{flag} = 'x'\n" for flag in [*flags, "zzz"]))
    assert_one_clear_line(run(*command, f"--config={config}"), "unknown key 'zzz'")


@pytest.mark.parametrize("args, words", [
    (["srve"], ["unknown command 'srve'", "did you mean 'serve'?"]),
    (["bench", "engin"], ["unknown command 'engin'", "did you mean 'engine'?"]),
    (["run", "--temprature", "0", "hi"], ["unknown flag '--temprature'", "did you mean '--temperature'?"]),
    (["pull", "llama3"], ["unknown command 'pull'", "Baton fetches no models"]),
    (["list"], ["baton models: name a GGUF file"]),
    (["serve", "m.gguf", "-ngl", "99"], ["-ngl", "--device"]),
    (["run", "--tensor-parallel-size", "2", "hi"], ["--tensor-parallel-size", "no tensor parallelism"]),
    (["serve", "organisation/model"], ["organisation/model", "Baton fetches no models"]),
    (["serve", str(TINY), "--host", "0.0.0.0"], ["--http-listen 0.0.0.0:8080", "--insecure"]),
    ([], ["run, serve, models, doctor, status, top, tokenize, certs, bench, plan, keys"])], ids=str)
def test_a_word_that_is_wrong_is_named_with_the_nearest(args, words):
    assert_one_clear_line(run("baton", *args), *words)


def test_help_and_version_may_be_commands():
    version = run("baton", "--version")
    assert version.returncode == 0 and version.stdout
    for form in (["version"], ["-V"]):
        done = run("baton", *form)
        assert (done.returncode, done.stdout) == (0, version.stdout)
    assert run("baton-router", "-V").stdout == run("baton-router", "--version").stdout != b""
    assert run("baton", "help").stdout == run("baton", "--help").stdout != b""
    assert run("baton", "help", "bench", "serve").stdout == run("baton", "bench", "serve", "--help").stdout != b""


@pytest.mark.parametrize("args", [
    ["--class=a:rate=1", "--request-rate=1"], ["--class=a:rate=1", "--trace=x"], ["--trace=x", "--input-len=1"]], ids=str)
def test_a_load_is_not_described_twice(args):
    assert_one_clear_line(run("baton", "bench", "serve", *args), *(arg.split("=")[0] for arg in args))


def test_a_model_may_be_named_without_its_flag_but_not_twice():
    assert_one_clear_line(run("baton", "serve", MODEL, f"--model={MODEL}"), "FILE", "--model")


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_unknown_key_in_the_config_file_is_refused(program, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text('no-such-key = "1"\n')
    assert_one_clear_line(run(program, f"--config={config}", f"--model={MODEL}"), "no-such-key")


@pytest.mark.parametrize("program", PROGRAMS)
def test_check_config_accepts_what_runs(program):
    workers = ["--prefill=127.0.0.1:1", "--decode=127.0.0.1:2"] if program == "baton-router" else []
    done = run(program, "--check-config", f"--model={MODEL}", *workers)
    assert done.returncode == 0, done.stderr


def test_a_program_started_by_another_loader_finds_the_servers_beside_its_launcher(tmp_path):
    loader = pathlib.Path("/lib64/ld-linux-x86-64.so.2").resolve()

    def check():
        return subprocess.run([loader, "--argv0", tmp_path / "baton", BIN / "baton", "serve", "--check-config", f"--model={MODEL}"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)

    assert str(tmp_path / "baton-") in check().stderr
    for server in ("baton-prefill-worker", "baton-decode-worker", "baton-router"):
        (tmp_path / server).symlink_to(BIN / server)
    done = check()
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("damage", ["missing", "empty", "text", "cut in the metadata", "cut in the tensors"])
def test_a_damaged_model_is_one_clear_line(program, damage, tmp_path):
    path = tmp_path / "model.gguf"
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "text":
        path.write_text("this is no model")
    elif damage.startswith("cut"):
        if damage == "cut in the tensors" and program == "baton-router":
            pytest.skip("the router reads the metadata only")
        with open(MODEL, "rb") as model:
            path.write_bytes(model.read(20_000 if "metadata" in damage else 50_000_000))
    workers = ["--prefill=127.0.0.1:1", "--decode=127.0.0.1:2"] if program == "baton-router" else []
    done = run(program, f"--model={path}", "--listen=127.0.0.1:0", *workers)
    assert_one_clear_line(done, str(path))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_port_in_use_is_one_clear_line(program):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        workers = ["--prefill=127.0.0.1:1", "--decode=127.0.0.1:2"] if program == "baton-router" else []
        done = run(program, f"--model={MODEL}", f"--listen={address}", "--log-level=error", *workers)
        assert_one_clear_line(done, "--listen", address)


@pytest.mark.parametrize("program", PROGRAMS)
def test_beyond_loopback_needs_certificates_or_a_word(program):
    workers = ["--prefill=127.0.0.1:1", "--decode=127.0.0.1:2"] if program == "baton-router" else []
    listen = f"--listen=0.0.0.0:{free_port()}"
    assert_one_clear_line(run(program, "--check-config", f"--model={MODEL}", listen, *workers), "--insecure")
    assert run(program, "--check-config", f"--model={MODEL}", listen, "--insecure", *workers).returncode == 0


