"""Kernels of words and their weights against their twins."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.features._page_vectorizer import tf_idf_rows
from broadmatch.kernels.vocabulary import Words, WordTable, fill_slots, hash_words, number_words
from tests.reference import tf_idf, vocabulary

words_of = st.lists(st.binary(max_size=5), max_size=30)


def pack(words: list[bytes], room: int = 0, spare: int = 0) -> Words:
    starts = np.zeros(len(words) + room + 1, np.int64)
    starts[1 : len(words) + 1] = np.cumsum([len(word) for word in words])
    arena = np.frombuffer(b"".join(words) + bytes(spare), np.uint8).copy()
    hashes = np.zeros(len(words) + room, np.uint64)
    hash_words(arena, starts[: len(words) + 1], hashes)
    return Words(hashes, starts, arena)


@given(words_of, words_of, st.booleans())
@settings(deadline=None)
def test_words_are_numbered_as_by_a_dictionary(known: list[bytes], words: list[bytes], enter: bool) -> None:
    known = list(dict.fromkeys(known))
    table = WordTable(np.zeros(128, np.int32), pack(known, room=len(words), spare=200))
    fill_slots(table.slots, table.words.hashes, len(known))
    numbers = np.empty(len(words), np.int32)
    n = number_words(table, len(known), pack(words), len(words), enter, numbers)
    after, expected = vocabulary.number_words(known, words, enter=enter)
    starts, blob = table.words.starts, table.words.arena.tobytes()
    assert numbers.tolist() == expected
    assert [blob[starts[i] : starts[i + 1]] for i in range(n)] == after


@given(words_of)
@settings(deadline=None)
def test_hashes(words: list[bytes]) -> None:
    assert pack(words).hashes.tolist() == [vocabulary.hash_word(word) for word in words]


@given(st.integers(0, 6), st.integers(1, 8), st.integers(0, 2**32))
@settings(deadline=None)
def test_tf_idf(n_rows: int, n_words: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 3, (n_rows, n_words)) * rng.integers(1, 2**30, (n_rows, n_words))
    columns = rng.permutation(n_words) - rng.integers(0, n_words)
    columns = np.where(columns < 0, -1, columns).astype(np.int32)
    idf = 1 + rng.random(n_words)
    rows, words = np.nonzero(counts)
    shuffled = np.lexsort((rng.random(len(rows)), rows))
    rows, words = rows[shuffled], words[shuffled].astype(np.int32)
    starts = np.searchsorted(rows, np.arange(n_rows + 1)).astype(np.int64)
    indptr = np.zeros(n_rows + 1, np.int64)
    indices, data = np.empty(len(words), np.int32), np.empty(len(words), np.float32)
    amounts = counts[rows, words].astype(np.int32)
    tf_idf_rows(starts, words, amounts, columns, np.argsort(columns), idf, indptr, indices, data)
    table = np.zeros((n_rows, n_words))
    for row in range(n_rows):
        inside = slice(indptr[row], indptr[row + 1])
        assert np.all(np.diff(indices[inside]) > 0)
        table[row, indices[inside]] = data[inside]
    assert np.allclose(table, tf_idf.tf_idf(counts, columns.tolist(), idf), rtol=1e-6)
