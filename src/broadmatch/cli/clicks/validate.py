"""`broadmatch clicks validate`: how good predictions were before their clicks were learned, on every slice."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from broadmatch.cli import options, output
from broadmatch.cli.clicks.common import prepare
from broadmatch.cli.output import Column

if TYPE_CHECKING:
    from broadmatch.evaluate import ProgressiveReport

Row = dict[str, Any]


def command(
    predictions: Annotated[
        list[Path],
        typer.Argument(metavar="PREDICTIONS...", help="Folder of train --predictions, or .parquet of predict."),
    ],
    by: options.Slicings = None,
    every: Annotated[
        Literal["hour", "day"] | None, typer.Option(help="Also by time, in buckets of this length.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="NAME", help="Model to compare with; if not given, the first.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write every figure of every slice, as Parquet.")
    ] = None,
    top: Annotated[int, typer.Option(help="Slices and time buckets to show.")] = 10,
    json: options.Json = False,
) -> None:
    """Measure models by predictions made before learning.

    AucLoss is 1 - AUC; Bias is mean prediction over click rate, minus 1. Intervals hold 95 %. The change is relative to
    the baseline on the same rows, in %. The worst slices are those where clicks and predictions differ by most clicks.
    Models of several runs are compared on exactly the same rows, joined by the id that the description names. Three
    and more are also ranked by log loss, each against the best. On held-out data a model is measured by what `clicks
    predict` wrote for files that have the label.

    \b
    Example:
      broadmatch clicks validate predictions/
      broadmatch clicks validate predictions/ --by country --by device --every day --out report.parquet
      broadmatch clicks validate old.predictions/ new.predictions/ --by country
      broadmatch clicks predict model/ test.csv --out test.parquet && broadmatch clicks validate test.parquet
    """
    prepare()
    from broadmatch.evaluate import progressive_report, rank_models
    from broadmatch.params import Whole

    Whole(1).check("--top", top)
    slices = options.parse_names(by) or []
    source = predictions if len(predictions) > 1 else predictions[0]
    report = progressive_report(source, slices=slices, every=every, baseline=baseline)
    if out is not None:
        report.to_parquet(out)

    def missed(group: Row) -> float:
        """How many clicks the baseline's predictions are off by."""
        bias = group["metrics"][report.baseline]["Bias"]["value"]
        return abs(bias) * group["clicks"] if bias is not None else 0.0

    worst = {n: sorted(_groups(report.summary(n), "slice"), key=missed, reverse=True)[:top] for n in slices}
    buckets = [] if every is None else _groups(report.summary(by_time=True), "bucket_start")
    ranking = rank_models(source) if len(report.models) > 2 else []
    if json:
        output.print_json(_plain(report, worst, buckets) | ({"ranking": ranking} if ranking else {}))
        return
    _print_models(report)
    if ranking:
        _print_ranking(ranking)
    for name, rows in worst.items():
        _print_groups(report, rows, name)
    if buckets:
        for row in buckets:
            row["name"] = f"{row['name']:%Y-%m-%d %H:%M}" if every == "hour" else f"{row['name']:%Y-%m-%d}"
        _print_groups(report, buckets[-top:], str(every))
    if out is not None:
        output.log.info("All figures are in %s.", out)


def _groups(rows: list[Row], by: str) -> list[Row]:
    """The slices or time buckets in order, each with the metrics of every model."""
    groups: dict[Any, Row] = {}
    for row in rows:
        facts = {"name": row[by] or "(none)", "impressions": row["impressions"], "clicks": row["clicks"], "metrics": {}}
        group = groups.setdefault(row[by], facts)
        group["metrics"].setdefault(row["model"], {})[row["metric"]] = row
    return list(groups.values())


def _plain(report: "ProgressiveReport", worst: dict[str, list[Row]], buckets: list[Row]) -> dict[str, Any]:
    def figures(group: Row) -> dict[str, Any]:
        return {model: {name: row["value"] for name, row in of.items()} for model, of in group["metrics"].items()}

    def slim(group: Row) -> dict[str, Any]:
        return {name: group[name] for name in ("impressions", "clicks")} | {"models": figures(group)}

    return {
        "models": list(report.models),
        "baseline": report.baseline,
        "level": report.level,
        "impressions": report.n_impressions,
        "left_out": report.n_left_out,
        "exact": report.exact,
        "finished": report.finished,
        "all": [{k: v for k, v in row.items() if k != "slice"} for row in report.summary()],
        "worst": {name: [{"slice": g["name"], **slim(g)} for g in groups] for name, groups in worst.items()},
        "time": [{"start": g["name"].isoformat(), **slim(g)} for g in buckets],
    }


def _print_models(report: "ProgressiveReport") -> None:
    several = len(report.models) > 1
    changes = (Column("change in %", right=True), Column("95 % interval", right=True, spare="drop")) if several else ()
    interval = Column("95 % interval", right=True, spare="drop")
    columns = [Column("model", spare="shorten"), Column("metric"), Column("value", right=True), interval, *changes]
    rows = []
    for row in report.summary():
        scaled = "Bias" not in row["metric"]
        cells = [row["model"], row["metric"], _number(row["value"], scaled), _interval(row["low"], row["high"], scaled)]
        if several:
            change = ("", "")
            if row["model"] != report.baseline:
                ends = f"{_signed(row['relative_low'])} – {_signed(row['relative_high'])}"
                change = (_signed(row["relative"]), ends)
            cells += change
        rows.append(cells)
    output.print_table(columns, rows)
    how = "" if report.exact else "; AucLoss from binned scores, its error in the intervals"
    against = f"; change against {report.baseline}" if several else ""
    output.print_text(f"{report.n_impressions:,} impressions{against}{how}.", dim=True)


def _print_ranking(ranking: list[Row]) -> None:
    """Models by rising log loss, with the paired interval of what each is behind the best."""
    columns = [Column("rank", right=True), Column("model", spare="shorten"), Column("LogLoss", right=True)]
    columns += [Column("behind in %", right=True), Column("95 % interval", right=True, spare="drop")]
    rows = []
    for place, row in enumerate(ranking, 1):
        ends = f"{_signed(row['relative_low'])} – {_signed(row['relative_high'])}"
        behind = (_signed(row["relative"]), ends) if place > 1 else ("", "")
        rows.append([str(place), row["model"], _number(row["value"], True), *behind])
    typer.echo()
    output.print_table(columns, rows)


def _print_groups(report: "ProgressiveReport", groups: list[Row], name: str) -> None:
    others = [model for model in report.models if model != report.baseline]
    bias = ["bias"] if not others else [f"bias {model}" for model in (report.baseline, *others)]
    heads = [Column(head, right=True) for head in ("impressions", "clicks")]
    heads += [Column(head, right=True, spare="drop") for head in ("AucLoss", "LogLoss")]
    heads += [Column(head, right=True) for head in bias]
    rows = []
    for group in groups:
        base = group["metrics"][report.baseline]
        cells = [_number(base[metric]["value"], True) for metric in ("AucLoss", "LogLoss")]
        cells += [_number(group["metrics"][m]["Bias"]["value"], False) for m in (report.baseline, *others)]
        rows.append([group["name"], f"{group['impressions']:,}", f"{group['clicks']:,}", *cells])
    typer.echo()
    output.print_table([Column(name), *heads], rows)


def _number(value: float | None, plain: bool) -> str:
    if value is None:
        return "–"
    return f"{value:.5f}" if plain else f"{100 * value:+.2f} %"


def _interval(low: float | None, high: float | None, plain: bool) -> str:
    return f"{_number(low, plain)} – {_number(high, plain)}"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"
