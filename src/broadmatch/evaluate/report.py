"""All ranking metrics of a model on one set of points, with bootstrap intervals, and the difference of two models."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput, BadParameter
from broadmatch.evaluate import phrase_metrics
from broadmatch.evaluate import ranking as per_point
from broadmatch.evaluate.bootstrap import Bootstrap, interval
from broadmatch.evaluate.checks import column
from broadmatch.evaluate.ranking import EvaluatedPoints, PerPoint, RankedTruth
from broadmatch.params import Whole

_ENOUGH = 100  # "at least 100 bid phrases" in MLRF §5.4
_COVERAGES = (1, 10, _ENOUGH)
_UNITS = {
    "edit distance": (100, "% of the words"),
    "coverage error": (1, "labels"),
    "covering error": (1, "label sets"),
    "specificity": (1, "bits"),
    "words": (1, "words"),
}


@dataclass(frozen=True)
class Estimate:
    """A value and the bootstrap interval around it."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


class Drawn(NamedTuple):
    """A metric that is not a ratio of sums over points: its value, and what it was in each bootstrap sample."""

    value: float
    draws: NDArray[np.float64]


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

    @classmethod
    def of(
        cls, points: EvaluatedPoints, contributions: Mapping[str, PerPoint | Drawn], bootstrap: Bootstrap
    ) -> "Report":
        """The report of metrics, in their order, from what each point contributes to them."""
        sums = {name: part for name, part in contributions.items() if isinstance(part, PerPoint)}
        sampled = bootstrap.resample(sums)
        drawn = {
            name: part if isinstance(part, Drawn) else Drawn(float(part.values()[0]), sampled[name])
            for name, part in contributions.items()
        }
        return cls(
            metrics={name: Estimate(d.value, *interval(d.draws, bootstrap.level)) for name, d in drawn.items()},
            draws={name: d.draws for name, d in drawn.items()},
            **points._asdict(),
            **asdict(bootstrap),
        )

    def __getitem__(self, metric: str) -> Estimate:
        if metric not in self.metrics:
            raise BadInput(f"The report has no {metric!r}; it has {', '.join(self.metrics)}.")
        return self.metrics[metric]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the bootstrap samples, ready for JSON."""
        return {
            field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("draws", "points")
        } | {"metrics": {name: asdict(estimate) for name, estimate in self.metrics.items()}}

    def __str__(self) -> str:
        rows = [["metric", "value", "from", "to", ""]]
        for name, e in self.metrics.items():
            scale, unit = _UNITS.get(name.partition("@")[0], (100, "%"))
            rows.append([name, *(f"{scale * v:,.2f}" for v in (e.value, e.low, e.high)), unit])
        lines = [
            f"{line}  {unit}".rstrip()
            for line, (*_, unit) in zip(aligned([row[:-1] for row in rows]), rows, strict=True)
        ]
        counted = (
            f"{self.n_points:,} points, {self.n_labels:,} labels; "
            f"{self.n_without_truth:,} points without true labels, "
            f"{self.n_without_predictions:,} without recommendations; "
            f"{self.level:.0%} intervals from {self.n_bootstrap:,} bootstrap samples of the points"
        )
        return "\n".join([*lines, counted])


def ranking_report(
    y_true: Any,
    y_score: Any,
    *,
    ks: Sequence[int] = (1, 3, 5),
    propensity: Any = None,
    phrases: Any = None,
    sample_weight: Any = None,
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
    cuts, bootstrap = cut_offs(ks), Bootstrap(n_bootstrap, seed, level)
    ranked = RankedTruth.of(y_true, y_score, sample_weight)
    found = per_point.at_cuts(ranked, cuts, propensity)
    if phrases is not None:
        distance = phrase_metrics.edit_distance(ranked, np.array(cuts, np.int64), phrases)
        found |= {f"edit distance@{k}": distance.column(c) for c, k in enumerate(cuts)}
    found["average precision"] = per_point.average_precision(ranked)
    found["one-error"] = per_point.one_error(ranked)
    found["coverage error"] = per_point.coverage_error(ranked)
    found[f"share with {_ENOUGH}"] = per_point.at_least(ranked, _ENOUGH)
    return Report.of(ranked.points, ranked.weighted(found), bootstrap)


def phrase_report(
    y_score: Any,
    *,
    phrases: Any,
    ks: Sequence[int] = (10,),
    generic: Any = None,
    popularity: Any = None,
    sample_weight: Any = None,
    n_bootstrap: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Report:
    """What recommended phrases are like, right or not (MLRF §5.3–5.4), with bootstrap intervals over pages.

    Shares of pages with at least 1, 10 and 100 phrases, diversity and number of words; `generic` (a mark for each
    label) adds the share of generic phrases, `popularity` (a share for each label) the specificity.

    >>> from broadmatch.data import CSR
    >>> report = phrase_report(CSR.from_rows([[0, 1], []], n_cols=2), phrases=["car insurance", "pizza"])
    >>> report["diversity@10"].value, report["words@10"].value, report["share with 1"].value
    (1.0, 1.5, 0.5)
    """
    cuts, bootstrap = cut_offs(ks), Bootstrap(n_bootstrap, seed, level)
    ranked, at = RankedTruth.of_predictions(y_score, sample_weight), np.array(cuts, np.int64)
    parts = {"diversity": phrase_metrics.diversity(ranked, at, phrases)}
    if popularity is not None:
        parts["specificity"] = phrase_metrics.mean_of(ranked, at, phrase_metrics.surprisal(popularity))
    parts["words"] = phrase_metrics.mean_of(ranked, at, phrase_metrics.word_counts(phrases))
    if generic is not None:
        parts["generic"] = phrase_metrics.mean_of(ranked, at, column(generic, "generic"))
    found = {f"share with {n}": per_point.at_least(ranked, n) for n in _COVERAGES}
    found |= {f"{name}@{k}": part.column(c) for name, part in parts.items() for c, k in enumerate(cuts)}
    return Report.of(ranked.points, ranked.weighted(found), bootstrap)


def paired_difference(report_a: Report, report_b: Report, metric: str) -> Estimate:
    """How much larger `metric` is in `report_a` than in `report_b`, on the same points, with its interval.

    Both reports drew the same points, so what makes a point hard for both models cancels: the interval is
    narrower than two intervals side by side. If it leaves 0 out, the models differ at that level.

    >>> from broadmatch.data import CSR
    >>> truth = CSR.from_rows([[0], [1]], n_cols=2)
    >>> good, bad = ranking_report(truth, truth), ranking_report(truth, CSR.from_rows([[1], [0]], n_cols=2))
    >>> print(paired_difference(good, bad, "P@1"))
    1.0000 [1.0000, 1.0000]
    """
    if report_a.points != report_b.points:
        raise BadInput("The two reports are not about the same points: their truth or their weights differ.")
    for name in ("seed", "n_bootstrap", "level"):
        a, b = getattr(report_a, name), getattr(report_b, name)
        if a != b:
            raise BadInput(f"The two reports were made with {name} {a} and {b}; make both with the same.")
    value = report_a[metric].value - report_b[metric].value
    return Estimate(value, *interval(report_a.draws[metric] - report_b.draws[metric], report_a.level))


def cut_offs(ks: Sequence[int]) -> list[int]:
    """The different cut-offs k, the smallest first."""
    if not ks:
        raise BadParameter("ks must be one or more cut-offs, but it is empty.")
    for k in ks:
        Whole(1).check("ks", k)
    return sorted({int(k) for k in ks})


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Rows of cells as lines of a table, the first `left` columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if c < left else cell.rjust(width)
            for c, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
