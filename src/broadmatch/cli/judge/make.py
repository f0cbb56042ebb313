"""`broadmatch judge make`: a blind sheet of what several models recommend, for people to fill in."""

import random
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.common import check_not_addresses
from broadmatch.errors import BadInput
from broadmatch.params import Whole

if TYPE_CHECKING:
    from broadmatch.io import Page, PageSource


def command(
    places: Annotated[
        list[Path], typer.Argument(metavar="MODEL... PAGES", help="Trained models; last a page, folder or pages file.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The sheet, .csv or .xlsx; its key beside it.")],
    k: Annotated[int, typer.Option("-k", help="Phrases of each model for each page.")] = 10,
    sample: Annotated[int | None, typer.Option(help="So many pages, drawn at random.", show_default="all")] = None,
    page_columns: options.PageColumns = None,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Write a sheet of pages and phrases for people to judge.

    Every pair of page and phrase stands there once, in random order, and nothing tells which model gave it: that is in
    the key, FILE with .key.json for its ending. Judges fill in copies: 1 in the column `relevant` if the phrase fits
    the page, 0 if it does not. `broadmatch evaluate` reads them with the key.

    \b
    Example:
      broadmatch judge make forest/ trees/ pages/ --out sheet.csv
      broadmatch evaluate sheet.key.json --judgements anna.csv --judgements ben.csv
    """
    *models, source = places
    if not models:
        raise typer.BadParameter("name at least one model, and behind it the pages.")
    if len(set(models)) < len(models):
        raise typer.BadParameter("a model is named twice; name each once.")
    check_not_addresses([source])
    import broadmatch
    from broadmatch.evaluate import SheetKey
    from broadmatch.io import PageSource
    from broadmatch.io.tables import sheet_format

    sheet_format(out)  # before long work
    Whole(1).check("k", k)
    Whole(1, none=True).check("sample", sample)
    recommenders = {}
    for path in models:
        found = broadmatch.load(path)
        if not hasattr(found, "recommend"):
            raise BadInput(f"{path} holds a {type(found).__name__}, which does not recommend phrases for pages.")
        recommenders[str(path)] = found
    pages = _drawn(PageSource(source, columns=options.parse_columns(page_columns, "--page-columns")), sample, seed)
    key = SheetKey.of({name: one.recommend(pages, k) for name, one in recommenders.items()}, k=k)
    n = key.write_sheet(out, seed=seed)
    beside = out.with_suffix(".key.json")
    key.save(beside)
    if json:
        output.print_json({"sheet": str(out), "key": str(beside), "pages": len(pages), "rows": n})
        return
    output.print_text(f"{n:,} rows to judge, for {len(pages):,} pages: {out}")
    output.print_text(f"Which model gave what, not for the judges: {beside}")


def _drawn(source: "PageSource", n: int | None, seed: int) -> "list[Page]":
    """All pages, or n of them with equal chances, in one pass (Vitter's algorithm R)."""
    rng, kept = random.Random(seed), []
    for i, page in enumerate(source):
        if n is None or i < n:
            kept.append(page)
        elif (place := rng.randrange(i + 1)) < n:
            kept[place] = page
    return kept
