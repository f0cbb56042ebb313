"""`broadmatch evaluate`: how good a model is, with intervals, against the log and against a simulated truth."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broadmatch.cli import options, output
from broadmatch.cli.evaluate_sets import measure_sets
from broadmatch.cli.opened import open_model
from broadmatch.cli.rows import check_features
from broadmatch.cli.truths import aligned, truth_of
from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.cli.evaluate_sets import DepthReport, Measured
    from broadmatch.data import CSR, Dataset, Names, Ranking
    from broadmatch.evaluate import Report, WarmStartReport
    from broadmatch.labels.base import LabelModel

_DEPTH = 100
"""Phrases asked for: the report says on how many pages there are so many."""
_COVERINGS = ("ZO", "HM", "TS", "WP", "WN")
_BY_DEPTH = ("precision", "recall", "micro-F1", "macro-F1")


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A trained model.")],
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Harvested folder (its test/ counts), data set folder, matrix file.")
    ],
    labels_path: options.LabelsFile = None,
    truth: Annotated[
        Path | None,
        typer.Option(metavar="MARKET", help="Simulated marketplace: compare with what is truly relevant as well."),
    ] = None,
    ks: Annotated[list[int] | None, typer.Option("-k", help="Cut-offs; 1, 3, 5 and 10 if not given.")] = None,
    reveal: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE,...",
            help="Warm start: show the model these shares of each point's labels, such as 0.2,0.4,0.6,0.8; "
            "the others are what it has to find.",
        ),
    ] = None,
    n_seeds: Annotated[
        int | None, typer.Option("--seeds", help="With --reveal: draws of what is shown; 3 if not given.")
    ] = None,
    covering: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Of a model that answers with sets: the errors of these label coverings, of ZO, HM, TS, WP and WN.",
        ),
    ] = None,
    hierarchy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Of a model that answers with sets: count the categories above its labels too, and show each depth of "
            "this tree or DAG (lines of child,parent, or JSON). If not given: the one of train --hierarchy, if any.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Measure a model on data that it has not seen.

    P is the share of the first k that are right, nDCG weighs earlier places more, PSP counts rare labels more.
    Intervals hold 95 % of the values in 1,000 bootstrap samples of the points.

    A model that answers with sets (--sets in training, or adaboost-lc) is measured as a ranking and by its sets:
    exact match is the share of points whose set is right as a whole; precision, recall and micro-F1 are over all labels
    together, macro-F1 is the mean over labels; Hamming loss is the share of wrong yes and no.

    In a hierarchy, a point that has a category has all categories above it, in the sets and in truth; the depth of a
    root is 1, that of others one more than that of their deepest parent.

    With --reveal, a part of each point's labels is drawn at random and shown to the model; only hidden ones count.

    \b
    Example:
      broadmatch evaluate model/ data/
      broadmatch evaluate model/ data/ --truth market/ -k 1 -k 10 --json
      broadmatch evaluate warm/ data/ --reveal 0.2,0.4,0.6,0.8
      broadmatch evaluate sets/ Eurlex/test.txt.gz --covering ZO,HM
      broadmatch evaluate filed/ tools-test/ --hierarchy edam.json
    """
    shares = None if reveal is None else options.parse_shares(reveal)
    if shares is not None and truth is not None:
        raise typer.BadParameter("--truth cannot be had with --reveal: what is shown is drawn from the log.")
    if shares is None and n_seeds is not None:
        raise typer.BadParameter("--seeds are for what --reveal shows; give --reveal too.")
    if shares is not None and covering is not None:
        raise typer.BadParameter("--covering is about sets, which are not made with --reveal; ask for one of them.")
    if shares is not None and hierarchy is not None:
        raise typer.BadParameter("--hierarchy is about sets, which are not made with --reveal; ask for one of them.")
    coverings = None if covering is None else _coverings(covering)
    output.notify_compilation()
    from broadmatch.io import read_hierarchy

    opened = open_model(model)
    tree = opened.hierarchy if hierarchy is None else read_hierarchy(hierarchy)
    points = _points(data, labels_path)
    _check_points(opened.feature_names, points, data)
    if ks and opened.ranking is None:
        opened.ranks("leave out -k")
    cuts = tuple(ks or (1, 3, 5, 10))
    if shares is not None:
        warm = measure_warm(opened.ranks("leave out --reveal"), points, shares, n_seeds, cuts, data)
        if json:
            output.print_json(warm.to_dict())
        else:
            typer.echo(str(warm))
        return
    sets = None
    if opened.sets is not None or coverings is not None or tree is not None:
        sets = measure_sets(opened, points, coverings, truth, data, tree)
    reports = {} if opened.ranking is None else measure(opened.ranking, points, truth, cuts, data)
    if json:
        made = {name: report.to_dict() for name, report in reports.items()}
        output.print_json(made | ({} if sets is None else {"sets": sets.to_dict()}))
        return
    if reports:
        _print(reports)
    if sets is not None:
        _print_sets(sets)


def _coverings(given: str) -> list[str]:
    """Names with commas between; whether they are coverings is seen before anything is computed.

    >>> _coverings("ZO, HM")
    ['ZO', 'HM']
    """
    names = options.parse_names([given]) or []
    wrong = [name for name in names if name not in _COVERINGS]
    if wrong or not names:
        raise typer.BadParameter(f"--covering is a list of some of {', '.join(_COVERINGS)}, but it is {given!r}.")
    return list(dict.fromkeys(names))


def measure(
    forest: "LabelModel", points: "Dataset", truth: Path | None, ks: tuple[int, ...], place: Path
) -> "dict[str, Report]":
    """The report against the labels of `points` ("log") and, in a marketplace, against the truth ("truth")."""
    from broadmatch.evaluate import ranking_report

    _check_points(forest.feature_names_, points, place)
    names, labels = aligned(forest.label_names_, points.labels, points.Y)
    predicted = replace(forest.predict_topk(points.X, k=max(_DEPTH, *ks)), label_names=names)
    given: dict[str, Any] = {"ks": ks, "propensity": _propensity(forest, len(names))}
    if not _only_numbers(names):
        given["phrases"] = names
    reports = {"log": ranking_report(labels, predicted, **given)}
    if truth is not None:
        reports["truth"] = ranking_report(truth_of(truth, points, names, place), predicted, **given)
    return reports


def measure_warm(
    forest: "LabelModel",
    points: "Dataset",
    shares: list[float],
    n_seeds: int | None,
    ks: tuple[int, ...],
    place: Path,
) -> "WarmStartReport":
    """The report of the warm-start protocol; labels that the model does not know are never shown to it."""
    from broadmatch.data import CSR
    from broadmatch.evaluate import warm_start_report
    from broadmatch.params import Whole

    _check_points(forest.feature_names_, points, place)
    names, labels = aligned(forest.label_names_, points.labels, points.Y)
    n_known = len(forest.label_names_)

    def predict(X: "CSR", k: int, revealed: "CSR") -> "Ranking":
        known = CSR.from_scipy(revealed.to_scipy()[:, :n_known])
        return replace(forest.predict_topk(X, k=k, revealed=known), label_names=names)

    given: dict[str, Any] = {"shares": shares, "ks": ks, "propensity": _propensity(forest, len(names))}
    if n_seeds is not None:
        Whole(1).check("n_seeds", n_seeds)
        given["seeds"] = tuple(range(n_seeds))
    return warm_start_report(predict, points.X, labels, **given)


def _points(data: Path, labels_path: Path | None) -> "Dataset":
    from broadmatch.harvest.harvested import is_harvested, open_harvested
    from broadmatch.io import read_dataset

    test: Dataset = open_harvested(data).test if is_harvested(data) else read_dataset(data, labels_path=labels_path)
    return test


def _check_points(known: "Names | None", points: "Dataset", place: Path) -> None:
    if not len(points):
        raise BadInput(f"{place} has no points to test on; harvest again with a lower min_test_queries.")
    check_features(known, points.features, place)


def _propensity(forest: "LabelModel", n_labels: int) -> Any:
    """How likely each label was seen, by its count in training; beliefs count as much as they weigh."""
    import numpy as np

    from broadmatch.data import propensity

    counts = np.zeros(n_labels)
    counts[: len(forest.label_counts_)] = forest.label_counts_
    return propensity(counts, max(3, forest.n_points_))


def _only_numbers(names: "Names") -> bool:
    """Whether the labels were never named: then their words are no phrases."""
    return all(name == str(i) for i, name in enumerate(names))


def _print(reports: "dict[str, Report]") -> None:
    first = _table(reports)
    output.console().print(
        f"{first.n_points:,} points, {first.n_labels:,} labels; {first.n_without_truth:,} points without labels, "
        f"{first.n_without_predictions:,} without recommendations. Shares in %.",
        style="dim",
    )


def _print_sets(sets: "Measured") -> None:
    typer.echo()
    first = _table({name: one.report for name, one in sets.reports.items()}, "sets")
    one = sets.reports["log"]
    output.console().print(
        f"{one.labels_per_point:.2f} labels in a set on average, {one.true_labels_per_point:.2f} in truth; "
        f"{first.n_without_predictions:,} of {first.n_points:,} sets are empty. Shares in %.",
        style="dim",
    )
    if sets.depths:
        _print_depths(sets.depths)


def _print_depths(depths: "list[DepthReport]") -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("depth", "true", *_BY_DEPTH):
        table.add_column(head, justify="right")
    for one in depths:
        table.add_row(str(one.depth), f"{one.n_true:,}", *(_cells(metric, one.report)[0] for metric in _BY_DEPTH))
    typer.echo()
    output.console().print(table)
    output.console().print("With the categories above those of the sets and of truth. Shares in %.", style="dim")


def _table(reports: "dict[str, Report]", of: str = "metric") -> "Report":
    from rich.table import Table

    first = reports["log"]
    log = "clicks in the log" if "truth" in reports else "value"
    headed = {"log": log, "truth": "known truth", "ancestors": "with ancestors"}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(of)
    for name in reports:
        table.add_column(headed[name], justify="right")
        table.add_column(f"{first.level:.0%} interval", justify="right", style="dim")
    for metric in first.metrics:
        cells = [cell for report in reports.values() for cell in _cells(metric, report)]
        table.add_row(metric, *cells)
    output.console().print(table)
    return first


def _cells(metric: str, report: "Report") -> tuple[str, str]:
    estimate = report[metric]
    kind = metric.partition("@")[0]
    scale = 1 if kind in ("coverage error", "covering error") else 100
    digits = {"covering error": 3, "Hamming loss": 3}.get(kind, 1)
    value, low, high = (f"{scale * v:,.{digits}f}" for v in (estimate.value, estimate.low, estimate.high))
    return value, f"{low} – {high}"
