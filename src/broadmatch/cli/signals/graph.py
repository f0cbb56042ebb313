"""`broadmatch signals graph`: which model consumes what, as a graph."""

from typing import Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.consumption import open_index
from broadmatch.cli.signals.common import Index


def command(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One signal; all if not given.")] = None,
    signals: Index = None,
    json: options.Json = False,
) -> None:
    """Print the lineage of signals and models, for Graphviz, or as JSON.

    \b
    Example:
      broadmatch signals graph price --signals signals/ | dot -Tsvg -o price.svg
    """
    from broadmatch.registry.graph import lineage

    with open_index(signals) as index:
        found = lineage(index, name)
    if json:
        output.print_json(found.to_dict())
    else:
        typer.echo(found.to_dot())
