"""Rows of sparse text, `l,l,… c:v c:v …`: read in blocks by a kernel, written in blocks by Arrow."""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.csr import CSR, offsets
from broadmatch.errors import BadInput
from broadmatch.io.matrices import _text_matrix as kernels

NEWLINE = b"\n"
MOST_COLUMNS = (1 << 31) - 1
MOST_LABELS = 100_000_000
_BLOCK = 1 << 22
_LONGEST_LINE = 1 << 26
_ROWS_WRITTEN, _CELLS_WRITTEN = 1 << 13, 1 << 20
_WORD = re.compile(rb"[^\s#]*")


@dataclass(frozen=True)
class Layout:
    """How the lines of a file are to be read.

    `labelled`: lines open with labels. `comments`: svmlight's comments, query ids and empty lines are passed over.
    Labels and columns have to be below `n_labels` and `n_columns`. `column` is the word for a column in errors.
    """

    labelled: bool
    comments: bool = False
    n_labels: int = MOST_LABELS
    n_columns: int = MOST_COLUMNS
    column: str = "feature"


class SparseRows(NamedTuple):
    """What was read, in the order of the file: how many labels and `c:v` pairs each row has, and all of them."""

    label_lengths: NDArray[np.int64]
    labels: NDArray[np.int32]
    lengths: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]

    @property
    def n_rows(self) -> int:
        return len(self.lengths)

    def matrix(self, n_columns: int, first: int = 0) -> CSR:
        """The pairs as sorted rows, pairs of the same column added up; `first` is the column that counts as 0."""
        indices = self.columns - np.int32(first) if first else self.columns
        return tidy(offsets(self.lengths), indices, self.values, n_columns)

    def label_matrix(self, n_labels: int) -> CSR:
        """The labels as sorted rows of ones; a label named twice in a row counts once."""
        ones = np.ones(len(self.labels), np.float32)
        Y = tidy(offsets(self.label_lengths), self.labels, ones, n_labels)
        Y.data[:] = 1.0
        return Y

    def without_empty_end(self, n_rows: int) -> "SparseRows":
        """The first `n_rows` if all others are empty: files often end in a few empty lines."""
        if self.lengths[n_rows:].any() or self.label_lengths[n_rows:].any():
            return self
        return self._replace(lengths=self.lengths[:n_rows], label_lengths=self.label_lengths[:n_rows])


def read_rows(stream: io.BufferedReader, file: Path, line: int, layout: Layout) -> SparseRows:
    """Read the rest of `stream`, whose next line is number `line` of `file`."""
    kinds = (np.int64, np.int32, np.int64, np.int32, np.float32)
    parts: list[list[Any]] = [[np.empty(0, kind)] for kind in kinds]
    for buffer, stop in _blocks(stream, file, line):
        code, at, block = _parse(buffer, stop, layout)
        if code != kernels.FINE:
            place = f"{file}, line {line + buffer.count(NEWLINE, 0, at)}"
            _refuse(place, code, _token(buffer, at, stop), layout)
        for pieces, piece in zip(parts, block, strict=True):
            pieces.append(piece)
        line += buffer.count(NEWLINE, 0, stop)
    return SparseRows(*map(_joined, parts))


def tidy(indptr: NDArray[np.int64], indices: NDArray[np.int32], data: NDArray[np.float32], n_columns: int) -> CSR:
    """Sort the rows, add up values of the same column, and leave zeros out; nothing is copied if all is well."""
    import scipy.sparse as sp

    return CSR.from_scipy(sp.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, n_columns)))


def write_rows(out: IO[bytes], X: CSR, labels: CSR | None = None) -> None:
    """Write each row as `c:v c:v …`, after its labels `l,l,…` and a space if there are `labels`.

    Values are written with the fewest digits that give back the same float32.
    """
    import pyarrow.compute as pc

    start = 0
    while start < X.n_rows:
        enough = int(np.searchsorted(X.indptr, X.indptr[start] + _CELLS_WRITTEN))
        stop = min(max(enough, start + 1), start + _ROWS_WRITTEN, X.n_rows)
        lines = _joined_rows(X, start, stop, " ", with_values=True)
        if labels is not None:
            lines = pc.binary_join_element_wise(_joined_rows(labels, start, stop, ",", with_values=False), lines, " ")
        out.write("\n".join([*lines.to_pylist(), ""]).encode())
        start = stop


def _parse(buffer: bytearray, stop: int, layout: Layout) -> tuple[int, int, SparseRows]:
    """What went wrong, where that was, and the rows of a block up to there."""
    n_lines = buffer.count(NEWLINE, 0, stop) + 1
    n_pairs = buffer.count(b":", 0, stop)
    labels = np.empty(buffer.count(b",", 0, stop) + n_lines if layout.labelled else 0, np.int32)
    label_ends, ends = np.zeros(n_lines, np.int64), np.zeros(n_lines, np.int64)
    columns, values = np.empty(n_pairs, np.int32), np.empty(n_pairs, np.float32)
    code, at, n_rows = kernels.parse_rows(
        np.frombuffer(buffer, np.uint8), stop, layout.labelled, layout.comments, layout.n_labels, layout.n_columns,
        kernels.POWERS_OF_TEN, labels, label_ends, columns, values, ends,
    )  # fmt: skip
    n_labels, n_kept = (int(label_ends[n_rows - 1]), int(ends[n_rows - 1])) if n_rows else (0, 0)
    lengths, label_lengths = np.diff(ends[:n_rows], prepend=0), np.diff(label_ends[:n_rows], prepend=0)
    return code, at, SparseRows(label_lengths, labels[:n_labels].copy(), lengths, columns[:n_kept], values[:n_kept])


def _blocks(stream: io.BufferedReader, file: Path, line: int) -> Iterator[tuple[bytearray, int]]:
    """Whole lines, a few megabytes at a time: a buffer, and how much of it they fill."""
    buffer, filled = bytearray(_BLOCK), 0
    while got := stream.readinto(memoryview(buffer)[filled:]):
        filled += got
        stop = buffer.rfind(NEWLINE, 0, filled) + 1
        if stop:
            yield buffer, stop
            line += buffer.count(NEWLINE, 0, stop)
            # The arrays that the caller made look into the old buffer.
            rest = buffer[stop:filled]
            buffer = bytearray(len(buffer))
            buffer[: len(rest)] = rest
            filled = len(rest)
        if filled == len(buffer):
            if filled >= _LONGEST_LINE:
                raise BadInput(f"{file}, line {line}: the line is longer than {_LONGEST_LINE:,} bytes.")
            buffer = buffer + bytearray(filled)
    if filled:
        yield buffer, filled


def _token(buffer: bytearray, at: int, stop: int) -> str:
    found = _WORD.match(buffer, at, stop)
    return "" if found is None else found.group().decode("utf-8", "replace")


def _refuse(place: str, code: int, token: str, layout: Layout) -> NoReturn:
    shown, column = repr(token if len(token) <= 80 else token[:80] + "…"), layout.column
    expected = f"labels or {column}:value" if layout.labelled else f"{column}:value"
    why = {
        kernels.NEGATIVE_INDEX: f"{shown} has a negative index; {column}s and labels count from 0",
        kernels.COLUMN_TOO_LARGE: f"{shown} is out of range; {column}s go from 0 to {layout.n_columns - 1:,}",
        kernels.LABEL_TOO_LARGE: f"label {token.partition(',')[0]} is out of range; "
        f"labels go from 0 to {layout.n_labels - 1:,}",
        kernels.VALUE_TOO_LARGE: f"{token[:80]} is too large for a 32-bit number",
        kernels.NOT_FINITE: f"{shown} is not a finite number; leave it out or give it a value",
        kernels.NOT_A_NUMBER: f"{shown} cannot be read; {expected} is expected here, with plain numbers",
    }
    raise BadInput(f"{place}: {why[code]}.")


def _joined(pieces: list[NDArray[Any]]) -> NDArray[Any]:
    """One array of all pieces; the pieces are let go."""
    whole = np.concatenate(pieces)
    pieces.clear()
    return whole


def _joined_rows(matrix: CSR, start: int, stop: int, separator: str, *, with_values: bool) -> Any:
    """Rows `start` to `stop` as an Arrow array of strings."""
    import pyarrow as pa
    import pyarrow.compute as pc

    first, last = matrix.indptr[start], matrix.indptr[stop]
    cells = pa.array(matrix.indices[first:last]).cast(pa.string())
    if with_values:
        cells = pc.binary_join_element_wise(cells, pa.array(matrix.data[first:last]).cast(pa.string()), ":")
    offsets = pa.array(matrix.indptr[start : stop + 1] - first, pa.int64())
    return pc.binary_join(pa.LargeListArray.from_arrays(offsets, cells), separator)
