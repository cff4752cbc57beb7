"""aider edits a file by the recipe of docs/clients.md. The model's words are scripted."""
import subprocess

import pytest

import fetched
import recipes

BEFORE = 'def greet():\n    print("Hello")\n'
AFTER = 'def greet():\n    """Greets the reader."""\n    print("Hello")\n'
# This machine's own ways, which the recipe leaves out: no network but the server, nobody who answers questions.
SETTINGS = {"AIDER_YES_ALWAYS": "1", "AIDER_CHECK_UPDATE": "false", "AIDER_ANALYTICS_DISABLE": "1",
            "AIDER_SHOW_RELEASE_NOTES": "false", "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
               for what, value in (("NAME", "A"), ("EMAIL", "a@example.org"))}}


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "hello.py").write_text(BEFORE)
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-C", str(tmp_path)]
    for command in (["init", "--quiet"], ["add", "hello.py"], ["commit", "--quiet", "-m", "Begin"]):
        subprocess.run([*git, *command], check=True)
    return tmp_path


def test_the_recipe_edits_the_file_as_the_model_says(scripted, repository):
    scripted.will_say(f"Here it is.\n\nhello.py\n```\n{AFTER}```", "Add a docstring")
    output = recipes.run(recipes.blocks("aider", scripted.http), fetched.packages("aider"), repository, **SETTINGS)
    assert (repository / "hello.py").read_text() == AFTER, output
    assert BEFORE in scripted.prompts[0], "the model was shown the file"
    subject = subprocess.run(["git", "-C", repository, "log", "-1", "--format=%s"], check=True, capture_output=True, text=True)
    assert subject.stdout.strip() == "Add a docstring"
