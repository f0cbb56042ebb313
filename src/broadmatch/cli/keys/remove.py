"""`broadmatch keys remove`: an API key that is no longer good."""

from typing import Annotated

import typer

from broadmatch.cli import output
from broadmatch.cli.keys.add import Folder
from broadmatch.serve.config import ServeFolder


def command(
    folder: Folder,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the key, or its first letters.")],
) -> None:
    """Remove an API key: a server that runs refuses it within a second.

    \b
    Example:
      broadmatch keys remove shop/ --name website
    """
    from broadmatch.serve.api_keys import remove_key

    remove_key(ServeFolder(folder).keys, name.removeprefix("bm_"))
    output.print_text(f"{name} is no longer known.")
