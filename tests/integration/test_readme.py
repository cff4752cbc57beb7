"""What the README and the pages on commands, configuration, gRPC and HTTP print works as printed, but for the server's ports."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

import stubs
from cluster import BIN, MODEL
from programs import run
from test_serve import Serve

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import pypi_packages  # noqa: E402


PAGES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
         for path in [ROOT / "README.md", ROOT / "deploy/README.md", *sorted((ROOT / "docs").glob("*.md"))]}


def section(page, heading):
    """The text below the heading, up to the next one."""
    return re.search(rf"\n## {heading}\n(.*?)\n## ", PAGES[page], re.DOTALL).group(1)


def snippets():
    """The (program, text) of each, by its page and place; what comes first may be needed by what follows."""
    texts = {"README": section("README.md", "Calling it"), "grpc": PAGES["docs/grpc.md"], "http": PAGES["docs/http.md"]}
    for name, page in texts.items():
        blocks = re.findall(r"```(sh|python)\n(.*?)```", page, re.DOTALL)
        for place, (language, text) in enumerate(blocks):
            program = "python" if language == "python" else text.split()[0]
            yield pytest.param(program, text, id=f"{name}-{place}-{program}")


SNIPPETS = list(snippets())


@pytest.fixture(scope="module")
def server():
    with Serve("--http-listen=127.0.0.1:0") as serve:
        line = serve.process.stdout.readline()
        assert line.startswith("ready: http://127.0.0.1:"), line
        serve.http_address = line.strip().removeprefix("ready: http://")
        yield serve


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the snippets run: what a clone has, and where they may write."""
    made = tmp_path_factory.mktemp("clone")
    (made / "proto").symlink_to(stubs.PROTO)
    return made


WORDS = {"What is the capital of France?": "Paris", "Why is the sky blue?": "scatter"}  # what an answer to the question has


def questions():
    """The (system message, question) of each example that has both, in the README and on the page of commands."""
    text = PAGES["README.md"] + PAGES["docs/commands.md"]
    shown = re.findall(r'baton run --system "(.*?)" "(.*?)"', text)
    return sorted({*shown, *re.findall(r'"system", "content": "(.*?)"}, {"role": "user", "content": "(.*?)"}', text)})


@pytest.mark.parametrize(("system", "question"), questions())
def test_the_greedy_answer_to_a_printed_question_has_the_word_that_it_asks_for(server, system, question):
    done = subprocess.run([BIN / "baton", "run", f"--server={server.address}", "--temperature=0", "--max-tokens=60",
                           f"--system={system}", question], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and WORDS[question] in done.stdout, done


def test_the_questions_that_are_printed_have_a_system_message():
    assert {question for _, question in questions()} == set(WORDS)
    text = PAGES["README.md"] + PAGES["docs/commands.md"]
    assert not re.findall(r'baton run "What|baton run "Why|"messages": \[{"role": "user"', text)


def test_the_pages_show_each_way_to_call():
    assert [snippet.id for snippet in SNIPPETS] == ["README-0-curl", "README-1-python", "grpc-0-protoc", "grpc-1-python",
                                                    "grpc-2-grpcurl", "http-0-curl", "http-1-python"]


@pytest.mark.parametrize(("program", "text"), SNIPPETS)
def test_what_is_printed_works(server, folder, program, text):
    if program != "python" and shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    environment = dict(os.environ)
    if "from openai" in text:
        packages = pypi_packages.or_skip(pypi_packages.fetch, ROOT / "tests" / "support" / "client_requirements.txt")
        environment["PYTHONPATH"] = str(packages)
    text = text.replace("127.0.0.1:8080", server.http_address).replace("127.0.0.1:50051", server.address)
    command = [sys.executable, "-c", text] if program == "python" else ["bash", "-euc", text]
    done = subprocess.run(command, cwd=folder, env=environment, timeout=120, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)
    assert done.returncode == 0, done.stderr
    if program == "protoc":
        assert (folder / "baton/v1/generation_pb2_grpc.py").exists()
    elif program == "curl":
        assert done.stdout.endswith("data: [DONE]\n\n"), done.stdout
    else:
        assert done.stdout.strip()


def test_an_answer_goes_on_when_its_workers_are_killed_as_the_readme_prints_it(tmp_path):
    start, kill = re.findall(r"```sh\n(.*?)```", section("README.md", "Kill a worker"), re.DOTALL)
    assert start.startswith("baton serve model.gguf ")
    with Serve(*start.split()[3:], "--http-listen=127.0.0.1:0") as serve:
        for printed, instead in (("pkill -9", f"pkill -9 -P {serve.process.pid}"),  # no other server's workers
                                 ("sleep 1", "until [ -s killed.txt ]; do sleep 0.01; done"),
                                 ("--max-tokens 1000", "--max-tokens 200")):
            assert printed in kill
            kill = kill.replace(printed, instead)
        environment = dict(os.environ, BATON_SERVER=serve.address, PATH=f"{BIN}:{os.environ['PATH']}")
        done = subprocess.run(["bash", "-euc", kill], cwd=tmp_path, env=environment, timeout=120, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True)
        assert done.returncode == 0 and "the same answer, byte for byte" in done.stdout, done
        assert serve.log_text().count("ended (signal 9") == 2, serve.log_text()
        attempts = [int(number) for number in re.findall(r" attempts=(\d+)", serve.log_text())]
        assert attempts[0] == 1 < attempts[1], serve.log_text()


def declared():
    """{command: the flags that it declares, with their dashes} of all programs."""
    listed = [command for program in ("baton", "baton-router", "baton-prefill-worker", "baton-decode-worker")
              for command in json.loads(run(program, "--help-json").stdout)]
    return {command["program"]: {form for flag in command["flags"]
                                 for form in (f"--{flag['name']}", f"--no-{flag['name']}", f"-{flag['short_name']}")}
            for command in listed}


def printed_commands(page, known):
    """The (command, words) of each call of one of our programs in the page's blocks for a shell."""
    for language, block in re.findall(r"^ *```(\w*)\n(.*?)^ *```", PAGES[page], re.MULTILINE | re.DOTALL):
        if language not in ("", "sh"):
            continue
        lines = [line for line in block.replace("\\\n", " ").splitlines() if re.search(r"(^|&& |{ |; )baton", line)]
        for line in lines:
            for call in re.split(r" (?:&&|&|\||[<>{}]) ", line):
                name, *words = shlex.split(call, comments=True) or [""]
                while words and f"{name} {words[0]}" in known:
                    name = f"{name} {words.pop(0)}"
                if name in known:
                    yield name, words


def test_the_commands_that_are_printed_have_the_flags_that_they_are_given():
    known = declared()
    wrong, count = [], 0
    for page in PAGES:
        for name, words in printed_commands(page, known):
            count += 1
            flags = [word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)]
            wrong += [f"{page}: {name} {flag}" for flag in flags if flag not in known[name] | {"--help", "--version", "--config"}]
    assert wrong == [] and count > 60


def test_the_page_of_commands_shows_each_command():
    known = declared()
    commands = {name for name in known if not any(other.startswith(f"{name} ") for other in known)}
    assert commands - {name for name, _ in printed_commands("docs/commands.md", known)} == set()


def test_the_file_that_the_page_on_configuration_prints_is_right(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", PAGES["docs/configuration.md"], re.DOTALL)
    file = tmp_path / "serve.toml"
    file.write_text(text.replace("/var/lib/baton/models/model.gguf", str(MODEL)))
    assert str(MODEL) in file.read_text()
    done = run("baton", "serve", "--config", file, "--check-config")
    assert done.returncode == 0, done.stderr
