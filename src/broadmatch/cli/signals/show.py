"""`broadmatch signals show`: all that the index knows of a signal."""

from typing import Annotated, Any

import typer

from broadmatch.cli import options, output
from broadmatch.cli.consumption import open_index
from broadmatch.cli.output import Column
from broadmatch.cli.signals.common import Index, Name
from broadmatch.cli.signals.consumers import print_consumers


def command(
    name: Name,
    signals: Index = None,
    history: Annotated[int, typer.Option(min=0, metavar="N", help="So many of the last changes.")] = 10,
    json: options.Json = False,
) -> None:
    """Show a signal: its versions, what is behind it, who consumes it, its vettings, and who changed what.

    \b
    Example:
      broadmatch signals show price --signals signals/
    """
    from broadmatch.registry.names import parse_name

    with open_index(signals) as index:
        version = index.get(name)
        versions = [one for one in index.signals(search=parse_name(name)[0]) if one.name == version.name]
        consumers, vettings = index.consumers(name), index.vettings(name)
        trail = index.audit(name, limit=history)
    if json:
        lists = {"consumers": [one.to_dict() for one in consumers], "vettings": vettings, "history": trail}
        output.print_json({**version.to_dict(), "versions": [one.full_name for one in versions], **lists})
        return
    plain = version.to_dict()
    shown = [(what, _shown(plain[what])) for what in plain if plain[what] not in (None, "", {}, (), [])]
    shown.append(("versions", ", ".join(f"{one.full_name} ({one.status})" for one in versions)))
    shown += [("vetting", f"{one['time']} {'passed' if one['passed'] else 'failed'}") for one in vettings[:3]]
    output.print_table([Column("signal"), Column(version.full_name, spare="shorten")], shown)
    if consumers:
        typer.echo()
        print_consumers(consumers)
    if trail:
        typer.echo()
        rows = [(row["time"], row["who"], row["what"], _shown(row["after"])) for row in trail]
        output.print_table([Column("when"), Column("who"), Column("what"), Column("after", spare="shorten")], rows)


def _shown(value: Any) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
