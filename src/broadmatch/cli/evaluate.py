"""`broadmatch evaluate`: how good a model is, with intervals, against the log and against a simulated truth."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broadmatch.cli import options, talk
from broadmatch.cli.harvested import is_harvested, open_harvested
from broadmatch.cli.rows import check_features
from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.data import CSR, Dataset, Names
    from broadmatch.evaluate import Report, WarmStartReport
    from broadmatch.labels.base import LabelModel

_DEPTH = 100
"""Phrases asked for: the report says on how many pages there are so many."""


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
    json: options.Json = False,
) -> None:
    """Measure a model on data that it has not seen.

    P is the share of the first k that are right, nDCG weighs earlier places more, PSP counts rare labels more.
    Intervals hold 95 % of the values in 1,000 bootstrap samples of the points.

    With --reveal, a part of each point's labels is drawn at random and shown to the model; only hidden ones count.

    \b
    Example:
      broadmatch evaluate model/ data/
      broadmatch evaluate model/ data/ --truth market/ -k 1 -k 10 --json
      broadmatch evaluate warm/ data/ --reveal 0.2,0.4,0.6,0.8
    """
    shares = None if reveal is None else options.parse_shares(reveal)
    if shares is not None and truth is not None:
        raise typer.BadParameter("--truth cannot be had with --reveal: what is shown is drawn from the log.")
    if shares is None and n_seeds is not None:
        raise typer.BadParameter("--seeds are for what --reveal shows; give --reveal too.")
    talk.announce_compiling()
    import broadmatch
    from broadmatch.labels import Recommender

    found = broadmatch.load(model)
    points = _points(data, labels_path)
    forest: LabelModel = found.model if isinstance(found, Recommender) else found
    if not hasattr(forest, "predict_topk"):
        raise BadInput(f"{model} holds a {type(found).__name__}, not a model; train one with `broadmatch train`.")
    cuts = tuple(ks or (1, 3, 5, 10))
    if shares is not None:
        warm = measure_warm(forest, points, shares, n_seeds, cuts, data)
        if json:
            talk.emit(warm.to_dict())
        else:
            typer.echo(str(warm))
        return
    reports = measure(forest, points, truth, cuts, data)
    if json:
        talk.emit({name: report.to_dict() for name, report in reports.items()})
    else:
        _print(reports)


def measure(
    forest: "LabelModel", points: "Dataset", truth: Path | None, ks: tuple[int, ...], place: Path
) -> "dict[str, Report]":
    """The report against the labels of `points` ("log") and, in a marketplace, against the truth ("truth")."""
    from broadmatch.data import CSR
    from broadmatch.evaluate import ranking_report

    _check_points(forest, points, place)
    names, labels = aligned(forest.label_names_, points.labels, points.Y)
    best = CSR.from_scipy(forest.predict_topk(points.X, k=max(_DEPTH, *ks)))
    predicted = best._replace(n_cols=len(names))
    given: dict[str, Any] = {"ks": ks, "propensity": _propensity(forest, len(names))}
    if not _only_numbers(names):
        given["phrases"] = names
    reports = {"log": ranking_report(predicted, labels, **given)}
    if truth is not None:
        from broadmatch.simulate import truth_matrix

        if points.points is None:
            raise BadInput(f"{place} does not name its pages, so the truth of {truth} cannot be looked up.")
        reports["truth"] = ranking_report(predicted, truth_matrix(truth, points.points, names), **given)
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

    _check_points(forest, points, place)
    names, labels = aligned(forest.label_names_, points.labels, points.Y)
    n_known = len(forest.label_names_)

    def predict(X: "CSR", k: int, revealed: "CSR") -> "CSR":
        known = CSR.from_scipy(revealed.to_scipy()[:, :n_known])
        return CSR.from_scipy(forest.predict_topk(X, k=k, revealed=known))._replace(n_cols=len(names))

    given: dict[str, Any] = {"shares": shares, "ks": ks, "propensity": _propensity(forest, len(names))}
    if n_seeds is not None:
        Whole(1).check("n_seeds", n_seeds)
        given["seeds"] = tuple(range(n_seeds))
    return warm_start_report(predict, points.X, labels, **given)


def _points(data: Path, labels_path: Path | None) -> "Dataset":
    from broadmatch.data import read_dataset

    test: Dataset = open_harvested(data).test if is_harvested(data) else read_dataset(data, labels_path=labels_path)
    return test


def _check_points(forest: "LabelModel", points: "Dataset", place: Path) -> None:
    if not len(points):
        raise BadInput(f"{place} has no points to test on; harvest again with a lower min_test_queries.")
    check_features(forest, points.features, place)


def aligned(known: "Names", given: "Names", labels: "CSR") -> "tuple[Names, CSR]":
    """Labels with the model's numbers; those that it does not know come behind, as what it can never find."""
    if known == given:
        return known, labels
    import numpy as np

    from broadmatch.data import CSR, Names

    names = [*known, *(name for name in given if name not in known)]
    position = {name: i for i, name in enumerate(names)}
    columns = np.array([position[name] for name in given], np.int32)
    moved = CSR.from_scipy(labels._replace(indices=columns[labels.indices], n_cols=len(names)).to_scipy())
    return Names.of(names), moved


def _propensity(forest: "LabelModel", n_labels: int) -> Any:
    """How likely each label was seen, by its count in training; beliefs count as much as they weigh."""
    import numpy as np

    from broadmatch.evaluate import propensity

    counts = np.zeros(n_labels)
    counts[: len(forest.label_counts_)] = forest.label_counts_
    return propensity(counts, max(3, forest.n_points_))


def _only_numbers(names: "Names") -> bool:
    """Whether the labels were never named: then their words are no phrases."""
    return all(name == str(i) for i, name in enumerate(names))


def _print(reports: "dict[str, Report]") -> None:
    from rich.table import Table

    first = reports["log"]
    headed = {"log": "clicks in the log", "truth": "known truth"} if len(reports) > 1 else {"log": "value"}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("metric")
    for name in reports:
        table.add_column(headed[name], justify="right")
        table.add_column(f"{first.level:.0%} interval", justify="right", style="dim")
    for metric in first.metrics:
        cells = [cell for report in reports.values() for cell in _cells(metric, report)]
        table.add_row(metric, *cells)
    console = talk.console()
    console.print(table)
    console.print(
        f"{first.n_points:,} points, {first.n_labels:,} labels; {first.n_without_truth:,} points without labels, "
        f"{first.n_without_predictions:,} without recommendations. Shares in %.",
        style="dim",
    )


def _cells(metric: str, report: "Report") -> tuple[str, str]:
    estimate = report[metric]
    scale = 1 if metric == "coverage error" else 100
    value, low, high = (f"{scale * v:,.1f}" for v in (estimate.value, estimate.low, estimate.high))
    return value, f"{low} – {high}"
