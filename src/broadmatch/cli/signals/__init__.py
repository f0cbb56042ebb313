"""`broadmatch signals`: the index of signals, their vetting and selection."""

import typer

from broadmatch.cli.group import Subcommands
from broadmatch.cli.signals.add import command as add_command
from broadmatch.cli.signals.alerts import command as alerts_command
from broadmatch.cli.signals.consumers import command as consumers_command
from broadmatch.cli.signals.graph import command as graph_command
from broadmatch.cli.signals.list import command as list_command
from broadmatch.cli.signals.select import command as select_command
from broadmatch.cli.signals.show import command as show_command
from broadmatch.cli.signals.status import allow_command, deprecate_command, retire_command
from broadmatch.cli.signals.sweep import command as sweep_command
from broadmatch.cli.signals.vet import command as vet_command

app = typer.Typer(cls=Subcommands, rich_markup_mode=None, no_args_is_help=True)
app.command("add")(add_command)
app.command("list")(list_command)
app.command("show")(show_command)
app.command("consumers")(consumers_command)
app.command("vet")(vet_command)
app.command("select")(select_command)
app.command("allow")(allow_command)
app.command("deprecate")(deprecate_command)
app.command("retire")(retire_command)
app.command("alerts")(alerts_command)
app.command("sweep")(sweep_command)
app.command("graph")(graph_command)


@app.callback()
def _signals() -> None:
    """The index of signals: which there are, who consumes them, and whether they may.

    INDEX is a folder or postgresql://USER@HOST/NAME; BROADMATCH_SIGNALS can name it. Learners report to it.

    \b
    Example:
      broadmatch signals add price --kind number --set buckets=log --owner anna --signals signals/
      broadmatch signals vet price 'logs/*.parquet' --description clicks.toml --page price.html
      broadmatch signals deprecate price --use price@2 --by 2030-01-31 --signals signals/
      broadmatch signals vet price logs/ --description clicks.toml --signals signals/ --page price.html
      broadmatch signals alerts --signals signals/
    """
