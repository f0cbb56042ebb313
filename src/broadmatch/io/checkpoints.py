"""Where long work stands, on disk: numbered artifacts in a folder, each written whole or not at all.

Work in parts (the trees of a forest) keeps each part by its number, and the same work takes it up again. Work in one
stream (a training run) keeps where it stands, and only the last counts.
"""

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadArtifact, CannotWrite
from broadmatch.io import buckets
from broadmatch.io.artifacts import load_state, opening, save
from broadmatch.state import State, unpack_value

KIND = "checkpoint"
_NUMBER = re.compile(r"\d{8}")
Part = TypeVar("Part", bound=tuple[Any, ...])


class Portion(os.PathLike[str]):
    """A folder of checkpoints for a fit that makes only the parts with these numbers; then it raises `PortionDone`.

    Several machines make a part of the work each, into one folder, and a fit with that folder takes up all of it.
    """

    def __init__(self, folder: str | os.PathLike[str], numbers: Sequence[int]) -> None:
        self.folder, self.numbers = os.fspath(folder), numbers

    def __fspath__(self) -> str:
        return self.folder


class PortionDone(BaseException):
    """The parts of a `Portion` are made and kept; there is no model yet."""


class Checkpoints:
    """The checkpoints in a folder; without one nothing is kept. `identity` names the data and parameters of parts.

    >>> kept = Checkpoints("run.checkpoints")
    >>> kept.write(State("checkpoint", {}, {"state": np.zeros(2)}))
    >>> list(Checkpoints("run.checkpoints").last().arrays)
    ['state']
    """

    def __init__(self, folder: str | os.PathLike[str] | None, identity: str = "") -> None:
        self.folder = Path("" if folder is None else folder)
        self._used = folder is not None
        self._only = folder.numbers if isinstance(folder, Portion) else None
        self.identity = identity

    @classmethod
    def of_parts(
        cls, folder: str | os.PathLike[str] | None, shaping: Mapping[str, Any], arrays: Iterable[NDArray[Any]]
    ) -> "Checkpoints":
        """Checkpoints of work in parts; `shaping` and `arrays` are what a part depends on: parameters and data."""
        return cls(folder, "" if folder is None else _fingerprint(shaping, arrays))

    def wanted(self, n_parts: int) -> Sequence[int]:
        """Which of the parts are to be made here: all, unless the folder is a `Portion`."""
        return range(n_parts) if self._only is None else [n for n in self._only if n < n_parts]

    def check_whole(self) -> None:
        """Raise `PortionDone` if only a portion of the parts was made."""
        if self._only is not None:
            raise PortionDone

    def has(self, number: int) -> bool:
        """Whether the part of that number was finished before."""
        return self._used and buckets.fetch(self._place(number), again=True).exists()

    def take(self, number: int, kind: type[Part], **lengths: int) -> Part | None:
        """The part of that number, a named tuple of arrays, if it was finished before; `lengths` are those of axes."""
        if not self.has(number):
            return None
        state = load_state(self._place(number))
        if state.facts.get("part") != kind.__name__ or state.facts.get("identity") != self.identity:
            raise BadArtifact(
                f"{self._place(number)} was made from other data or with other parameters: "
                f"remove {self.folder}, or go on with those."
            )
        with opening(self._place(number)):
            return unpack_value(kind, state, lengths)

    def keep(self, number: int, part: Any) -> None:
        """File a finished part."""
        if self._used:
            facts = {"part": type(part).__name__, "identity": self.identity}
            save(State(KIND, {}, part._asdict(), facts), self._place(number))
            buckets.send(self._place(number))

    def drop(self, numbers: Iterable[int]) -> None:
        """Remove parts that a later one has taken the place of."""
        for number in numbers if self._used else ():
            buckets.remove(self._place(number))

    def last(self) -> State | None:
        """The newest checkpoint, checked and in memory; None if there is none. Remains of an interrupted one go."""
        numbers = self._numbers()
        for entry in self.folder.iterdir() if self.folder.is_dir() else ():
            if entry.name.startswith(".") and entry.name.endswith((".tmp", ".old")):
                shutil.rmtree(entry, ignore_errors=True)
        return _in_memory(load_state(self._place(numbers[-1]))) if numbers else None

    def write(self, state: State) -> None:
        """Keep `state` as the newest checkpoint; the older ones go only when it is whole."""
        if self.folder.exists() and not self.folder.is_dir():
            raise CannotWrite(f"{self.folder} is a file; checkpoints need a folder, so choose another name.")
        numbers = self._numbers()
        save(state, self._place((numbers[-1] if numbers else 0) + 1))
        self.drop(numbers)

    def clear(self) -> None:
        """Remove all checkpoints, and the folder if nothing else is in it."""
        self.drop(self._numbers())
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    @classmethod
    def from_state(cls, state: State) -> NoReturn:
        """Refuse: a checkpoint says where work stood, not what its data and settings are."""
        raise BadArtifact("This is a checkpoint of work that was not finished, not a model: go on with that work.")

    def _place(self, number: int) -> Path:
        return self.folder / f"{number:08d}"

    def _numbers(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        names = [entry.name for entry in self.folder.iterdir()]
        if strange := [name for name in names if not _NUMBER.fullmatch(name) and not name.startswith(".")]:
            raise BadArtifact(
                f"{self.folder} is not a folder of checkpoints: it holds {strange[0]}; choose another name."
            )
        return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


def _fingerprint(shaping: Mapping[str, Any], arrays: Iterable[NDArray[Any]]) -> str:
    digest = hashlib.sha256(repr(sorted(shaping.items())).encode())
    for array in arrays:
        digest.update(repr(array.shape).encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def _in_memory(state: State) -> State:
    """The same without the files, which go when the next checkpoint is written."""
    arrays = {name: np.array(array) for name, array in state.arrays.items()}
    return replace(state, arrays=arrays, parts={name: _in_memory(part) for name, part in state.parts.items()})
