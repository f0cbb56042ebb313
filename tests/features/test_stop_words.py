"""Words that say nothing of what a page is about."""

import pytest

from broadmatch.errors import BadParameter
from broadmatch.features.stop_words import ENGLISH, as_stop_words
from broadmatch.kernels.words import tokenize


def test_stop_words_are_words() -> None:
    assert all(tokenize(word) == [word] for word in ENGLISH)
    assert as_stop_words(None) == frozenset()
    assert as_stop_words("english") is ENGLISH


@pytest.mark.parametrize("wrong", ["french", 3, [1, 2]])
def test_wrong_stop_words(wrong: object) -> None:
    with pytest.raises(BadParameter, match="stop_words must be 'english', None, or a collection of words"):
        as_stop_words(wrong)
