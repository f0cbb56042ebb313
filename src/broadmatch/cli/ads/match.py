"""`broadmatch ads match`: the ads that match a query."""

from pathlib import Path
from typing import Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.output import Column

Index = Annotated[Path, typer.Argument(metavar="INDEX", help="An ad index.")]
Query = Annotated[str, typer.Argument(metavar="QUERY", help="What somebody searched for.")]


def command(
    path: Index,
    query: Query,
    limit: Annotated[int, typer.Option(help="At most so many ads, those with the highest bids.")] = 20,
    json: options.Json = False,
) -> None:
    """Show the ads that match a query, highest bid first, with the phrase by which each matches.

    \b
    Example:
      broadmatch ads match index/ "cheap red shoes"
    """
    from broadmatch.ads import MATCH_TYPES, AdIndex

    index = AdIndex(path)
    found = index.match(query, limit)
    rows = []
    for ad, phrase, bid, match in zip(*(column.tolist() for column in found[:4]), strict=True):
        record = index.record(ad)
        text = next(one.text for one in record.phrases if one.number == phrase)
        rows.append({"ad": record.name, "phrase": text, "match": MATCH_TYPES[match], "bid": bid})
    if json:
        output.print_json(rows)
        return
    columns = [Column("ad", spare="shorten"), Column("phrase"), Column("match"), Column("bid", right=True)]
    output.print_table(columns, [[*map(str, list(row.values())[:3]), f"{row['bid']:g}"] for row in rows])
