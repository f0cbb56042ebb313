"""How good a fitted model is on a data set: its ranking, its sets, and what it finds when some labels are revealed.

And how good the answers of several recommenders are, whose phrases are texts: each may know some that others do not.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Dataset, Hierarchy, Names, Ranking, propensity
from broadmatch.data.hierarchy import add_ancestors
from broadmatch.errors import BadInput
from broadmatch.evaluate import (
    Report,
    SizeCount,
    WarmStartReport,
    covering_report,
    depth_reports,
    ranking_report,
    set_report,
    set_sizes,
    warm_start_report,
)
from broadmatch.labels.predictor import LabelPredictor

_DEPTH = 100
"""Labels that are ranked: the report says how many points have so many."""
Answer = Sequence[tuple[str, float]]
"""The phrases of a page with their scores, best first."""


@dataclasses.dataclass(frozen=True)
class SetReport:
    """The metrics of sets, and how large they are beside the true ones: on average, and how many of each size."""

    report: Report
    labels_per_point: float
    true_labels_per_point: float
    sizes: list[SizeCount]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        means = {"labels_per_point": self.labels_per_point, "true_labels_per_point": self.true_labels_per_point}
        return self.report.to_dict() | means | {"sizes": [one._asdict() for one in self.sizes]}


@dataclasses.dataclass(frozen=True)
class DepthReport:
    """The metrics of the categories of one depth, ancestors counted in, and how often these are true."""

    depth: int
    n_true: int
    report: Report

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"depth": self.depth, "n_true": self.n_true} | self.report.to_dict()


class SetReports(NamedTuple):
    """Reports of sets by what they are compared with, and in a hierarchy those of all depths."""

    reports: dict[str, SetReport]
    depths: list[DepthReport]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        depths = {"depths": [one.to_dict() for one in self.depths]} if self.depths else {}
        return {name: one.to_dict() for name, one in self.reports.items()} | depths


def align_labels(known: Names, given: Names, labels: CSR) -> tuple[Names, CSR]:
    """Labels with a model's numbers; those that it does not know come behind, as what it can never find.

    >>> names, labels = align_labels(Names.of(["pizza", "taxi"]), Names.of(["taxi", "tea"]), CSR.from_rows([[0, 1]], 2))
    >>> list(names), labels.row(0)[0].tolist()
    (['pizza', 'taxi', 'tea'], [1, 2])
    """
    if known == given:
        return known, labels
    names = Names.of([*known, *(name for name in given if name not in known)])
    return names, labels.renumbered(names.places(given), len(names))


def ranking_reports(
    model: LabelPredictor, points: Dataset, *, ks: Sequence[int] = (1, 3, 5, 10), truth: CSR | None = None
) -> dict[str, Report]:
    """The ranking of a model against the labels of `points` ("log") and, where it is known, against the truth.

    `truth` has the columns of `align_labels`. Labels that the model does not know count as missed.
    """
    names, labels = align_labels(model.label_names_, points.labels, points.Y)
    predicted = dataclasses.replace(model.predict_topk(points.X, k=max(_DEPTH, *ks)), label_names=names)
    given: dict[str, Any] = {"ks": ks, "propensity": _propensity(model, len(names))}
    if any(name != str(i) for i, name in enumerate(names)):  # labels that have names are phrases
        given["phrases"] = names
    compared = {"log": labels} if truth is None else {"log": labels, "truth": truth}
    return {name: ranking_report(true, predicted, **given) for name, true in compared.items()}


def revealed_report(model: LabelPredictor, points: Dataset, **how: Any) -> WarmStartReport:
    """`warm_start_report` of a model; labels that it does not know are never revealed to it."""
    names, labels = align_labels(model.label_names_, points.labels, points.Y)
    n_known = len(model.label_names_)

    def predict(X: CSR, k: int, revealed: CSR) -> Ranking:
        known = CSR.from_scipy(revealed.to_scipy()[:, :n_known])
        return dataclasses.replace(model.predict_topk(X, k=k, revealed=known), label_names=names)

    return warm_start_report(predict, points.X, labels, propensity=_propensity(model, len(names)), **how)


def set_reports(
    model: LabelPredictor,
    points: Dataset,
    *,
    coverings: Sequence[str] = (),
    truth: CSR | None = None,
    hierarchy: Hierarchy | None = None,
) -> SetReports:
    """The sets of a model against the labels of `points` ("log") and, where it is known, against the truth.

    In a hierarchy also against the labels when both sides have all categories above theirs ("ancestors").
    """
    names, labels = align_labels(model.label_names_, points.labels, points.Y)
    if hierarchy is not None:
        lost = next((name for name in names if name not in hierarchy.names), None)
        if lost is not None:
            whose = "The model" if lost in model.label_names_ else "The data"
            raise BadInput(
                f"{whose} has the label {lost!r}, which is not in the hierarchy of {hierarchy.n_categories:,} "
                "categories; give a hierarchy that has it, or take the label out."
            )
    chosen = CSR.from_scipy(model.predict_sets(points.X).to_csr())._replace(n_cols=len(names))
    chosen = chosen._replace(data=np.ones_like(chosen.data))  # a score of 0 is in the set too
    reports = {"log": _set_report(chosen, labels, coverings)}
    if truth is not None:
        reports["truth"] = _set_report(chosen, truth, coverings)
    if hierarchy is None:
        return SetReports(reports, [])
    found, true = (add_ancestors(align_labels(hierarchy.names, names, one)[1], hierarchy) for one in (chosen, labels))
    reports["ancestors"] = _set_report(found, true, coverings)
    often = np.bincount(hierarchy.depth[true.indices], minlength=int(hierarchy.depth.max()) + 1)
    by_depth = depth_reports(true, found, hierarchy)
    return SetReports(reports, [DepthReport(depth, int(often[depth]), one) for depth, one in by_depth.items()])


def _set_report(chosen: CSR, labels: CSR, coverings: Sequence[str]) -> SetReport:
    report = set_report(labels, chosen)
    if coverings:
        more = covering_report(labels, chosen, coverings={name: name for name in coverings})
        metrics: Mapping[str, Any] = {**report.metrics, **more.metrics}
        report = dataclasses.replace(report, metrics=metrics, draws={**report.draws, **more.draws})
    n = max(1, labels.n_rows)
    return SetReport(report, chosen.nnz / n, labels.nnz / n, set_sizes(labels, chosen))


def _propensity(model: Any, n_labels: int) -> NDArray[np.float64]:
    """How likely each label was seen, by its count in training; beliefs count as much as they weigh."""
    ranks, counts = getattr(model, "model_", model), np.zeros(n_labels)
    counts[: len(ranks.label_counts_)] = ranks.label_counts_
    return propensity(counts, max(3, ranks.n_points_))


class PhraseNumbers:
    """Numbers for all phrases that are asked about, so that texts become the matrices of the metrics."""

    def __init__(self, phrases: Iterable[str]) -> None:
        self.names = Names.of(sorted(set(phrases)))
        self._number = {name: i for i, name in enumerate(self.names)}

    def matrix(self, rows: Iterable[Iterable[str]]) -> CSR:
        """Which phrases each page has."""
        return CSR.from_rows([sorted({self._number[phrase] for phrase in row}) for row in rows], len(self.names))

    def ranking(self, answers: Sequence[Answer]) -> Ranking:
        """The phrases of each page in the order of the answer; one that is there twice counts where it is first."""
        kept = [_once(row) for row in answers]
        lengths = np.array([len(row) for row in kept], np.int64)
        labels = np.array([self._number[phrase] for row in kept for phrase in row], np.int32)
        scores = np.array([score for row in kept for score in row.values()], np.float32)
        return Ranking.of(lengths, labels, scores, self.names)


def _once(row: Answer) -> dict[str, float]:
    found: dict[str, float] = {}
    for phrase, score in row:
        found.setdefault(phrase, score)
    return found


def answer_reports(
    y_true: Sequence[Iterable[str]], answers: Mapping[str, Sequence[Answer]], *, ks: Sequence[int] = (10,)
) -> dict[str, Report]:
    """The ranking metrics of several recommenders on the same pages, by the phrases that are true for each page.

    >>> answers = {"page": [[("pizza", 0.9), ("call ahead", 0.8)]], "log": [[("pizza near me", 0.5), ("pizza", 0.4)]]}
    >>> found = answer_reports([["pizza", "pizza near me"]], answers, ks=(2,))
    >>> found["page"]["P@2"].value, found["log"]["P@2"].value
    (0.5, 1.0)
    """
    truth = [list(row) for row in y_true]
    for name, rows in answers.items():
        if len(rows) != len(truth):
            raise BadInput(f"{name} answers for {len(rows):,} pages, but y_true is of {len(truth):,}.")
    numbers = PhraseNumbers(_all_phrases(truth, answers))
    matrix = numbers.matrix(truth)
    return {
        name: ranking_report(matrix, numbers.ranking(rows), ks=ks, phrases=numbers.names)
        for name, rows in answers.items()
    }


def _all_phrases(truth: Sequence[Iterable[str]], answers: Mapping[str, Sequence[Answer]]) -> Iterable[str]:
    yield from (phrase for row in truth for phrase in row)
    yield from (phrase for rows in answers.values() for row in rows for phrase, _ in row)
