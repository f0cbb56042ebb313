"""Trees that are finished while a forest is still growing: kept in a folder, taken up by the same fit."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadArtifact
from broadmatch.io import artifacts
from broadmatch.state import State


class Among(os.PathLike[str]):
    """A checkpoint folder that several forests share: the trees of each bear its `name`."""

    def __init__(self, folder: str | os.PathLike[str], name: str) -> None:
        self.folder = folder
        self.name = name

    def __fspath__(self) -> str:
        return os.fspath(self.folder)


class Checkpoint:
    """A folder with one artifact a tree. `shaping` and `arrays` name what a tree depends on: parameters and data."""

    def __init__(
        self,
        folder: str | os.PathLike[str] | None,
        kind: str,
        shaping: Mapping[str, Any],
        arrays: Iterable[NDArray[Any]],
    ) -> None:
        self.folder = None if folder is None else Path(folder)
        self.name = f"{folder.name}_tree" if isinstance(folder, Among) else "tree"
        self.kind = kind
        self.identity = "" if self.folder is None else _fingerprint(shaping, arrays)

    def take(self, number: int) -> State | None:
        """The tree of that number, if it was finished before."""
        if self.folder is None or not self._place(number).exists():
            return None
        state = artifacts.load_state(self._place(number))
        if state.kind != self.kind or state.facts.get("identity") != self.identity:
            raise BadArtifact(
                f"{self._place(number)} was grown from other data or with other parameters: "
                f"remove {self.folder}, or go on with those."
            )
        return state

    def keep(self, number: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        """File a finished tree."""
        if self.folder is not None:
            artifacts.save(State(self.kind, {}, arrays, {"identity": self.identity}), self._place(number))

    def _place(self, number: int) -> Path:
        return Path(self.folder or "") / f"{self.name}_{number:05d}"


def _fingerprint(shaping: Mapping[str, Any], arrays: Iterable[NDArray[Any]]) -> str:
    digest = hashlib.sha256(repr(sorted(shaping.items())).encode())
    for array in arrays:
        digest.update(repr(array.shape).encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def offsets(lengths: list[int]) -> NDArray[np.int64]:
    """Where each of several pieces starts when they stand behind each other, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def joined_ptr(pointers: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The row pointers of several matrices as those of all their rows behind each other."""
    starts = offsets([int(p[-1]) for p in pointers])
    return np.concatenate([np.zeros(1, np.int64), *(p[1:] + starts[i] for i, p in enumerate(pointers))])
