"""How each cell of a grid changed against a baseline, and which changes are significant; as a plain table too."""

import os
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.evaluate.gridviz.grid import Grid, pair_of

if TYPE_CHECKING:
    import pyarrow as pa

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

FALSE_DISCOVERIES = 0.05
"""q: of the changes that are called significant, this share may be chance."""


@dataclass(frozen=True)
class Changes:
    """Metrics × models × slices: what changed against the baseline. NaN: not known, and so of the baseline itself.

    `change` is above 0 where a model is worse: a share of the baseline's value, or, of a metric that is best at 0, the
    change of its distance from 0. `difference` is plain, with its standard error `se`; `p` is the two-sided probability
    of one as large by chance.
    """

    change: F64
    difference: F64
    se: F64
    p: F64


def changes(grid: Grid, baseline: int | None = None) -> Changes:
    """Every cell against the baseline, by paired differences on the same rows."""
    base = grid.baseline if baseline is None else baseline
    value, m = grid.value.astype(np.float64), len(grid.models)
    own = value[:, base : base + 1]
    difference = value - own
    with np.errstate(divide="ignore", invalid="ignore"):
        change = difference / np.abs(own)
        for k, metric in enumerate(grid.metrics):
            if metric.best == "zero":
                change[k] = np.abs(value[k]) - np.abs(own[k])
            elif metric.best == "high":
                change[k] *= -1
        se = np.full(value.shape, np.nan)
        for model in range(m):
            if model != base:
                se[:, model] = grid.se[:, pair_of(m, base, model)]
        z = np.abs(difference) / np.where(se > 0, se, np.nan)
    change[~np.isfinite(change)] = np.nan
    return Changes(change, difference, se, _two_sided(z))


def _two_sided(z: F64) -> F64:
    from scipy.special import ndtr

    found: F64 = 2 * ndtr(-z)
    return found


def discoveries(p: F64, q: float = FALSE_DISCOVERIES) -> Flags:
    """Which of a family of tests are significant at a false discovery rate of q; NaN is no test.

    Benjamini and Hochberg, JRSS B 1995: with p₍₁₎ ≤ … ≤ p₍ₙ₎, all up to the largest i with p₍ᵢ₎ ≤ q·i/n.

    >>> discoveries(np.array([0.04, 0.001, 0.9, np.nan, 0.02]))
    array([False,  True, False, False,  True])
    """
    known = np.sort(p[~np.isnan(p)], axis=None)
    below = np.flatnonzero(known <= q * np.arange(1, len(known) + 1) / max(1, len(known)))
    found: Flags = p <= (known[below[-1]] if len(below) else -1.0)
    return found


def significant(grid: Grid, found: Changes, columns: NDArray[Any] | slice = slice(None)) -> Flags:
    """Which cells of these columns changed significantly; a family is all of one metric, as in the page."""
    return np.stack([discoveries(p[:, columns]) for p in found.p])


def grid_table(grid: Grid) -> "pa.Table":
    """A row for each slicing, slice, model and metric: the grid for spreadsheets, programs and screen readers.

    `significant` is within the slicing: its family is all cells of its slices of one metric, all traffic apart.
    """
    import pyarrow as pa

    found, z = changes(grid), NormalDist().inv_cdf((1 + grid.level) / 2)
    marked = np.concatenate([significant(grid, found, slice(g.first, g.first + g.count)) for g in grid.groups], axis=2)
    k, m, s = grid.value.shape
    # Slices first, then models, then metrics: as one reads a grid from the left.
    index = np.indices((s, m, k)).reshape(3, -1)

    def cells(array: NDArray[Any]) -> NDArray[Any]:
        return np.ascontiguousarray(array.transpose(2, 1, 0)).reshape(-1)

    def known(array: NDArray[Any]) -> "pa.Array":
        numbers = cells(array).astype(np.float64)
        return pa.array(numbers, mask=~np.isfinite(numbers))

    def named(which: int, names: list[str]) -> "pa.Array":
        return pa.DictionaryArray.from_arrays(pa.array(index[which].astype(np.int32)), pa.array(names, pa.string()))

    group_of = np.repeat(np.arange(len(grid.groups)), [g.count for g in grid.groups])
    slicing = pa.DictionaryArray.from_arrays(
        pa.array(group_of[index[0]].astype(np.int32)), pa.array([g.name for g in grid.groups], pa.string())
    )
    value = grid.value.astype(np.float64)
    return pa.table(
        {
            "slicing": slicing,
            "slice": named(0, list(grid.slices)),
            "impressions": pa.array(grid.impressions[index[0]]),
            "clicks": pa.array(grid.clicks[index[0]]),
            "model": named(1, list(grid.models)),
            "metric": named(2, [metric.name for metric in grid.metrics]),
            "value": known(value),
            "low": known(value - grid.low),
            "high": known(value + grid.high),
            "difference": known(found.difference),
            "difference_low": known(found.difference - z * found.se),
            "difference_high": known(found.difference + z * found.se),
            "worse": known(found.change),
            "p": known(found.p),
            "significant": pa.array(cells(marked)),
        }
    )


def write_table(grid: Grid, path: str | os.PathLike[str]) -> None:
    """Write `grid_table` as CSV, or as Parquet if the name ends so. Formulas in the names of slices stay text."""
    import pyarrow.csv
    import pyarrow.parquet as pq

    from broadmatch.io.files import replacing_file

    table = grid_table(grid)
    with replacing_file(path) as out:
        if str(path).endswith(".parquet"):
            pq.write_table(table, out, compression="zstd")
            return
        for at, name in enumerate(table.column_names):
            if name in ("slicing", "slice", "model"):
                table = table.set_column(at, name, _neutral(table[name]))
        pyarrow.csv.write_csv(table, out)


def _neutral(column: Any) -> Any:
    """Texts that a spreadsheet would take for a formula get an apostrophe before them (OWASP, CSV injection)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    coded = column.combine_chunks()
    coded = coded.chunk(0) if isinstance(coded, pa.ChunkedArray) else coded
    names = pc.replace_substring_regex(coded.dictionary, r"^([=+\-@\t\r])", r"'\1")
    return pa.DictionaryArray.from_arrays(coded.indices, names).dictionary_decode()
