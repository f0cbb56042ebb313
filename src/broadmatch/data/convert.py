"""The public edge: what users have (scipy, numpy, pandas, polars, Arrow, lists of names) becomes checked CSR."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.csr import CSR
from broadmatch.data.names import Names
from broadmatch.errors import BadInput

log = logging.getLogger("broadmatch")
_ENTRIES = 1 << 22
_SEVERAL = (list, tuple, set, frozenset, np.ndarray)


def as_features(X: Any, *, n_features: int | None = None) -> CSR:
    """Check and convert the features of points; says (logging, INFO) what it converted.

    >>> as_features([[0.0, 1.5], [2.0, 0.0]]).indices
    array([1, 0], dtype=int32)
    """
    matrix = _as_csr(X, "X")
    _refuse(matrix, lambda here: ~np.isfinite(matrix.data[here]), "X", "is not a finite number")
    if n_features is not None and matrix.n_cols != n_features:
        raise BadInput(
            f"X has {matrix.n_cols:,} features, but the model was fitted on {n_features:,}; "
            "give the same columns, in the same order."
        )
    return matrix


def as_labels(Y: Any) -> tuple[CSR, Names | None]:
    """Check and convert the labels of points; the names come back too where Y was given by name.

    >>> Y, names = as_labels([["pizza", "taxi"], [], ["pizza"]])
    >>> Y.shape, list(names)
    ((3, 2), ['pizza', 'taxi'])
    """
    if Y is None:
        raise BadInput("This requires y to be passed, but the target y is None; give the labels of the points.")
    rows = _rows(Y)
    if (lists := _label_lists(rows)) is not None:
        known: dict[str, int] = {}
        numbered = [[known.setdefault(name, len(known)) for name in row] for row in lists]
        log.info("Y: converted from lists of names to %d labels.", len(known))
        return CSR.from_rows(numbered, len(known)), Names.of(known)
    if (ids := _id_lists(rows)) is not None:
        n_labels = 1 + max((label for row in ids for label in row), default=-1)
        log.info("Y: converted from lists of numbers to %d labels.", n_labels)
        return CSR.from_rows(ids, n_labels), Names.numbers(n_labels)
    matrix, columns = _as_csr(Y, "Y"), column_names(Y)
    _refuse(matrix, lambda here: ~np.isfinite(matrix.data[here]), "Y", "is not a finite number")
    negative = "is negative; a label's weight is 1 or a belief of at least 0"
    _refuse(matrix, lambda here: matrix.data[here] < 0, "Y", negative)
    return matrix, None if columns is None else Names.of(columns)


def column_names(given: Any) -> list[str] | None:
    """The names of a table's columns; None for what has none, and for a table whose columns are only numbered."""
    names = getattr(given, "column_names", None)  # Arrow
    if names is None and hasattr(given, "to_numpy"):
        names = getattr(given, "columns", None)  # pandas, polars
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return list(names)


def matched_columns(X: Any, known: Names | None) -> Any:
    """A table with the columns that a model knows, in their order; anything else as it is."""
    names = None if known is None else column_names(X)
    if names is None or known is None or (len(names) == len(known) and names == list(known)):
        return X
    given = set(names)
    missing = [name for name in known if name not in given]
    if missing:
        raise BadInput(
            f"X has no column {missing[0]!r}"
            + (f" and lacks {len(missing) - 1:,} others" if missing[1:] else "")
            + " that the model was fitted on; give the same columns, in any order."
        )
    log.info("X: matched %d columns by name, left out %d.", len(known), len(names) - len(known))
    wanted = list(known)
    return X[wanted] if hasattr(X, "columns") and not hasattr(X, "column_names") else X.select(wanted)


def _as_csr(given: Any, what: str) -> CSR:
    import scipy.sparse as sp

    if isinstance(given, CSR):
        check_structure(given, what)
        if given.data.all():
            return given
        log.info("%s: dropped the zeros that were stored.", what)
        return CSR.from_scipy(given.to_scipy())
    sparse = sp.issparse(given)
    table: Any = given if sparse else _as_numpy(given, what)
    if table.ndim != 2:
        raise BadInput(f"{what} must have two dimensions, points by columns, but it has {table.ndim}.")
    if table.dtype.kind not in "biuf":
        raise BadInput(f"{what} must hold numbers, but it holds {table.dtype}.")
    if sparse:
        if table.format != "csr" or table.dtype != np.float32:
            log.info("%s: converted from %s %s to float32 rows.", what, table.format.upper(), table.dtype)
        matrix = CSR.from_scipy(table)
        check_structure(matrix, what)
        return matrix
    log.info("%s: converted from a dense %s table to float32 rows.", what, table.dtype)
    with np.errstate(over="ignore"):  # what does not fit becomes inf, and is refused below with its place
        return CSR.from_scipy(sp.csr_matrix(table, dtype=np.float32))


def check_structure(matrix: CSR, what: str) -> None:
    """Refuse rows that do not hang together, since kernels trust them: one sentence instead of a crash."""
    indptr, indices, data, n_cols = matrix
    kinds: list[tuple[str, NDArray[Any], Any]] = [
        ("indptr", indptr, np.int64),
        ("indices", indices, np.int32),
        ("data", data, np.float32),
    ]
    for name, array, kind in kinds:
        if array.ndim != 1 or array.dtype != kind:
            raise BadInput(
                f"{what}: {name} must be one-dimensional {np.dtype(kind)}, but it is {array.ndim}-dimensional "
                f"{array.dtype}; CSR.from_scipy makes the right types."
            )
    lengths = np.diff(indptr)
    if not len(indptr) or indptr[0] != 0 or (lengths < 0).any() or not indptr[-1] == len(indices) == len(data):
        raise BadInput(f"{what}: indptr does not fit the {len(indices):,} indices and {len(data):,} values.")
    if not len(indices):
        return

    def outside(here: slice) -> NDArray[np.bool_]:
        return (indices[here] < 0) | (indices[here] >= n_cols)

    def falls(here: slice) -> NDArray[np.bool_]:
        """Entries whose column is not above that of the entry before, unless they are the first of a row."""
        found = np.zeros(here.stop - here.start, bool)
        first = max(here.start, 1)
        found[first - here.start :] = indices[first : here.stop] <= indices[first - 1 : here.stop - 1]
        starts = indptr[np.searchsorted(indptr, here.start) : np.searchsorted(indptr, here.stop)]
        found[starts - here.start] = False
        return found

    _refuse(matrix, outside, what, f"stands in a column that is not one of the {n_cols:,}")
    _refuse(matrix, falls, what, "stands after a higher or equal column; CSR.from_scipy sorts and adds up")


def _as_numpy(given: Any, what: str) -> Any:
    """Dense numbers from an array, a nested list, or a pandas, polars or Arrow table."""
    if hasattr(given, "to_numpy") and hasattr(given, "shape"):
        return given.to_numpy()
    if hasattr(given, "column_names") and hasattr(given, "itercolumns"):
        columns = [column.to_numpy() for column in given.itercolumns()]
        return np.column_stack(columns) if columns else np.empty((len(given), 0))
    try:
        return np.asarray(given)
    except ValueError as error:
        raise BadInput(f"{what} is neither a matrix nor a table: its rows differ in length.") from error


def _rows(Y: Any) -> list[Any]:
    """The rows of a list, of an array of lists or of a column of lists; none of what is a matrix or a table."""
    import scipy.sparse as sp

    if sp.issparse(Y) or isinstance(Y, CSR):
        return []
    if hasattr(Y, "to_pylist") and not hasattr(Y, "column_names"):
        Y = Y.to_pylist()
    elif hasattr(Y, "to_list") and getattr(Y, "ndim", 1) == 1:
        Y = Y.to_list()
    if isinstance(Y, np.ndarray) and Y.dtype != object:
        return []
    if not isinstance(Y, Iterable) or (hasattr(Y, "shape") and getattr(Y, "ndim", 1) != 1):
        return []
    return list(Y)


def _label_lists(rows: list[Any]) -> list[Sequence[Any]] | None:
    """The rows as lists of names, if that is what they are."""
    if rows and all(isinstance(row, str) for row in rows):
        raise BadInput("Y is a list of strings; give a list of lists, one list of label names a point.")
    by_name = any(isinstance(row, _SEVERAL) and any(isinstance(name, str) for name in row) for row in rows)
    if not by_name and not (rows and all(isinstance(row, _SEVERAL) and len(row) == 0 for row in rows)):
        return None
    for i, row in enumerate(rows):
        if not isinstance(row, _SEVERAL):
            raise BadInput(f"Y: row {i} is {row!r}; it must be a list of label names, [] for none.")
        for name in row:
            if not isinstance(name, str):
                raise BadInput(f"Y: row {i} holds {name!r}, which is not the name of a label.")
    # Sets have no order of their own, and the order decides the numbers of the labels.
    return [sorted(row) if isinstance(row, set | frozenset) else list(row) for row in rows]


def _id_lists(given: list[Any]) -> list[list[int]] | None:
    """The rows as lists of the numbers of labels, if that is what they are."""
    if not given or not all(isinstance(row, _SEVERAL) for row in given):
        return None
    rows = [sorted(row) if isinstance(row, set | frozenset) else list(row) for row in given]
    if not all(isinstance(label, int | np.integer) and not isinstance(label, bool) for row in rows for label in row):
        return None
    lengths = {len(row) for row in rows}
    if len(lengths) == 1 and {label for row in rows for label in row} <= {0, 1} and lengths != {1}:
        raise BadInput(
            "Y is lists of 0 and 1, which may be the numbers of labels or a matrix; "
            "give numpy.array(Y) if it is a matrix, or the names of the labels."
        )
    for i, row in enumerate(rows):
        if len(set(row)) < len(row):
            raise BadInput(f"Y: row {i} names a label twice; if Y is a matrix, give numpy.array(Y).")
        if row and min(row) < 0:
            raise BadInput(f"Y: row {i} holds {min(row)}; labels are numbered from 0.")
    return rows


def _refuse(matrix: CSR, is_bad: Callable[[slice], NDArray[np.bool_]], what: str, why: str) -> None:
    """Refuse a matrix with an entry that is bad; looks at some entries at a time, for they may be more than memory."""
    for start in range(0, matrix.nnz, _ENTRIES):
        here = slice(start, min(start + _ENTRIES, matrix.nnz))
        bad = is_bad(here)
        if bad.any():
            at = start + int(np.argmax(bad))
            row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1
            raise BadInput(f"{what}: row {row}, column {matrix.indices[at]}: {matrix.data[at]} {why}.")
