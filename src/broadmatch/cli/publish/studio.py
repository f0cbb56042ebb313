"""`broadmatch publish studio`: what the studio's pages show, into a server's folder."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.publish.models import Folder


def command(
    folder: Folder,
    queries: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="What `harvest` wrote, or another table of queries."),
    ] = None,
    auctions: Annotated[
        Path | None,
        typer.Option(metavar="LOG", help="A log of impressions, or what `events export` wrote."),
    ] = None,
    kex: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="A trained KEX, to extract phrases from pages.")
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PREDICTIONS", help="A grid of predictions, or a file .grid; may be repeated."),
    ] = None,
    loop: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What `simulate --arms --json` printed, a file .json.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Publish what the studio shows: facts of queries, grids, results of a loop.

    Each part is optional and replaces what was there by that name; a server that runs shows it at once. Queries and
    auctions together tell searches, competition, bids, and what a bid would bring.

    \b
    Example:
      broadmatch publish studio server/ --queries data/ --auctions impressions.parquet
      broadmatch publish studio server/ --grid variants=predictions/ --loop loop.json
    """
    from broadmatch.serve.studio.publishing import publish_studio

    if not any((queries, auctions, kex, grid, loop)):
        raise typer.BadParameter("Name at least one of --queries, --auctions, --kex, --grid and --loop.")
    grids = dict(map(_named, grid or []))
    done = publish_studio(folder, queries=queries, auctions=auctions, extractor=kex, grids=grids, loop=loop)
    if json:
        output.print_json(asdict(done))
        return
    said = []
    if done.queries is not None:
        said.append(f"facts of {done.queries.queries:,} queries")
    said += ["an extractor of phrases"] if done.extractor else []
    said += [f"grid {name} ({models} models × {slices:,} slices)" for name, (models, slices) in done.grids.items()]
    said += [f"loop {done.loop}"] if done.loop else []
    output.print_text(f"{folder}: the studio has {', '.join(said)}.")


def _named(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not equals or not path:
        raise typer.BadParameter(f"A grid is given with its name, such as variants=predictions/, not {text!r}.")
    return name, Path(path)
