"""A data set: features X, labels Y, and the names that travel with them."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.csr import CSR
from broadmatch.data.names import Names
from broadmatch.errors import BadInput
from broadmatch.layout import Axes
from broadmatch.state import State, unpack


@dataclass
class Dataset:
    """Points with features and labels; saved as a folder whose arrays open memory-mapped.

    `points` and `features` may be unnamed; labels always have names ("0", "1", … where none are known).
    """

    X: Annotated[CSR, Axes("points", "features")]
    Y: Annotated[CSR, Axes("points", "labels")]
    labels: Annotated[Names, Axes("labels")]
    features: Annotated[Names | None, Axes("features")] = None
    points: Annotated[Names | None, Axes("points")] = None

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
        facts = {"x_n_cols": state.facts["n_features"], "y_n_cols": state.facts["n_labels"]}
        unnamed = {name: None for name in ("features", "points") if f"{name}_text" not in state.arrays}
        hints = {name.lower(): hint for name, hint in get_type_hints(cls, include_extras=True).items()}
        return cls(*unpack(hints, replace(state, facts=facts | unnamed)).values())
