"""`broadmatch gridviz`: models × slices at a glance, as one page to send, a grid file, a picture or a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from broadmatch.cli import options, output

if TYPE_CHECKING:
    from broadmatch.evaluate.gridviz import Grid

_SUFFIXES = (".html", ".grid", ".png", ".csv", ".parquet")


def command(
    predictions: Annotated[
        list[Path],
        typer.Argument(
            metavar="PREDICTIONS...",
            help="Folder of clicks train --predictions, several, Parquet, a report of clicks validate, or a grid file.",
        ),
    ],
    out: Annotated[
        list[Path], typer.Option("--out", metavar="FILE", help="Ends in .html, .grid, .png, .csv or .parquet.")
    ],
    by: Annotated[
        list[str] | None, typer.Option("--slices", metavar="NAME,...", help="Slicings; all there are if not given.")
    ] = None,
    cross: Annotated[
        list[str] | None, typer.Option(metavar="NAME,NAME", help="Slicings to combine; repeatable.")
    ] = None,
    every: Annotated[Literal["hour", "day"] | None, typer.Option(help="Also by time, in periods so long.")] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="NAME", help="Model to compare with; if not given, the first.")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Some of AucLoss, LogLoss, SquaredError, Bias.")
    ] = None,
    min_impressions: Annotated[int, typer.Option(help="Smaller slices get no column.")] = 1,
    title: Annotated[str, typer.Option(help="Stands above the grid.")] = "GridViz",
    json: options.Json = False,
) -> None:
    """Show models by slices, as a page to open or send.

    Rows are models with several metrics each, columns are slices as wide as their impressions, and the colour of a
    cell is its change against the baseline on the same rows. The page asks nothing of any other place. The picture is
    of the first slicing; the table has every cell, with intervals.

    \b
    Example:
      broadmatch gridviz predictions/ --out grid.html
      broadmatch gridviz predictions/ --out grid.html --slices country --cross country,hour --every day
      broadmatch gridviz old.predictions/ new.predictions/ --out grid.grid --out grid.png --min-impressions 100
    """
    for file in out:
        if file.suffix.lower() not in _SUFFIXES:
            raise typer.BadParameter(f"--out {file} must end in one of {', '.join(_SUFFIXES)}.")
    grid = _grid(predictions, by, cross, every, baseline, metrics, min_impressions, title)
    for file in out:
        _write(grid, file)
    if json:
        facts = {"models": list(grid.models), "baseline": grid.models[grid.baseline], "slices": len(grid.slices)}
        groups = {group.name: group.count for group in grid.groups}
        more = {"groups": groups, "periods": len(grid.periods), "impressions": int(grid.impressions[0])}
        output.print_json(facts | more | {"files": {str(file): file.stat().st_size for file in out}})
        return
    output.print_text(f"{grid}.")
    for note in grid.notes:
        output.print_text(note, dim=True)
    for file in out:
        output.print_text(f"{file}: {file.stat().st_size:,} bytes")


def _grid(
    predictions: list[Path],
    by: list[str] | None,
    cross: list[str] | None,
    every: str | None,
    baseline: str | None,
    metrics: str | None,
    min_impressions: int,
    title: str,
) -> "Grid":
    from broadmatch.evaluate.click_report import METRICS
    from broadmatch.evaluate.gridviz import build_grid, read_grid

    crossed = [options.parse_names([names]) or [] for names in cross or ()]
    if predictions[0].suffix.lower() == ".grid":
        if len(predictions) > 1 or any((by, cross, every, baseline, metrics)) or min_impressions > 1:
            raise typer.BadParameter("a grid file is built already: give one, and no option but --out.")
        return read_grid(predictions[0])
    return build_grid(
        predictions if len(predictions) > 1 else predictions[0],
        slices=options.parse_names(by),
        cross=crossed,
        every=every,
        baseline=baseline,
        metrics=METRICS if metrics is None else options.parse_names([metrics]) or [],
        min_impressions=min_impressions,
        title=title,
    )


def _write(grid: "Grid", file: Path) -> None:
    from broadmatch.evaluate.gridviz import write_grid, write_page, write_picture, write_table

    writers = {".html": write_page, ".grid": write_grid, ".png": write_picture}
    writers.get(file.suffix.lower(), write_table)(grid, file)
