"""What came of impressions that are predicted, where their files say so: to measure the predictions by."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Batch
from broadmatch.evaluate.prediction_log import MODEL
from broadmatch.io.values import NO_TIME, arrow_of, with_points
from broadmatch.signals import Description
from broadmatch.signals.description import derives
from broadmatch.signals.reading import clicks_of, weights_of

if TYPE_CHECKING:
    import pyarrow as pa


class Outcome(NamedTuple):
    """Labels of some rows (0, 1, NaN where there is none), weights, times if there are any, and slices."""

    clicked: NDArray[np.float32]
    weight: NDArray[np.float32]
    time: NDArray[np.int64] | None
    slices: Mapping[str, Any]

    def columns(self, taken: Collection[str]) -> dict[str, Any]:
        """The columns of a prediction log, without slices that are called like one of them or of those `taken`."""
        import pyarrow as pa

        unknown = np.isnan(self.clicked)
        columns: dict[str, Any] = {}
        if self.time is not None:
            columns["time"] = arrow_of(self.time, self.time == NO_TIME).cast(pa.timestamp("us", "UTC"))
        columns["clicked"] = arrow_of(np.nan_to_num(self.clicked).astype(np.int8), unknown)
        columns["weight"] = arrow_of(self.weight)
        for name, texts in self.slices.items():
            if name not in (*columns, *taken) and not name.startswith(MODEL):
                columns[name] = texts.cast(pa.string())
        return columns


class OutcomeColumns:
    """The columns of a description that say what came of rows, which none of the files may lack.

    A label or a weight that cannot be read is none: the row is predicted all the same, and counts nowhere.
    """

    def __init__(self, description: Description, files: Mapping[str, tuple[str, ...]]) -> None:
        there = set.intersection(*map(set, files.values()))
        rule = description.label_rule
        self._rule = rule if rule is not None and rule.column in there else None
        self._weight = description.weight if description.weight in there else None
        self._timed = description.time in there
        named = {signal.name: signal for signal in description.signals}
        known = [name for name in description.slices if name in there or derives(named.get(name))]
        self.slices: list[str] = known if self._rule is not None else []

    @property
    def columns(self) -> list[str]:
        """What is read of the files for them, beside slices; nothing if they have no label."""
        return [] if self._rule is None else [self._rule.column, *filter(None, [self._weight])]

    def read(self, table: "pa.RecordBatch", batch: Batch, kept: NDArray[np.bool_]) -> Outcome | None:
        """What came of the `kept` rows of a table, of which `batch` was made; None if it is not said."""
        if self._rule is None:
            return None
        clicked = clicks_of(self._rule, with_points(table, self._rule.column))
        weight = np.ones(len(clicked), np.float32)
        if self._weight is not None:
            weight, _ = weights_of(with_points(table, self._weight))
        time = batch.time if self._timed else None
        return Outcome(clicked[kept], weight[kept], time, {name: batch.slices[name] for name in self.slices})
