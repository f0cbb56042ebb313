"""The Extreme Classification Repository's text: one file, or a pair of files for features and labels.

One file opens with `points features labels`, then a line a point: `l,l,… f:v f:v …`, with a space first where there
are no labels. Of a pair, the features open with `points features` and have lines of `f:v`, the labels open with
`points labels` and have lines of `l:v`. All indices count from 0.
"""

import io
from pathlib import Path

import numpy as np

from broadmatch.data.csr import CSR
from broadmatch.errors import BadInput
from broadmatch.io.files import open_whole, replacing_file
from broadmatch.io.matrices.text_rows import MOST_COLUMNS, MOST_LABELS, Layout, SparseRows, read_rows, write_rows


def read(path: Path, labels_path: Path | None) -> tuple[CSR, CSR]:
    """Read X and Y from one file, or from a file of features and one of labels."""
    if labels_path is not None:
        X, Y = _read_matrix(path, "feature"), _read_matrix(labels_path, "label")
        if X.n_rows != Y.n_rows:
            raise BadInput(
                f"{path} has {X.n_rows:,} points and {labels_path} has {Y.n_rows:,}; they must be of the same points."
            )
        return X, Y
    with open_whole(path) as stream:
        n_points, n_features, n_labels = _header(stream, path, ("points", "features", "labels"))
        rows = read_rows(stream, path, 2, Layout(True, n_labels=n_labels, n_columns=n_features))
    rows = _checked(rows, n_points, path)
    return rows.matrix(n_features), rows.label_matrix(n_labels)


def write(X: CSR, Y: CSR, path: Path, labels_path: Path | None) -> None:
    """Write X and Y as one file, if Y has plain labels, or as a file of features and one of labels with weights."""
    if labels_path is None:
        refuse_weights(Y, path)
        with replacing_file(path) as out:
            out.write(f"{X.n_rows} {X.n_cols} {Y.n_cols}\n".encode())
            write_rows(out, X, Y)
        return
    for matrix, file in ((X, path), (Y, labels_path)):
        with replacing_file(file) as out:
            out.write(f"{matrix.n_rows} {matrix.n_cols}\n".encode())
            write_rows(out, matrix)


def refuse_weights(Y: CSR, path: Path) -> None:
    """Raise `BadInput` if Y has beliefs: lists of labels have no place for them."""
    weighted = Y.data != np.float32(1)
    if weighted.any():
        row = int(np.searchsorted(Y.indptr, int(np.argmax(weighted)), side="right")) - 1
        raise BadInput(
            f"{path} cannot hold the weights of labels (row {row} has one of {Y.data[np.argmax(weighted)]}); write a "
            "folder (format='folder') or X….npz, or give a labels_path for the repository's pair of files."
        )


def _read_matrix(path: Path, column: str) -> CSR:
    with open_whole(path) as stream:
        n_points, n_columns = _header(stream, path, ("points", f"{column}s"))
        rows = read_rows(stream, path, 2, Layout(False, n_columns=n_columns, column=column))
    matrix = _checked(rows, n_points, path).matrix(n_columns)
    if column == "label" and (matrix.data < 0).any():
        at = int(np.argmax(matrix.data < 0))
        row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1
        raise BadInput(
            f"{path}, line {row + 2}: label {matrix.indices[at]} has the negative weight {matrix.data[at]}; "
            "a weight is 1 or a belief of at least 0."
        )
    return matrix


def _header(stream: io.BufferedReader, path: Path, names: tuple[str, ...]) -> list[int]:
    line = stream.readline(1000)
    if not line.strip():
        raise BadInput(f"{path} is empty; its first line must be the numbers of {_listed(names)}.")
    words = line.split()
    if len(words) != len(names) or not all(word.isdigit() for word in words):
        raise BadInput(
            f"{path}, line 1: {line.decode('utf-8', 'replace').strip()[:80]!r} is not a header; "
            f"the first line must be the numbers of {_listed(names)}."
        )
    counts = [int(word) for word in words]
    for count, name in zip(counts, names, strict=True):
        most = MOST_LABELS if name == "labels" else MOST_COLUMNS
        if count > most:
            raise BadInput(f"{path}, line 1: {count:,} {name} are more than the {most:,} that are possible.")
    return counts


def _checked(rows: SparseRows, n_points: int, path: Path) -> SparseRows:
    """As many rows as the header says."""
    rows = rows.without_empty_end(n_points)
    if rows.n_rows != n_points:
        raise BadInput(
            f"{path}: its header says {n_points:,} points, but {rows.n_rows:,} lines follow; "
            "the file is cut off, or the header is wrong."
        )
    return rows


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
