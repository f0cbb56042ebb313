"""`broadmatch alerts check`: what the rules would have sent."""

from pathlib import Path
from typing import Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.output import Column
from broadmatch.serve.config import ServeFolder


def command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a server.")],
    json: options.Json = False,
) -> None:
    """Show what the rules in FOLDER/alerts.toml would have sent for the hours that are kept; nothing is sent.

    Without that file the standard rules are tried. A rule that is wrong is an error with its line.

    \b
    Example:
      broadmatch alerts check shop/
    """
    from broadmatch.evaluate import QualityFolder
    from broadmatch.registry.alerts import replayed
    from broadmatch.registry.rules import STANDARD, read_rules

    place = ServeFolder(folder)
    rules = read_rules(place.alerts if place.alerts.exists() else STANDARD)
    hours = list(QualityFolder(place.quality).hours())
    messages = replayed(rules, hours)
    if json:
        output.print_json([message._asdict() for message in messages])
        return
    if messages:
        columns = [Column("hour"), Column("state"), Column("alert", spare="shorten"), Column("figure"), Column("of")]
        shown = [
            (m.hour, m.state, m.alert, m.figure, m.slice, "" if m.value is None else f"{m.value:.4g}", m.bound)
            for m in messages
        ]
        output.print_table([*columns, Column("value", right=True), Column("bound", spare="drop")], shown)
    output.print_text(f"{len(rules)} rules, {len(hours):,} hours, {len(messages)} messages; nothing was sent.")
