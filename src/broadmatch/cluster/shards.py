"""Rows of features and labels in shards on disk: each is written once, whole, and checked whenever a node opens it."""

import functools
import os
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np

from broadmatch.data import CSR
from broadmatch.data.csr import offsets
from broadmatch.errors import BadArtifact
from broadmatch.io.artifacts import opening
from broadmatch.io.checkpoints import Checkpoints
from broadmatch.kernels import F32, I32, I64
from broadmatch.labels.mlrf_stages import take_rows
from broadmatch.layout import Axes, Index, Offsets, require
from broadmatch.parallel import blocks


class ShardArrays(NamedTuple):
    """What a shard holds: the number of its first row, and its rows of X and of Y."""

    first: Annotated[I64, Axes(1)]
    x_indptr: Annotated[I64, Offsets("rows", "values")]
    x_indices: Annotated[I32, Axes("values"), Index("features")]
    x_data: Annotated[F32, Axes("values")]
    y_indptr: Annotated[I64, Offsets("rows", "entries")]
    y_indices: Annotated[I32, Axes("entries"), Index("labels")]
    y_data: Annotated[F32, Axes("entries")]

    def _check_whole(self) -> None:
        for matrix in (CSR(*self[1:4], 0), CSR(*self[4:], 0)):
            matrix._check_whole()


class ShardRows(NamedTuple):
    """Some rows: their numbers among all, features and labels."""

    numbers: I64
    X: CSR
    Y: CSR

    def take(self, places: I64) -> "ShardRows":
        """The rows at these places."""
        return ShardRows(self.numbers[places], take_rows(self.X, places), take_rows(self.Y, places))

    def slice(self, start: int, stop: int) -> "ShardRows":
        """The rows from start to stop, as views."""
        return ShardRows(self.numbers[start:stop], self.X.between(start, stop), self.Y.between(start, stop))

    @classmethod
    def joined(cls, pieces: "list[ShardRows]") -> "ShardRows":
        """The rows of all pieces, one piece behind the other: new arrays, which kernels may have."""
        numbers = np.concatenate([piece.numbers for piece in pieces])
        return cls(numbers, stacked([piece.X for piece in pieces]), stacked([piece.Y for piece in pieces]))


class Shards(NamedTuple):
    """Where the shards of a data set are, and its measures."""

    folder: Path
    identity: str
    n_shards: int
    n_rows: int
    n_features: int
    n_labels: int
    n_bytes: int

    @property
    def bytes_per_row(self) -> int:
        """The mean size of a row, of X and Y together."""
        return -(-self.n_bytes // max(1, self.n_rows))

    @property
    def bytes_per_shard(self) -> int:
        """The mean size of a shard."""
        return -(-self.n_bytes // max(1, self.n_shards))

    def read(self, number: int) -> ShardRows:
        """The rows of a shard, memory-mapped; a damaged one is refused with the name of the file that is wrong."""
        return _read(self, number, _changed(self.folder / f"{number:08d}"))


def write_shards(job: str | os.PathLike[str], identity: str, X: CSR, Y: CSR, n_shards: int) -> Shards:
    """Write the rows as `n_shards` shards of about as many rows each into the job's folder; what is there stays.

    `identity` names the data, so that shards of other data are not taken for these. Another number of shards stands in
    another folder: a job may go on with more nodes, or fewer.

    >>> X, Y = CSR.from_rows([[0], [1], [2]], 3), CSR.from_rows([[0], [], [1]], 2)
    >>> shards = write_shards("job", "of this example", X, Y, 2)
    >>> [shards.read(number).numbers.tolist() for number in range(2)]
    [[0, 1], [2]]
    """
    n_bytes = sum(array.nbytes for array in (*X[:3], *Y[:3]))
    size = max(1, -(-X.n_rows // n_shards))
    cuts = list(blocks(X.n_rows, size))
    folder = Path(job).resolve() / f".shards-{n_shards}"
    kept = Checkpoints(folder, identity)
    for number, (start, stop) in enumerate(cuts):
        if not kept.has(number):
            x, y = X.between(start, stop), Y.between(start, stop)
            kept.keep(number, ShardArrays(np.array([start], np.int64), *x[:3], *y[:3]))
    return Shards(folder, identity, len(cuts), X.n_rows, X.n_cols, Y.n_cols, n_bytes)


def stacked(matrices: list[CSR]) -> CSR:
    """The rows of several matrices, one matrix behind the other."""
    lengths = np.concatenate([np.diff(one.indptr) for one in matrices])
    indices, data = (np.concatenate([one[i] for one in matrices]) for i in (1, 2))
    return CSR(offsets(lengths), indices, data, matrices[0].n_cols)


@functools.lru_cache(maxsize=16)  # of files that are mapped: a node may be given any shard of each tree
def _read(shards: Shards, number: int, changed: int) -> ShardRows:
    """A shard is checked when a process opens it first, and again if its folder changed."""
    kept = Checkpoints(shards.folder, shards.identity)
    found = kept.take(number, ShardArrays, features=shards.n_features, labels=shards.n_labels)
    if found is None:
        raise BadArtifact(
            f"{shards.folder / f'{number:08d}'} is missing; remove the folder above it, and start the job again."
        )
    X = CSR(found.x_indptr, found.x_indices, found.x_data, shards.n_features)
    Y = CSR(found.y_indptr, found.y_indices, found.y_data, shards.n_labels)
    first = int(found.first[0])
    with opening(shards.folder):
        require(0 <= first <= shards.n_rows - X.n_rows, f"shard {number} has rows beyond the last")
    return ShardRows(np.arange(first, first + X.n_rows), X, Y)


def _changed(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0
