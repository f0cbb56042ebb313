"""`broadmatch clicks`: click prediction on streams of impressions."""

import typer

from broadmatch.cli.clicks.calibrate import command as calibrate_command
from broadmatch.cli.clicks.follow import command as follow_command
from broadmatch.cli.clicks.predict import command as predict_command
from broadmatch.cli.clicks.show import command as show_command
from broadmatch.cli.clicks.train import command as train_command
from broadmatch.cli.clicks.validate import command as validate_command
from broadmatch.cli.group import Subcommands

app = typer.Typer(cls=Subcommands, rich_markup_mode=None, no_args_is_help=True)
app.command("train")(train_command)
app.command("follow")(follow_command)
app.command("validate")(validate_command)
app.command("calibrate")(calibrate_command)
app.command("predict")(predict_command)
app.command("show")(show_command)


@app.callback()
def _clicks() -> None:
    """Click probabilities: learn from a stream of impressions, measure, calibrate, predict.

    \b
    Example:
      broadmatch clicks train log.parquet --describe clicks.toml --out model/ --predictions predictions/
      broadmatch clicks validate predictions/
      broadmatch clicks predict model/ new.parquet --out probabilities.parquet
    """
