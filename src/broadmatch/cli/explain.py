"""`broadmatch explain`: why a phrase is recommended for a page, or why it is not."""

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broadmatch.cli import options, output
from broadmatch.cli.explain_tables import shown
from broadmatch.cli.opened import open_model
from broadmatch.cli.revealed import revealed_phrases, revealed_rows
from broadmatch.cli.rows import rows_of
from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.cli.opened import Opened
    from broadmatch.io import Page

_MEMBERS = 20


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A trained model.")],
    page: Annotated[
        Path,
        typer.Argument(metavar="PAGE", help="HTML file, pages file, or - for standard input; a data set with --row."),
    ],
    phrase: Annotated[str, typer.Argument(metavar="PHRASE", help="The phrase, as the model spells it.")],
    name: Annotated[
        str | None, typer.Option(help="Which page of a folder or a pages file, or which point of a data set.")
    ] = None,
    row: Annotated[int | None, typer.Option(help="Which point, from 0, of a data set, for a model of rows.")] = None,
    revealed: options.Revealed = None,
    revealed_columns: options.RevealedColumns = None,
    page_columns: options.PageColumns = None,
    json: options.Json = False,
) -> None:
    """Show why a phrase is recommended for a page.

    The words that decided, the leaves of the forest that were reached, and of mlrf the training pages that voted there,
    of the other trees which revealed phrases decided, and what the re-ranker added. Of a linear model, what each word
    adds to the score. Of a model that answers with sets, also whether the phrase is in the set.

    \b
    Example:
      broadmatch explain model/ landing.html "cheap flights"
      broadmatch explain model/ market/pages.parquet "pizza delivery" --name https://example.com/
      broadmatch explain eurlex/ Eurlex/test.txt.gz 17 --row 0
      broadmatch explain warm/ landing.html "cheap flights" --revealed bids.csv
    """
    columns = options.parse_columns(page_columns, "--page-columns")
    names = options.parse_columns(revealed_columns, "--revealed-columns")
    if names is not None and revealed is None:
        raise typer.BadParameter("--revealed-columns are those of a table; give it as --revealed.")
    output.notify_compilation()
    opened = open_model(model)
    ranking: Any = opened.ranking
    _check(opened, revealed)
    if opened.vectorizer is not None:
        if row is not None:
            raise typer.BadParameter("--row is for a model that was trained on a matrix; this one takes a page.")
        one = _one_page(page, name, columns)
        x, known = opened.vectorizer.transform([one.html]), _known_of_page(opened, one, revealed, names)
    else:
        x, known = _one_row(opened, page, row, name, revealed, names)
    why = ranking.explain(x, phrase, **known)
    members = _members(opened, x)
    if json:
        output.print_json(why.to_dict() | ({} if members is None else {"in_set": phrase in members, "set": members}))
        return
    console = output.console()
    for part in shown(why, opened.vectorizer is not None):
        console.print(part)
    if members is not None:
        console.print(_told_set(phrase, members), markup=False)


def _check(opened: "Opened", revealed: Path | None) -> None:
    model: Any = opened.sets if opened.ranking is None else opened.ranking
    if not hasattr(model, "explain"):
        raise BadInput(
            f"{opened.place} holds a model of the kind {type(model).__name__}, which cannot say why; "
            "every model that ranks labels can."
        )
    if revealed is not None and "revealed" not in inspect.signature(model.explain).parameters:
        raise typer.BadParameter(f"{type(model).__name__} does not look at revealed labels; leave --revealed out.")


def _members(opened: "Opened", x: Any) -> list[str] | None:
    """The set of one point; None if the model has none, or none of one point alone."""
    if opened.sets is None or not opened.sets.pointwise:
        return None
    labels, _ = opened.sets.predict_one(x)
    return [opened.label_names[int(label)] for label in labels]


def _told_set(phrase: str, members: list[str]) -> str:
    size = "1 label" if len(members) == 1 else f"{len(members)} labels"
    place = "is in" if phrase in members else "is not in"
    return f"It {place} the set of {size}{': ' if members else ''}{', '.join(members[:_MEMBERS])}."


def _known_of_page(
    opened: "Opened", page: "Page", revealed: Path | None, columns: dict[str, str] | None
) -> dict[str, Any]:
    if revealed is None:
        return {}
    table = revealed_phrases(revealed, columns, opened.label_names)
    known = table.of(page.name)
    table.finish()
    return {"revealed": known}


def _one_page(page: Path, name: str | None, columns: dict[str, str] | None) -> "Page":
    from broadmatch.io import PageSource

    found = iter(PageSource(page, columns=columns))
    if name is not None:
        for one in found:
            if one.name == name:
                return one
        raise BadInput(f"{page} has no page named {name!r}.")
    first = next(found, None)
    if first is None:
        raise BadInput(f"{page} holds no page.")
    if next(found, None) is not None:
        raise BadInput(f"{page} holds several pages; say which with --name, such as --name {first.name}.")
    return first


def _one_row(
    opened: "Opened",
    data: Path,
    row: int | None,
    name: str | None,
    revealed: Path | None,
    columns: dict[str, str] | None,
) -> tuple[Any, dict[str, Any]]:
    """The features of one row of a data set, and what is revealed of it."""
    if (row is None) == (name is None):
        raise typer.BadParameter(
            "this model was trained on a matrix: give a data set as PAGE and a point as --row or --name."
        )
    rows = rows_of([data], None, opened.feature_names)
    if name is not None:
        if rows.points is None or name not in rows.points:
            raise BadInput(f"{data} has no point named {name!r}.")
        row = rows.points.index(name)
    if row is None or not 0 <= row < rows.X.n_rows:
        raise BadInput(f"{data} has no row {row}; it has 0 to {rows.X.n_rows - 1}.")
    if revealed is None:
        return rows.X.row(row), {}
    known = revealed_rows(revealed, columns, opened.label_names, rows)
    return rows.X.row(row), {"revealed": known.row(row)[0].tolist()}
