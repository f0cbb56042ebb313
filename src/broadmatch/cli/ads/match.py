"""`broadmatch ads match`: the ads that match a query, and the places that an engine gives them."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from broadmatch.cli import options, output
from broadmatch.cli.output import Column

Index = Annotated[Path, typer.Argument(metavar="INDEX", help="An ad index, or an engine.")]
Query = Annotated[str, typer.Argument(metavar="QUERY", help="What somebody searched for.")]
With = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="NAME=VALUE", help="What an engine knows of the query, such as city=boston."),
]


def command(
    path: Index,
    query: Query,
    context: With = None,
    limit: Annotated[
        int | None, typer.Option(help="At most so many candidates, by bid; 20, and 200 of an engine.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Show the ads that match a query, highest bid first, with the phrase by which each matches.

    Of an engine, the places with their prices and click probabilities.

    \b
    Example:
      broadmatch ads match index/ "cheap red shoes"
      broadmatch ads match engine/ "cheap red shoes" --with city=boston
    """
    from broadmatch.ads import AdEngine

    given = parse_context(context)
    if AdEngine.is_at(path):
        rows = [place._asdict() for place in AdEngine(path).answer(query, given, limit=limit or 200).places]
        without = "gets a place for"
    elif given and path.exists():
        raise typer.BadParameter(f"--with is for an engine, but {path} is not one.")
    else:
        rows, without = _candidates(path, query, limit or 20), "matches"
    if json:
        output.print_json(rows)
        return
    if not rows:
        why = f"`broadmatch ads why {path} {shlex.quote(query)} AD` says what keeps one out"
        output.print_text(f"No ad {without} {query!r}: {why}, and phrases by broad match take in more queries.")
        return
    heads = [Column("ad", spare="shorten"), Column("phrase"), Column("match"), Column("bid", right=True)]
    columns = {head.head: head for head in heads}
    spare = {"uncertainty", "score"}
    columns |= {
        name: Column(name, right=True, spare="drop" if name in spare else "")
        for name in ("price", "probability", "uncertainty", "score", "place")
    }
    shown = [name for name in columns if name in rows[0]]
    cells = [[f"{row[name]:.4g}" if isinstance(row[name], float) else str(row[name]) for name in shown] for row in rows]
    output.print_table([columns[name] for name in shown], cells)


def parse_context(given: list[str] | None) -> dict[str, str]:
    """Names and values of --with.

    >>> parse_context(["city=boston", "hour=9"])
    {'city': 'boston', 'hour': '9'}
    """
    found = {}
    for pair in given or ():
        name, equals, value = pair.partition("=")
        if not (equals and name.strip()):
            raise typer.BadParameter(f"--with is a name and a value such as city=boston, but it is {pair!r}.")
        found[name.strip()] = value.strip()
    return found


def _candidates(path: Path, query: str, limit: int) -> list[dict[str, Any]]:
    from broadmatch.ads import MATCH_TYPES, AdIndex

    index = AdIndex(path)
    found = index.match(query, limit)
    rows = []
    for ad, phrase, bid, match in zip(*(column.tolist() for column in found[:4]), strict=True):
        record = index.record(ad)
        text = next(one.text for one in record.phrases if one.number == phrase)
        rows.append({"ad": record.name, "phrase": text, "match": MATCH_TYPES[match], "bid": bid})
    return rows
