"""`broadmatch studio`: the studio of a server's folder, opened in the browser."""

import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from broadmatch.cli import output
from broadmatch.cli.serve import need_serving
from broadmatch.serve.config import ServeConfig


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder of a server, as `broadmatch demo` makes one.")
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")] = 8080,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the browser at the studio.")] = True,
) -> None:
    """Open the studio: plan phrases, take auctions apart, see models on every slice.

    Serves the folder on this machine alone (127.0.0.1), as `broadmatch serve` does, until Ctrl-C.

    \b
    Example:
      broadmatch studio demo/server
      broadmatch studio server/ --port 0 --no-open
    """
    need_serving()
    from broadmatch.serve import supervisor

    def started(address: str) -> None:
        output.print_text(f"The studio of {folder} is at {address}/ ; Ctrl-C ends it.")
        if open_page:  # some browsers do not come back before they are closed
            threading.Thread(target=webbrowser.open, args=(f"{address}/",), daemon=True).start()

    code = supervisor.run(ServeConfig(folder=folder, port=port), started)
    if code:
        raise typer.Exit(code)
