"""The command line: thin commands over the library, with help, progress, and errors of one sentence."""

import sys
from typing import Annotated

import typer

from broadmatch.cli.ads import app as ads_app
from broadmatch.cli.alerts import app as alerts_app
from broadmatch.cli.clicks import app as clicks_app
from broadmatch.cli.cluster import app as cluster_app
from broadmatch.cli.data import app as data_app
from broadmatch.cli.demo import command as demo_command
from broadmatch.cli.evaluate import command as evaluate_command
from broadmatch.cli.events import app as events_app
from broadmatch.cli.explain import command as explain_command
from broadmatch.cli.gridviz import command as gridviz_command
from broadmatch.cli.group import Commands
from broadmatch.cli.harvest import command as harvest_command
from broadmatch.cli.judge import app as judge_app
from broadmatch.cli.keys import app as keys_app
from broadmatch.cli.models import command as models_command
from broadmatch.cli.phrases.expand import command as expand_command
from broadmatch.cli.phrases.extract import command as extract_command
from broadmatch.cli.publish import app as publish_app
from broadmatch.cli.recommend import command as recommend_command
from broadmatch.cli.serve import command as serve_command
from broadmatch.cli.signals import app as signals_app
from broadmatch.cli.simulate import command as simulate_command
from broadmatch.cli.simulate import matrix_command
from broadmatch.cli.studio import command as studio_command
from broadmatch.cli.train import command as train_command
from broadmatch.cli.warmup import command as warmup_command

__all__ = ["app", "main"]

# Plain help: it answers in half the time, and reads the same in a terminal, a file and the docs.
app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo_command)
app.command("simulate")(simulate_command)
app.command("simulate-matrix")(matrix_command)
app.command("models")(models_command)
app.command("harvest")(harvest_command)
app.add_typer(data_app, name="data")
app.command("train")(train_command)
app.command("evaluate")(evaluate_command)
app.command("recommend")(recommend_command)
app.command("extract")(extract_command)
app.command("expand")(expand_command)
app.command("explain")(explain_command)
app.add_typer(judge_app, name="judge")
app.add_typer(clicks_app, name="clicks")
app.command("gridviz")(gridviz_command)
app.add_typer(ads_app, name="ads")
app.add_typer(events_app, name="events")
app.command("serve")(serve_command)
app.command("studio")(studio_command)
app.add_typer(publish_app, name="publish")
app.add_typer(keys_app, name="keys")
app.add_typer(alerts_app, name="alerts")
app.add_typer(signals_app, name="signals")
app.add_typer(cluster_app, name="cluster")
app.command("warmup")(warmup_command)


def _version(wanted: bool) -> None:
    if wanted:
        from broadmatch import __version__

        typer.echo(f"broadmatch {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Bid phrases for landing pages, learned from click logs.

    Start with `broadmatch demo`. With your own data: harvest, data show, train, evaluate, recommend, explain.
    Without any: extract. Phrases from phrases: expand.
    Click prediction: clicks train, follow, predict, validate, calibrate, show.
    Ads by query: ads check, index, match, why. Event logs: events tail, export.
    All of it over HTTP: serve. Its models: publish; API keys: keys; alerts on the traffic: alerts.
    Which signals there are, who consumes them, and whether they may: signals.
    Past one machine: --cluster of harvest, train, evaluate, recommend and ads index; cluster check.
    """


def main() -> None:
    """Run the command that the shell asks for."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a letter shows its number instead of ending the run.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    app(prog_name="broadmatch")
