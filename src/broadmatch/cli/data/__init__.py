"""`broadmatch data`: looking at data."""

import typer

from broadmatch.cli.data.show import command as show_command
from broadmatch.cli.group import Subcommands

app = typer.Typer(cls=Subcommands, rich_markup_mode=None, no_args_is_help=True)
app.command("show")(show_command)


@app.callback()
def _data() -> None:
    """Look at data before training on it.

    \b
    Example:
      broadmatch data show data/
    """
