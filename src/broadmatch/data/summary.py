"""What a data set is like: sizes, how labels and features are spread over points, and the categories of each depth."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.csr import CSR
from broadmatch.data.dataset import Dataset
from broadmatch.data.hierarchy import Hierarchy
from broadmatch.errors import BadInput

_TAIL = (1, 2, 5, 10)
_QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class Spread:
    """How a number is spread: its mean, and quantiles, which are numbers that occur."""

    mean: float
    least: int
    q25: int
    median: int
    q75: int
    q90: int
    q99: int
    most: int

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> "Spread":
        """The spread of some numbers; all 0 if there are none.

        >>> Spread.of(np.array([1, 1, 2, 8])).median
        1
        """
        some = counts if len(counts) else np.zeros(1, np.int64)
        return cls(float(some.mean()), *map(int, np.quantile(some, _QUANTILES, method="inverted_cdf")))


@dataclass(frozen=True)
class Occurrence:
    """How labels, or features, occur: `n` there are, `used` by a point or more, `entries` times in all.

    `tail` says how many are used by at most 1, 2, 5 and 10 points. `points_of_each` leaves out those that none uses.
    """

    n: int
    used: int
    entries: int
    tail: dict[int, int]
    points_without: int
    per_point: Spread
    points_of_each: Spread

    @classmethod
    def of(cls, matrix: CSR) -> "Occurrence":
        """Count the columns of a matrix, and the rows that have them."""
        per_point, points = np.diff(matrix.indptr), np.bincount(matrix.indices, minlength=matrix.n_cols)
        used = points[points > 0]
        tail = {n: int((used <= n).sum()) for n in _TAIL}
        without = int((per_point == 0).sum())
        return cls(matrix.n_cols, len(used), matrix.nnz, tail, without, Spread.of(per_point), Spread.of(used))


@dataclass(frozen=True)
class DepthSummary:
    """The categories of one depth, those that points have, and these points with the labels that each has of them."""

    depth: int
    n_categories: int
    used: int
    n_points: int
    labels_per_point: float


@dataclass(frozen=True)
class DatasetSummary:
    """What a data set is like: table 1 of the papers, and more; `weighted` says that some label weighs other than 1."""

    n_points: int
    features: Occurrence
    labels: Occurrence
    weighted: bool
    depths: tuple[DepthSummary, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def dataset_summary(data: Dataset, hierarchy: Hierarchy | None = None) -> DatasetSummary:
    """Count what a data set holds; with a hierarchy of its labels, also depth by depth.

    At a depth, labels count as points have them, without the categories above (MetaLabeler paper, table 6).

    >>> from broadmatch.data import Names
    >>> X, Y = CSR.from_rows([[0], [0, 2], []], n_cols=4), CSR.from_rows([[0], [0, 1], []], n_cols=3)
    >>> found = dataset_summary(Dataset(X, Y, Names.of(["pizza", "oven", "tea"])))
    >>> found.labels.per_point.mean, found.labels.points_of_each.most, found.features.used, found.features.tail[1]
    (1.0, 2, 2, 1)
    """
    depths = () if hierarchy is None else tuple(_depths(data, hierarchy))
    weighted = bool((data.Y.data != 1).any())
    return DatasetSummary(len(data), Occurrence.of(data.X), Occurrence.of(data.Y), weighted, depths)


def _depths(data: Dataset, hierarchy: Hierarchy) -> list[DepthSummary]:
    lost = next((name for name in data.labels if name not in hierarchy.names), None)
    if lost is not None:
        raise BadInput(f"The data has the label {lost!r}, which is not in the hierarchy; give one that has it.")
    depth_of = hierarchy.depth[[hierarchy.number(name) for name in data.labels]]
    found = []
    for depth, n_categories in enumerate(np.bincount(hierarchy.depth).tolist()[1:], 1):
        here = Occurrence.of(data.Y.where((depth_of == depth)[data.Y.indices]))
        n_points = len(data) - here.points_without
        found.append(DepthSummary(depth, n_categories, here.used, n_points, here.entries / max(1, n_points)))
    return found
