"""`broadmatch explain`: why a phrase is recommended for a page, or why it is not."""

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from broadmatch.cli import options, output
from broadmatch.cli.common import check_not_addresses, known_features, load_model
from broadmatch.cli.explanations import print_explanation
from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.io import Page
    from broadmatch.labels.predictor import LabelPredictor

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
    adds to the score. Of a model that answers with sets, also whether the phrase is in the set, and why the set has so
    many; of a hierarchy, the way from the roots to the category, and how far it was followed.

    \b
    Example:
      broadmatch explain model/ landing.html "cheap flights"
      broadmatch explain model/ market/pages.parquet "pizza delivery" --name https://example.com/
      broadmatch explain eurlex/ Eurlex/test.txt.gz 17 --row 0
      broadmatch explain warm/ landing.html "cheap flights" --revealed bids.csv
    """
    columns = options.parse_columns(page_columns, "--page-columns")
    known = options.parse_revealed(revealed, revealed_columns)
    check_not_addresses([page])
    vectorizer, found = load_model(model)
    _check(found, known)
    if vectorizer is not None:
        if row is not None:
            raise typer.BadParameter("--row is for a model that was trained on a matrix; this one takes a page.")
        one = _one_page(page, name, columns)
        x, shown = vectorizer.transform([one.html]), _revealed_of_page(found, one, known)
    else:
        x, shown = _one_row(found, page, row, name, known)
    why = cast(Any, found).explain(x, phrase, **shown)
    members, size = None, None
    if found.sized and found.pointwise:
        (members,) = found.predict_sets(x).names()
        size = cast(Any, found).explain(x) if hasattr(found, "model_") else None
    if json:
        of_set = {} if members is None else {"in_set": phrase in members, "set": members}
        output.print_json(why.to_dict() | of_set | ({} if size is None else {"set_size": size.to_dict()}))
        return
    print_explanation(why, vectorizer is not None)
    if members is not None:
        output.print_text(_membership(phrase, members))
    if size is not None:
        for line in f"Why so many: {size}".splitlines():
            output.print_text(line)


def _check(model: "LabelPredictor", known: options.RevealedFile | None) -> None:
    ranks: Any = getattr(model, "model_", model)
    if known is not None and "revealed" not in inspect.signature(ranks.explain).parameters:
        raise typer.BadParameter(f"{type(ranks).__name__} does not look at revealed labels; leave --revealed out.")


def _membership(phrase: str, members: list[str]) -> str:
    size = "1 label" if len(members) == 1 else f"{len(members)} labels"
    place = "is in" if phrase in members else "is not in"
    return f"It {place} the set of {size}{': ' if members else ''}{', '.join(members[:_MEMBERS])}."


def _revealed_of_page(
    model: "LabelPredictor", page: "Page", known: options.RevealedFile | None
) -> dict[str, list[str]]:
    if known is None:
        return {}
    from broadmatch.labels.revealed import check_met, read_revealed

    table = read_revealed(known.path, model.label_names_, columns=known.columns)
    check_met(table, {page.name} if page.name in table else set(), known.path)
    return {"revealed": table.get(page.name, [])}


def _one_page(page: Path, name: str | None, columns: dict[str, str] | None) -> "Page":
    from broadmatch.harvest.page_names import plain_page
    from broadmatch.io import PageSource

    found = iter(PageSource(page, columns=columns))
    if name is not None:
        for one in found:
            if plain_page(one.name) == plain_page(name):
                return one
        raise BadInput(f"{page} has no page named {name!r}.")
    first = next(found, None)
    if first is None:
        raise BadInput(f"{page} holds no page.")
    if next(found, None) is not None:
        raise BadInput(f"{page} holds several pages; say which with --name, such as --name {first.name}.")
    return first


def _one_row(
    model: "LabelPredictor", data: Path, row: int | None, name: str | None, known: options.RevealedFile | None
) -> tuple[Any, dict[str, Any]]:
    """The features of one row of a data set, and what is revealed of it."""
    from broadmatch.io import read_features
    from broadmatch.labels.revealed import read_revealed_rows

    if (row is None) == (name is None):
        raise typer.BadParameter(
            "this model was trained on a matrix: give a data set as PAGE and a point as --row or --name."
        )
    X, features, points = read_features(data)
    X = known_features(model, X, features, data)
    if name is not None:
        if points is None or name not in points:
            raise BadInput(f"{data} has no point named {name!r}.")
        row = points.index(name)
    if row is None or not 0 <= row < X.n_rows:
        raise BadInput(f"{data} has no row {row}; it has 0 to {X.n_rows - 1}.")
    x = X.to_scipy()[row]
    if known is None:
        return x, {}
    found = read_revealed_rows(known.path, model.label_names_, X.n_rows, points=points, columns=known.columns)
    return x, {"revealed": found.row(row)[0].tolist()}
