"""The public edge: everything users have becomes the same rows, and what is wrong is named with its place."""

import logging

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from broadmatch.data import CSR, Names, as_features, as_labels, convert
from broadmatch.data.convert import column_names, matched_columns
from broadmatch.errors import BadInput

TABLE = np.array([[0, 1.5, 0], [2, 0, 0.25], [0, 0, 0]], np.float64)
CSR_TABLE = CSR.from_scipy(sp.csr_matrix(TABLE))
NAMED = [["pizza", "taxi"], [], ["pizza"]]

MATRICES = {
    "CSR": CSR_TABLE,
    **{form: sp.csr_matrix(TABLE).asformat(form) for form in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")},
    "sparse array": sp.csr_array(TABLE),
    "float32": sp.csr_matrix(TABLE.astype(np.float32)),
    "numpy": TABLE,
    "float16": TABLE.astype(np.float16),
    "Fortran order": np.asfortranarray(TABLE),
    "list": TABLE.tolist(),
    "tuples": tuple(map(tuple, TABLE.tolist())),
    "pandas": pd.DataFrame(TABLE, columns=["a", "b", "c"]),
    "pandas sparse": pd.DataFrame.sparse.from_spmatrix(sp.csr_matrix(TABLE)),
    "polars": pl.DataFrame(TABLE, schema=["a", "b", "c"]),
    "Arrow": pa.table({name: TABLE[:, i] for i, name in enumerate("abc")}),
    "Arrow batch": pa.RecordBatch.from_pydict({name: TABLE[:, i] for i, name in enumerate("abc")}),
}


def same(a, b):
    return a.n_cols == b.n_cols and all(
        x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(a[:3], b[:3], strict=True)
    )


@pytest.mark.parametrize("given", MATRICES.values(), ids=MATRICES.keys())
def test_matrices_and_tables(given):
    assert same(as_features(given), CSR_TABLE)
    Y, names = as_labels(given)
    assert same(Y, CSR_TABLE)
    columns = column_names(given)  # the columns of a table are the names of its labels
    assert names is None if columns is None else list(names) == columns


@pytest.mark.parametrize("kind", [bool, np.int8, np.uint16, np.int64, np.float32])
def test_kinds_of_numbers(kind):
    ones = np.array([[0, 1], [1, 0]], kind)
    expected = CSR.from_rows([[1], [0]], 2)
    for given in (ones, sp.csr_matrix(ones), pd.DataFrame(ones), pl.DataFrame(ones)):
        assert same(as_labels(given)[0], expected)


LISTS = {
    "lists": NAMED,
    "tuples": tuple(tuple(row) for row in NAMED),
    "sets": [set(row) for row in NAMED],
    "arrays": [np.array(row, dtype=str) for row in NAMED],
    "array of lists": np.array([*NAMED, None], dtype=object)[:3],
    "generator": (row for row in NAMED),
    "pandas": pd.Series(NAMED),
    "polars": pl.Series(NAMED),
    "Arrow": pa.array(NAMED),
    "Arrow chunks": pa.chunked_array([NAMED[:1], NAMED[1:]], type=pa.list_(pa.string())),
    "repeated name": [["pizza", "taxi", "pizza"], [], ["pizza"]],
}


@pytest.mark.parametrize("given", LISTS.values(), ids=LISTS.keys())
def test_lists_of_names(given):
    Y, names = as_labels(given)
    assert list(names) == ["pizza", "taxi"]
    assert same(Y, CSR.from_rows([[0, 1], [], [0]], 2))


def test_numbers_of_labels_do_not_depend_on_the_order_within_sets():
    many = {f"name {i}" for i in range(100)}
    assert list(as_labels([many])[1]) == sorted(many)


def test_points_without_any_label():
    Y, names = as_labels([[], []])
    assert Y.shape == (2, 0)
    assert list(names) == []


@pytest.mark.parametrize("given", [np.empty((0, 3)), sp.csr_matrix((0, 3)), CSR.from_rows([], 3)])
def test_no_points(given):
    assert as_features(given).shape == (0, 3)
    assert as_labels(given)[0].shape == (0, 3)


@pytest.mark.parametrize("given", [np.empty((2, 0)), pa.table({"a": [1, 2]}).select([]), sp.csr_matrix((2, 0))])
def test_no_columns(given):
    assert as_features(given).shape == (2, 0)


def test_duplicates_zeros_and_order_are_put_right():
    loose = sp.csr_matrix((np.array([1.0, 2.0, 0.0, 3.0]), np.array([2, 0, 1, 2]), np.array([0, 4])), shape=(1, 3))
    assert as_features(loose).row(0)[0].tolist() == [0, 2]
    assert as_features(loose).row(0)[1].tolist() == [2, 4]
    assert loose.nnz == 4
    stored = CSR(np.array([0, 2]), np.array([0, 1], np.int32), np.array([0, 1], np.float32), 2)
    assert as_features(stored).row(0)[0].tolist() == [1]
    assert as_labels(stored)[0].nnz == 1


def test_memory_mapped_rows_pass_through_as_they_are(tmp_path):
    for name, array in zip(("indptr", "indices", "data"), CSR_TABLE[:3], strict=True):
        np.save(tmp_path / f"{name}.npy", array)
    mapped = CSR(*(np.load(tmp_path / f"{n}.npy", mmap_mode="r") for n in ("indptr", "indices", "data")), n_cols=3)
    assert as_features(mapped) is mapped
    assert as_labels(mapped)[0] is mapped


def test_it_says_what_it_converted(caplog):
    caplog.set_level(logging.INFO, "broadmatch")
    as_features(sp.csc_matrix(TABLE))
    as_features(TABLE)
    as_labels(NAMED)
    as_features(CSR_TABLE)
    as_features(sp.csr_matrix(TABLE, dtype=np.float32))
    assert [record.getMessage() for record in caplog.records] == [
        "X: converted from CSC float64 to float32 rows.",
        "X: converted from a dense float64 table to float32 rows.",
        "Y: converted from lists of names to 2 labels.",
    ]


# --- what is refused


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("form", ["numpy", "scipy", "CSR", "pandas", "polars", "Arrow"])
def test_a_value_that_is_not_finite_is_named(bad, form):
    table = TABLE.copy()
    table[1, 2] = bad
    with np.errstate(over="ignore"):
        given = {
            "numpy": lambda: table,
            "scipy": lambda: sp.csr_matrix(table),
            "CSR": lambda: CSR_TABLE._replace(data=np.array([1.5, 2, bad], np.float32)),
            "pandas": lambda: pd.DataFrame(table),
            "polars": lambda: pl.DataFrame(table),
            "Arrow": lambda: pa.table({name: table[:, i] for i, name in enumerate("abc")}),
        }[form]()
    with pytest.raises(BadInput, match=r"^X: row 1, column 2: .* is not a finite number\.$"):
        as_features(given)
    with pytest.raises(BadInput, match=r"^Y: row 1, column 2: .* is not a finite number\.$"):
        as_labels(given)


def test_a_missing_value_of_a_table_is_named():
    with pytest.raises(BadInput, match="row 1, column 0: nan is not a finite number"):
        as_features(pa.table({"a": [1.0, None]}))
    with pytest.raises(BadInput, match="row 1, column 0: nan is not a finite number"):
        as_features(pl.DataFrame({"a": [1, None]}))


def test_negative_features_are_fine_and_negative_labels_are_named():
    assert as_features(-TABLE).data.tolist() == [-1.5, -2, -0.25]
    with pytest.raises(BadInput, match=r"Y: row 0, column 1: -1\.5 is negative; a label's weight is 1 or a belief"):
        as_labels(-TABLE)


@pytest.mark.parametrize(("given", "n"), [(np.arange(3.0), 1), (5, 0), (np.zeros((2, 2, 2)), 3), (pd.Series([1.0]), 1)])
def test_a_wrong_number_of_dimensions(given, n):
    with pytest.raises(BadInput, match=f"X must have two dimensions, points by columns, but it has {n}"):
        as_features(given)


def test_a_sparse_array_of_one_dimension():
    with pytest.raises(BadInput, match="two dimensions"):
        as_features(sp.coo_array(np.arange(3.0)))


@pytest.mark.parametrize("ragged", [[[1, 2], [3]], [[1, 2], 3]])
def test_ragged_rows(ragged):
    with pytest.raises(BadInput, match="X is neither a matrix nor a table: its rows differ in length"):
        as_features(ragged)


@pytest.mark.parametrize(
    "given",
    [
        [["a", "b"]],
        np.array([["a"]], dtype=object),
        pd.DataFrame({"a": ["x"]}),
        np.array([[1j]]),
        sp.csr_matrix([[1j]]),
    ],
)
def test_what_holds_no_numbers(given):
    with pytest.raises(BadInput, match="X must hold numbers, but it holds"):
        as_features(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["pizza", "taxi"], "Y is a list of strings; give a list of lists"),
        ([["pizza"], None], "Y: row 1 is None; it must be a list of label names"),
        (pa.array([["pizza"], None]), "Y: row 1 is None"),
        ([["pizza"], ["taxi", 3]], "Y: row 1 holds 3, which is not the name of a label"),
        ([["pizza"], "taxi"], "Y: row 1 is 'taxi'"),
        (pl.Series([["pizza", None]]), "Y: row 0 holds None"),
    ],
)
def test_lists_that_are_not_all_names(given, message):
    with pytest.raises(BadInput, match=message):
        as_labels(given)


def test_another_number_of_features_than_the_model_knows():
    assert as_features(TABLE, n_features=3).n_cols == 3
    with pytest.raises(BadInput, match="X has 3 features, but the model was fitted on 5; give the same columns, in"):
        as_features(TABLE, n_features=5)


def csr(indptr, indices, data, n_cols=3):
    return CSR(np.array(indptr, np.int64), np.array(indices, np.int32), np.array(data, np.float32), n_cols)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (csr([0, 1], [3], [1]), "row 0, column 3: .* not one of the 3"),
        (csr([0, 0, 1], [-1], [1]), "row 1, column -1: .* not one of the 3"),
        (csr([0, 2], [1, 0], [1, 1]), "row 0, column 0: .* after a higher or equal column"),
        (csr([0, 2], [1, 1], [1, 1]), "row 0, column 1: .* after a higher or equal column"),
        (csr([0, 5], [1], [1]), "indptr does not fit the 1 indices and 1 values"),
        (csr([1, 1], [1], [1]), "indptr does not fit"),
        (csr([0, 1, 0, 1], [1], [1]), "indptr does not fit"),
        (csr([0, 1], [1], [1, 2]), "indptr does not fit the 1 indices and 2 values"),
        (csr([], [], []), "indptr does not fit"),
        (csr([0, 1], [1], [1])._replace(data=np.ones(1)), "data must be one-dimensional float32, but .* float64"),
        (csr([0, 1], [1], [1])._replace(indptr=np.array([0, 1], np.int32)), "indptr must be one-dimensional int64"),
    ],
)  # fmt: skip
def test_rows_that_do_not_hang_together_never_reach_a_kernel(given, message):
    with pytest.raises(BadInput, match=f"X: {message}"):
        as_features(given)


@pytest.mark.parametrize("entries", [1, 2, 3, 100])
@pytest.mark.parametrize("bad", range(6))
def test_every_entry_is_looked_at_however_few_at_a_time(bad, entries, monkeypatch):
    monkeypatch.setattr(convert, "_ENTRIES", entries)
    good = csr([0, 2, 2, 5, 6], [0, 2, 0, 1, 2, 0], [1] * 6)
    assert as_features(good) is good
    wrong = good.data.copy()
    wrong[bad] = np.nan
    with pytest.raises(BadInput, match=f"row {[0, 0, 2, 2, 2, 3][bad]}, column .*not a finite number"):
        as_features(good._replace(data=wrong))
    falls = good.indices.copy()
    falls[bad] = falls[bad - 1]
    if bad in (1, 3, 4):
        with pytest.raises(BadInput, match=f"row {[0, 0, 2, 2, 2, 3][bad]}, .*after a higher or equal"):
            as_features(good._replace(indices=falls))


def test_a_scipy_matrix_with_columns_out_of_range():
    broken = sp.csr_matrix((2, 3))
    broken.indptr, broken.indices, broken.data = np.array([0, 1, 2]), np.array([0, 9]), np.ones(2)
    with pytest.raises(BadInput, match="row 1, column 9"):
        as_features(broken)


def test_a_row_of_a_higher_column_than_the_next_rows_first_is_in_order():
    assert as_features(csr([0, 2, 2, 3], [0, 2, 1], [1, 1, 1])).nnz == 3


# ---------------------------------------------------------------- names of columns, numbers of labels


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_the_columns_of_a_table_are_matched_by_name(make):
    known = Names.of(["a", "b"])
    swapped = make({"b": [1.0], "other": [7.0], "a": [2.0]})
    assert as_features(matched_columns(swapped, known)).to_scipy().toarray().tolist() == [[2, 1]]
    with pytest.raises(BadInput, match="X has no column 'a' and lacks 1 others"):
        matched_columns(make({"c": [1.0]}), known)
    table = np.eye(2)
    assert matched_columns(table, known) is table
    assert matched_columns(swapped, None) is swapped


def test_a_table_whose_columns_are_only_numbered_has_no_names():
    assert column_names(pd.DataFrame(np.eye(2))) is None
    assert column_names(pd.DataFrame(np.eye(2), columns=["x", "y"])) == ["x", "y"]


@pytest.mark.parametrize("lists", [[[3], [0, 1]], [[3, 0], [1, 2]], [(3, 0), {1}], [[], [2]], [[np.int64(1)], [0]]])
def test_lists_of_numbers_are_labels_ragged_or_not(lists):
    Y, names = as_labels(lists)
    assert [Y.row(i)[0].tolist() for i in range(2)] == [sorted(row) for row in lists]
    assert list(names) == [str(i) for i in range(1 + max(max(row, default=0) for row in lists))]


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([[0, 1], [1, 0]], "may be the numbers of labels or a matrix; give numpy.array"),
        ([[0, 0, 2], [1]], "row 0 names a label twice"),
        ([[2, -1], [1]], "row 0 holds -1; labels are numbered from 0"),
    ],
)
def test_lists_of_numbers_that_may_be_a_matrix_are_refused(lists, message):
    with pytest.raises(BadInput, match=message):
        as_labels(lists)


@pytest.mark.parametrize("make", [list, lambda rows: [np.array(r) for r in rows], pd.Series, pl.Series, pa.array])
def test_lists_of_numbers_of_equal_length_are_labels_and_no_weights(make):
    labels, names = as_labels(make([[1, 2], [3, 4]]))
    assert list(names) == ["0", "1", "2", "3", "4"]
    assert [labels.row(i)[0].tolist() for i in range(2)] == [[1, 2], [3, 4]]
    assert as_labels(np.array([[1, 2], [3, 4]]))[0].row(1)[1].tolist() == [3, 4]  # a matrix is one
