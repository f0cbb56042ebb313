"""A grid from the progressive table: what was measured already, laid out as models × slices."""

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput
from broadmatch.evaluate.gridviz.grid import LEAST_OF_CLASS, Grid, GridGroup, GridMetric, GridPeriod, pair_of
from broadmatch.evaluate.predictions import joined_chunks, numbers
from broadmatch.evaluate.progressive import ProgressiveReport
from broadmatch.evaluate.slices import NO_VALUE, coded_column
from broadmatch.io.values import numpy_of, with_gaps
from broadmatch.params import OneOf

if TYPE_CHECKING:
    import pyarrow as pa

I64 = NDArray[np.int64]

_COLUMNS = ("model", "slicing", "slice", "bucket_start", "bucket_end", "metric", "impressions", "clicks",
            "value", "low", "high", "relative", "relative_high")  # fmt: skip


def progressive_table(source: Any) -> "pa.Table | None":
    """The table of a progressive report, of its `to_table()` or its Parquet file; None if it is something else."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if isinstance(source, ProgressiveReport):
        return source.to_table()
    if isinstance(source, pa.Table):
        return source if set(_COLUMNS) <= set(source.column_names) else None
    if not isinstance(source, str | os.PathLike) or not Path(source).is_file():
        return None
    try:
        return pq.read_table(source) if set(_COLUMNS) <= set(pq.read_schema(source).names) else None
    except (pa.ArrowException, OSError):
        return None


def grid_of_table(
    table: "pa.Table",
    slices: Sequence[str] | None,
    baseline: str | None,
    metrics: Sequence[GridMetric],
    min_impressions: int,
    title: str,
) -> Grid:
    """The grid of a progressive table: errors of differences to the baseline are those of the relative changes."""
    models, model = _as_met(table, "model")
    base, level = _facts(table, models)
    if baseline is not None and baseline != base:
        raise BadInput(f"The report compares with {base!r}; make it again to compare with {baseline!r}.")
    groups, names, column = _columns(table, slices, min_impressions)
    met, metric = _as_met(table, "metric")
    for wanted in metrics:
        OneOf(tuple(met)).check("metrics", wanted.name)
    row_of_metric = np.array([next((k for k, w in enumerate(metrics) if w.name == name), -1) for name in met])
    periods, period = _periods(table)
    k, m, s, p = len(metrics), len(models), len(names), len(periods)
    at = _Places(row_of_metric[metric], model, column, period)
    arrays = _arrays(table, at, (k, m, s, p), models.index(base), [w.name for w in metrics], level)
    return Grid(title, tuple(models), models.index(base), level, tuple(metrics), groups, names,
                periods=periods, notes=(_NOTE,), **arrays)  # fmt: skip


_NOTE = "From a progressive report: errors are known of differences to its baseline only, by the change in percent."


def _facts(table: "pa.Table", models: list[str]) -> tuple[str, float]:
    """The baseline and the level that stand beside the table."""
    beside = table.schema.metadata or {}
    try:
        base, level = beside[b"baseline"].decode(), float(beside[b"level"])
    except (KeyError, ValueError):
        raise BadInput("The progressive table does not say its baseline and level: write it by `to_parquet`.") from None
    if base not in models or not 0 < level < 1:
        raise BadInput(f"The progressive table names the baseline {base!r} and the level {level}, which cannot be.")
    return base, level


def _as_met(table: "pa.Table", column: str) -> tuple[list[str], I64]:
    """The values of a column in the order in which they are met, and which of them each row has."""
    names, codes = coded_column(table, column)
    used, first = np.unique(codes, return_index=True)
    order = used[np.argsort(first)]
    place = np.full(len(names), -1)
    place[order] = np.arange(len(order))
    return [NO_VALUE if (name := names[c]) is None else name for c in order.tolist()], place[codes]


def _columns(
    table: "pa.Table", slices: Sequence[str] | None, min_impressions: int
) -> tuple[tuple[GridGroup, ...], tuple[str, ...], I64]:
    """Groups, names of the slices and the column of each row; -1 for rows that get none."""
    slicings, slicing = _as_met(table, "slicing")
    values, value = _as_met(table, "slice")
    chosen = slicings if slices is None else ["all", *slices]
    for name in chosen:
        if name not in slicings:
            raise BadInput(f"The progressive table has no slicing {name!r}; it has {', '.join(slicings)}.")
    whole = numpy_of(joined_chunks(table["bucket_start"]).is_null())
    enough = (numbers(table, "impressions", np.float64) >= min_impressions) | (slicing == slicings.index("all"))
    key = slicing * len(values) + value
    met, first = np.unique(key[whole & enough], return_index=True)
    groups, names, place = [], list[str](), np.full(len(slicings) * len(values), -1)
    for name in ["all", *(name for name in chosen if name != "all")]:
        own = [c for c in met[np.argsort(first)].tolist() if c // len(values) == slicings.index(name)]
        place[own] = len(names) + np.arange(len(own))
        groups.append(GridGroup(name, len(names), len(own)))
        names += [values[c % len(values)] for c in own]
    return tuple(groups), tuple(names), place[key]


def _periods(table: "pa.Table") -> tuple[tuple[GridPeriod, ...], I64]:
    """The time buckets, and that of each row; -1 for the whole period."""
    import pyarrow as pa

    start, end = (
        with_gaps(joined_chunks(table[c].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())), np.iinfo(np.int64).min)
        for c in ("bucket_start", "bucket_end")
    )
    known = start > np.iinfo(np.int64).min
    met, first, place = np.unique(start[known], return_index=True, return_inverse=True)
    period = np.full(len(start), -1)
    period[known] = place
    return tuple(GridPeriod(a, b) for a, b in zip(met.tolist(), end[known][first].tolist(), strict=True)), period


class _Places(NamedTuple):
    """Metric, model, column and period of each row of the table; -1 where it has none."""

    metric: I64
    model: I64
    column: I64
    period: I64


def _arrays(
    table: "pa.Table", at: _Places, shape: tuple[int, int, int, int], base: int, metrics: list[str], level: float
) -> dict[str, Any]:
    k, m, s, p = shape
    shown = (at.metric >= 0) & (at.column >= 0)
    whole, timed = shown & (at.period < 0), shown & (at.period >= 0)
    n = {name: numbers(table, name, np.float64) for name in _COLUMNS[6:]}
    cell = at.metric[whole], at.model[whole], at.column[whole]
    in_time = at.period[timed], at.metric[timed], at.model[timed], at.column[timed]
    found: dict[str, Any] = {name: np.full((k, m, s), np.nan) for name in ("value", "low", "high", "half")}
    later: dict[str, Any] = {name: np.full((p, k, m, s), np.nan) for name in ("value", "half")}
    half = (n["relative_high"] - n["relative"]) / (100 * NormalDist().inv_cdf((1 + level) / 2))
    parts = {"value": n["value"], "low": n["value"] - n["low"], "high": n["high"] - n["value"], "half": half}
    for name, numbers_of in parts.items():
        found[name][cell] = numbers_of[whole]
        if name in later:
            later[name][in_time] = numbers_of[timed]
    counts = {name: np.zeros(s) for name in ("impressions", "clicks")}
    period_counts = {f"period_{name}": np.zeros((p, s)) for name in counts}
    for name in counts:
        counts[name][at.column[whole]] = n[name][whole]
        period_counts[f"period_{name}"][at.period[timed], at.column[timed]] = n[name][timed]
    to_base = np.full((k, m * (m - 1) // 2, s), np.nan)
    se = _errors(found, base, metrics, counts["clicks"], counts["impressions"])
    for model in range(m):
        if model != base:
            to_base[:, pair_of(m, base, model)] = se[:, model]
    by_period = period_counts["period_clicks"], period_counts["period_impressions"]
    arrays = {"value": found["value"], "low": found["low"], "high": found["high"], "se": to_base,
              "period_value": later["value"], "period_se": _errors(later, base, metrics, *by_period)}  # fmt: skip
    return {name: a.astype(np.float32) for name, a in arrays.items()} | counts | period_counts


def _errors(found: dict[str, Any], base: int, metrics: list[str], clicks: Any, impressions: Any) -> NDArray[Any]:
    """The error of a change, times what it is a change of: the baseline's value, and 1 + Bias for its predictions."""
    of = np.abs(found["value"][..., base : base + 1, :] + np.array([[[name == "Bias"]] for name in metrics], float))
    least = np.array([[[LEAST_OF_CLASS[name]]] for name in metrics])
    few = np.minimum(clicks, impressions - clicks)[..., None, None, :] < least
    se: NDArray[Any] = np.where(few, np.nan, found["half"] * of)
    se[..., base, :] = 0
    return se
