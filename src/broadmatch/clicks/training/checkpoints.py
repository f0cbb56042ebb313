"""Where a long run stands, on disk: numbered artifacts in a folder, of which the last whole one counts."""

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np

from broadmatch.errors import BadArtifact, CannotWrite
from broadmatch.io.artifacts import load_state, save
from broadmatch.state import State

_NUMBER = re.compile(r"\d{8}")


class Checkpoints:
    """Checkpoints of one run. A new one is written beside the last, which goes only when the new one is whole.

    >>> import numpy as np
    >>> kept = Checkpoints("run.checkpoints")
    >>> kept.write(State("ftrl", {}, {"state": np.zeros(2)}))
    >>> Checkpoints("run.checkpoints").last().kind
    'ftrl'
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def last(self) -> State | None:
        """The newest checkpoint, checked and in memory; None if there is none. Remains of an interrupted one go."""
        numbers = self._numbers()
        for entry in self.folder.iterdir() if self.folder.is_dir() else ():
            if entry.name.startswith(".") and entry.name.endswith((".tmp", ".old")):
                shutil.rmtree(entry, ignore_errors=True)
        return _in_memory(load_state(self.folder / f"{numbers[-1]:08d}")) if numbers else None

    def write(self, state: State) -> None:
        """Keep `state` as the newest checkpoint, and drop the older ones."""
        if self.folder.exists() and not self.folder.is_dir():
            raise CannotWrite(f"{self.folder} is a file; checkpoints need a folder, so choose another name.")
        numbers = self._numbers()
        save(state, self.folder / f"{(numbers[-1] if numbers else 0) + 1:08d}")
        for number in numbers:
            shutil.rmtree(self.folder / f"{number:08d}", ignore_errors=True)

    def _numbers(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        names = [entry.name for entry in self.folder.iterdir()]
        if strange := [name for name in names if not _NUMBER.fullmatch(name) and not name.startswith(".")]:
            raise BadArtifact(f"{self.folder} is no folder of checkpoints: it holds {strange[0]}; choose another name.")
        return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


def _in_memory(state: State) -> State:
    """The same without the files, which go when the next checkpoint is written."""
    arrays = {name: np.array(array) for name, array in state.arrays.items()}
    return replace(state, arrays=arrays, parts={name: _in_memory(part) for name, part in state.parts.items()})
