"""The kernels of signals agree with their twin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.kernels.hash_table import number_keys, numbers_of
from broadmatch.kernels.hashing import key_of, seed_of
from broadmatch.kernels.words import letters
from broadmatch.signals._encoder import (
    CODES,
    INT32,
    INT64,
    keys_of_joined,
    keys_of_texts,
    lay_out,
    log_buckets,
    put_columns,
    put_cross,
    put_crosses,
    put_fields,
    put_numbers,
    put_words,
)
from broadmatch.signals._words import words_of_texts
from tests.reference import signals as twin

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "",
        "0",
        "-0",
        "7",
        "-7",
        "07",
        "7.0",
        "-7.0",
        "0.0",
        "-0.0",
        ".0",
        "true",
        "False",
        "TRUE",
        "9" * 18,
        "9" * 19,
        "-1.5",
    ]
)
SEED = seed_of("ad")


def packed(texts):
    encoded = [text.encode() for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(e) for e in encoded])]).astype(np.int64)
    return np.frombuffer(b"".join(encoded) or b"\0", np.uint8), offsets


def words_of(texts, name="title"):
    text, offsets = packed(texts)
    indptr, keys = np.empty(len(texts) + 1, np.int64), np.empty(len(text) + len(texts) + 1, np.uint64)
    spans = np.empty(2 * len(keys), np.int64)
    n = words_of_texts(text, offsets, letters(), seed_of(name), indptr, keys, spans)
    return text, indptr, keys[:n], spans[: 2 * n]


@given(st.lists(TEXTS, max_size=8))
def test_keys_of_texts(texts):
    text, offsets = packed(texts)
    out = np.empty(len(texts), np.uint64)
    keys_of_texts(text, offsets, SEED, out)
    assert out.tolist() == [twin.key("ad", twin.bits_of_value(value)) for value in texts]


@given(st.lists(TEXTS.filter(lambda text: "\0" not in text), min_size=1, max_size=5), st.integers(1, 3))
def test_keys_of_joined(texts, rows):
    names, texts = [f"s{i}" for i in range(len(texts))] * rows, texts * rows
    out = np.empty(len(texts), np.uint64)
    joined = np.frombuffer("\0".join(texts).encode(), np.uint8)
    seeds = np.array([seed_of(name) for name in dict.fromkeys(names)])
    assert keys_of_joined(joined, seeds, out) == len(texts)
    assert out.tolist() == [twin.key(name, twin.bits_of_value(t)) for name, t in zip(names, texts, strict=True)]


def test_joined_values_that_have_the_separator_are_counted():
    assert keys_of_joined(np.frombuffer(b"a\0b", np.uint8), np.array([SEED]), np.empty(1, np.uint64)) == 2


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.text("aA1_ Σςİé\u0301", max_size=30))
)
def test_words(texts):
    text, indptr, keys, spans = words_of(texts)
    expected = [twin.words(t) for t in texts]
    assert np.diff(indptr).tolist() == [len(found) for found in expected]
    flat = [word for found in expected for word in found]
    assert keys.tolist() == [twin.key("title", twin.bits_of_text(word)) for word in flat]
    for j, word in enumerate(flat):
        piece = text[spans[2 * j] : spans[2 * j + 1]].tobytes().decode()
        assert piece.lower() == word


@pytest.mark.parametrize("broken", [b"ab\xc3", b"\xe2\x82", b"\xf0\x9f", b"\x80\xbf", b"\xff\xff\xff\xff"])
def test_broken_text_is_never_read_past_its_end(broken):
    text = np.frombuffer(broken + b"\x80zzz", np.uint8)
    indptr, keys = np.empty(2, np.int64), np.empty(9, np.uint64)
    n = words_of_texts(text, np.array([0, len(broken)]), letters(), SEED, indptr, keys, np.empty(0, np.int64))
    assert int(key_of("ad", "zzz")) not in keys[:n].tolist()


@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False, width=32) | st.sampled_from([0.0, 1.0, 3.0, 7.0, 2.0**40 - 1])
    )
)
def test_log_buckets(numbers):
    out = np.empty(len(numbers), np.int64)
    log_buckets(np.array(numbers, np.float64), out)
    assert out.tolist() == [twin.log_bucket(x) for x in numbers]


COLUMN = st.integers(-(2**31), 2**31 - 1)


@given(st.lists(st.tuples(COLUMN, st.integers(-(10**17), 10**17), st.integers(0, 2), st.booleans()), max_size=200))
def test_columns(rows):
    n = len(rows)
    narrow = np.array([r[0] for r in rows], np.int32)
    wide = np.array([r[1] for r in rows], np.int64)
    codes = np.array([r[2] for r in rows], np.int32)
    missing = np.array([r[3] for r in rows], np.bool_)
    table = np.array([11, 12, 13], np.uint64)
    starts = np.arange(n + 1, dtype=np.int64) * 4 + 1
    out = np.zeros(4 * n + 2, np.uint64)
    seeds = np.array([seed_of("a"), seed_of("b"), 0], np.uint64)
    address = [a.ctypes.data for a in (narrow, wide, codes)]
    put_columns(
        np.array([INT32, INT64, CODES]),
        np.array(address),
        np.array([0, missing.ctypes.data, 0]),
        np.array([0, 0, table.ctypes.data]),
        np.array([0, 0, len(table)]),
        seeds,
        starts,
        1,
        out,
    )
    expected = [0]
    for a, b, code, no_b in rows:
        of_b = twin.MISSING if no_b else b % twin.BITS
        expected += [0, twin.key("a", a % twin.BITS), twin.key("b", of_b), 11 + code]
    assert out.tolist() == [*expected, 0]


@given(st.lists(st.lists(st.integers(1, 2**64 - 1), min_size=3, max_size=3), max_size=5))
def test_cross(rows):
    starts = np.arange(len(rows) + 1, dtype=np.int64) * 4
    out = np.array([[*row, 0] for row in rows], np.uint64).reshape(-1)
    put_cross(np.array([2, 0]), SEED, starts, 3, out)
    assert out[3::4].tolist() == [twin.cross_key("ad", [row[2], row[0]]) for row in rows]


@given(
    st.lists(st.tuples(st.lists(st.integers(1, 99), max_size=3), st.lists(st.integers(1, 99), max_size=3)), max_size=4)
)
def test_crosses(rows):
    """Two parts of any size, with one key before them, laid out, and all their combinations after them."""
    counts = np.array([[len(a), len(b), len(a) * len(b)] for a, b in rows], np.int32).reshape(-1, 3).T.copy()
    indptr, at = np.empty(len(rows) + 1, np.int64), np.empty(counts.shape, np.int64)
    lay_out(counts, 1, indptr, at)
    out = np.concatenate([[0, *a, *b, *[0] * (len(a) * len(b))] for a, b in rows] or [[]]).astype(np.uint64)
    assert indptr[-1] == len(out)
    put_crosses(at[:2], counts[:2], SEED, at[2], out)
    expected = [[0, *a, *b, *twin.crosses("ad", [a, b])] for a, b in rows]
    assert out.tolist() == [key for row in expected for key in row]
    fields = np.empty(len(out), np.int16)
    put_fields(np.array([5], np.int16), counts, np.array([6, 7, 8], np.int16), indptr, fields)
    assert fields.tolist() == [f for a, b in rows for f in [5, *[6] * len(a), *[7] * len(b), *[8] * len(a) * len(b)]]


@given(st.lists(st.floats(width=32) | st.just(0.0), max_size=6))
def test_numbers_as_they_are(numbers):
    x = np.array(numbers, np.float32)
    kept = (x != 0) & (x == x)
    at = np.cumsum(kept) - kept
    out, values = np.zeros(kept.sum(), np.uint64), np.ones(kept.sum(), np.float32)
    put_numbers(x, SEED, at, out, values)
    assert values.tolist() == x[kept].tolist()
    assert set(out.tolist()) <= {twin.key("ad", twin.AS_IS)}


def test_words_by_code():
    out = np.zeros(4, np.uint64)
    put_words(np.array([1, 0, 1], np.int32), np.array([0, 1, 2]), np.array([5, 6], np.uint64), np.array([0, 1, 3]), out)
    assert out.tolist() == [6, 5, 0, 6]


@given(st.lists(st.lists(st.integers(1, 2**64 - 1) | st.integers(1, 9), max_size=20), max_size=3))
def test_numbers_of_keys(batches):
    slots, numbers, book = np.zeros(128, np.uint64), np.zeros(128, np.int64), {}
    for batch in batches:
        keys, new = np.array(batch, np.uint64), np.empty(len(batch), np.int64)
        n = number_keys(keys, slots, numbers, len(book), new)
        first = [i for i, key in enumerate(batch) if key not in book and key not in batch[:i]]
        assert new[:n].tolist() == first
        for i in first:
            book[batch[i]] = len(book)
        found = np.empty(len(batch) + 1, np.int64)
        numbers_of(np.append(keys, np.uint64(10)), slots, numbers, found)
        assert found.tolist() == [*(book[key] for key in batch), book.get(10, -1)]
