"""llama.cpp's own server tests, run against `baton serve`. docs/benchmarks/llama_server_tests.md has the results."""
import pytest

import fetched
import llama_server_suite


@pytest.fixture(scope="module")
def outcome():
    return llama_server_suite.run(fetched.suite(), list(llama_server_suite.read_list()))


def test_the_listed_tests_ran(outcome):
    passed, failed = outcome
    assert sorted(passed + failed) == sorted(llama_server_suite.read_list())


def test_none_fails_but_those_with_a_reason(outcome):
    _, failed = outcome
    listed = llama_server_suite.read_list()
    assert [name for name in failed if listed[name] is None] == []
