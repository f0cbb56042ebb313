"""The sparse rows that every kernel sees: int64 `indptr`, int32 sorted `indices`, float32 `data`, no stored zeros."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput
from broadmatch.layout import Axes, Index, Offsets, require

if TYPE_CHECKING:
    import scipy.sparse as sp  # at run time only where it is used: click models do without

Arrays = TypeVar("Arrays", bound=tuple[Any, ...])
_MOST_COLUMNS = 2**31 - 1


class CSR(NamedTuple):
    """Compressed sparse rows, possibly memory-mapped.

    >>> CSR.from_rows([[2], [], [0, 1]], n_cols=3).row(2)
    (array([0, 1], dtype=int32), array([1., 1.], dtype=float32))
    """

    indptr: Annotated[NDArray[np.int64], Offsets(".rows", ".entries")]
    indices: Annotated[NDArray[np.int32], Axes(".entries"), Index(".columns")]
    data: Annotated[NDArray[np.float32], Axes(".entries")]
    n_cols: Annotated[int, Axes(".columns")]

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, self.n_cols

    @property
    def nnz(self) -> int:
        return len(self.indices)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of each entry."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.indptr))

    def _check_whole(self) -> None:
        """Refuse rows whose columns do not rise."""
        falls = self.indices[1:] <= self.indices[:-1]
        starts = self.indptr[1:-1]
        falls[starts[(starts > 0) & (starts < self.nnz)] - 1] = False
        require(not falls.any(), "the columns of a row do not rise")

    def row(self, i: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Columns and values of row `i`, as views."""
        start, stop = self.indptr[:-1][i], self.indptr[1:][i]
        return self.indices[start:stop], self.data[start:stop]

    def between(self, start: int, stop: int) -> "CSR":
        """The rows from `start` to before `stop`, as views."""
        first, last = self.indptr[start], self.indptr[stop]
        return CSR(self.indptr[start : stop + 1] - first, self.indices[first:last], self.data[first:last], self.n_cols)

    def take(self, rows: NDArray[np.int64]) -> "CSR":
        """Copy the given rows, in the given order."""
        indptr, where = gathered(self.indptr, rows)
        return CSR(indptr, self.indices[where], self.data[where], self.n_cols)

    def where(self, kept: NDArray[np.bool_]) -> "CSR":
        """The entries that are marked, in a matrix of the same shape."""
        return CSR(offsets(kept)[self.indptr], self.indices[kept], self.data[kept], self.n_cols)

    def renumbered(self, place: NDArray[np.int64], n_cols: int) -> "CSR":
        """The same rows with column c in the place of place[c]; at −1 it is left out, and what meets is added up."""
        import scipy.sparse as sp

        columns = place[self.indices]
        kept = columns >= 0
        entries = (self.data[kept], (self.rows[kept], columns[kept]))
        return CSR.from_scipy(sp.csr_matrix(entries, shape=(self.n_rows, n_cols)))

    def transposed(self) -> "CSR":
        """Columns as rows."""
        return CSR.from_scipy(self.to_scipy().transpose())

    def to_scipy(self) -> "sp.csr_matrix":
        """The same arrays as a scipy matrix (scipy may shorten `indptr` to 32 bits)."""
        import scipy.sparse as sp

        return sp.csr_matrix((self.data, self.indices, self.indptr), shape=self.shape)

    @classmethod
    def from_scipy(cls, matrix: Any) -> "CSR":
        """Take a scipy matrix of any format; only what has to be copied is copied."""
        import scipy.sparse as sp

        rows = sp.csr_matrix(matrix)
        if rows.shape[1] > _MOST_COLUMNS:
            raise BadInput(f"The matrix has {rows.shape[1]:,} columns; at most {_MOST_COLUMNS:,} are possible.")
        if not rows.has_canonical_format:
            # A copy that cannot overflow: sums of small integers are not small.
            rows = rows.astype(np.float64, copy=True)
            rows.sum_duplicates()
        if rows.dtype != np.float32:
            with np.errstate(over="ignore"):  # what does not fit becomes inf, which the public edge refuses
                rows = rows.astype(np.float32)
        if rows.nnz and not rows.data.all():
            rows = rows.copy()
            rows.eliminate_zeros()
        return cls(
            np.ascontiguousarray(rows.indptr, np.int64),
            np.ascontiguousarray(rows.indices[: rows.indptr[-1]], np.int32),
            np.ascontiguousarray(rows.data[: rows.indptr[-1]], np.float32),
            int(rows.shape[1]),
        )

    @classmethod
    def stored(cls, matrix: Any) -> "CSR":
        """Take every stored entry of a scipy matrix, zeros too; those that stand in one place are added up."""
        import scipy.sparse as sp

        rows = sp.csr_matrix(matrix)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        indptr, indices = np.asarray(rows.indptr, np.int64), np.asarray(rows.indices, np.int32)
        return cls(indptr, indices, np.asarray(rows.data, np.float32), int(rows.shape[1]))

    @classmethod
    def of_blocks(
        cls, blocks: "Iterable[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]]", n_cols: int
    ) -> "CSR":
        """Stack blocks of rows: the length of each row of a block, and the columns and values of all of them."""
        lengths: list[NDArray[np.int64]] = [np.zeros(1, np.int64)]
        indices: list[NDArray[np.int32]] = [np.empty(0, np.int32)]
        data: list[NDArray[np.float32]] = [np.empty(0, np.float32)]
        for block in blocks:
            for pieces, piece in zip((lengths, indices, data), block, strict=True):
                pieces.append(piece)  # type: ignore[attr-defined]
        stacked = np.concatenate(indices)
        indices.clear()  # with millions of rows the pieces weigh as much as the result
        return cls(np.cumsum(np.concatenate(lengths)), stacked, np.concatenate(data), n_cols)

    @classmethod
    def from_rows(cls, rows: "list[list[int]]", n_cols: int) -> "CSR":
        """Make a matrix of ones from the columns of each row."""
        unique = [sorted(set(row)) for row in rows]
        indptr = offsets([len(row) for row in unique])
        indices = np.fromiter((c for row in unique for c in row), np.int64, int(indptr[-1]))
        bad = (indices < 0) | (indices >= n_cols)
        if bad.any():
            at = int(np.argmax(bad))
            row = int(np.searchsorted(indptr, at, side="right")) - 1
            raise BadInput(f"Row {row} has column {indices[at]}, but there are {n_cols:,} columns, counted from 0.")
        return cls(indptr, indices.astype(np.int32), np.ones(len(indices), np.float32), n_cols)


def gathered(indptr: NDArray[np.int64], rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the given rows start when they stand behind each other, and the place of each of their entries before."""
    lengths = np.diff(indptr)[rows]
    starts = offsets(lengths)
    return starts, np.arange(starts[-1]) + np.repeat(indptr[:-1][rows] - starts[:-1], lengths)


def offsets(lengths: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Where each of several pieces starts when they stand behind each other, and where the last one ends."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, dtype=np.int64, out=starts[1:])
    return starts


def concatenated(parts: Sequence[Arrays]) -> Arrays:
    """Named tuples of arrays as one, each array behind those of the same name."""
    return type(parts[0])(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def joined_ptr(pointers: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The row pointers of several matrices as those of all their rows behind each other."""
    starts = offsets([int(p[-1]) for p in pointers])
    return np.concatenate([np.zeros(1, np.int64), *(p[1:] + starts[i] for i, p in enumerate(pointers))])
