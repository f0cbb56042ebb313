"""A harvested folder: `train/` and `test/` (data sets), `vectorizer/`, the table of queries, and `harvest.json`, which
says what was kept."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from broadmatch.data import CSR, Dataset
from broadmatch.errors import BadArtifact, CannotWrite, MissingFile
from broadmatch.harvest.clicks import Harvest
from broadmatch.harvest.query_counts import BY_MONTH, QUERIES
from broadmatch.harvest.query_table import QueryMonths, QueryTable
from broadmatch.io.artifacts import load, replacing, save
from broadmatch.io.click_log import ClickLog
from broadmatch.io.files import PathLike

SUMMARY = "harvest.json"


@dataclass(frozen=True)
class Harvested:
    """A harvested folder on disk; its parts are opened when they are used."""

    folder: Path
    summary: Mapping[str, Any]

    @property
    def train(self) -> Dataset:
        """The data set to learn from."""
        return cast(Dataset, load(self.folder / "train", Dataset))

    @property
    def clicked(self) -> CSR | None:
        """The labels of the training pages that were clicked, each weighing 1; None where beliefs hold others too."""
        Y = self.train.Y
        return None if self.summary.get("label_weights") == "beliefs" else Y._replace(data=np.ones(Y.nnz, np.float32))

    @property
    def test(self) -> Dataset:
        """The data set to evaluate on."""
        return cast(Dataset, load(self.folder / "test", Dataset))

    @property
    def vectorizer(self) -> Any:
        """What turned the pages into rows of both."""
        found = load(self.folder / "vectorizer")
        if not hasattr(found, "transform"):
            raise BadArtifact(f"{self.folder / 'vectorizer'} holds a {type(found).__name__}; harvest the folder again.")
        return found

    @property
    def queries(self) -> QueryTable:
        """What the log says of each of its queries."""
        return QueryTable.read(self._file(QUERIES, "table of queries"), normalise=False)

    @property
    def queries_by_month(self) -> QueryMonths:
        """Searches and clicks of the queries by month, if the log had times."""
        return QueryMonths.read(self._file(BY_MONTH, "counts by month"), self.queries.queries)

    @property
    def log_reading(self) -> dict[str, Any]:
        """How the log was read, as `ClickLog` takes it; empty where that is not kept."""
        reading = self.summary.get("log", {})
        if not isinstance(reading, dict) or not reading.keys() <= {"columns", "names", "time_format"}:
            raise BadArtifact(f"{self.folder / SUMMARY} does not say how the log was read; harvest the folder again.")
        return reading

    def _file(self, name: str, what: str) -> Path:
        file = self.folder / name
        if not file.is_file():
            raise MissingFile(f"{self.folder} has no {what}: it has no {name}; harvest a log that tells it.")
        return file


def is_harvested(folder: PathLike) -> bool:
    """Whether `write_harvested` wrote this folder."""
    return (Path(folder) / SUMMARY).is_file()


def open_harvested(folder: PathLike) -> Harvested:
    """Open a folder that `write_harvested` wrote."""
    file = Path(folder) / SUMMARY
    try:
        return Harvested(Path(folder), dict(json.loads(file.read_bytes())))
    except FileNotFoundError as error:
        raise MissingFile(f"{folder} is not a harvested folder: it has no {SUMMARY}.") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise BadArtifact(f"{file} is damaged: it is not JSON of a harvest; harvest the folder again.") from error


def check_place(place: PathLike) -> None:
    """Refuse, before long work, a name that holds something else."""
    folder = Path(place)
    if folder.exists() and not is_harvested(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise CannotWrite(f"{folder} exists and is not a harvested folder; choose another name or remove it.")


def write_harvested(
    place: PathLike,
    train: Dataset,
    test: Dataset,
    vectorizer: Any,
    summary: Mapping[str, Any],
    *,
    queries: PathLike | None = None,
) -> Harvested:
    """Write the whole folder, or nothing; an older harvested folder of that name is replaced.

    `queries` is the folder that `harvest` wrote the table of queries to.
    """
    folder = Path(place)
    check_place(folder)
    with replacing(folder, ours=is_harvested) as new:
        try:
            for name, part in (("train", train), ("test", test), ("vectorizer", vectorizer)):
                save(part, new / name)
        except CannotWrite as error:  # name the folder that was asked for, not the temporary one
            raise CannotWrite(str(error).replace(str(new), str(folder))) from error
        for table in () if queries is None else (Path(queries) / QUERIES, Path(queries) / BY_MONTH):
            if table.is_file():
                shutil.copyfile(table, new / table.name)
        (new / SUMMARY).write_text(json.dumps(summary, indent=1), encoding="utf-8")
    return Harvested(folder, summary)


def summarise(found: Harvest, log: ClickLog, train: Dataset, test: Dataset, weights: str) -> dict[str, Any]:
    """What was kept and what was left out, by name."""
    clicked = len(found.train_pages) + len(found.test_pages)
    return {
        "labels": len(found.labels),
        "train_pages": len(train),
        "test_pages": len(test),
        "words": train.X.n_cols,
        "label_weights": weights,
        "split": found.split,
        **found.facts,
        "pages_without_html": clicked - len(train) - len(test),
        "log": log.reading,
    }
