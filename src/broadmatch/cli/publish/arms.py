"""`broadmatch publish arms`: the traffic split between several click models."""

from typing import Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.publish.models import Folder


def command(
    folder: Folder,
    shares: Annotated[
        list[str], typer.Argument(metavar="ARM=SHARE...", help="All arms with their shares, which add up to 1.")
    ],
    json: options.Json = False,
) -> None:
    """Split the traffic into arms, each with a click model of its own; an arm that is not named ends.

    An arm that is new begins with the model of the first one. Which arm answered is logged with each impression.

    \b
    Example:
      broadmatch publish arms server/ main=0.9 b=0.1
    """
    from broadmatch.serve import PublishedModels

    models = PublishedModels(folder)
    models.set_arms(dict(map(_share, shares)))
    arms = {one.name: {"share": one.share, "version": one.version} for one in models.serving().clicks}
    if json:
        output.print_json(arms)
    else:
        named = ", ".join(f"{name} {arm['share']:.1%} with {arm['version']}" for name, arm in arms.items())
        output.print_text(f"{folder}: {named}.")


def _share(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        return name, float(number)
    except ValueError:
        raise typer.BadParameter(f"An arm is given with its share, such as b=0.1, but there is {text!r}.") from None
