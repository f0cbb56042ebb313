"""The part of `broadmatch evaluate` that is about sets: exact match, F1, covering errors; in a hierarchy by depth."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from broadmatch.cli.truths import aligned, truth_of
from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.cli.opened import Opened
    from broadmatch.data import CSR, Dataset, Hierarchy, Names
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


@dataclasses.dataclass(frozen=True)
class DepthReport:
    """The metrics of the categories of one depth, ancestors counted in, and how often these are true."""

    depth: int
    n_true: int
    report: "Report"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"depth": self.depth, "n_true": self.n_true} | self.report.to_dict()


class Measured(NamedTuple):
    """Reports of the sets by what they are compared with, and in a hierarchy those of all depths."""

    reports: dict[str, SetReport]
    depths: list[DepthReport]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        depths = {"depths": [one.to_dict() for one in self.depths]} if self.depths else {}
        return {name: one.to_dict() for name, one in self.reports.items()} | depths


def measure_sets(
    opened: "Opened",
    points: "Dataset",
    coverings: list[str] | None,
    truth: Path | None,
    place: Path,
    hierarchy: "Hierarchy | None" = None,
) -> Measured:
    """The report of the model's sets against the labels of `points` ("log"), and against the truth if it is given.

    In a hierarchy also against the labels when both sides have all categories above theirs ("ancestors").
    """
    from broadmatch.evaluate.ranking import as_scores

    if opened.sets is None:
        raise BadInput(f"{opened.place} only ranks labels, it has no sets to measure; train with --sets.")
    names, labels = aligned(opened.label_names, points.labels, points.Y)
    if hierarchy is not None:
        _check_categories(names, hierarchy, opened, place)
    chosen = as_scores(opened.sets.predict(points.X))._replace(n_cols=len(names))
    reports = {"log": _report(chosen, labels, coverings)}
    if truth is not None:
        reports["truth"] = _report(chosen, truth_of(truth, points, names, place), coverings)
    if hierarchy is None:
        return Measured(reports, [])
    found, true = (_with_ancestors(sets, names, hierarchy) for sets in (chosen, labels))
    reports["ancestors"] = _report(found, true, coverings)
    return Measured(reports, _by_depth(found, true, hierarchy))


def _check_categories(names: "Names", hierarchy: "Hierarchy", opened: "Opened", place: Path) -> None:
    """Refuse labels that the hierarchy does not have: they have no depth."""
    lost = next((name for name in names if name not in hierarchy.names), None)
    if lost is None:
        return
    if hierarchy is opened.hierarchy:
        where, instead = f"the hierarchy that {opened.place} was trained with", "give one that has it as --hierarchy"
    else:
        where, instead = f"the hierarchy of {hierarchy.n_categories:,} categories", "add it there"
    whose = opened.place if lost in opened.label_names else place
    raise BadInput(f"{whose} has the label {lost!r}, which is not in {where}; {instead}, or take the label out.")


def _with_ancestors(sets: "CSR", names: "Names", hierarchy: "Hierarchy") -> "CSR":
    """Sets of labels as sets of categories, by their numbers in the hierarchy, with all above them."""
    import numpy as np

    from broadmatch.data.hierarchy import add_ancestors

    members = sets._replace(data=np.ones_like(sets.data))  # a score of 0 is in the set too
    return add_ancestors(aligned(hierarchy.names, names, members)[1], hierarchy)


def _by_depth(found: "CSR", true: "CSR", hierarchy: "Hierarchy") -> list[DepthReport]:
    import numpy as np

    from broadmatch.evaluate import depth_reports

    often = np.bincount(hierarchy.depth[true.indices], minlength=int(hierarchy.depth.max()) + 1)
    reports = depth_reports(true, found, hierarchy)
    return [DepthReport(depth, int(often[depth]), report) for depth, report in reports.items()]


def _report(chosen: "CSR", labels: "CSR", coverings: list[str] | None) -> SetReport:
    from broadmatch.evaluate import covering_report, set_report

    report = set_report(labels, chosen)
    if coverings is not None:
        more = covering_report(labels, chosen, coverings={name: name for name in coverings})
        report = dataclasses.replace(
            report, metrics={**report.metrics, **more.metrics}, draws={**report.draws, **more.draws}
        )
    n = max(1, labels.n_rows)
    return SetReport(report, chosen.nnz / n, labels.nnz / n)
