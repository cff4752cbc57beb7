"""What README.md and docs/http.md print for who wants to call a server works as it is printed, but for the server's ports."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import stubs
from cluster import BIN
from test_serve import Serve

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import pypi_packages  # noqa: E402


def snippets():
    """The (program, text) of each, by its page and place; what comes first may be needed by what follows."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = {"README": re.search(r"\n## Calling it\n(.*?)\n## ", readme, re.DOTALL).group(1),
             "http": (ROOT / "docs" / "http.md").read_text(encoding="utf-8")}
    for name, page in pages.items():
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
    """The (system message, question) of each example that has both, in README.md."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r'baton run --system "(.*?)" "(.*?)"', readme)
    return sorted({*shown, *re.findall(r'"system", "content": "(.*?)"}, {"role": "user", "content": "(.*?)"}', readme)})


@pytest.mark.parametrize(("system", "question"), questions())
def test_the_greedy_answer_to_a_printed_question_has_the_word_that_it_asks_for(server, system, question):
    done = subprocess.run([BIN / "baton", "run", f"--server={server.address}", "--temperature=0", "--max-tokens=60",
                           f"--system={system}", question], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and WORDS[question] in done.stdout, done


def test_the_questions_that_are_printed_have_a_system_message():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {question for _, question in questions()} == set(WORDS)
    assert not re.findall(r'baton run "What|baton run "Why|"messages": \[{"role": "user"', readme)


def test_the_pages_show_each_way_to_call():
    assert [snippet.id for snippet in SNIPPETS] == ["README-0-curl", "README-1-python", "README-2-protoc", "README-3-python",
                                                    "README-4-grpcurl", "http-0-curl", "http-1-python"]


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
