"""`broadmatch evaluate`: how good a model is, with intervals, against the log and against a simulated truth."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broadmatch.cli import options, output
from broadmatch.cli.cluster.nodes import joined
from broadmatch.cli.common import check_ranks, check_words, known_features, load_model, read_points
from broadmatch.cli.output import Column
from broadmatch.errors import BadInput
from broadmatch.params import Whole

if TYPE_CHECKING:
    from broadmatch.data import CSR, Dataset
    from broadmatch.evaluate import JudgementReport, Report, WarmStartReport
    from broadmatch.labels.evaluation import SetReports
    from broadmatch.labels.predictor import LabelPredictor

_COVERINGS = ("ZO", "HM", "TS", "WP", "WN")
KS = (1, 3, 5, 10)
_SIZES = 10
"""Sets of more labels are counted together."""
_BY_DEPTH = ("precision", "recall", "micro-F1", "macro-F1")


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A trained model; or the key of --judgements.")],
    data: Annotated[
        Path | None,
        typer.Argument(metavar="DATA", help="Harvested folder (its test/ counts), data set folder, matrix file."),
    ] = None,
    labels_path: options.LabelsFile = None,
    truth: Annotated[
        Path | None, typer.Option(metavar="MARKET", help="Simulated marketplace, whose truth is known.")
    ] = None,
    ks: Annotated[list[int] | None, typer.Option("-k", help="Cut-offs; 1, 3, 5 and 10 if not given.")] = None,
    reveal: Annotated[
        str | None, typer.Option(metavar="SHARE,...", help="Warm start: reveal these shares of each point's labels.")
    ] = None,
    n_seeds: Annotated[int | None, typer.Option("--seeds", help="Draws of what is revealed; 3 if not given.")] = None,
    covering: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Of sets: the errors of coverings: ZO, HM, TS, WP, WN.")
    ] = None,
    hierarchy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of sets: the metrics by depth, if not trained with one.")
    ] = None,
    judgements: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A sheet of `judge make` that a person filled in.")
    ] = None,
    cluster: options.Cluster = None,
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

    With --judgements, the key of a sheet stands in place of MODEL and DATA: P of each model by what people said of it,
    and how far they agree.

    \b
    Example:
      broadmatch evaluate model/ data/
      broadmatch evaluate model/ data/ --truth market/ -k 1 -k 10 --json
      broadmatch evaluate warm/ data/ --reveal 0.2,0.4,0.6,0.8
      broadmatch evaluate sets/ Eurlex/test.txt.gz --covering ZO,HM
      broadmatch evaluate filed/ tools-test/ --hierarchy edam.json
      broadmatch evaluate sheet.key.json --judgements anna.csv --judgements ben.csv
    """
    if judgements:
        others = (data, labels_path, truth, ks, reveal, n_seeds, covering, hierarchy, cluster)
        _show(_judged(model, judgements, others), json)
        return
    if data is None:
        raise typer.BadParameter("name the DATA to measure the model on.")
    shares = None if reveal is None else options.parse_shares(reveal)
    if shares is not None and truth is not None:
        raise typer.BadParameter("--truth cannot be had with --reveal: what is shown is drawn from the log.")
    if shares is None and n_seeds is not None:
        raise typer.BadParameter("--seeds are for what --reveal shows; give --reveal too.")
    for option, given in (("--covering", covering), ("--hierarchy", hierarchy)):
        if shares is not None and given is not None:
            raise typer.BadParameter(f"{option} is about sets, which are not made with --reveal; ask for one of them.")
    coverings = [] if covering is None else _coverings(covering)
    from broadmatch.io import read_hierarchy
    from broadmatch.labels.evaluation import ranking_reports, revealed_report, set_reports

    vectorizer, found = load_model(model)
    points = read_points(data, "test", labels_path)
    if not len(points):
        raise BadInput(f"{data} has no points to test on; harvest again with a lower --min-test-queries.")
    if vectorizer is not None:
        check_words(found, points.features, data)
    X = known_features(found, points.X, points.features, data, labels_path)
    points = dataclasses.replace(points, X=X, features=None)
    if ks or shares is not None:
        check_ranks(found, model, "leave out -k" if ks else "leave out --reveal")
    Whole(1).check("n_seeds", 1 if n_seeds is None else n_seeds)
    known: Any = getattr(found, "hierarchy_", None)
    tree = known if hierarchy is None else read_hierarchy(hierarchy)
    true = None if truth is None else _truth(truth, points, found, data)
    sets, reports = None, {}
    with joined(cluster, model) as nodes:
        measured: Any = found if nodes is None else nodes.model(model, found)
        if shares is not None:
            how = {} if n_seeds is None else {"seeds": tuple(range(n_seeds))}
            _show(revealed_report(measured, points, shares=shares, ks=ks or KS, **how), json)
            return
        if found.sized or coverings or tree is not None:
            sets = set_reports(measured, points, coverings=coverings, truth=true, hierarchy=tree)
        if known is None:
            reports = ranking_reports(measured, points, ks=ks or KS, truth=true)
    _print_all(reports, sets, json)


def _print_all(reports: "dict[str, Report]", sets: "SetReports | None", json: bool) -> None:
    if json:
        made: dict[str, Any] = {name: report.to_dict() for name, report in reports.items()}
        output.print_json(made | ({} if sets is None else {"sets": sets.to_dict()}))
        return
    if reports:
        _print(reports)
    if sets is not None:
        if reports:
            typer.echo()
        _print_sets(sets)


def _judged(key_file: Path, sheets: list[Path], others: tuple[object, ...]) -> "JudgementReport":
    from broadmatch.evaluate import Judgements, SheetKey, judgement_report

    if any(one is not None for one in others):
        raise typer.BadParameter("--judgements take the key of their sheet and nothing else.")
    key = SheetKey.open(key_file)
    return judgement_report(key, Judgements.read(key, sheets))


def _show(report: "JudgementReport | WarmStartReport", json: bool) -> None:
    output.print_json(report.to_dict()) if json else typer.echo(str(report))


def _coverings(given: str) -> list[str]:
    """Names with commas between; whether they are coverings is seen before anything is computed."""
    names = options.parse_names([given]) or []
    if not names or not set(names) <= set(_COVERINGS):
        raise typer.BadParameter(f"--covering is a list of some of {', '.join(_COVERINGS)}, but it is {given!r}.")
    return list(dict.fromkeys(names))


def _truth(market: Path, points: "Dataset", model: "LabelPredictor", place: Path) -> "CSR":
    """What is truly relevant for the points in a simulated marketplace."""
    from broadmatch.labels.evaluation import align_labels
    from broadmatch.simulate import truth_matrix

    if points.points is None:
        raise BadInput(f"{place} does not name its pages, so the truth of {market} cannot be looked up.")
    return truth_matrix(market, points.points, align_labels(model.label_names_, points.labels, points.Y)[0])


def _print(reports: "dict[str, Report]") -> None:
    first = _print_reports(reports, "metric")
    output.print_text(
        f"{first.n_points:,} points, {first.n_labels:,} labels; {first.n_without_truth:,} points without labels, "
        f"{first.n_without_predictions:,} without recommendations. Shares in %.",
        dim=True,
    )


def _print_sets(sets: "SetReports") -> None:
    first = _print_reports({name: one.report for name, one in sets.reports.items()}, "sets")
    one = sets.reports["log"]
    output.print_text(
        f"{one.labels_per_point:.2f} labels in a set on average, {one.true_labels_per_point:.2f} in truth; "
        f"{first.n_without_predictions:,} of {first.n_points:,} sets are empty. Shares in %.",
        dim=True,
    )
    typer.echo()
    counts = [(str(size), true, predicted) for size, true, predicted in one.sizes[: _SIZES + 1]]
    if more := one.sizes[_SIZES + 1 :]:
        name = "–".join(str(size) for size in sorted({_SIZES + 1, more[-1].size}))
        counts.append((name, sum(n.n_true for n in more), sum(n.n_predicted for n in more)))
    heads = ("labels in a set", "sets in truth", "predicted")
    output.print_table([Column(head, right=True) for head in heads], [(n, f"{a:,}", f"{b:,}") for n, a, b in counts])
    if sets.depths:
        typer.echo()
        columns = [Column(head, right=True) for head in ("depth", "true", *_BY_DEPTH)]
        rows = [
            (str(one.depth), f"{one.n_true:,}", *(_cells(metric, one.report)[0] for metric in _BY_DEPTH))
            for one in sets.depths
        ]
        output.print_table(columns, rows)
        output.print_text("With the categories above those of the sets and of truth. Shares in %.", dim=True)


def _print_reports(reports: "dict[str, Report]", head: str) -> "Report":
    first = reports["log"]
    log = "clicks in the log" if "truth" in reports else "value"
    called = {"log": log, "truth": "known truth", "ancestors": "with ancestors"}
    columns = [Column(head)]
    for name in reports:
        columns += [Column(called[name], right=True), Column(f"{first.level:.0%} interval", right=True, spare="drop")]
    rows = [(metric, *(cell for one in reports.values() for cell in _cells(metric, one))) for metric in first.metrics]
    output.print_table(columns, rows)
    return first


def _cells(metric: str, report: "Report") -> tuple[str, str]:
    estimate = report[metric]
    kind = metric.partition("@")[0]
    scale = 1 if kind in ("coverage error", "covering error") else 100
    digits = {"covering error": 3, "Hamming loss": 3}.get(kind, 1)
    value, low, high = (f"{scale * v:,.{digits}f}" for v in (estimate.value, estimate.low, estimate.high))
    return value, f"{low} – {high}"
