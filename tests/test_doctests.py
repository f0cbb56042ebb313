"""The examples in docstrings are run."""

import doctest
import importlib
import pkgutil

import pytest

import broadmatch

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(broadmatch.__path__, "broadmatch.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", ["broadmatch", *MODULES])
def test_examples_in_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples may save files
    result = doctest.testmod(importlib.import_module(name))
    assert not result.failed
