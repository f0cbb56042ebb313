"""`broadmatch keys add`: a new API key, shown once."""

from pathlib import Path
from typing import Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.serve.config import ServeFolder

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a server.")]


def command(
    folder: Folder,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Whose key it is; no other has this name.")],
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="read, serve or admin.")],
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="NUMBER", help="Requests a second; without it, any number.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Make an API key and show it, once: the folder keeps its hash only.

    A role may do what those before it may: read asks what is there, serve also matches, recommends, predicts and posts
    events, admin also changes ads and models. The rate counts for each worker by itself.

    \b
    Example:
      broadmatch keys add shop/ --name website --role serve --rate 500
    """
    from broadmatch.serve.api_keys import ROLES, add_key

    known = {one: one for one in ROLES}
    if role not in known:
        raise typer.BadParameter(f"--role is one of {', '.join(ROLES)}, but it is {role}.")
    key = add_key(ServeFolder(folder).keys, name, known[role], rate)
    if json:
        output.print_json({"name": name, "role": role, "key": key})
    else:
        typer.echo(key)
        typer.echo("Keep it well: it is not shown again.", err=True)
