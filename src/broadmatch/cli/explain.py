"""`broadmatch explain`: why a phrase is recommended for a page, or why it is not."""

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broadmatch.cli import options, talk
from broadmatch.cli.explain_xml import shown_xml
from broadmatch.cli.recommend import open_model
from broadmatch.cli.revealed import revealed_phrases, revealed_rows
from broadmatch.cli.rows import rows_of
from broadmatch.cli.sources import pages_of
from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.data import Page
    from broadmatch.labels import Explanation, Recommender
    from broadmatch.labels.base import LabelModel
    from broadmatch.labels.mlrf_explain import Step

_WORDS, _LEAVES, _STEPS = 12, 3, 6


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
    of the other models which revealed phrases decided, and what the re-ranker added.

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
    talk.announce_compiling()
    from broadmatch.labels import Explanation, Recommender

    found = open_model(model)
    forest: Any = found.model if isinstance(found, Recommender) else found
    _check(forest, model, revealed)
    if isinstance(found, Recommender):
        if row is not None:
            raise typer.BadParameter("--row is for a model that was trained on a matrix; this one takes a page.")
        one = _one_page(page, name, columns)
        why = found.explain(one.html, phrase, **_known_of_page(found, one, revealed, names))
    else:
        x, known = _one_row(found, page, row, name, revealed, names)
        why = forest.explain(x, phrase, **known)
    if json:
        talk.emit(why.to_dict())
    else:
        console = talk.console()
        show = shown if isinstance(why, Explanation) else shown_xml
        for part in show(why, isinstance(found, Recommender)):
            console.print(part)


def _check(forest: Any, place: Path, revealed: Path | None) -> None:
    if not hasattr(forest, "explain"):
        raise BadInput(f"{place} holds a {type(forest).__name__}, which does not say why; ask another model.")
    if revealed is not None and "revealed" not in inspect.signature(forest.explain).parameters:
        raise typer.BadParameter(f"{type(forest).__name__} does not look at revealed labels; leave --revealed out.")


def _known_of_page(
    recommender: "Recommender", page: "Page", revealed: Path | None, columns: dict[str, str] | None
) -> dict[str, Any]:
    if revealed is None:
        return {}
    table = revealed_phrases(revealed, columns, recommender.model.label_names_)
    known = table.of(page.name)
    table.finish()
    return {"revealed": known}


def _one_page(page: Path, name: str | None, columns: dict[str, str] | None) -> "Page":
    found = pages_of([page], columns, None)
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
    model: "LabelModel",
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
    rows = rows_of([data], None, model)
    if name is not None:
        if rows.points is None or name not in rows.points:
            raise BadInput(f"{data} has no point named {name!r}.")
        row = rows.points.index(name)
    if row is None or not 0 <= row < rows.X.n_rows:
        raise BadInput(f"{data} has no row {row}; it has 0 to {rows.X.n_rows - 1}.")
    if revealed is None:
        return rows.X.row(row), {}
    known = revealed_rows(revealed, columns, model.label_names_, rows)
    return rows.X.row(row), {"revealed": known.row(row)[0].tolist()}


def _way(path: "list[Step]", word: str) -> str:
    """The tests on the way to a leaf; those for what the page lacks are only counted, as they are most."""
    there = [str(step) for step in path if step.value]
    shortened = ["…", *there[-_STEPS:]] if len(there) > _STEPS else there
    lacks = len(path) - len(there)
    return " → ".join([*([f"{lacks} {word}s that it lacks"] if lacks else []), *shortened]) or "the root"


def shown(why: "Explanation", of_pages: bool = True) -> list[Any]:
    """The explanation as something to print, in the words for pages or for rows of a matrix."""
    from rich.table import Table
    from rich.text import Text

    word, point = ("word", "page") if of_pages else ("feature", "point")
    n_trees = len(why.leaves)
    agreeing = sum(leaf.share > 0 for leaf in why.leaves)
    head = Text.assemble(
        (why.label, "bold"),
        f": score {why.score:.3f}; {agreeing} of the {n_trees} trees vote for it, at least a little.",
    )
    decided = ", ".join(f"{name} ({n})" for name, n in why.words()[:_WORDS]) or f"none; the {point} has none of them"
    neighbours = Table(box=None, pad_edge=False, title=f"Nearest training {point}s", title_justify="left")
    neighbours.add_column("leaves shared", justify="right")
    neighbours.add_column("vote", justify="right")
    neighbours.add_column(point, overflow="fold")
    for near in why.neighbours:
        neighbours.add_row(f"{near.shared_leaves} of {n_trees}", f"{near.vote:.2f}", Text(near.point))
    leaves = Table(box=None, pad_edge=False, title="Leaves that say most for it", title_justify="left")
    leaves.add_column("tree", justify="right")
    leaves.add_column("share", justify="right")
    leaves.add_column("the way there")
    for leaf in sorted(why.leaves, key=lambda one: -one.share)[:_LEAVES]:
        leaves.add_row(str(leaf.tree), f"{leaf.share:.2f}", Text(_way(leaf.path, word)))
    return [head, Text(f"{word.capitalize()}s that decided (in trees): {decided}"), Text(), neighbours, Text(), leaves]
