"""Where a long run stands, on disk: numbered artifacts in a folder, of which the last whole one counts."""

import os
import re
import shutil
from pathlib import Path

from broadmatch.artifacts import State, load_state, save
from broadmatch.errors import BadArtifact, CannotWrite

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
        """The newest checkpoint, checked; None if there is none. Remains of an interrupted one are cleared away."""
        numbers = self._numbers()
        for entry in self.folder.iterdir() if self.folder.is_dir() else ():
            if entry.name.startswith(".") and entry.name.endswith((".tmp", ".old")):
                shutil.rmtree(entry, ignore_errors=True)
        return load_state(self.folder / f"{numbers[-1]:08d}") if numbers else None

    def write(self, state: State) -> None:
        """Keep `state` as the newest checkpoint, and drop the older ones."""
        if self.folder.exists() and not self.folder.is_dir():
            raise CannotWrite(f"{self.folder} is a file; checkpoints need a folder, so choose another name.")
        numbers = self._numbers()
        save(state, self.folder / f"{(numbers[-1] if numbers else 0) + 1:08d}")
        for number in numbers:
            shutil.rmtree(self.folder / f"{number:08d}", ignore_errors=True)

    def clear(self) -> None:
        """Forget the run."""
        for number in self._numbers():
            shutil.rmtree(self.folder / f"{number:08d}", ignore_errors=True)

    def _numbers(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        names = [entry.name for entry in self.folder.iterdir()]
        if strange := [name for name in names if not _NUMBER.fullmatch(name) and not name.startswith(".")]:
            raise BadArtifact(f"{self.folder} is no folder of checkpoints: it holds {strange[0]}; choose another name.")
        return sorted(int(name) for name in names if _NUMBER.fullmatch(name))
