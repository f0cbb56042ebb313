"""What a signal is worth: log loss with and without it in one pass, on the residual of a fixed model, and alone."""

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks import FTRL, Bloom, ClickModel, ManyModels, Variant
from broadmatch.clicks.table import FULL
from broadmatch.data import Batch, Impressions
from broadmatch.data.impressions import CONSTANT
from broadmatch.evaluate import _click_metrics as kernels
from broadmatch.evaluate.click_report import n_bins, score_bins
from broadmatch.kernels.hashing import key_of
from broadmatch.registry.vetting.paired import Interval, PairedLosses

F64 = NDArray[np.float64]

_BITS = 8
_SLOT = 24
"""Bytes of a feature in the table of an FTRL learner: its key and two numbers."""
_LEAST_SIGHTS, _CHANCE = 10, 1e-9
_EDGE = 1e-6
_RARE = Bloom(2)
"""A feature enters a table at its third sight: values that never come again would fill the memory."""


def only_fields(impressions: Impressions, fields: list[int]) -> Impressions:
    """The impressions with the features of some signals only.

    >>> rows = Impressions.from_rows([[7, 8], [9]], fields=[[0, 1], [1]])
    >>> only_fields(rows, [1]).keys.tolist()
    [8, 9]
    """
    indptr, keys, values, numbers = impressions[:4]
    used = np.zeros(int(numbers.max(initial=0)) + 1, np.bool_)
    used[[number for number in fields if number < len(used)]] = True
    kept = used[numbers]
    return impressions._replace(
        indptr=np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])[indptr],
        keys=keys[kept],
        values=values[kept] if len(values) else values,
        fields=numbers[kept],
    )


class SignalWorth:
    """Learns, in one pass, models with and without a signal, of it alone, and of it on what a fixed model leaves.

    `with_it` are the fields of the signal and of crosses with it, `base` those of all else, the constant among them.
    Models with and without it are variants of `ManyModels`: exactly what each would be alone (§4.3). With a `prior`
    they are not learned, and only the residual of that fixed model is (Koepke and Bilenko, 2012): the cheapest test.
    """

    def __init__(
        self, with_it: list[int], base: list[int], *, prior: ClickModel | None = None, **settings: Any
    ) -> None:
        self._with_it, self._constant, self._prior = with_it, max(base), prior
        variants = {
            "without": Variant(fields=base, **settings),
            "with": Variant(fields=[*base, *with_it], **settings),
        }
        self._both = None if prior is not None else ManyModels(variants, inclusion=_RARE)
        alike = {"alpha": Variant.alpha, **settings}  # as the variants: no race
        self._residual = FTRL(rates="counts", inclusion=_RARE, **alike)
        self._alone = FTRL(rates="counts", inclusion=_RARE, **alike)
        self._losses, self._residuals = PairedLosses(), PairedLosses()
        self._histogram = np.zeros((2, n_bins(_BITS)))
        self._n_rows, self._seconds = 0, 0.0
        self._weight, self._clicks = 0.0, 0.0

    def add(self, batch: Batch) -> None:
        """Take rows, predict them and learn from them."""
        rows = batch.impressions
        clicked, weight = rows.clicked == 1, rows.weight.astype(np.float64)
        own = only_fields(rows, self._with_it)
        if self._both is not None:
            both = self._both.learn_many(rows, encoded=True)
            without = np.ascontiguousarray(both[:, 0])
            self._losses.add(clicked, weight, without, both[:, 1])
        elif self._prior is not None:
            without = self._prior.predict_many(batch)
        inside = np.clip(without, _EDGE, 1 - _EDGE)
        beside = own._replace(offset=(np.log(inside) - np.log1p(-inside)).astype(np.float32))
        self._residuals.add(clicked, weight, without, self._residual.learn_many(beside, encoded=True))
        began = time.process_time()
        by_itself = only_fields(rows, [*self._with_it, self._constant])._replace(offset=_NONE)
        alone = self._alone.learn_many(by_itself, encoded=True)
        self._seconds += time.process_time() - began
        bins = score_bins(alone.astype(np.float32), _BITS)
        kernels.add_to_histogram(clicked.astype(np.int64), bins, weight, self._histogram)
        self._n_rows += len(batch)
        self._weight, self._clicks = self._weight + weight.sum(), self._clicks + weight[clicked].sum()

    def figures(self, cardinality: int) -> dict[str, Any]:
        """All figures by name, and what to draw under `gains`."""
        residual = self._residuals.gain()
        gain = residual if self._both is None else self._losses.gain()
        learned = {"residual": self._residuals.series()}
        if self._both is not None:
            learned = {"with and without": self._losses.series()} | learned
        return {
            "Clicks": round(self._clicks, 6),
            "AucAlone": self._auc(),
            "OnlyWithClicks": self._only_with_clicks(),
            "TableBytes": round(cardinality * _SLOT / FULL),
            "SecondsPerMillion": 1e6 * self._seconds / max(self._n_rows, 1),
            **_named("Gain", gain),
            **_named("ResidualGain", residual),
            "gains": learned,
        }

    def _auc(self) -> float | None:
        """The progressive AUC of the signal alone."""
        clicks = self._histogram[1].sum()
        if not (clicks > 0 and self._histogram[0].sum() > 0):
            return None
        losses, _ = kernels.histogram_losses(self._histogram)
        return float(1 - (self._histogram[1] @ losses[1]) / clicks)

    def _only_with_clicks(self) -> float | None:
        """The share of the clicks whose values were never seen without one, so often that it is no chance."""
        rate = self._clicks / self._weight if self._weight else 0.0
        if not 0 < rate < 1:
            return None
        table = self._alone.table_
        keys, slots = table.sorted()
        cells = np.asarray(table.cells[slots][:, table.first + 1 :], np.float64)
        unclicked, clicked = cells[:, 0], cells[:, 1]
        values = keys != key_of(CONSTANT, "1")
        least = max(_LEAST_SIGHTS, math.log(_CHANCE) / math.log(rate))
        total = clicked[values].sum()
        return float(clicked[values & (unclicked == 0) & (clicked >= least)].sum() / total) if total else 0.0


_NONE: NDArray[np.float32] = np.empty(0, np.float32)


def _named(name: str, gain: Interval | None) -> Mapping[str, float | None]:
    low, high = f"{name}Low", f"{name}High"
    return dict.fromkeys((name, low, high)) if gain is None else dict(zip((name, low, high), gain, strict=True))
