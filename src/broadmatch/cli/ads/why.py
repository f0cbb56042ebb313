"""`broadmatch ads why`: what lets an ad match a query, or keeps it out."""

from typing import Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.ads.match import Index, Query


def command(
    path: Index,
    query: Query,
    ad: Annotated[str, typer.Argument(metavar="AD", help="The name of an ad.")],
    limit: Annotated[int, typer.Option(help="Among so many candidates.")] = 200,
    json: options.Json = False,
) -> None:
    """Say by which phrase an ad matches a query, or what keeps it out: no phrase, a negative, or higher bids.

    \b
    Example:
      broadmatch ads why index/ "cheap red shoes" shoes-1
    """
    from broadmatch.ads import AdIndex

    found = AdIndex(path).why(query, ad, limit)
    if json:
        output.print_json(found.to_dict())
    else:
        output.print_text(f"{ad}: {found.reason}.")
