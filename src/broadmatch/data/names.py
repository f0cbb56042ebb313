"""Names of labels, features and points: a sequence of strings in two arrays, so that millions open memory-mapped."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, ClassVar, overload

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.csr import gathered, joined_ptr, offsets
from broadmatch.layout import Axes, Offsets, require

_AT_A_TIME = 1 << 16


class Names(Sequence[str]):
    """An immutable sequence of strings, as UTF-8 bytes and offsets.

    >>> names = Names.of(["cheap pizza", "pizza", "naïve"])
    >>> names[2], names.index("pizza"), "taxi" in names
    ('naïve', 1, False)
    """

    _saved_types: ClassVar = {
        "text": Annotated[NDArray[np.uint8], Axes(".bytes")],
        "offsets": Annotated[NDArray[np.int64], Offsets(".names", ".bytes")],
    }

    def __init__(self, text: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self.text, self.offsets = text, offsets
        self._index: dict[str, int] | None = None

    @classmethod
    def of(cls, names: Iterable[str]) -> "Names":
        """Pack any strings; lone surrogates survive the round trip."""
        if isinstance(names, Names):
            return names
        encoded = [name.encode("utf-8", "surrogatepass") for name in names]
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets([len(e) for e in encoded]))

    @classmethod
    def numbers(cls, n: int) -> "Names":
        """The names "0" to "n-1", for matrices that came without any."""
        # Some at a time: ten million Python strings would be half a gigabyte.
        pieces = ["".join(map(str, range(a, min(a + _AT_A_TIME, n)))) for a in range(0, n, _AT_A_TIME)]
        digits = 1 + np.searchsorted(10 ** np.arange(1, 19), np.arange(n), side="right")
        return cls(np.frombuffer("".join(pieces).encode(), np.uint8), offsets(digits))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> list[str]: ...
    def __getitem__(self, i: int | slice) -> str | list[str]:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        n = len(self.offsets) - 1
        j = i + n if i < 0 else i
        if not 0 <= j < n:
            raise IndexError(f"There are {n} names; {i} is none of them.")
        start, stop = self.offsets[j : j + 2].tolist()
        piece: bytes = self.text[start:stop].tobytes()
        return piece.decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        blob, offsets = self.text.tobytes(), self.offsets.tolist()
        for start, stop in itertools.pairwise(offsets):
            yield blob[start:stop].decode("utf-8", "surrogatepass")

    def __contains__(self, name: object) -> bool:
        return name in self._positions()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Names):
            return np.array_equal(self.offsets, other.offsets) and np.array_equal(self.text, other.text)
        return NotImplemented

    def index(self, name: str, start: int = 0, stop: int | None = None) -> int:
        """Position of `name`; ValueError if it is not there."""
        found = self._positions().get(name)
        if found is None or found < start or (stop is not None and found >= stop):
            raise ValueError(f"{name!r} is not among the {len(self)} names.")
        return found

    def places(self, names: Iterable[str]) -> NDArray[np.int64]:
        """The position of each name, −1 for those that are not there."""
        known = self._positions()
        return np.array([known.get(name, -1) for name in names], np.int64)

    def take(self, positions: NDArray[np.int64]) -> "Names":
        """The names at the given positions, in that order, without making a Python string of each."""
        wanted = np.arange(len(self))[positions]  # as numpy indexes: negative ones count from the end
        starts, where = gathered(self.offsets, wanted)
        return Names(self.text[where], starts)

    @property
    def _saved_shape(self) -> tuple[int]:
        return (len(self),)

    def _check_whole(self) -> None:
        """Refuse what is not text, or is cut within a character."""
        self.text.tobytes().decode("utf-8", "surrogatepass")
        starts = self.offsets[self.offsets < len(self.text)]
        require(not ((self.text[starts] & 0xC0) == 0x80).any(), "a name starts within a character")

    def _positions(self) -> dict[str, int]:
        if self._index is None:
            self._index = {name: i for i, name in reversed(list(enumerate(self)))}
        return self._index

    def __repr__(self) -> str:
        shown = ", ".join(repr(n) for n in self[:3])
        return f"Names({len(self)}: {shown}{', …' if len(self) > 3 else ''})"


def joined_names(parts: Sequence[Names]) -> Names:
    """Names one list behind the other, without making a Python string of each.

    >>> list(joined_names([Names.of(["a", "b"]), Names.of([]), Names.of(["c"])]))
    ['a', 'b', 'c']
    """
    texts = [part.text[part.offsets[0] : part.offsets[-1]] for part in parts]
    return Names(np.concatenate([np.empty(0, np.uint8), *texts]), joined_ptr([part.offsets for part in parts]))
