"""`broadmatch explain`: why a phrase is recommended for a page, or why it is not."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broadmatch.cli import options, talk
from broadmatch.cli.sources import pages_of
from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.labels import Explanation
    from broadmatch.labels.mlrf_explain import Step

_WORDS, _LEAVES, _STEPS = 12, 3, 6


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A trained model.")],
    page: Annotated[
        Path,
        typer.Argument(metavar="PAGE", help="HTML file, pages file, or - for standard input; a data set with --row."),
    ],
    phrase: Annotated[str, typer.Argument(metavar="PHRASE", help="The phrase, as the model spells it.")],
    name: Annotated[str | None, typer.Option(help="Which page of a folder or a pages file.")] = None,
    row: Annotated[int | None, typer.Option(help="Which point, from 0, of a data set, for a model of rows.")] = None,
    page_columns: options.PageColumns = None,
    json: options.Json = False,
) -> None:
    """Show why a phrase is recommended for a page.

    The words that decided, the training pages that voted, and the leaves of the forest that were reached.

    \b
    Example:
      broadmatch explain model/ landing.html "cheap flights"
      broadmatch explain model/ market/pages.parquet "pizza delivery" --name https://example.com/
      broadmatch explain eurlex/ Eurlex/test.txt.gz 17 --row 0
    """
    columns = options.parse_columns(page_columns, "--page-columns")
    talk.announce_compiling()
    import broadmatch
    from broadmatch.labels import Recommender

    found = broadmatch.load(model)
    if isinstance(found, Recommender):
        if row is not None:
            raise typer.BadParameter("--row is for a model that was trained on a matrix; this one takes a page.")
        why = found.explain(_one_page(page, name, columns), phrase)
    elif hasattr(found, "explain"):
        why = found.explain(_one_row(page, row), phrase)
    else:
        raise BadInput(f"{model} holds a {type(found).__name__}, not a model; train one with `broadmatch train`.")
    if json:
        talk.emit(why.to_dict())
    else:
        console = talk.console()
        for part in shown(why, isinstance(found, Recommender)):
            console.print(part)


def _one_page(page: Path, name: str | None, columns: dict[str, str] | None) -> bytes:
    found = pages_of([page], columns, None)
    if name is not None:
        for one in found:
            if one.name == name:
                return one.html
        raise BadInput(f"{page} has no page named {name!r}.")
    first = next(found, None)
    if first is None:
        raise BadInput(f"{page} holds no page.")
    if next(found, None) is not None:
        raise BadInput(f"{page} holds several pages; say which with --name, such as --name {first.name}.")
    return first.html


def _one_row(data: Path, row: int | None) -> Any:
    from broadmatch.data import read_dataset

    if row is None:
        raise typer.BadParameter("this model was trained on a matrix: give a data set as PAGE and a point as --row.")
    points = read_dataset(data)
    if not 0 <= row < len(points):
        raise BadInput(f"{data} has no row {row}; it has 0 to {len(points) - 1}.")
    return points.X.row(row)


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
