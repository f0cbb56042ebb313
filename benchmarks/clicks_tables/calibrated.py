"""§7: a model of reddit that is not told the subreddit, calibrated by subreddit."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.clicks_tables.measures import Figures, learn
from benchmarks.clicks_tables.streams import Stream
from broadmatch.clicks import FTRL, IsotonicCalibration, PoissonCalibration, SlicedCalibration
from broadmatch.evaluate import calibration_bias, calibration_error, log_loss

LEAST = 50
"""Impressions that a subreddit needs in the middle third and in the last to be counted."""


def calibration(stream: Stream, alpha: float, tell: Callable[..., None]) -> Figures:
    """Maps learned on the middle third of the stream and measured on the last: global ones, and by subreddit."""
    p, _ = learn(FTRL(alpha=alpha), stream.only([n for n in stream.usual_signals if n != "subreddit"]))
    n = stream.n_rows
    middle, last = slice(n // 3, 2 * n // 3), slice(2 * n // 3, n)
    clicked = stream.clicked.astype(np.float64)
    column = stream.batch.slices["subreddit"]
    by = {part.start: {"subreddit": column.slice(part.start, part.stop - part.start)} for part in (middle, last)}
    codes = np.unique(column.to_numpy(zero_copy_only=False).astype(str), return_inverse=True)[1]
    maps = {"as predicted": p[last]}
    for kind, whole in (("poisson", PoissonCalibration()), ("isotonic", IsotonicCalibration())):
        whole.learn_many(p[middle], clicked[middle])
        whole.refresh()
        maps[f"{kind}, global"] = whole.apply(p[last])
        sliced = SlicedCalibration(by=("subreddit",), method=kind)
        sliced.learn_many(p[middle], clicked[middle], by[middle.start])
        sliced.refresh()
        maps[f"{kind}, by subreddit"] = sliced.apply(p[last], by[last.start])
    before = slice_errors(codes[middle], p[middle], clicked[middle])
    now = slice_errors(codes[last], p[last], clicked[last])
    enough = np.array([c for c in now if c in before])
    picks = {"earlier": worst_tenth(enough, before), "later": worst_tenth(enough, now)}
    rows = []
    for name, q in maps.items():
        errors = slice_errors(codes[last], q, clicked[last])
        row = {"map": name, "log_loss": log_loss(clicked[last], q)}
        row["calibration_error"] = calibration_error(clicked[last], q)
        row["bias"] = calibration_bias(clicked[last], q)
        row |= {f"worst_{pick}": mean_error(some, errors) for pick, some in picks.items()}
        row["all_slices"] = mean_error(enough, errors)
        row["by_chance"] = float(np.mean([errors[c][1] for c in picks["earlier"]]))
        rows.append(row)
        tell(**row)
    return {"rows": rows, "subreddits": len(enough), "worst": len(picks["earlier"])}


def slice_errors(
    codes: NDArray[np.int64], p: NDArray[np.float64], clicked: NDArray[np.float64]
) -> dict[int, tuple[float, float]]:
    """Of each slice with enough rows |mean prediction − click rate|, and what chance alone would make of it."""
    n = np.bincount(codes)
    gap = np.abs(np.bincount(codes, p - clicked)) / np.maximum(n, 1)
    chance = np.sqrt(2 / np.pi * np.bincount(codes, p * (1 - p))) / np.maximum(n, 1)
    return {int(c): (float(gap[c]), float(chance[c])) for c in np.flatnonzero(n >= LEAST)}


def worst_tenth(slices: NDArray[np.int64], errors: dict[int, tuple[float, float]]) -> NDArray[np.int64]:
    """The tenth of the slices with the largest error."""
    order = np.argsort([-errors[c][0] for c in slices], kind="stable")
    return slices[order[: max(1, len(slices) // 10)]]


def mean_error(slices: NDArray[np.int64], errors: dict[int, tuple[float, float]]) -> float:
    """The mean error of some slices, each counted alike."""
    return float(np.mean([errors[c][0] for c in slices]))
