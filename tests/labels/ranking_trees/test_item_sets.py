"""Item sets equal the formula of SwiftXML §4; one row at a time gives the same bits as many."""

import time

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from broadmatch.data import CSR
from broadmatch.data.convert import check_structure
from broadmatch.errors import BadInput
from broadmatch.labels.ranking_trees._item_sets import item_set
from broadmatch.labels.ranking_trees.item_sets import item_sets
from tests.reference import item_sets as reference

sides = st.integers(1, 8)


def csr(table: np.ndarray) -> CSR:
    return CSR.from_scipy(sp.csr_matrix(np.asarray(table, np.float32)))


def dense(matrix: CSR) -> np.ndarray:
    check_structure(matrix, "the result")
    assert matrix.data.all()
    return matrix.to_scipy().toarray()


@st.composite
def known_labels_and_features(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n, labels, width = draw(sides), draw(sides), draw(sides)
    known = draw(arrays(np.float32, (n, labels), elements=st.sampled_from([0, 0, 1, 0.25, 3])))
    # Opposite values cancel, huge ones must not overflow.
    size = draw(st.sampled_from([1, 1, 1e-30, 1e30]))
    features = draw(arrays(np.float32, (labels, width), elements=st.sampled_from([0, 0, 1, -1, 0.5, 2])))
    return known, features * np.float32(size)


@settings(max_examples=150)
@given(known_labels_and_features())
def test_equals_the_dense_reference(tables: tuple[np.ndarray, np.ndarray]) -> None:
    known, features = tables
    found = dense(item_sets(csr(known), csr(features)))
    expected = reference.item_sets(known.astype(np.float64), features.astype(np.float64))
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-7)


def random_rows(n: int, width: int, filled: int, seed: int) -> CSR:
    rng = np.random.default_rng(seed)
    rows = CSR.from_rows([rng.integers(0, width, rng.integers(0, filled)).tolist() for _ in range(n)], width)
    return rows._replace(data=rng.random(rows.nnz, np.float32) + np.float32(0.1))


def test_one_row_is_the_same_bits_as_many_for_any_number_of_threads() -> None:
    known, features = random_rows(3000, 80, 20, 1), random_rows(80, 500, 60, 2)
    sets = item_sets(known, features, n_jobs=1)
    for again in (item_sets(known, features, n_jobs=2), item_sets(known, features, n_jobs=5)):
        assert all(np.array_equal(a, b) for a, b in zip(sets[:3], again[:3], strict=True))
    for i in range(0, 3000, 7):
        for one, row in zip(item_set(*known.row(i), *features[:3]), sets.row(i), strict=True):
            assert one.dtype == row.dtype
            assert np.array_equal(one, row)


def test_empty_where_nothing_is_revealed_or_no_revealed_label_has_features() -> None:
    features = CSR.from_rows([[], [1]], n_cols=3)
    sets = item_sets(CSR.from_rows([[], [0], [0, 1]], n_cols=2), features)
    assert sets.shape == (3, 3)
    assert np.diff(sets.indptr).tolist() == [0, 0, 1]
    assert item_sets(CSR.from_rows([], n_cols=2), features).shape == (0, 3)


def test_what_cancels_or_becomes_too_small_is_not_stored() -> None:
    features = csr([[1, -2, 1e-38], [-1, 2, 0]])
    assert item_sets(CSR.from_rows([[0, 1]], n_cols=2), features).indices.tolist() == [2]
    assert item_sets(csr([[1e30, 1]]), csr([[1, 0], [0, 1e-30]])).indices.tolist() == [0]


def test_other_numbers_of_labels_are_refused() -> None:
    with pytest.raises(BadInput, match="3 labels, but label features of 2"):
        item_sets(CSR.from_rows([[2]], n_cols=3), CSR.from_rows([[0], [0]], n_cols=1))


def test_one_row_takes_microseconds_however_wide_the_features_are() -> None:
    rng = np.random.default_rng(3)
    features = CSR.from_rows([rng.integers(0, 2**30, 100).tolist() for _ in range(5)], 2**31 - 1)
    labels, weights = np.arange(5, dtype=np.int32), np.ones(5, np.float32)
    item_set(labels, weights, *features[:3])
    taken = []
    for _ in range(200):
        start = time.perf_counter()
        item_set(labels, weights, *features[:3])
        taken.append(time.perf_counter() - start)
    # About 11 µs alone; a table as wide as the features would take seconds.
    assert min(taken) < 1e-4
