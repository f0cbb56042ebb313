"""`broadmatch explain`: why a phrase is recommended for a page, or why it is not."""

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broadmatch.cli import options
from broadmatch.cli import output as talk
from broadmatch.cli.explain_linear import LinearExplanation, shown_linear
from broadmatch.cli.explain_xml import shown_xml
from broadmatch.cli.opened import open_model
from broadmatch.cli.revealed import revealed_phrases, revealed_rows
from broadmatch.cli.rows import rows_of
from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.cli.opened import Opened
    from broadmatch.io import Page
    from broadmatch.labels import Explanation
    from broadmatch.labels.mlrf_explain import Step

_WORDS, _LEAVES, _STEPS, _MEMBERS = 12, 3, 6, 20


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
    of the other trees which revealed phrases decided, and what the re-ranker added. Of one-vs-rest, what each word adds
    to the score. Of a model that answers with sets, also whether the phrase is in the set.

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
    found = ranking.explain(x, phrase, **known)
    why = LinearExplanation(phrase, found) if isinstance(found, list) else found
    members = _members(opened, x)
    if json:
        talk.emit(why.to_dict() | ({} if members is None else {"in_set": phrase in members, "set": members}))
        return
    console = talk.console()
    for part in _shown(why, opened.vectorizer is not None):
        console.print(part)
    if members is not None:
        console.print(_told_set(phrase, members), markup=False)


def _check(opened: "Opened", revealed: Path | None) -> None:
    model: Any = opened.sets if opened.ranking is None else opened.ranking
    if not hasattr(model, "explain"):
        raise BadInput(
            f"{opened.place} holds a model of the kind {type(model).__name__}, which cannot say why; "
            "mlrf, fastxml, pfastrexml, swiftxml and one-vs-rest can."
        )
    if revealed is not None and "revealed" not in inspect.signature(model.explain).parameters:
        raise typer.BadParameter(f"{type(model).__name__} does not look at revealed labels; leave --revealed out.")


def _members(opened: "Opened", x: Any) -> list[str] | None:
    """The set of one point; None if the model has none, or none of one point alone."""
    from broadmatch.sets import PCut

    if opened.sets is None or isinstance(opened.sets, PCut):
        return None
    labels, _ = opened.sets.predict_one(x)
    return [opened.label_names[int(label)] for label in labels]


def _told_set(phrase: str, members: list[str]) -> str:
    size = "1 label" if len(members) == 1 else f"{len(members)} labels"
    place = "is in" if phrase in members else "is not in"
    return f"It {place} the set of {size}{': ' if members else ''}{', '.join(members[:_MEMBERS])}."


def _shown(why: Any, of_pages: bool) -> list[Any]:
    from broadmatch.labels import Explanation

    if isinstance(why, LinearExplanation):
        return shown_linear(why, of_pages)
    return shown(why, of_pages) if isinstance(why, Explanation) else shown_xml(why, of_pages)


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
