"""What saved values must look like: declared beside their types, and checked when a folder is opened.

Kernels trust the arrays that they are given, and a folder may come from anybody. So an array says in its type how long
it is and what its numbers stand for:

    class Forest(NamedTuple):
        roots: Annotated[I64, Axes("trees"), Index("nodes")]
        leaf_ptr: Annotated[I64, Offsets("leaves", "votes")]
        leaf_label: Annotated[I32, Axes("votes"), Index("labels")]

An axis has one length in all that an estimator holds; one whose name starts with a dot, in the one value that it is
declared in.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadArtifact

_MOST = 2**31 - 1  # of anything that is numbered: numbers are int32
POSITIVE = 5e-324
"""The smallest number above 0."""


class Axes:
    """The lengths of an array, by name ("rows+1": one more) or as numbers; of a whole number, that it is a length.

    What else has a length has a `_saved_shape`. What is more than its arrays has `_check_whole`, called last.
    """

    def __init__(self, *names: str | int) -> None:
        self.names = names


class Offsets(NamedTuple):
    """Where each of several lists starts, and where the last ends: from 0 to the length of `into`, never falling."""

    lists: str
    into: str


class Index(NamedTuple):
    """Numbers along an axis, from 0, or from `low`, to its last."""

    of: str
    low: int = 0


class PackedIndex(NamedTuple):
    """Numbers along an axis from 0 on, packed: see `packed`."""

    of: str


class Within(NamedTuple):
    """Numbers from `low` to `high`; without these, any that are finite."""

    low: float = -sys.float_info.max
    high: float = sys.float_info.max


Mark = Axes | Offsets | Index | PackedIndex | Within


class SavedLayout:
    """The values of an estimator with what was declared of them; `lengths` are those of axes that are known."""

    def __init__(self, lengths: Mapping[str, int] | None = None) -> None:
        self._lengths = {axis: (length, axis) for axis, length in (lengths or {}).items()}
        self._declared: list[tuple[str, str, Any, Mark]] = []
        self._whole: list[Any] = []

    def add(self, key: str, scope: str, value: Any, marks: Sequence[object]) -> None:
        """Take a value, called `key` and held by the one called `scope`."""
        self._declared += [(key, scope, value, mark) for mark in marks if isinstance(mark, Mark)]
        if hasattr(value, "_check_whole"):
            self._whole.append(value)

    def check(self) -> None:
        """Refuse values that are not as they were declared."""
        for key, scope, value, mark in self._declared:  # first all lengths, which the others need
            if isinstance(mark, Axes):
                self._fit(key, scope, value, mark)
            elif isinstance(mark, Offsets):
                require(value.ndim == 1 and len(value) > 0 and value[0] == 0, f"{key} does not start at 0")
                require(bool((value[1:] >= value[:-1]).all()), f"{key} falls somewhere")
                self._bind(_named(mark.lists, scope), len(value) - 1, key)
                self._bind(_named(mark.into, scope), int(value[-1]), key)
        for key, scope, value, mark in self._declared:
            if isinstance(mark, Index):
                length, _ = self._lengths[_named(mark.of, scope)]
                require(_between(value, mark.low, length - 1), f"{key} points at {mark.of} that are not there")
            elif isinstance(mark, PackedIndex):
                length, _ = self._lengths[_named(mark.of, scope)]
                require(_packed_below(value, length), f"{key} points at {mark.of} that are not there")
            elif isinstance(mark, Within):
                require(_between(value, mark.low, mark.high), f"{key} holds a number that it cannot hold")
        for value in self._whole:
            value._check_whole()

    def _fit(self, key: str, scope: str, value: Any, axes: Axes) -> None:
        if isinstance(value, int):
            require(0 <= value <= _MOST, f"{key} is {value}, which is no number of {axes.names[0]}")
            shape: tuple[int, ...] = (value,)
        else:
            shape = value.shape if hasattr(value, "shape") else value._saved_shape
        require(len(shape) == len(axes.names), f"{key} has {len(shape)} dimensions instead of {len(axes.names)}")
        for name, length in zip(axes.names, shape, strict=True):
            if isinstance(name, int):
                require(length == name, f"{key} is {length:,} wide instead of {name}")
            else:
                more = name.endswith("+1")
                require(length >= more, f"{key} is too short")
                self._bind(_named(name.removesuffix("+1"), scope), length - more, key)

    def _bind(self, axis: str, length: int, key: str) -> None:
        known, first = self._lengths.setdefault(axis, (length, key))
        require(known == length, f"{key} has {length:,} {axis.rpartition('.')[2]}, but {first} has {known:,}")


class Damage(BadArtifact):
    """What is wrong with a saved value; whoever knows its folder says that too."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The saved artifact is damaged: {reason}; copy or train it again.")
        self.reason = reason


def require(holds: bool, otherwise: str) -> None:
    """Refuse an artifact for the reason given, unless `holds`."""
    if not holds:
        raise Damage(otherwise)


def check_trees(
    roots: NDArray[np.int64], inner: NDArray[np.bool_], child: NDArray[np.int32], leaf: NDArray[np.int32], n_leaves: int
) -> None:
    """Refuse a forest that is not one: nodes of a tree behind each other, children behind their parents, two by two.

    child[node] is the left child of an inner node, leaf[node] the number of any other node as a leaf; the leaves of a
    tree are numbered behind those of the tree before.
    """
    ends = np.append(roots[1:], len(child))
    require(len(roots) > 0 and roots[0] == 0 and bool((roots < ends).all()), "the trees do not start one by one")
    first, step = 0, max(1, (len(roots) << 20) // len(child))  # trees at a time, about a million nodes
    for a in range(0, len(roots), step):
        starts, stops = roots[a : a + step], ends[a : a + step]
        here, sizes = slice(starts[0], stops[-1]), stops - starts
        below, goes_on = child[here], inner[here]
        within = (below > np.arange(here.start, here.stop)) & (below < np.repeat(stops - 1, sizes))
        require(bool((within | ~goes_on).all()), "a node has children outside its tree")
        n_own = np.add.reduceat(~goes_on, starts - starts[0])
        number = leaf[here] - np.repeat(first + np.cumsum(n_own) - n_own, sizes)
        own = (number >= 0) & (number < np.repeat(n_own, sizes))
        require(bool((own | goes_on).all()), "a node is a leaf of another tree")
        first += int(n_own.sum())
    require(first == n_leaves, f"the trees have {first:,} leaves, but there are {n_leaves:,}")


def packed(numbers: NDArray[Any], n: int) -> NDArray[np.uint8]:
    """Numbers below `n`, each as a row of the few bytes that n takes, lowest first: three for millions of labels.

    >>> packed(np.array([1, 258]), 70_000)
    array([[1, 0, 0],
           [2, 1, 0]], dtype=uint8)
    """
    rows = np.empty((len(numbers), max(1, ((n - 1).bit_length() + 7) // 8)), np.uint8)
    for i in range(rows.shape[1]):
        rows[:, i] = numbers >> (8 * i) & 255
    return rows


def unpacked(rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    """What was `packed`.

    >>> unpacked(packed(np.array([1, 258]), 70_000))
    array([  1, 258])
    """
    numbers = np.zeros(len(rows), np.int64)
    for i in range(rows.shape[1]):
        numbers |= rows[:, i].astype(np.int64) << (8 * i)
    return numbers


def _packed_below(rows: NDArray[np.uint8], n: int) -> bool:
    """Whether all packed numbers are below `n`; a million at a time, for there may be billions."""
    if rows.shape[1] not in (1, 2, 3, 4):
        return False
    return all(bool((unpacked(rows[a : a + (1 << 20)]) < n).all()) for a in range(0, len(rows), 1 << 20))


def _named(axis: str, scope: str) -> str:
    return f"{scope}{axis}" if axis.startswith(".") else axis


def _between(value: Any, low: float, high: float) -> bool:
    """Whether all numbers are in a range; NaN is in none."""
    if isinstance(value, int | float):
        return low <= value <= high
    return not value.size or bool(low <= value.min().item() and value.max().item() <= high)
