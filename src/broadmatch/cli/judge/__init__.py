"""`broadmatch judge`: asking people."""

import typer

from broadmatch.cli.group import Subcommands
from broadmatch.cli.judge.make import command as make_command

app = typer.Typer(cls=Subcommands, rich_markup_mode=None, no_args_is_help=True)
app.command("make")(make_command)


@app.callback()
def _judge() -> None:
    """Have people judge what models recommend.

    \b
    Example:
      broadmatch judge make forest/ trees/ pages/ --out sheet.csv
    """
