"""svmlight text (also libsvm's): `l,l,… f:v f:v … # comment` a point, no header.

Whether features count from 0 or from 1 is taken from a comment at the top (`zero-based` or `one-based`, as
scikit-learn and broadmatch write it); without one, from 0 if a feature 0 occurs and from 1 otherwise. Labels are ids
and are taken as they stand. Empty lines, comments and `qid:` are passed over; a line of one space is a point with
neither labels nor features.
"""

import io
import logging
import re
from pathlib import Path

from broadmatch.data.csr import CSR
from broadmatch.errors import BadInput
from broadmatch.io.files import open_whole, replacing_file
from broadmatch.io.matrices.sidecar_names import read_names
from broadmatch.io.matrices.text_rows import Layout, SparseRows, read_rows, write_rows
from broadmatch.io.matrices.xmc import refuse_weights

log = logging.getLogger("broadmatch")
_LONGEST_HEAD = 1 << 16
_SIZES = re.compile(rb"# (\d+) points, (\d+) features, (\d+) labels")


def read(path: Path) -> tuple[CSR, CSR]:
    """Read X and Y; they are as wide as the comment of sizes or the names beside say, or else as the largest index."""
    with open_whole(path) as stream:
        head = _comments(stream)
        rows = read_rows(stream, path, 1 + head.count(b"\n"), Layout(True, comments=True))
    if not rows.n_rows and not head:
        raise BadInput(f"{path} is empty; svmlight has a line a point, such as '1,3 5:0.2'.")
    first = _first_feature(head, rows, path)
    n_features, n_labels = (int(found.max(initial=-1)) + 1 for found in (rows.columns, rows.labels))
    n_features -= first
    if sizes := _SIZES.search(head):
        n_features, n_labels = _checked_sizes(sizes, rows.n_rows, n_features, n_labels, path)
    else:
        n_features = max(n_features, len(read_names(path, "features") or ()), 0)
        n_labels = max(n_labels, len(read_names(path, "labels") or ()))
    return rows.matrix(n_features, first), rows.label_matrix(n_labels)


def says_width(path: Path) -> bool:
    """Whether the comment of sizes or names beside say how many features there are; if not, it is the largest index."""
    with open_whole(path) as stream:
        head = _comments(stream)
    return _SIZES.search(head) is not None or read_names(path, "features") is not None


def write(X: CSR, Y: CSR, path: Path) -> None:
    """Write X and Y, zero-based, with a comment of sizes at the top; Y has to be plain labels."""
    refuse_weights(Y, path)
    with replacing_file(path) as out:
        out.write(f"# {X.n_rows} points, {X.n_cols} features, {Y.n_cols} labels; zero-based\n".encode())
        write_rows(out, X, Y)


def _comments(stream: io.BufferedReader) -> bytes:
    """The comments that open the stream, which then stands at the first other line; of very many only some."""
    head = b""
    while stream.peek(1)[:1] == b"#" and len(head) < _LONGEST_HEAD:
        head += stream.readline(_LONGEST_HEAD)
    return head


def _first_feature(head: bytes, rows: SparseRows, path: Path) -> int:
    zero = bool((rows.columns == 0).any())
    if b"zero-based" in head or (zero and b"one-based" not in head):
        return 0
    if zero:
        raise BadInput(f"{path} says that features count from 1, but it has a feature 0; correct the comment.")
    if b"one-based" not in head and len(rows.columns):
        log.info("%s: features are counted from 1, as none is 0; a line '# zero-based' on top says otherwise.", path)
    return 1


def _checked_sizes(sizes: re.Match[bytes], points: int, features: int, labels: int, path: Path) -> tuple[int, int]:
    n_points, n_features, n_labels = (int(size) for size in sizes.groups())
    if points != n_points or features > n_features or labels > n_labels:
        raise BadInput(
            f"{path} says it has {n_points:,} points, {n_features:,} features and {n_labels:,} labels, but it has "
            f"{points:,}, {features:,} and {labels:,}; the file is cut off, or its first line is wrong."
        )
    return n_features, n_labels
