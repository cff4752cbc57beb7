"""Each recipe of docs/clients.md is run by a test here."""
import pathlib

import recipes

HERE = pathlib.Path(__file__).resolve().parent


def test_each_recipe_has_a_test_that_names_it():
    tests = "".join(path.read_text(encoding="utf-8") for path in sorted(HERE.glob("test_*.py")))
    assert recipes.names()
    for name in recipes.names():
        assert f'recipes.blocks("{name}"' in tests, name
