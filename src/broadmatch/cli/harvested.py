"""A harvested folder: `train/` and `test/` (data sets), `vectorizer/`, and `harvest.json`, which says what was kept."""

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import broadmatch
from broadmatch.errors import BadArtifact, CannotWrite

SUMMARY = "harvest.json"


@dataclass(frozen=True)
class Harvested:
    """A harvested folder on disk; its parts are opened when they are asked for."""

    folder: Path
    summary: Mapping[str, Any]

    @property
    def train(self) -> Any:
        """The data set to learn from."""
        return broadmatch.load(self.folder / "train")

    @property
    def test(self) -> Any:
        """The data set to evaluate on."""
        return broadmatch.load(self.folder / "test")

    @property
    def vectorizer(self) -> Any:
        """What turned the pages into rows of both."""
        return broadmatch.load(self.folder / "vectorizer")


def is_harvested(folder: Path) -> bool:
    """Whether `harvest` wrote this folder."""
    return (folder / SUMMARY).is_file()


def open_harvested(folder: Path) -> Harvested:
    """Open a folder that `write_harvested` wrote."""
    try:
        return Harvested(folder, json.loads((folder / SUMMARY).read_bytes()))
    except ValueError as error:
        raise BadArtifact(f"{folder / SUMMARY} is damaged: it is not JSON; harvest the folder again.") from error


def check_place(folder: Path) -> None:
    """Refuse, before long work, a name that holds something else."""
    if folder.exists() and not is_harvested(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise CannotWrite(f"{folder} exists and is not a harvested folder; choose another name or remove it.")


def write_harvested(folder: Path, train: Any, test: Any, vectorizer: Any, summary: Mapping[str, Any]) -> Harvested:
    """Write the whole folder, or nothing; an older harvested folder of that name is replaced."""
    from broadmatch.io.artifacts import save

    with _taking_the_place_of(folder) as new:
        try:
            for name, part in (("train", train), ("test", test), ("vectorizer", vectorizer)):
                save(part, new / name)
        except CannotWrite as error:  # name the folder that was asked for, not the temporary one
            raise CannotWrite(str(error).replace(str(new), str(folder))) from error
        (new / SUMMARY).write_text(json.dumps(summary, indent=1), encoding="utf-8")
    return Harvested(folder, summary)


@contextlib.contextmanager
def _taking_the_place_of(folder: Path) -> Iterator[Path]:
    from broadmatch.io.artifacts import replacing

    check_place(folder)
    if not is_harvested(folder):
        with replacing(folder) as new:
            yield new
        return
    fresh, old = folder.with_name(f".{folder.name}.fresh"), folder.with_name(f".{folder.name}.old")
    for leftover in (fresh, old):  # of a run that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    with replacing(fresh) as new:
        yield new
    folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old)
