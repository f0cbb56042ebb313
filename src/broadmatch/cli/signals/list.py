"""`broadmatch signals list`: what the index has."""

from typing import Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.consumption import open_index
from broadmatch.cli.output import Column
from broadmatch.cli.signals.common import Index


def command(
    search: Annotated[str, typer.Argument(metavar="[TEXT]", help="In the name, the owner or the description.")] = "",
    signals: Index = None,
    status: Annotated[
        str | None,
        typer.Option(metavar="STATUS", help="proposed, vetted, white-listed, deprecated or retired."),
    ] = None,
    json: options.Json = False,
) -> None:
    """List the signals of the index by name: all, those of a status, or those with a text.

    \b
    Example:
      broadmatch signals list --status deprecated --signals signals/
      broadmatch signals list price
    """
    with open_index(signals) as index:
        found = index.signals(status=status, search=search)
    if json:
        output.print_json([one.to_dict() for one in found])
        return
    columns = [
        Column("signal", spare="shorten"),
        Column("kind"),
        Column("status"),
        Column("owner"),
        Column("use instead"),
    ]
    rows = [(one.full_name, one.kind, one.status, one.owner, one.replacement or "") for one in found]
    output.print_table([*columns, Column("description", spare="shorten")],
                       [(*row, one.description) for row, one in zip(rows, found, strict=True)])  # fmt: skip
