"""The examples of the package run."""

import doctest
import importlib

import pytest

MODULES = ("bag", "encodings", "html", "page_vectorizer", "tokens")


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"broadmatch.features.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
