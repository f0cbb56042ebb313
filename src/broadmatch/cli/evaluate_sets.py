"""The part of `broadmatch evaluate` that is about sets: exact match, F1, precision, recall, covering errors."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broadmatch.cli.truths import aligned, truth_of
from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.cli.opened import Opened
    from broadmatch.data import CSR, Dataset
    from broadmatch.evaluate import Report


@dataclasses.dataclass(frozen=True)
class SetReport:
    """The metrics of sets, and how large they are on average beside the true ones."""

    report: "Report"
    labels_per_point: float
    true_labels_per_point: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        sizes = {"labels_per_point": self.labels_per_point, "true_labels_per_point": self.true_labels_per_point}
        return self.report.to_dict() | sizes


def measure_sets(
    opened: "Opened", points: "Dataset", coverings: list[str] | None, truth: Path | None, place: Path
) -> dict[str, SetReport]:
    """The report of the model's sets against the labels of `points` ("log"), and against the truth if it is given."""
    from broadmatch.evaluate.ranking import as_scores

    if opened.sets is None:
        raise BadInput(f"{opened.place} only ranks labels, it has no sets to measure; train with --howmany.")
    names, labels = aligned(opened.label_names, points.labels, points.Y)
    chosen = as_scores(opened.sets.predict(points.X))._replace(n_cols=len(names))
    reports = {"log": _report(chosen, labels, coverings)}
    if truth is not None:
        reports["truth"] = _report(chosen, truth_of(truth, points, names, place), coverings)
    return reports


def _report(chosen: "CSR", labels: "CSR", coverings: list[str] | None) -> SetReport:
    from broadmatch.evaluate import covering_report, set_report

    report = set_report(chosen, labels)
    if coverings is not None:
        more = covering_report(chosen, labels, coverings={name: name for name in coverings})
        report = dataclasses.replace(
            report, metrics={**report.metrics, **more.metrics}, draws={**report.draws, **more.draws}
        )
    n = max(1, labels.n_rows)
    return SetReport(report, chosen.nnz / n, labels.nnz / n)
