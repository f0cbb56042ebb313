"""The trees of a multi-label random forest as arrays, in memory or on disk."""

import contextlib
import math
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput, CannotWrite
from broadmatch.kernels import F32, I32, I64, Bytes
from broadmatch.layout import POSITIVE, Axes, Index, PackedIndex, Within, check_trees, require, unpacked

_MOST = 2**31 - 1  # of anything in one tree


class ThresholdForest(NamedTuple):
    """Trees that test one feature a node, behind each other; each tree numbers what it has from 0 on.

    The nodes, leaves, votes and members of tree t start at starts[t]. A node with feature −1 is a leaf and `child` its
    number; otherwise `child` is the left child and the right one follows it. The votes of a leaf end at vote_end and
    start where those of the leaf before end: vote_count / leaf_weight is the mean vote of its points for a label. Its
    members, the training points in it, end at point_end. A vote's label is a row of as few bytes as labels need.
    """

    starts: Annotated[I64, Axes("trees+1", 4)]
    feature: Annotated[I32, Axes("nodes"), Index("features", -1)]
    threshold: Annotated[F32, Axes("nodes")]
    child: Annotated[I32, Axes("nodes")]
    vote_end: Annotated[I32, Axes("leaves")]
    leaf_weight: Annotated[F32, Axes("leaves"), Within(POSITIVE)]
    vote_label: Annotated[Bytes, Axes("votes", "label_bytes"), PackedIndex("labels")]
    vote_count: Annotated[Bytes, Axes("votes")]
    point_end: Annotated[I32, Axes("leaves")]
    point: Annotated[I32, Axes("members"), Index("points")]

    @property
    def n_trees(self) -> int:
        return len(self.starts) - 1

    def tree(self, number: int) -> "ThresholdForest":
        """One of the trees, as views."""
        (nodes, leaves, votes, members), ends = self.starts[number], self.starts[number + 1]
        n, m, v, p = (slice(*both) for both in zip((nodes, leaves, votes, members), ends, strict=True))
        starts = np.array([np.zeros_like(ends), ends - self.starts[number]])
        return ThresholdForest(starts, self.feature[n], self.threshold[n], self.child[n], self.vote_end[m],
                               self.leaf_weight[m], self.vote_label[v], self.vote_count[v], self.point_end[m],
                               self.point[p])  # fmt: skip

    def leaf(self, number: int) -> "tuple[I64, F32, I32]":
        """The labels, shares and points of a leaf of the first tree."""
        votes, members = (
            slice(0 if number == 0 else ends[number - 1], ends[number]) for ends in (self.vote_end, self.point_end)
        )
        shares = self.vote_count[votes] / self.leaf_weight[number]
        return unpacked(self.vote_label[votes]), shares, self.point[members]

    def _check_whole(self) -> None:
        ends = [len(self.feature), len(self.vote_end), len(self.vote_label), len(self.point)]
        holds = len(self.starts) > 1 and not self.starts[0].any() and self.starts[-1].tolist() == ends
        require(holds and bool((self.starts[1:] >= self.starts[:-1]).all()), "the trees do not stand behind each other")
        for number in range(self.n_trees):
            one = self.tree(number)
            n_leaves, n_votes, n_members = one.starts[-1, 1:].tolist()
            check_trees(np.zeros(1, np.int64), one.feature >= 0, one.child, one.child, n_leaves)
            for name, end, total in (("votes", one.vote_end, n_votes), ("points", one.point_end, n_members)):
                rises = bool(end[0] >= 0 and end[-1] == total and (end[1:] >= end[:-1]).all())
                require(rises, f"the {name} of a tree's leaves do not stand behind each other")

    @classmethod
    def joined(
        cls, trees: "Iterable[ThresholdForest]", folder: str | os.PathLike[str] | None = None
    ) -> "ThresholdForest":
        """The trees of several forests as one; with a `folder`, in files there that go with the arrays."""
        starts = [np.zeros((1, 4), np.int64)]
        with ArrayStack(folder) as stack:
            for one in trees:
                starts.append(one.starts[1:] + starts[-1][-1])
                stack.add(one[1:])
            return cls(np.concatenate(starts), *stack.arrays())


def stitched(
    feature: I32,
    threshold: F32,
    child: I32,
    subtrees: Iterable[ThresholdForest],
    folder: str | os.PathLike[str] | None = None,
) -> ThresholdForest:
    """One tree of a top and of the trees that go on where its leaves are, in the order of these.

    A subtree's root takes the place of the top's leaf; its other nodes stand behind those of the subtrees before.
    """
    place = np.empty(len(feature), np.int64)
    place[child[feature < 0]] = np.flatnonzero(feature < 0)
    top: tuple[Any, ...] = (feature.copy(), threshold.copy(), child.copy())
    ends = np.array([len(feature), 0, 0, 0])
    with ArrayStack(folder) as stack:
        for number, one in enumerate(subtrees):
            if number == 0:
                stack.add((*top, *(array[:0] for array in one[4:])))
            below = np.where(one.feature >= 0, one.child + (ends[0] - 1), one.child + ends[1])
            for array, own in zip(top, (one.feature, one.threshold, below), strict=True):
                array[place[number]] = own[0]
            vote_end, point_end = one.vote_end + ends[2], one.point_end + ends[3]
            ends += one.starts[-1] - (1, 0, 0, 0)
            if ends.max() > _MOST:
                raise BadInput(f"A tree has over {_MOST:,} nodes or votes: set max_leaf higher, or leaf_labels lower.")
            stack.add((one.feature[1:], one.threshold[1:], below[1:].astype(np.int32), vote_end.astype(np.int32),
                       one.leaf_weight, one.vote_label, one.vote_count, point_end.astype(np.int32),
                       one.point))  # fmt: skip
        arrays = stack.arrays()
    for array, whole in zip(top, arrays[:3], strict=True):
        whole[: len(array)] = array
    return ThresholdForest(np.array([np.zeros(4, np.int64), ends]), *arrays)


class ArrayStack:
    """Arrays of several kinds, more and more of each: in memory, or in files without a name in a folder.

    >>> with ArrayStack() as stack:
    ...     stack.add([np.array([1, 2]), np.array([0.5])])
    ...     stack.add([np.array([3]), np.array([1.5])])
    ...     stack.arrays()
    [array([1, 2, 3]), array([0.5, 1.5])]
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._folder = folder
        self._pieces: list[list[NDArray[Any]]] = []
        self._files: list[tuple[IO[bytes], NDArray[Any]]] = []  # with an empty array of the kind
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *how: object) -> None:
        self._open.close()

    def add(self, arrays: Iterable[NDArray[Any]]) -> None:
        """Put an array behind those of each kind."""
        given = list(arrays)
        if self._folder is None:
            self._pieces = self._pieces or [[] for _ in given]
            for pieces, array in zip(self._pieces, given, strict=True):
                pieces.append(array)
            return
        try:
            self._files = self._files or [(self._file(), array[:0].copy()) for array in given]
            for (file, _), array in zip(self._files, given, strict=True):
                file.write(np.ascontiguousarray(array).view(np.uint8).data)
        except OSError as error:
            reason = f"{error.strerror}; make room there, or choose another folder"
            raise CannotWrite(f"Cannot write trees to {self._folder}: {reason}.") from error

    def arrays(self) -> list[NDArray[Any]]:
        """All of each kind in one array; from files, memory-mapped."""
        whole = []
        for pieces in self._pieces:
            whole.append(np.concatenate(pieces))
            pieces.clear()  # one kind after the other, so that there is never a second copy of all
        for file, none in self._files:
            file.flush()
            row = none.dtype.itemsize * math.prod(none.shape[1:])
            shape = (file.tell() // row, *none.shape[1:])
            # To write, as arrays in memory: kernels are compiled for these.
            whole.append(np.asarray(np.memmap(file, none.dtype, "r+", 0, shape)) if shape[0] else none)
        return whole

    def _file(self) -> IO[bytes]:
        Path(self._folder or "").mkdir(parents=True, exist_ok=True)
        return self._open.enter_context(tempfile.TemporaryFile(dir=self._folder))
