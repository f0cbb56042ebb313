"""Walking down a hierarchy agrees with its slow twin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.sets._hierarchy import STOP, Nodes, every_score, walk_rows
from tests.reference import hierarchy as slow

N_FEATURES, N_CATEGORIES = 3, 8
# Sums of these are exact in any order, so that ties are ties on both sides.
values = st.sampled_from([0.0, 0.0, 0.5, -0.5, 1.0, -2.0, 1024.0])
rows = st.lists(st.dictionaries(st.integers(0, N_FEATURES - 1), values), max_size=4)


@st.composite
def any_nodes(draw):
    """Nodes with up to three ways, numbers of them or none, and weights; ways lead to later nodes only."""
    n_nodes = draw(st.integers(1, 5))
    counted = draw(st.booleans())
    ways, meaning, leads, first = [], [], [], [0]
    for node in range(n_nodes):
        ends = st.just(STOP) if node == n_nodes - 1 else st.one_of(st.just(STOP), st.integers(node + 1, n_nodes - 1))
        to = draw(st.lists(ends, min_size=1, max_size=3))
        numbers = sorted(draw(st.sets(st.integers(0, len(to)), min_size=1))) if counted else []
        meaning += [draw(st.integers(0, N_CATEGORIES - 1)) for _ in to] + numbers
        leads += to + [STOP] * len(numbers)
        ways.append(len(to))
        first.append(len(meaning))
    dense = np.array(draw(st.lists(values, min_size=N_FEATURES * len(meaning), max_size=N_FEATURES * len(meaning))))
    dense = dense.reshape(N_FEATURES, -1)
    feature, column = np.nonzero(dense)
    bias = draw(st.lists(values, min_size=len(meaning), max_size=len(meaning)))
    category = [-1] + [draw(st.integers(0, N_CATEGORIES - 1)) for _ in range(n_nodes - 1)]
    return Nodes(
        np.array(first, np.int64), np.array(ways, np.int64), np.array(category, np.int32),
        np.array(meaning, np.int32), np.array(leads, np.int32), np.array(bias, np.float32),
        np.concatenate([[0], np.cumsum(np.bincount(feature, minlength=N_FEATURES))]).astype(np.int64),
        column.astype(np.int32), dense[feature, column].astype(np.float32),
        draw(st.sampled_from([0.0, 1.0, 2.0])), draw(st.sampled_from([0.0, -0.5, -2.25])), 4.0,
    )  # fmt: skip


@given(any_nodes(), rows)
def test_walk_rows(nodes, sample):
    ptr = np.cumsum([0, *map(len, sample)]).astype(np.int64)
    index = np.array([f for row in sample for f in sorted(row)], np.int32)
    value = np.array([row[f] for row in sample for f in sorted(row)], np.float32)
    nothing, known = np.empty((len(sample), 0), np.float32), every_score(nodes, ptr, index, value)
    lengths, categories, scores = walk_rows(0, len(sample), ptr, index, value, nothing, nodes, N_CATEGORIES)
    again = walk_rows(0, len(sample), ptr, index, value, known, nodes, N_CATEGORIES)
    for one, other in zip((lengths, categories, scores), again, strict=True):
        assert np.array_equal(one, other)
    ends = np.cumsum([0, *lengths])
    for i, row in enumerate(sample):
        here = slice(ends[i], ends[i + 1])
        expected = slow.walk(nodes, row)
        assert categories[here].tolist() == sorted(expected)
        assert scores[here].tolist() == pytest.approx([expected[c] for c in sorted(expected)])


def test_more_answers_than_room_was_made_for():
    n = 3000
    every = Nodes(
        np.array([0, n]), np.array([n]), np.array([-1], np.int32), np.arange(n, dtype=np.int32),
        np.full(n, STOP, np.int32), np.ones(n, np.float32), np.zeros(2, np.int64), np.empty(0, np.int32),
        np.empty(0, np.float32), 0.0, -1.0, 4.0,
    )  # fmt: skip
    ptr = np.zeros(4, np.int64)
    lengths, categories, scores = walk_rows(
        1, 3, ptr, np.empty(0, np.int32), np.empty(0, np.float32), np.empty((3, 0), np.float32), every, n
    )
    assert lengths.tolist() == [n, n]
    assert categories.tolist() == [*range(n), *range(n)]
    assert (scores == 1).all()
