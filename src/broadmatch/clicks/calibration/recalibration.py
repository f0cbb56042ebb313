"""A calibration for a model that is there already, from its progressive predictions: fitted, judged, fitted again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks.calibration.isotonic import IsotonicCalibration
from broadmatch.clicks.calibration.poisson import PoissonCalibration
from broadmatch.clicks.calibration.sliced import SlicedCalibration
from broadmatch.errors import BadInput
from broadmatch.evaluate import log_loss, reliability
from broadmatch.evaluate.prediction_log import MODEL as PREFIX
from broadmatch.evaluate.predictions import Predictions, numbers
from broadmatch.io.values import arrow_of, with_gaps
from broadmatch.params import Number, OneOf

if TYPE_CHECKING:
    import pyarrow as pa

    from broadmatch.clicks.calibration.base import WholeCalibration
    from broadmatch.evaluate import Reliability

F64 = NDArray[np.float64]
_FEWEST = 100
"""Impressions that a slice needs for its error to say anything."""


@dataclass(frozen=True)
class Judgement:
    """How well probabilities fit what was clicked later.

    `error` is the mean of |prediction − click rate| over bins of equal mass; `worst_slices` is the mean over the tenth
    of the slices that were worst before, of |mean prediction − click rate|; None without slices.
    """

    reliability: "Reliability"
    error: float
    log_loss: float
    worst_slices: float | None


@dataclass(frozen=True)
class Recalibration:
    """The calibration, fitted to all predictions, and how one that was fitted to the earlier ones did on the later."""

    calibration: "SlicedCalibration | WholeCalibration"
    n_fitted: int
    n_judged: int
    before: Judgement
    after: Judgement


def recalibrate(
    predictions: Any, model: str, *, by: Sequence[str] = (), method: str = "poisson", share: float = 0.8
) -> Recalibration:
    """Fit a calibration of `model` to the first `share` of its predictions, judge it on the rest, then fit it to all.

    `predictions` is what `PredictionLog` wrote, in the order of learning: what comes later in the log is later traffic.
    `by` are slices, the widest first; without, one map serves all traffic.

    >>> import pyarrow as pa
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(20_000)
    >>> log = pa.table({"clicked": (rng.random(20_000) < 0.5 * p).astype("f4"), "p_model": p.astype("f4")})
    >>> found = recalibrate(log, "model")
    >>> found.before.error > 0.2 > 0.03 > found.after.error
    True
    """
    OneOf(("poisson", "isotonic")).check("method", method)
    Number(0, 1, above=True).check("share", share)
    source = _checked(Predictions(predictions), model, by)
    calibration = _empty(by, method)
    later: list[Any] = []
    fitted = seen = 0
    for rows in _tables(source, model, by):
        cut = max(0, int(source.n_rows * share) - seen)
        seen += len(rows)
        early = _known(rows.slice(0, cut))
        _learn(calibration, early)
        fitted += len(early)
        later.append(_known(rows.slice(cut)))
    calibration.refresh()
    import pyarrow as pa

    judged = pa.concat_tables(later).unify_dictionaries()
    if not len(judged) or not fitted:
        raise BadInput(f"{source.name} has too few predictions to fit a calibration and judge it: {source.n_rows:,}.")
    predicted = _figures(judged)[0]
    if isinstance(calibration, SlicedCalibration):
        calibrated = calibration.apply(predicted, _slices(judged, by))
    else:
        calibrated = calibration.apply(predicted)
    worst = _worst_slices(judged, by)
    before, after = (_judge(judged, p, worst) for p in (predicted, calibrated))
    _learn(calibration, judged)
    calibration.refresh()
    return Recalibration(calibration, fitted, len(judged), before, after)


def _checked(source: Predictions, model: str, by: Sequence[str]) -> Predictions:
    if model not in source.models:
        raise BadInput(f"{source.name} has no predictions of {model!r}, but of {', '.join(source.models)}.")
    for name in by:
        source.check_slicing(name)
    if not source.n_rows:
        raise BadInput(f"{source.name} holds no predictions.")
    return source


def _tables(source: Predictions, model: str, by: Sequence[str]) -> "Iterator[pa.Table]":
    """The predictions in order, with the columns of `_figures` and the slices."""
    import pyarrow as pa

    weighted = "weight" in source.columns
    for piece in source.pieces(["clicked", PREFIX + model, *(["weight"] if weighted else []), *by]):
        found = {"clicked": numbers(piece, "clicked", np.float64), PREFIX: numbers(piece, PREFIX + model, np.float64)}
        found["weight"] = numbers(piece, "weight", np.float64) if weighted else np.ones(len(piece))
        columns: dict[str, Any] = {name: arrow_of(column) for name, column in found.items()}
        columns |= {name: piece[name].cast(pa.dictionary(pa.int32(), pa.string())) for name in by}
        yield pa.table(columns).unify_dictionaries()


def _figures(rows: "pa.Table") -> tuple[F64, F64, F64]:
    """Probabilities, clicks and weights."""
    p, clicked, weight = (numbers(rows, name, np.float64) for name in (PREFIX, "clicked", "weight"))
    return p, clicked, weight


def _slices(rows: "pa.Table", by: Sequence[str]) -> dict[str, Any]:
    return {name: rows[name] for name in by}


def _known(rows: "pa.Table") -> "pa.Table":
    """Only the rows that have a label, a weight and a prediction."""
    p, clicked, weight = _figures(rows)
    return rows.filter(arrow_of(~np.isnan(p + clicked + weight)))


def _empty(by: Sequence[str], method: str) -> "SlicedCalibration | WholeCalibration":
    if by:
        return SlicedCalibration(by=tuple(by), method=method)
    return PoissonCalibration() if method == "poisson" else IsotonicCalibration()


def _learn(calibration: "SlicedCalibration | WholeCalibration", rows: "pa.Table") -> None:
    p, clicked, weight = _figures(rows)
    if isinstance(calibration, SlicedCalibration):
        calibration.learn_many(p, clicked, _slices(rows, calibration.by), weight)
    else:
        calibration.learn_many(p, clicked, weight)


def _slice_errors(rows: "pa.Table", probability: F64, groups: NDArray[np.int64]) -> F64:
    """|mean prediction − click rate| of each group."""
    _, clicked, weight = _figures(rows)
    mass = np.bincount(groups, weights=weight)
    missed = np.bincount(groups, weights=weight * (probability - clicked))
    return np.abs(missed) / np.where(mass > 0, mass, 1)


def _worst_slices(rows: "pa.Table", by: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The narrowest slice of each row, and which slices of enough impressions are the worst tenth as it is."""
    if not by:
        return None
    groups = np.zeros(len(rows), np.int64)
    for name in by:
        codes = with_gaps(rows[name].combine_chunks().indices, -1).astype(np.int64) + 1
        _, groups = np.unique(groups * (int(codes.max()) + 1) + codes, return_inverse=True)
    enough = np.flatnonzero(np.bincount(groups) >= _FEWEST)
    errors = _slice_errors(rows, _figures(rows)[0], groups)[enough]
    worst = enough[np.argsort(-errors, kind="stable")][: max(1, len(enough) // 10)]
    return groups, worst


def _judge(rows: "pa.Table", probability: F64, worst: tuple[NDArray[np.int64], NDArray[np.int64]] | None) -> Judgement:
    _, clicked, weight = _figures(rows)
    found = reliability(clicked, probability, sample_weight=weight)
    slices = None
    if worst is not None and len(worst[1]):
        slices = float(_slice_errors(rows, probability, worst[0])[worst[1]].mean())
    return Judgement(found, found.error, log_loss(clicked, probability, sample_weight=weight), slices)
