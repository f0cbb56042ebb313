"""The sorts of pairs agree with numpy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from broadmatch.kernels.top_k import sort_best_first, sort_descending

float32s = st.floats(width=32, allow_nan=False)
lengths = st.one_of(st.integers(0, 60), st.sampled_from([24, 25, 26, 27, 200]))


def check(keys, start, stop):
    payload = np.arange(len(keys), dtype=np.int32)
    sorted_keys = keys.copy()
    sort_descending(sorted_keys, payload, start, stop)
    assert np.array_equal(sorted_keys[start:stop], -np.sort(-keys[start:stop]))
    assert np.array_equal(keys[payload], sorted_keys)  # each item still stands beside its key
    assert np.array_equal(np.sort(payload), np.arange(len(keys)))
    assert np.array_equal(payload[:start], np.arange(start))  # nothing outside was touched
    assert np.array_equal(payload[stop:], np.arange(stop, len(keys)))


@settings(deadline=None)
@given(lengths.flatmap(lambda n: arrays(np.float32, n, elements=st.one_of(float32s, st.sampled_from([0, 1, 2])))),
       st.data())  # fmt: skip
def test_equals_numpy(keys, data):
    start = data.draw(st.integers(0, len(keys)))
    check(keys, start, data.draw(st.integers(start, len(keys))))


shapes = pytest.mark.parametrize(
    "shape",
    [
        lambda n: np.arange(n),
        lambda n: -np.arange(n),
        lambda n: np.arange(n) % 2,
        lambda n: np.abs(np.arange(n) - n // 2),
        lambda n: -np.abs(np.arange(n) - n // 2),
        lambda n: np.zeros(n),
        lambda n: np.append(np.zeros(n - 1), 1),
    ],
    ids=["ascending", "descending", "two values", "valley", "hill", "equal", "last is largest"],
)


@shapes
def test_shapes_that_make_quicksort_slow(shape):
    check(shape(5000).astype(np.float32), 0, 5000)


def test_the_same_input_gives_the_same_order():
    keys = (np.arange(300) % 3).astype(np.float32)
    orders = []
    for _ in range(2):
        payload = np.arange(300, dtype=np.int32)
        sort_descending(keys.copy(), payload, 0, 300)
        orders.append(payload)
    assert np.array_equal(*orders)


def check_best_first(keys, n):
    items = np.random.default_rng(0).permutation(len(keys)).astype(np.int32)
    sorted_keys, sorted_items = keys.copy(), items.copy()
    sort_best_first(sorted_keys, sorted_items, n)
    order = np.lexsort((items[:n], -keys[:n]))
    assert sorted_items.tolist() == [*items[order], *items[n:]]
    assert sorted_keys.tolist() == [*keys[order], *keys[n:]]


@settings(deadline=None)
@given(lengths.flatmap(lambda n: arrays(np.float64, n, elements=st.one_of(float32s, st.sampled_from([0, 1, 2])))),
       st.data())  # fmt: skip
def test_best_first_with_the_lower_item_first_where_equal(keys, data):
    check_best_first(keys, data.draw(st.integers(0, len(keys))))


@shapes
def test_best_first_of_shapes_that_make_quicksort_slow(shape):
    check_best_first(shape(5000).astype(np.float64), 4999)
