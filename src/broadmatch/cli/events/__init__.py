"""`broadmatch events`: looking into an event log."""

import typer

from broadmatch.cli.events.export import command as export_command
from broadmatch.cli.events.tail import command as tail_command
from broadmatch.cli.group import Subcommands

app = typer.Typer(cls=Subcommands, rich_markup_mode=None, no_args_is_help=True)
app.command("tail")(tail_command)
app.command("export")(export_command)


@app.callback()
def _events() -> None:
    """Impressions, clicks, conversions and bounces in an event log: see the last ones, write them as a table.

    \b
    Example:
      broadmatch events tail events/ --follow
      broadmatch events export events/ --out events.parquet
    """
