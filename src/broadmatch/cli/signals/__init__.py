"""`broadmatch signals`: the index of signals, their vetting and selection."""

import typer

from broadmatch.cli.group import Subcommands
from broadmatch.cli.signals.select import command as select_command
from broadmatch.cli.signals.vet import command as vet_command

app = typer.Typer(cls=Subcommands, rich_markup_mode=None, no_args_is_help=True)
app.command("vet")(vet_command)
app.command("select")(select_command)


@app.callback()
def _signals() -> None:
    """Signals: whether they are fit to be used, and which to train with.

    \b
    Example:
      broadmatch signals vet price 'logs/*.parquet' --description clicks.toml --page price.html
    """
