"""`broadmatch data show`: what a data set is like."""

import csv
import io
import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broadmatch.cli import options, output
from broadmatch.cli.common import read_points
from broadmatch.cli.output import Column

if TYPE_CHECKING:
    from broadmatch.data.summary import DatasetSummary

_QUANTILES = {"least": "least", "q25": "25 %", "median": "50 %", "q75": "75 %", "q90": "90 %", "q99": "99 %",
              "most": "most"}  # fmt: skip


def command(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Harvested folder, data set folder, or matrix file.")],
    labels_path: options.LabelsFile = None,
    hierarchy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Labels are categories of this tree or DAG: show the depths.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write there: .json or .csv.")] = None,
    json: options.Json = False,
) -> None:
    """Show what a data set is like.

    Points, features and labels; labels a point and points a label, their mean and quantiles; how many labels are rare,
    and how many features only one point has. Of a harvested folder, the pages to train on and to test on. Points of a
    label or a feature are counted over those that some point has.

    \b
    Example:
      broadmatch data show data/
      broadmatch data show Eurlex/train.txt.gz --out eurlex.csv
      broadmatch data show tools/ --hierarchy edam.json
    """
    if out is not None and out.suffix.lower() not in (".json", ".csv"):
        raise typer.BadParameter(f"--out {out}: the name tells no format; end it in .json or .csv.")
    from broadmatch.data.summary import dataset_summary
    from broadmatch.harvest.harvested import is_harvested
    from broadmatch.io import read_hierarchy
    from broadmatch.io.files import replacing_file

    if is_harvested(data):
        parts = {"train": read_points(data, "train"), "test": read_points(data, "test")}
    else:
        parts = {data.name: read_points(data, "train", labels_path)}
    tree = None if hierarchy is None else read_hierarchy(hierarchy)
    found = {name: dataset_summary(part, tree) for name, part in parts.items()}
    plain: dict[str, Any] = {name: one.to_dict() for name, one in found.items()}
    if out is not None:
        text = json_text.dumps(plain, indent=1) if out.suffix.lower() == ".json" else _csv(plain)
        with replacing_file(out) as file:
            file.write(text.encode())
        output.log.info("What %s is like is in %s.", data, out)
    elif json:
        output.print_json(plain)
    else:
        _print(found)


def _csv(plain: dict[str, Any]) -> str:
    """One line a number: of which part, what, and how many."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["part", "what", "value"])
    for part, one in plain.items():
        lines.writerows((part, what, value) for what, value in _flat(one))
    return text.getvalue()


def _flat(value: Any, name: str = "") -> list[tuple[str, Any]]:
    """Every number within plain data, with the names that lead to it."""
    if isinstance(value, dict):
        pairs = [(str(key), inner) for key, inner in value.items()]
    elif isinstance(value, list | tuple):
        pairs = [(str(inner["depth"]), inner) for inner in value]
    else:
        return [(name, value)]
    return [found for key, inner in pairs for found in _flat(inner, f"{name}.{key}".lstrip("."))]


def _print(found: "dict[str, DatasetSummary]") -> None:
    parts = list(found.values())
    rows = [["points", *(f"{part.n_points:,}" for part in parts)]]
    for what in ("features", "labels"):
        sides = [getattr(part, what) for part in parts]
        counts = {
            what: [side.n for side in sides],
            "  that a point has": [side.used for side in sides],
            **{f"  of at most {n} point{'s' if n > 1 else ''}": [s.tail[n] for s in sides] for n in sides[0].tail},
            "  of all points together": [side.entries for side in sides],
            f"points without {what}": [side.points_without for side in sides],
        }
        rows += [[name, *(f"{n:,}" for n in row)] for name, row in counts.items()]
    output.print_table([Column(""), *(Column(name, right=True) for name in found)], rows)
    for name, one in found.items():
        typer.echo()
        spreads = {
            "labels a point": one.labels.per_point,
            "points a label": one.labels.points_of_each,
            "features a point": one.features.per_point,
            "points a feature": one.features.points_of_each,
        }
        columns = [Column(name), Column("mean", right=True)]
        columns += [Column(q, right=True, spare="drop" if q.endswith("%") else "") for q in _QUANTILES.values()]
        cells = [(f"{s.mean:,.2f}", *(f"{getattr(s, key):,}" for key in _QUANTILES)) for s in spreads.values()]
        output.print_table(columns, [(what, *row) for what, row in zip(spreads, cells, strict=True)])
        if one.depths:
            typer.echo()
            heads = ("depth", "categories", "with points", "points", "labels a point")
            depths = [
                (f"{d.depth}", f"{d.n_categories:,}", f"{d.used:,}", f"{d.n_points:,}", f"{d.labels_per_point:.2f}")
                for d in one.depths
            ]
            output.print_table([Column(head, right=True) for head in heads], depths)
    if any(part.weighted for part in parts):
        output.print_text("Labels have weights, such as beliefs; here each counts once.", dim=True)
