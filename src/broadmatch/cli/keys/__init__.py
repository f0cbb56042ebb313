"""`broadmatch keys`: who may ask a server."""

import typer

from broadmatch.cli.group import Subcommands
from broadmatch.cli.keys.add import command as add_command
from broadmatch.cli.keys.list import command as list_command
from broadmatch.cli.keys.remove import command as remove_command

app = typer.Typer(cls=Subcommands, rich_markup_mode=None, no_args_is_help=True)
app.command("add")(add_command)
app.command("list")(list_command)
app.command("remove")(remove_command)


@app.callback()
def _keys() -> None:
    """API keys of a server: add one, list them, remove one. A server that runs notices within a second.

    \b
    Example:
      broadmatch keys add shop/ --name website --role serve
      broadmatch keys list shop/
    """
