"""What the tests of clients take from PyPI. If it cannot be fetched they skip, and say so."""
import pathlib

import llama_server_suite
import pypi_packages

SUPPORT = pathlib.Path(__file__).resolve().parent.parent / "support"


def packages(name):
    """The folder of the packages of tests/support/NAME_requirements.txt."""
    return pypi_packages.or_skip(pypi_packages.fetch, SUPPORT / f"{name}_requirements.txt")


def suite():
    """The folder of llama.cpp's server tests, whose packages are there too."""
    packages("llama_server")
    return pypi_packages.or_skip(llama_server_suite.fetch)
