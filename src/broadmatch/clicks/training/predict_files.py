"""The predictions of a model for every row of some files, with the numbers of the rows."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks.training.batches import BatchStream
from broadmatch.clicks.training.outcomes import Outcome
from broadmatch.io import Rejects
from broadmatch.signals import Description

if TYPE_CHECKING:
    from broadmatch.clicks.model import ClickModel
    from broadmatch.signals.tables import SourceOrTable


class Predicted(NamedTuple):
    """Predictions of a few rows: their numbers, from 0, bad rows counted; their ids and labels, if they have any."""

    row: NDArray[np.int64]
    id: Any
    probability: NDArray[np.float64]
    uncertainty: NDArray[np.float64] | None
    outcome: Outcome | None


class NotedRejects(Rejects):
    """Rejects that also note the file and the line of each bad row."""

    def __init__(self, path: str | os.PathLike[str] | None = None, *, max_bad_rows: int | None = None) -> None:
        super().__init__(path, max_bad_rows=max_bad_rows)
        self.noted: list[tuple[str, int]] = []

    def add(self, source: str, line: int | None, reason: str, row: str = "", count: int = 1) -> None:
        """Take one bad row."""
        self.noted.append((source, line or 0))
        super().add(source, line, reason, row, count)


def predict_files(
    model: "ClickModel",
    source: "SourceOrTable",
    *,
    name: str | None = None,
    uncertainty: bool = False,
    format: str | None = None,
    rejects: NotedRejects | None = None,
) -> Iterator[Predicted]:
    """Predict every row of `source`, in order; bad rows have no prediction, and their numbers are left out.

    `name` is that of one of several models; `format` that of the files, where it is not the one of the description.
    Where all files have the label, the rows come with it, and with weight, time and slices.
    """
    own = NotedRejects() if rejects is None else rejects
    model.variant(name)
    description, measured = model.description_to_predict(), None
    if isinstance(description, Description) and isinstance(model.description, Description):
        description = Description.from_dict(description.to_dict() | ({} if format is None else {"format": format}))
        measured = model.description
    n = 0
    stream = BatchStream(source, description, rejects=own, labelled=False, measured=measured)
    for batch, row, ids, outcome in stream.numbered(own.noted):
        n += len(row)
        spread = model.uncertainty_many(batch, model=name) if uncertainty else None
        yield Predicted(row, ids, model.predict_many(batch, model=name), spread, outcome)
    own.finish(n)
