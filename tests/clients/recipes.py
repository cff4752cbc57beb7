"""The recipes of docs/clients.md. Tests run their lines as they are printed, but for the server's address."""
import os
import pathlib
import re
import subprocess
import sys

from cluster import complete, request

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "clients.md"
PRINTED_ADDRESS = "http://127.0.0.1:8080"

SYSTEM, QUESTION = "Answer in one sentence.", "What is the capital of France?"  # asked by the Python recipes


def answer_by_grpc(served):
    """The answer to the recipes' question that is made by gRPC."""
    return complete(served.stub, request(chat=[("system", SYSTEM), ("user", QUESTION)], temperature=0)).text.strip()


def section():
    return re.search(r"\n## Recipes\n(.*?)\n## ", PAGE.read_text(encoding="utf-8"), re.DOTALL).group(1)


def names():
    """The headings of the recipes."""
    return re.findall(r"^### (.*)$", section(), re.MULTILINE)


def blocks(name, http):
    """{language: text} of what is printed below that heading, for a server whose HTTP is at `http`."""
    (text,) = re.findall(rf"^### {re.escape(name)}\n(.*?)(?=^### |\Z)", section(), re.DOTALL | re.MULTILINE)
    found = re.findall(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len({language for language, _ in found}) == len(found), f"{name} has two blocks of one language"
    return {language: block.replace(PRINTED_ADDRESS, http) for language, block in found}


def run(recipe, packages, folder, **environment):
    """The output of the recipe's `sh` lines, or else of its `python` lines with the variables that its `sh` lines export. They run
    in `folder`, which is also the home, with the packages of the folder `packages`."""
    script = recipe.get("sh", "")
    if "python" in recipe:
        (folder / "recipe.py").write_text(recipe["python"], encoding="utf-8")
        script += f"{sys.executable} recipe.py\n"
    known = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "BATON_"))}
    known.update({"HOME": str(folder), "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1",
                  "PATH": f"{packages}/bin:{os.environ['PATH']}", **environment})
    done = subprocess.run(["bash", "-euc", script], cwd=folder, env=known, check=False, timeout=240, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout
