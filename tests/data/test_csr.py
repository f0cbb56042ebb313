"""Sparse rows: what scipy says of the same matrix."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from broadmatch.data import CSR
from broadmatch.errors import BadInput

dense = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=6),
    elements=st.sampled_from([0, 0, 0, 1, -2, 0.5, 3e38, 1e-40]),
)


def is_canonical(matrix):
    assert (matrix.indptr.dtype, matrix.indices.dtype, matrix.data.dtype) == (np.int64, np.int32, np.float32)
    assert matrix.indptr[0] == 0
    assert matrix.indptr[-1] == len(matrix.indices) == len(matrix.data) == matrix.nnz
    for i in range(matrix.n_rows):
        assert (np.diff(matrix.row(i)[0]) > 0).all()
    assert matrix.data.all()
    return True


@settings(max_examples=80, deadline=None)
@given(dense, st.sampled_from(["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]))
def test_every_scipy_format_and_back(table, form):
    matrix = CSR.from_scipy(sp.csr_matrix(table).asformat(form))
    assert is_canonical(matrix)
    assert matrix.shape == table.shape
    assert np.array_equal(matrix.to_scipy().toarray(), table)


@settings(max_examples=80, deadline=None)
@given(dense, st.data())
def test_take_and_row_equal_numpy(table, data):
    matrix, n = CSR.from_scipy(sp.csr_matrix(table)), len(table)
    rows = data.draw(st.lists(st.integers(-n, n - 1), max_size=8) if n else st.just([]))
    taken = matrix.take(np.array(rows, np.int64))
    assert is_canonical(taken)
    assert np.array_equal(taken.to_scipy().toarray(), table[np.array(rows, np.int64)])
    for i in rows:
        indices, values = matrix.row(i)
        assert np.array_equal(indices, np.flatnonzero(table[i]))
        assert np.array_equal(values, table[i][indices])


def test_rows_that_are_not_there():
    matrix = CSR.from_rows([[0], [1]], 2)
    for outside in (2, -3):
        with pytest.raises(IndexError):
            matrix.row(outside)
        with pytest.raises(IndexError):
            matrix.take(np.array([outside]))


def test_duplicates_are_added_up_without_overflow():
    given_ones = sp.csr_matrix((np.array([200, 100, 1], np.uint8), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2))
    matrix = CSR.from_scipy(given_ones)
    assert is_canonical(matrix)
    assert matrix.data.tolist() == [1, 300]
    assert given_ones.nnz == 3  # what was given is as it was


def test_zeros_are_dropped_also_those_that_float32_makes():
    stored = sp.csr_matrix((np.array([0.0, 1e-60, 2.0]), np.array([0, 1, 2]), np.array([0, 3])), shape=(1, 3))
    matrix = CSR.from_scipy(stored)
    assert is_canonical(matrix)
    assert matrix.indices.tolist() == [2]
    assert stored.nnz == 3


def test_what_does_not_fit_float32_becomes_inf_without_a_warning():
    assert CSR.from_scipy(sp.csr_matrix([[1e300]])).data.tolist() == [np.inf]


def test_nothing_is_copied_that_need_not_be(tmp_path):
    np.save(tmp_path / "data.npy", np.ones(3, np.float32))
    np.save(tmp_path / "indices.npy", np.arange(3, dtype=np.int32))
    data, indices = (np.load(tmp_path / f"{n}.npy", mmap_mode="r") for n in ("data", "indices"))
    matrix = CSR.from_scipy(sp.csr_matrix((data, indices, np.array([0, 1, 3], np.int32)), shape=(2, 3)))
    assert np.shares_memory(matrix.data, data)
    assert np.shares_memory(matrix.indices, indices)
    assert np.shares_memory(matrix.to_scipy().data, data)


def test_arrays_longer_than_needed_are_cut():
    loose = sp.csr_matrix((2, 3))
    loose.indptr = np.array([0, 1, 2])
    loose.indices, loose.data = np.array([0, 2, 9, 9], np.int32), np.array([1, 1, 7, 7], np.float32)
    assert is_canonical(CSR.from_scipy(loose))


def test_too_many_columns():
    with pytest.raises(BadInput, match="4,294,967,296 columns; at most 2,147,483,647"):
        CSR.from_scipy(sp.csr_matrix((1, 2**32)))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), max_size=8), max_size=6))
def test_from_rows(rows):
    matrix = CSR.from_rows(rows, 6)
    assert is_canonical(matrix)
    assert matrix.shape == (len(rows), 6)
    assert [set(matrix.row(i)[0].tolist()) for i in range(len(rows))] == [set(row) for row in rows]


@pytest.mark.parametrize("column", [3, -1, 2**33])
def test_from_rows_names_the_row_of_a_wrong_column(column):
    with pytest.raises(BadInput, match=f"Row 2 has column {column}, but there are 3 columns"):
        CSR.from_rows([[0], [], [1, column]], 3)
