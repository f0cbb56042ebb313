"""What a word is."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.kernels import I64, Bytes, kernel
from broadmatch.kernels.words import Letters, letters, lower_word, tokenize


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


def test_the_shortest_word_is_chosen_by_the_reader() -> None:
    assert tokenize("a Bc def, 7", 1) == ["a", "bc", "def", "7"]
    assert tokenize("a Bc def, 7", 3) == ["def"]


@kernel
def every_word(text: Bytes, letters: Letters, arena: Bytes, ends: I64) -> int:
    """The words of a text behind each other, and where each ends; gives how many."""
    at, end, n = 0, 0, 0
    while at < len(text):
        at, size = lower_word(text, at, len(text), letters, arena[end:])
        if size > 0:
            end += size
            ends[n] = end
            n += 1
    return n


def words_of(text: str) -> list[str]:
    encoded = np.frombuffer(bytearray(text.encode()), np.uint8)
    arena, ends = np.empty(2 * len(encoded) + 8, np.uint8), np.empty(len(encoded), np.int64)
    n = every_word(encoded, letters(), arena, ends)
    return [arena[i:j].tobytes().decode() for i, j in itertools.pairwise([0, *ends[:n].tolist()])]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.text("aA1_ Σςİé\u0301Ⱥ", max_size=30))
def test_the_kernel_gives_the_words_of_the_tokenizer(text: str) -> None:
    assert words_of(text) == tokenize(text, 1)


def test_every_code_point() -> None:
    text = " ".join(f"{chr(c)} a{chr(c)}B" for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000)
    assert words_of(text) == tokenize(text, 1)
