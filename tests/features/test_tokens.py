"""What a word is."""

import pytest

from broadmatch.errors import BadParameter
from broadmatch.features import tokenize
from broadmatch.features.tokens import ENGLISH, as_stop_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("a I 1", []),
        ("Don't stop", ["don", "stop"]),
        ("snake_case x_1 __", ["snake_case", "x_1", "__"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("e\u0301te\u0301", ["e\u0301te\u0301"]),
        ("\u0301\u0301ab", ["ab"]),
        ("ΟΔΟΣ Σ.Α", ["οδος"]),
        ("İZMİR", ["i̇zmi̇r"]),
        ("10,000 km²", ["10", "000", "km²"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert tokenize(text) == words


def test_stop_words_are_words() -> None:
    assert all(tokenize(word) == [word] for word in ENGLISH)
    assert as_stop_words(None) == frozenset()
    assert as_stop_words("english") is ENGLISH


@pytest.mark.parametrize("wrong", ["french", 3, [1, 2]])
def test_wrong_stop_words(wrong: object) -> None:
    with pytest.raises(BadParameter, match="stop_words must be 'english', None, or a collection of words"):
        as_stop_words(wrong)
