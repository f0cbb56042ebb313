"""`broadmatch ads`: which ads answer a query."""

import typer

from broadmatch.cli.ads.check import command as check_command
from broadmatch.cli.ads.index import command as index_command
from broadmatch.cli.ads.match import command as match_command
from broadmatch.cli.ads.why import command as why_command
from broadmatch.cli.group import Subcommands

app = typer.Typer(cls=Subcommands, rich_markup_mode=None, no_args_is_help=True)
app.command("check")(check_command)
app.command("index")(index_command)
app.command("match")(match_command)
app.command("why")(why_command)


@app.callback()
def _ads() -> None:
    """Ads by query: check an inventory, index it, look queries up.

    \b
    Example:
      broadmatch ads check ads.csv
      broadmatch ads index ads.csv --out index/
      broadmatch ads match index/ "cheap red shoes"
      broadmatch ads why index/ "cheap red shoes" shoes-1
      broadmatch ads index ads.csv --clicks clicks/ --out engine/
    """
