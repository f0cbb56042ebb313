"""The model as it serves: coefficients and rates in 16 bytes a feature, opened from disk without reading it all."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks._learners import sigmoid_all
from broadmatch.clicks._record import sigmoid
from broadmatch.clicks._table import serve_one, serve_rows, used_slots
from broadmatch.clicks.table import FeatureTable
from broadmatch.data import Impressions
from broadmatch.errors import BadInput
from broadmatch.io.artifacts import Artifact
from broadmatch.layout import Axes, require
from broadmatch.state import State, unpack

Coefficients = tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.float64]]
"""The keys of some features, with the coefficient and the learning rate of each."""
_PLAIN: NDArray[np.float32] = np.empty(0, np.float32)


class ServingModel(Artifact):
    """A click model that only predicts: made by `ClickLearner.to_serving`, or opened with `broadmatch.load`.

    >>> from broadmatch.clicks import FTRL
    >>> from broadmatch.data import Impressions
    >>> model = FTRL(alpha=0.5)
    >>> _ = model.learn_many(Impressions.from_rows([[7, 8], [8]] * 20, clicked=[1, 0] * 20))
    >>> served = model.to_serving()
    >>> served.predict_one([7, 8]) > 0.5 > served.predict_one([8])
    True
    """

    def __init__(self, cells: NDArray[np.float32], unseen: float, n_features: int) -> None:
        self.cells, self.unseen, self.n_features = cells, unseen, n_features
        self.words: NDArray[np.uint32] = cells.view(np.uint32)

    @classmethod
    def of(cls, n_features: int, blocks: Iterable[Coefficients], unseen: float) -> Self:
        """Make a model of features in blocks, in the order of their keys; `unseen` is the rate of all others."""
        table = FeatureTable("float32", 2)
        table.reserve(n_features)
        for keys, weights, rates in blocks:
            table.fill(keys, np.stack([weights, rates], axis=1).astype(np.float32))
        return cls(np.asarray(table.cells, np.float32), unseen, n_features)

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self.cells.nbytes

    @property
    def n_nonzero(self) -> int:
        """How many features have a coefficient that is not 0."""
        return int(np.count_nonzero(self.cells[:, 2]))

    def predict_many(self, impressions: Impressions, *, encoded: bool = False) -> NDArray[np.float64]:
        """The click probability of each impression; those that come `encoded` from an encoder are not checked."""
        return self.serve_many(impressions, encoded=encoded)[0]

    def serve_many(
        self, impressions: Impressions, *, encoded: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The click probability and u(x) of each impression, in one pass."""
        scores, spread = self._serve(impressions, encoded)
        return sigmoids(scores), spread

    def uncertainty_many(self, impressions: Impressions) -> NDArray[np.float64]:
        """u(x) of each impression, in log-odds (§6)."""
        return self._serve(impressions, False)[1]

    def predict_one(
        self, keys: Sequence[int] | NDArray[np.uint64], values: Any = None, *, offset: float = 0.0
    ) -> float:
        """The click probability of one impression, given the keys of its features and an offset of its log-odds."""
        return sigmoid(self._one(keys, values)[0] + offset)

    def uncertainty_one(self, keys: Sequence[int] | NDArray[np.uint64], values: Any = None) -> float:
        """u(x) of one impression."""
        return self._one(keys, values)[1]

    def contributions(self, keys: NDArray[np.uint64], values: NDArray[np.float32]) -> NDArray[np.float64]:
        """What each feature of one impression adds to its log-odds, and to u(x): features × 2."""
        each = [serve_one(self.words, self.cells, keys, values, j, j + 1, self.unseen) for j in range(len(keys))]
        return np.array(each, np.float64).reshape(len(keys), 2)

    def items(self) -> Coefficients:
        """Every feature's key, ascending, with its coefficient and its learning rate."""
        n_used = int(np.count_nonzero(self.words[:, :2].any(axis=1)))
        keys, slots = np.empty(n_used, np.uint64), np.empty(n_used, np.int64)
        used_slots(self.words, keys, slots)
        order = np.argsort(keys)
        cells = self.cells[slots[order], 2:].astype(np.float64)
        return keys[order], cells[:, 0], cells[:, 1]

    def to_state(self) -> State:
        """The table as it lies in memory, so that it opens memory-mapped."""
        return State("click_serving", {}, {"cells": self.cells}, {"unseen": self.unseen, "n_features": self.n_features})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Open a saved model."""
        cells = state.arrays["cells"]
        n = len(cells)
        fits = cells.dtype == np.float32 and cells.ndim == 2 and cells.shape[1] == 4 and n and not n & (n - 1)
        require(bool(fits), "its table has another shape")
        facts = unpack({"unseen": float, "n_features": Annotated[int, Axes("features")]}, state)
        require(facts["n_features"] < n and _has_room(cells), "its table is full")
        return cls(cells, **facts)

    def _one(self, keys: Sequence[int] | NDArray[np.uint64], values: Any) -> tuple[float, float]:
        keys = keys_from(keys)
        given = _PLAIN if values is None else np.asarray(values, np.float32)
        if len(given) not in (0, len(keys)):
            raise BadInput(f"There are {len(keys)} keys but {len(given)} values; give one each, or none.")
        if not keys.all():
            raise BadInput("0 cannot be the key of a feature; make keys with broadmatch.signals.")
        if len(given) and not np.isfinite(given).all():
            raise BadInput("The value of a feature is not a finite number; leave such features out.")
        return serve_one(self.words, self.cells, keys, given, 0, len(keys), self.unseen)

    def _serve(self, impressions: Impressions, encoded: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        Impressions.of(impressions).check(encoded=encoded)
        indptr, keys, values, offset = *impressions[:3], impressions.offset
        scores, spread = np.empty(impressions.n_rows), np.empty(impressions.n_rows)
        serve_rows(self.words, self.cells, indptr, keys, values, offset, self.unseen, scores, spread)
        return scores, spread


def keys_from(given: Any) -> NDArray[np.uint64]:
    """The keys of one impression as an array."""
    try:
        return np.asarray(given, np.uint64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(
            f"The keys of an impression must be whole numbers from 1 on, but they are {given!r}; `encode_one` of an "
            "Encoder makes them of columns and their values."
        ) from error


def not_zero(found: Coefficients) -> Coefficients:
    """Those of the features whose coefficient is not 0."""
    keys, weights, rates = found
    return keys[weights != 0], weights[weights != 0], rates[weights != 0]


def sigmoids(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / (1 + e^−score), without overflow."""
    out = np.empty(len(scores))
    sigmoid_all(scores, out)
    return out


def _has_room(cells: NDArray[np.float32]) -> bool:
    """Whether a slot is empty; a table without one would be searched for ever. Reads no more than it must."""
    return any(not cells[a : a + 1024, :2].view(np.uint32).any(axis=1).all() for a in range(0, len(cells), 1024))
