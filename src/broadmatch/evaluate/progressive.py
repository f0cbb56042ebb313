"""Progressive validation: how each model did on each slice of the traffic, before it learned from it.

After McMahan et al. (KDD 2013, §5.1): the predictions that training streams out are measured as values and, since
click rates differ from slice to slice and from hour to hour, as change relative to a baseline on the very same rows.
"""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput, BadParameter
from broadmatch.evaluate.click_report import (
    METRICS,
    GroupEstimates,
    GroupMetrics,
    N,
    W,
    measure_exactly,
    measure_streaming,
)
from broadmatch.evaluate.predictions import Predictions, joined_by_id, joined_chunks
from broadmatch.evaluate.report import aligned
from broadmatch.evaluate.slices import MICROSECONDS, Grouping, Traffic, groupings_of
from broadmatch.io.values import arrow_of, numpy_of, texts_to_arrow
from broadmatch.params import Either, Number, OneOf, Whole

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("broadmatch")

_NUMBERS = GroupEstimates._fields


@dataclass(frozen=True)
class ProgressiveReport:
    """Every metric of every model on every slice and time bucket; `to_table()` has it all, `print` the whole traffic.

    `n_left_out` rows had no label, no weight or lacked the prediction of a model: they count for no model. `finished`
    says whether the run that made the predictions had ended.
    """

    table: "pa.Table"
    models: tuple[str, ...]
    baseline: str
    level: float
    n_impressions: int
    n_left_out: int
    exact: bool
    finished: bool = True

    def to_table(self) -> "pa.Table":
        """One row for each slicing, slice, time bucket, model and metric.

        `slicing` "all" is the whole traffic; `bucket_start` and `bucket_end` are null where a row is about the whole
        period; a null `slice` stands for impressions without a value. `relative` and its bounds are percent of the
        baseline's value; for Bias, of its mean prediction. What cannot be known is null: AucLoss of one class, Bias
        without a click, the bounds from a single row, a change against 0. `auc_error` is the most AucLoss can be off
        by: 0 if exact, null for other metrics.
        """
        return self.table

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the table; the name holds the old file or the whole new one."""
        import pyarrow.parquet as pq

        from broadmatch.io.files import replacing_file

        with replacing_file(path) as out:
            pq.write_table(self.table, out, compression="zstd")

    def summary(self, slicing: str = "all", *, by_time: bool = False) -> list[dict[str, Any]]:
        """The rows of one slicing, over the whole period or `by_time` bucket, as plain dicts for a table or JSON."""
        slicings = joined_chunks(self.table["slicing"])
        known = slicings.dictionary.to_pylist()
        if slicing not in known:
            raise BadParameter(f"slicing must be one of {', '.join(known)}, but it is {slicing!r}.")
        in_time = numpy_of(joined_chunks(self.table["bucket_start"]).is_valid()) == by_time
        of_it = arrow_of(in_time & (numpy_of(slicings.indices) == known.index(slicing)))
        left_out = ["slicing", *(() if by_time else ("bucket_start", "bucket_end"))]
        rows: list[dict[str, Any]] = self.table.filter(of_it).drop_columns(left_out).to_pylist()
        return rows

    def __str__(self) -> str:
        rows = [["model", "metric", "value", "from", "to", "change", "from", "to"]]
        for r in self.summary():
            formats = [".5f"] * 3 + ["+.3f"] * 3
            cells = ["–" if r[n] is None else format(r[n], f) for n, f in zip(_NUMBERS, formats, strict=True)]
            rows.append([r["model"], r["metric"], *cells])
        how = "exact" if self.exact else "AucLoss from binned scores, its error in the intervals"
        return "\n".join(
            [
                *aligned(rows, left=2),
                f"{self.n_impressions:,} impressions, {self.n_left_out:,} left out; change in % against "
                f"{self.baseline}; {self.level:.0%} intervals; {how}",
            ]
        )


def progressive_report(
    predictions: Any,
    *,
    slices: Sequence[str | Sequence[str]] | None = None,
    every: str | float | None = None,
    baseline: str | None = None,
    level: float = 0.95,
    max_rows: int = 5_000_000,
) -> ProgressiveReport:
    """Compare the models whose predictions were streamed out, on all traffic, each slice, and each time bucket.

    `predictions` is the folder of a `PredictionLog`, a Parquet file or an Arrow table with its columns; or a list of
    folders of several runs, whose models are compared on exactly the same rows, joined by their ids. `slices` are
    the slicings to report (None: all there are; a list of names among them is one crossed slicing), `every` is "hour",
    "day" or the seconds of a time bucket (None: only the whole period), `baseline` the model to compare with (None: the
    first). Only rows with a label and a prediction of every model count, so that all figures are about the same rows.

    Up to `max_rows` rows AucLoss is exact; beyond, memory stays bounded and scores go to bins, and the column
    `auc_error` says how far AucLoss can be off; the intervals include it.

    >>> import pyarrow as pa
    >>> log = pa.table({"clicked": [0, 1, 0, 1], "p_old": [0.2, 0.2, 0.3, 0.4], "p_new": [0.1, 0.4, 0.2, 0.5]})
    >>> [(r["model"], r["value"], r["relative"]) for r in progressive_report(log).summary() if r["metric"] == "AucLoss"]
    [('old', 0.375, 0.0), ('new', 0.0, -100.0)]
    """
    Either((OneOf((*MICROSECONDS, None)), Number(1))).check("every", every)
    Number(0, 1, above=True).check("level", level)
    Whole(1).check("max_rows", max_rows)
    source = joined_by_id(predictions) if isinstance(predictions, list | tuple) else Predictions(predictions)
    base = source.models[0] if baseline is None else baseline
    OneOf(tuple(source.models)).check("baseline", base)
    traffic = Traffic(source, source.models, groupings_of(source, slices, every))
    traffic.scan()
    if not traffic.n_counted:
        raise BadInput(f"{source.name} has no row with a label, a weight and a prediction of every model.")
    if traffic.n_left_out:
        log.warning(
            "%s of %s rows have no label, no weight or lack the prediction of a model; they count for no model.",
            f"{traffic.n_left_out:,}",
            f"{traffic.n_left_out + traffic.n_counted:,}",
        )
    exact = traffic.n_counted <= max_rows
    found = (measure_exactly if exact else measure_streaming)(traffic, source.models, base, level)
    import pyarrow as pa

    table = pa.concat_tables([_table(measured, source.models) for measured in found]).unify_dictionaries()
    table = table.combine_chunks().replace_schema_metadata({"baseline": base, "level": repr(level)})
    counts = traffic.n_counted, traffic.n_left_out
    return ProgressiveReport(table, tuple(source.models), base, level, *counts, exact, source.finished)


def rank_models(predictions: Any, *, level: float = 0.95) -> list[dict[str, Any]]:
    """The models by rising log loss on all traffic, each compared with the best on the same rows.

    `relative` is by how many percent the loss is higher, between its bounds; where `relative_low` is not above 0, that
    the best is better may be chance.

    >>> import pyarrow as pa
    >>> log = pa.table({"clicked": [0, 1, 0, 1], "p_old": [0.2, 0.2, 0.3, 0.4], "p_new": [0.1, 0.4, 0.2, 0.5]})
    >>> [(row["model"], round(row["relative"])) for row in rank_models(log)]
    [('new', 0), ('old', 60)]
    """

    def losses(report: ProgressiveReport) -> list[dict[str, Any]]:
        rows = [row for row in report.summary() if row["metric"] == "LogLoss"]
        return sorted(rows, key=lambda row: float(row["value"]))

    first = losses(report := progressive_report(predictions, slices=[], level=level))
    best = first[0]["model"]
    if best == report.baseline:
        return first
    return losses(progressive_report(predictions, slices=[], level=level, baseline=best))


def _table(measured: GroupMetrics, models: Sequence[str]) -> "pa.Table":
    """The part of the report about one grouping: slices by falling impressions, then buckets, models and metrics."""
    import pyarrow as pa

    grouping, by_class = measured.grouping, measured.base["Bias"]
    counts = by_class.sum(axis=1)
    order = _order(grouping, counts[:, N])
    shape = (len(order), len(models), len(METRICS))
    figures = {name: np.empty(shape) for name in _NUMBERS}
    errors = np.full(shape, np.nan)
    for m, model in enumerate(models):
        for k, metric in enumerate(METRICS):
            for name in _NUMBERS:
                figures[name][:, m, k] = getattr(measured.metrics[model][metric], name)[order]
        errors[:, m, METRICS.index("AucLoss")] = measured.auc_error[model][order]

    def spread(column: NDArray[Any], axis: int) -> NDArray[Any]:
        return np.broadcast_to(np.expand_dims(column, [a for a in range(3) if a != axis]), shape).ravel()

    def named(codes: NDArray[np.int64], names: Sequence[str | None]) -> Any:
        empty = np.array([name is None for name in names])[codes]
        return pa.DictionaryArray.from_arrays(
            arrow_of(codes.astype(np.int32), empty), texts_to_arrow([n or "" for n in names]).cast(pa.string())
        )

    def known(numbers: NDArray[np.float64]) -> Any:
        return arrow_of(numbers.ravel(), ~np.isfinite(numbers.ravel()))

    def stamp(after: int) -> Any:
        start = (grouping.bucket_of[order] + after) * (grouping.width or 0)
        found = arrow_of(spread(start, 0), np.full(errors.size, grouping.width is None))
        return found.cast(pa.timestamp("us", tz="UTC"))

    return pa.table(
        {
            "model": named(spread(np.arange(len(models)), 1), models),
            "slicing": named(np.zeros(errors.size, np.int64), [grouping.name]),
            "slice": named(spread(grouping.slice_of[order], 0), list(grouping.values)),
            "bucket_start": stamp(0),
            "bucket_end": stamp(1),
            "metric": named(spread(np.arange(len(METRICS)), 2), METRICS),
            **{name: known(figures[name]) for name in _NUMBERS},
            "impressions": arrow_of(spread(counts[order, N].astype(np.int64), 0)),
            "clicks": arrow_of(spread(by_class[order, 1, N].astype(np.int64), 0)),
            "weight": arrow_of(spread(counts[order, W], 0)),
            "auc_error": known(errors),
        }
    )


def _order(grouping: Grouping, impressions: NDArray[np.float64]) -> NDArray[np.int64]:
    """Groups by falling impressions of their slice, equal ones by name, then by time."""
    of_slice = np.bincount(grouping.slice_of, weights=impressions, minlength=len(grouping.values))
    names = list(grouping.values)
    by_size = sorted(range(len(names)), key=lambda c: (-of_slice[c], names[c] is None, names[c] or ""))
    rank = np.empty(len(names), np.int64)
    rank[by_size] = np.arange(len(names))
    return np.lexsort((grouping.bucket_of, rank[grouping.slice_of]))
