"""Grids from predictions, or from a progressive report of them."""

import logging
from collections.abc import Sequence
from typing import Any

from broadmatch.errors import BadInput, BadParameter
from broadmatch.evaluate.click_report import METRICS
from broadmatch.evaluate.gridviz.blocks import measured_grid
from broadmatch.evaluate.gridviz.from_table import grid_of_table, progressive_table
from broadmatch.evaluate.gridviz.grid import Grid, GridMetric
from broadmatch.evaluate.gridviz.measure import OwnMetric
from broadmatch.evaluate.predictions import Predictions, joined_by_id
from broadmatch.evaluate.progressive import progressive_report
from broadmatch.evaluate.slices import MICROSECONDS, Grouping, Traffic, groupings_of
from broadmatch.params import Either, Number, OneOf, Whole

log = logging.getLogger("broadmatch")

CLICK_METRICS = (
    GridMetric("AucLoss", "", "low"),
    GridMetric("LogLoss", "nats", "low"),
    GridMetric("SquaredError", "", "low"),
    GridMetric("Bias", "", "zero"),
)


def build_grid(
    predictions: Any,
    *,
    slices: Sequence[str] | None = None,
    cross: Sequence[str] | Sequence[Sequence[str]] = (),
    every: str | float | None = None,
    baseline: str | None = None,
    metrics: Sequence[str | OwnMetric] = METRICS,
    min_impressions: int = 1,
    level: float = 0.95,
    title: str = "GridViz",
    max_rows: int = 5_000_000,
) -> Grid:
    """The grid of GridViz (McMahan et al., KDD 2013, §5.2): models and their metrics × slices of the traffic.

    `predictions`, `slices`, `every`, `baseline` and `level` are those of `progressive_report`; its result, or the table
    or Parquet file of it, will do too. `cross` are slicings to combine, ("country", "hour") or a list of such; slices
    of fewer than `min_impressions` get no column, but count in all traffic. `metrics` are names, or `OwnMetric`.

    All models are measured on exactly the same rows, and each two of them as pairs. Beyond `max_rows` rows the grid is
    that of the streamed `progressive_report`: differences have errors against the baseline only.

    >>> import pyarrow as pa
    >>> log = pa.table({"clicked": [0, 1, 0, 1], "p_old": [0.2, 0.2, 0.3, 0.4], "p_new": [0.1, 0.4, 0.2, 0.5],
    ...                 "country": ["at", "at", "de", "de"]})
    >>> grid = build_grid(log)
    >>> grid.slices, grid.value[0].tolist()
    (('all', 'at', 'de'), [[0.375, 0.5, 0.0], [0.0, 0.0, 0.0]])
    """
    Either((OneOf((*MICROSECONDS, None)), Number(1))).check("every", every)
    Number(0, 1, above=True).check("level", level)
    Whole(1).check("min_impressions", min_impressions)
    Whole(1).check("max_rows", max_rows)
    wanted = _wanted(metrics)
    crossed = _crossed(cross)
    known = progressive_table(predictions)
    if known is not None:
        if crossed or every is not None:
            raise BadParameter("A progressive report has its slicings and time buckets: leave out cross and every.")
        return grid_of_table(known, slices, baseline, _named_only(wanted), min_impressions, title)
    source = joined_by_id(predictions) if isinstance(predictions, list | tuple) else Predictions(predictions)
    base = source.models[0] if baseline is None else baseline
    OneOf(tuple(source.models)).check("baseline", base)
    chosen = [*(source.slicings if slices is None else slices), *crossed]
    if source.n_rows > max_rows:
        report = progressive_report(
            predictions, slices=chosen, every=every, baseline=base, level=level, max_rows=max_rows
        )
        return grid_of_table(report.to_table(), None, base, _named_only(wanted), min_impressions, title)
    traffic = _traffic(source, groupings_of(source, chosen, None), every)
    return measured_grid(traffic, source.models.index(base), wanted, level, min_impressions, title)


def _wanted(metrics: Sequence[str | OwnMetric]) -> list[GridMetric | OwnMetric]:
    named = {metric.name: metric for metric in CLICK_METRICS}
    for metric in metrics:
        if isinstance(metric, str):
            OneOf(METRICS).check("metrics", metric)
    found = [named[metric] if isinstance(metric, str) else metric for metric in metrics]
    names = [metric.name for metric in found]
    if not found or len(set(names)) < len(names):
        raise BadParameter(f"metrics must be different and at least one, but they are {', '.join(names) or 'none'}.")
    return found


def _named_only(wanted: Sequence[GridMetric | OwnMetric]) -> list[GridMetric]:
    for metric in wanted:
        if isinstance(metric, OwnMetric):
            raise BadParameter(f"{metric.name} needs every row, but these are measured already, or more than max_rows.")
    return [metric for metric in wanted if isinstance(metric, GridMetric)]


def _crossed(cross: Sequence[str] | Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    several = [tuple(str(c) for c in cross)] if cross and all(isinstance(c, str) for c in cross) else list(cross)
    found = [tuple(names) for names in several]
    for names in found:
        if len(names) < 2 or len(set(names)) < len(names):
            raise BadParameter(f"cross needs two or more different slicings to combine, but it has {names!r}.")
    return found


def _traffic(source: Predictions, groupings: list[Grouping], every: str | float | None) -> Traffic:
    """The predictions, seen through once; the last grouping is time where there are periods."""
    times = groupings_of(source, [], every)[1:]
    traffic = Traffic(source, source.models, [*groupings, *times])
    traffic.scan()
    if not traffic.n_counted:
        raise BadInput(f"{source.name} has no row with a label, a weight and a prediction of every model.")
    if traffic.n_left_out:
        rows = f"{traffic.n_left_out:,}", f"{traffic.n_left_out + traffic.n_counted:,}"
        log.warning("%s of %s rows have no label, no weight or lack the prediction of a model.", *rows)
    return traffic
