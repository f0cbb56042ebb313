"""`broadmatch serve`: an ad server over HTTP."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from broadmatch.cli import output
from broadmatch.cli.consumption import consumption, reports_signals
from broadmatch.errors import MissingExtra
from broadmatch.serve.config import Clock, ServeConfig

_EXTRA = ("uvicorn", "uvloop", "httptools", "starlette", "msgspec", "prometheus_client", "lmdb")
_DAY = 86_400.0


def need_serving() -> None:
    """Refuse to go on without the packages of serving."""
    missing = [name for name in _EXTRA if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"Serving needs {', '.join(missing)}; pip install 'broadmatch[serve]' brings it.")


@reports_signals
def command(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="An ad engine, as `broadmatch ads index --clicks` makes one.")
    ],
    host: Annotated[
        str, typer.Option(help="The address to serve on; others than loopback need API keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")] = 8080,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes that answer requests.")] = 1,
    events: Annotated[
        str | None,
        typer.Option(metavar="LOG", help="The event log: a folder, or kafka://SERVER[,SERVER]/TOPIC. [FOLDER/events]"),
    ] = None,
    max_age_days: Annotated[
        float, typer.Option(min=0.01, metavar="DAYS", help="How long events are kept, in a folder.")
    ] = 30.0,
    clock: Annotated[
        Clock, typer.Option(help="Whose time counts: the server's, or, to replay a log, the one in each request.")
    ] = "server",
) -> None:
    """Serve ads over HTTP: match, recommend, predict, take events, and take up what is published while it runs.

    What is answered stands in the event log first. SIGTERM and Ctrl-C finish what was begun, SIGHUP takes up new
    models at once. Standard error gets one line of JSON for each start, stop, reload and death of a worker.

    \b
    Example:
      broadmatch serve engine/
      broadmatch serve engine/ --workers 2 --port 8000
    """
    need_serving()
    from broadmatch.serve import supervisor

    _check_signals(folder)
    config = ServeConfig(
        folder=folder,
        host=host,
        port=port,
        workers=workers,
        events=events,
        max_age=max_age_days * _DAY,
        clock=clock,
        signals=consumption().address,
    )

    def started(address: str) -> None:
        many = "s" if workers > 1 else ""
        output.print_text(f"Serving {folder} on {address} with {workers} worker{many}; Ctrl-C ends it.")
        typer.echo(
            f"curl {address}/v1/match -H 'Content-Type: application/json' -d '{{\"query\": \"pizza delivery\"}}'"
        )

    code = supervisor.run(config, started)
    if code:
        raise typer.Exit(code)


def _check_signals(folder: Path) -> None:
    """Refuse models in service whose signals the index does not allow; what is only deprecated goes on."""
    if consumption().address is None or not folder.is_dir():
        return
    from broadmatch.clicks import ClickModel
    from broadmatch.io.artifacts import load
    from broadmatch.serve import PublishedModels

    models = PublishedModels(folder)
    for arm in models.serving().clicks:
        path = models.path("clicks", arm.version)
        model: ClickModel | None = load(path, ClickModel, verify=False) if path.is_dir() else None
        if model is not None and not isinstance(model.description, str):
            consumption().check(model.description, f"{folder.resolve().name}/{arm.name}", use="serving")
            if consumption().allowed_because:
                consumption().report([signal.name for signal in model.description.signals])
