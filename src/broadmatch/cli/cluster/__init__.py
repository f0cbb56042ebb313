"""`broadmatch cluster`: whether the nodes of a cluster fit together."""

import typer

from broadmatch.cli.cluster.check import command as check_command
from broadmatch.cli.group import Subcommands

app = typer.Typer(cls=Subcommands, rich_markup_mode=None, no_args_is_help=True)
app.command("check")(check_command)


@app.callback()
def _cluster() -> None:
    """A Ray cluster that other commands work on (--cluster): check it.

    \b
    Example:
      broadmatch cluster check --cluster 10.0.0.5:6379 --folder /mnt/shared
    """
