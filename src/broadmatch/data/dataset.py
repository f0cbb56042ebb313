"""A data set: features X, labels Y, and the names that travel with them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.csr import CSR
from broadmatch.data.names import Names
from broadmatch.errors import BadInput
from broadmatch.state import State


@dataclass
class Dataset:
    """Points with features and labels; saved as a folder whose arrays open memory-mapped.

    `points` and `features` may be unnamed; labels always have names ("0", "1", … where none are known).
    """

    X: CSR
    Y: CSR
    labels: Names
    features: Names | None = None
    points: Names | None = None

    def __post_init__(self) -> None:
        if self.X.n_rows != self.Y.n_rows:
            raise BadInput(f"X has {self.X.n_rows:,} rows and Y has {self.Y.n_rows:,}; they must be the same points.")
        for names, expected, what in (
            (self.labels, self.Y.n_cols, "labels"),
            (self.features, self.X.n_cols, "features"),
            (self.points, self.X.n_rows, "points"),
        ):
            if names is not None and len(names) != expected:
                raise BadInput(f"There are {len(names):,} names for {expected:,} {what}.")

    def __len__(self) -> int:
        return self.X.n_rows

    def take(self, rows: NDArray[np.int64]) -> "Dataset":
        """The given points, in that order; labels and features stay."""
        points = None if self.points is None else self.points.take(rows)
        return Dataset(self.X.take(rows), self.Y.take(rows), self.labels, self.features, points)

    def to_state(self) -> State:
        """Give the matrices and names to `broadmatch.io.artifacts.save`."""
        arrays: dict[str, NDArray[Any]] = {}
        for key, matrix in (("x", self.X), ("y", self.Y)):
            arrays |= {f"{key}_indptr": matrix.indptr, f"{key}_indices": matrix.indices, f"{key}_data": matrix.data}
        for key, names in (("labels", self.labels), ("features", self.features), ("points", self.points)):
            if names is not None:
                arrays |= {f"{key}_text": names.text, f"{key}_offsets": names.offsets}
        facts = {"n_features": self.X.n_cols, "n_labels": self.Y.n_cols}
        return State("dataset", {}, arrays, facts)

    @classmethod
    def from_state(cls, state: State) -> "Dataset":
        """Make the data set again; the arrays stay where they are, on disk."""
        a = state.arrays

        def matrix(key: str, n_cols: int) -> CSR:
            return CSR(a[f"{key}_indptr"], a[f"{key}_indices"], a[f"{key}_data"], n_cols)

        def names(key: str) -> Names | None:
            return Names(a[f"{key}_text"], a[f"{key}_offsets"]) if f"{key}_text" in a else None

        labels = names("labels")
        if labels is None:
            raise BadInput("The data set has no label names.")
        return cls(
            matrix("x", state.facts["n_features"]),
            matrix("y", state.facts["n_labels"]),
            labels,
            names("features"),
            names("points"),
        )
