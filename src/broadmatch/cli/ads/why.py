"""`broadmatch ads why`: what lets an ad match a query and be shown, or keeps it out."""

from typing import Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.ads.match import Index, Query, With, parse_context


def command(
    path: Index,
    query: Query,
    ad: Annotated[str, typer.Argument(metavar="AD", help="The name of an ad.")],
    context: With = None,
    limit: Annotated[int, typer.Option(help="Among so many candidates.")] = 200,
    json: options.Json = False,
) -> None:
    """Say by which phrase an ad matches a query, or what keeps it out: no phrase, a negative, or higher bids.

    Of an engine also the features that count, the click probability, what the auction says, and the price.

    \b
    Example:
      broadmatch ads why index/ "cheap red shoes" shoes-1
      broadmatch ads why engine/ "cheap red shoes" shoes-1 --with city=boston
    """
    from broadmatch.ads import AdEngine, AdIndex

    given = parse_context(context)
    if AdEngine.is_at(path):
        found = AdEngine(path).explain(query, given, ad, limit=limit)
        if json:
            output.print_json(found.to_dict())
        else:
            for line in str(found).splitlines():
                output.print_text(line)
        return
    if given and path.exists():
        raise typer.BadParameter(f"--with is for an engine, but {path} is not one.")
    why = AdIndex(path).why(query, ad, limit)
    if json:
        output.print_json(why.to_dict())
    else:
        output.print_text(f"{ad}: {why.reason}.")
