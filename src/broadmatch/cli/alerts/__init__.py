"""`broadmatch alerts`: when somebody is told."""

import typer

from broadmatch.cli.alerts.check import command as check_command
from broadmatch.cli.group import Subcommands

app = typer.Typer(cls=Subcommands, rich_markup_mode=None, no_args_is_help=True)
app.command("check")(check_command)


@app.callback()
def _alerts() -> None:
    """Alerts of a server: what its rules say of the traffic.

    \b
    Example:
      broadmatch alerts check shop/
    """
