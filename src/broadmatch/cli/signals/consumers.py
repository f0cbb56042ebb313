"""`broadmatch signals consumers`: which models consume a signal."""

from typing import TYPE_CHECKING, Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.consumption import open_index
from broadmatch.cli.output import Column
from broadmatch.cli.signals.common import Index, Name, Who, who_is

if TYPE_CHECKING:
    from broadmatch.registry import Consumer


def command(
    name: Name,
    signals: Index = None,
    inactive: Annotated[
        str | None, typer.Option(metavar="MODEL", help="First say that this model is no longer in use.")
    ] = None,
    team: Annotated[str, typer.Option(metavar="NAME", help="Of the team of that model.")] = "",
    environment: Annotated[str, typer.Option(metavar="NAME", help="In its environment.")] = "",
    who: Who = None,
    json: options.Json = False,
) -> None:
    """List the models that consume a signal, as they reported it; then those that no longer do.

    \b
    Example:
      broadmatch signals consumers price@2 --signals signals/
      broadmatch signals consumers price --inactive old-model --team ads
    """
    with open_index(signals) as index:
        if inactive is not None:
            index.set_active(inactive, False, by=who_is(who), team=team, environment=environment)
        found = index.consumers(name)
    output.print_json([one.to_dict() for one in found]) if json else print_consumers(found)


def print_consumers(found: "list[Consumer]") -> None:
    """A table of consumers."""
    columns = [Column("model", spare="shorten"), Column("team"), Column("environment", spare="drop"), Column("use")]
    columns += [
        Column("coverage", right=True),
        Column("last seen"),
        Column("still"),
        Column("contact", spare="shorten"),
    ]
    rows = []
    for one in found:
        plain, share = one.to_dict(), "" if one.coverage is None else f"{one.coverage:.1%}"
        still = "yes" if one.open else "no"
        rows.append((one.model, one.team, one.environment, one.use, share, plain["last_seen"], still, one.contact))
    output.print_table(columns, rows)
