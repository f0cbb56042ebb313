"""All ranking metrics of a model on one set of points, with bootstrap intervals, and the difference of two models."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput, BadParameter
from broadmatch.evaluate import per_point
from broadmatch.evaluate.bootstrap import interval, resample
from broadmatch.evaluate.edit_distance import edit_distance
from broadmatch.evaluate.per_point import PerPoint
from broadmatch.evaluate.ranking import Ranking
from broadmatch.params import Number, Whole

_ENOUGH = 100  # "at least 100 bid phrases" in MLRF §5.4
_UNITS = {
    "edit distance": (100, "% of the words"),
    "coverage error": (1, "labels"),
    "covering error": (1, "label sets"),
}


@dataclass(frozen=True)
class Estimate:
    """A value and the bootstrap interval around it."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True)
class Report:
    """The metrics of one model: `report["P@1"].value`, `.low`, `.high`; `print(report)` is a table.

    `draws` holds each metric in each bootstrap sample; `points` identifies the truth that was compared with.
    """

    metrics: Mapping[str, Estimate]
    n_points: int
    n_labels: int
    n_without_truth: int
    n_without_predictions: int
    level: float
    n_bootstrap: int
    seed: int
    draws: Mapping[str, NDArray[np.float64]]
    points: str

    def __getitem__(self, metric: str) -> Estimate:
        if metric not in self.metrics:
            raise BadInput(f"The report has no {metric!r}; it has {', '.join(self.metrics)}.")
        return self.metrics[metric]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the bootstrap samples, ready for JSON."""
        return {
            "metrics": {n: {"value": e.value, "low": e.low, "high": e.high} for n, e in self.metrics.items()},
            "n_points": self.n_points,
            "n_labels": self.n_labels,
            "n_without_truth": self.n_without_truth,
            "n_without_predictions": self.n_without_predictions,
            "level": self.level,
            "n_bootstrap": self.n_bootstrap,
            "seed": self.seed,
        }

    def __str__(self) -> str:
        rows = [["metric", "value", "from", "to", ""]]
        for name, e in self.metrics.items():
            scale, unit = _UNITS.get(name.partition("@")[0], (100, "%"))
            rows.append([name, *(f"{scale * v:,.2f}" for v in (e.value, e.low, e.high)), unit])
        widths = [max(len(row[c]) for row in rows) for c in range(5)]
        lines = []
        for name, *numbers, unit in rows:
            cells = [f"{number:>{width}}" for number, width in zip(numbers, widths[1:], strict=False)]
            lines.append("  ".join([name.ljust(widths[0]), *cells, unit]).rstrip())
        counted = (
            f"{self.n_points:,} points, {self.n_labels:,} labels; "
            f"{self.n_without_truth:,} points without true labels, "
            f"{self.n_without_predictions:,} without recommendations; "
            f"{self.level:.0%} intervals from {self.n_bootstrap:,} bootstrap samples of the points"
        )
        return "\n".join([*lines, counted])


def ranking_report(
    predicted: Any,
    truth: Any,
    *,
    ks: Sequence[int] = (1, 3, 5),
    propensity: Any = None,
    phrases: Any = None,
    n_bootstrap: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Report:
    """All ranking metrics at once, with percentile bootstrap intervals over points.

    `propensity` (p_l for each label) adds PSP@k and PSnDCG@k; `phrases` (the name of each label) adds the word-level
    edit distance. The points, not the labels, are drawn again: a ratio's two sums are drawn together.

    >>> from broadmatch.data import CSR
    >>> truth = CSR.from_rows([[0], [1, 2]], n_cols=3)
    >>> report = ranking_report(truth, truth, ks=(1,))
    >>> print(report["P@1"])
    1.0000 [1.0000, 1.0000]
    """
    check_settings(ks, n_bootstrap, seed, level)
    ranking = Ranking.of(predicted, truth)
    contributions = _contributions(ranking, sorted(set(ks)), propensity, phrases)
    draws = resample(contributions, n_bootstrap, seed)
    return Report(
        metrics=estimates(contributions, draws, level),
        n_points=ranking.n_points,
        n_labels=ranking.n_labels,
        n_without_truth=int((ranking.n_true == 0).sum()),
        n_without_predictions=int((ranking.n_recommended == 0).sum()),
        level=level,
        n_bootstrap=n_bootstrap,
        seed=seed,
        draws=draws,
        points=fingerprint(ranking),
    )


def paired_difference(report_a: Report, report_b: Report, metric: str) -> Estimate:
    """How much larger `metric` is in `report_a` than in `report_b`, on the same points, with its interval.

    Both reports drew the same points, so what makes a point hard for both models cancels: the interval is
    narrower than two intervals side by side. If it leaves 0 out, the models differ at that level.

    >>> from broadmatch.data import CSR
    >>> truth = CSR.from_rows([[0], [1]], n_cols=2)
    >>> good, bad = ranking_report(truth, truth), ranking_report(CSR.from_rows([[1], [0]], n_cols=2), truth)
    >>> print(paired_difference(good, bad, "P@1"))
    1.0000 [1.0000, 1.0000]
    """
    if report_a.points != report_b.points:
        raise BadInput("The two reports are not about the same points: their truth differs.")
    for name in ("seed", "n_bootstrap", "level"):
        a, b = getattr(report_a, name), getattr(report_b, name)
        if a != b:
            raise BadInput(f"The two reports were made with {name} {a} and {b}; make both with the same.")
    value = report_a[metric].value - report_b[metric].value
    return Estimate(value, *interval(report_a.draws[metric] - report_b.draws[metric], report_a.level))


def check_settings(ks: Sequence[int], n_bootstrap: int, seed: int, level: float) -> None:
    """Refuse cut-offs and bootstrap settings that no report can be made with."""
    if not ks:
        raise BadParameter("ks must be one or more cut-offs, but it is empty.")
    for k in ks:
        Whole(1).check("ks", k)
    Whole(1).check("n_bootstrap", n_bootstrap)
    Whole(0).check("seed", seed)
    Number(0, 1, above=True).check("level", level)


def estimates(
    contributions: Mapping[str, PerPoint], draws: Mapping[str, NDArray[np.float64]], level: float
) -> dict[str, Estimate]:
    """Each metric over all points, with the interval of its bootstrap samples."""
    return {name: Estimate(float(c.values()[0]), *interval(draws[name], level)) for name, c in contributions.items()}


def _contributions(ranking: Ranking, ks: Sequence[int], propensity: Any, phrases: Any) -> dict[str, PerPoint]:
    found = per_point.at_cuts(ranking, ks, propensity)
    if phrases is not None:
        distance = edit_distance(ranking, np.array(ks, np.int64), phrases)
        found |= {f"edit distance@{k}": distance.column(c) for c, k in enumerate(ks)}
    found["average precision"] = per_point.average_precision(ranking)
    found["one-error"] = per_point.one_error(ranking)
    found["coverage error"] = per_point.coverage_error(ranking)
    found[f"share with {_ENOUGH}"] = per_point.at_least(ranking, _ENOUGH)
    return found


def fingerprint(ranking: Ranking) -> str:
    """Names the truth that a ranking is compared with."""
    digest = hashlib.sha256(f"{ranking.n_points} {ranking.n_labels}".encode())
    digest.update(np.ascontiguousarray(ranking.truth.indptr).data)
    digest.update(np.ascontiguousarray(ranking.truth.indices).data)
    return digest.hexdigest()
