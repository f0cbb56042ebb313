"""`broadmatch publish`: which models a server serves."""

import typer

from broadmatch.cli.group import Subcommands
from broadmatch.cli.publish.arms import command as arms_command
from broadmatch.cli.publish.models import clicks_command, list_command, recommender_command
from broadmatch.cli.publish.rollback import release_command
from broadmatch.cli.publish.rollback import rollback_command as rollback_command
from broadmatch.cli.publish.studio import command as studio_command

app = typer.Typer(cls=Subcommands, rich_markup_mode=None, no_args_is_help=True)
app.command("clicks")(clicks_command)
app.command("recommender")(recommender_command)
app.command("list")(list_command)
app.command("rollback")(rollback_command)
app.command("release")(release_command)
app.command("arms")(arms_command)
app.command("studio")(studio_command)


@app.callback()
def _publish() -> None:
    """Put models in service, see which are, go back to an earlier one, split the traffic into arms.

    \b
    Example:
      broadmatch publish clicks server/ model/
      broadmatch publish list server/
      broadmatch publish rollback server/
    """
