"""What a data set is like: sizes, how labels and features are spread over points, and the categories of each depth."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.dataset import Dataset
from broadmatch.data.hierarchy import Hierarchy
from broadmatch.errors import BadInput

TAIL = (1, 2, 5, 10)
"""A label of the tail has at most so many points."""
_QUANTILES = {"least": 0.0, "q25": 0.25, "median": 0.5, "q75": 0.75, "q90": 0.9, "q99": 0.99, "most": 1.0}


@dataclass(frozen=True)
class Spread:
    """How a number is spread over points, labels or features: its mean, and quantiles that occur."""

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
        found = np.quantile(some, list(_QUANTILES.values()), method="inverted_cdf")
        return cls(float(some.mean()), *map(int, found))


@dataclass(frozen=True)
class DepthSummary:
    """The categories of one depth: how many there are, how many have points, and the points that have one of them."""

    depth: int
    n_categories: int
    n_used: int
    n_points: int
    labels_per_point: float
    """Of the points that have one."""


@dataclass(frozen=True)
class DatasetSummary:
    """What a data set is like: table 1 of the papers, and more.

    `n_labels` and `n_features` are the columns of Y and X; those that a point has are used, those of one point are
    there once. `tail` says how many labels have at most 1, 2, 5 and 10 points. Spreads over labels and features leave
    out what is not used. `weighted` says that labels have weights other than 1.
    """

    n_points: int
    n_features: int
    n_labels: int
    n_label_entries: int
    n_feature_entries: int
    features_used: int
    features_once: int
    labels_used: int
    points_without_labels: int
    points_without_features: int
    weighted: bool
    labels_per_point: Spread
    points_per_label: Spread
    features_per_point: Spread
    points_per_feature: Spread
    tail: dict[int, int]
    depths: tuple[DepthSummary, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def dataset_summary(data: Dataset, hierarchy: Hierarchy | None = None) -> DatasetSummary:
    """Count what a data set holds; with a hierarchy of its labels, also depth by depth.

    At a depth, labels count as points have them, without the categories above (MetaLabeler paper, table 6).

    >>> from broadmatch.data import CSR, Names
    >>> X, Y = CSR.from_rows([[0], [0, 2], []], n_cols=4), CSR.from_rows([[0], [0, 1], []], n_cols=3)
    >>> found = dataset_summary(Dataset(X, Y, Names.of(["pizza", "oven", "tea"])))
    >>> found.labels_per_point.mean, found.points_per_label.most, found.features_once, found.tail[1]
    (1.0, 2, 1, 1)
    """
    per_label, per_feature = (np.bincount(m.indices, minlength=m.n_cols) for m in (data.Y, data.X))
    per_point, words = (np.diff(m.indptr) for m in (data.Y, data.X))
    used, seen = per_label[per_label > 0], per_feature[per_feature > 0]
    return DatasetSummary(
        n_points=len(data),
        n_features=data.X.n_cols,
        n_labels=data.Y.n_cols,
        n_label_entries=data.Y.nnz,
        n_feature_entries=data.X.nnz,
        features_used=len(seen),
        features_once=int((seen == 1).sum()),
        labels_used=len(used),
        points_without_labels=int((per_point == 0).sum()),
        points_without_features=int((words == 0).sum()),
        weighted=bool((data.Y.data != 1).any()),
        labels_per_point=Spread.of(per_point),
        points_per_label=Spread.of(used),
        features_per_point=Spread.of(words),
        points_per_feature=Spread.of(seen),
        tail={n: int((used <= n).sum()) for n in TAIL},
        depths=() if hierarchy is None else tuple(_depths(data, hierarchy)),
    )


def _depths(data: Dataset, hierarchy: Hierarchy) -> list[DepthSummary]:
    lost = next((name for name in data.labels if name not in hierarchy.names), None)
    if lost is not None:
        raise BadInput(f"The data has the label {lost!r}, which is not in the hierarchy; give one that has it.")
    depth_of = hierarchy.depth[[hierarchy.number(name) for name in data.labels]]
    row = np.repeat(np.arange(len(data)), np.diff(data.Y.indptr))
    found = []
    for depth in range(1, int(hierarchy.depth.max()) + 1):
        here = depth_of[data.Y.indices] == depth
        n_points = len(np.unique(row[here]))
        found.append(
            DepthSummary(
                depth,
                n_categories=int((hierarchy.depth == depth).sum()),
                n_used=len(np.unique(data.Y.indices[here])),
                n_points=n_points,
                labels_per_point=float(here.sum()) / max(1, n_points),
            )
        )
    return found
