"""`broadmatch events tail`: the last events of a log, and those that come."""

import json as json_text
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.io.event_log.kinds import Kind

if TYPE_CHECKING:
    from broadmatch.io import Event

_WAIT_SECONDS = 1.0
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="An event log.")]
KindOption = Annotated[
    Kind | None, typer.Option("--kind", metavar="KIND", help="Only impressions, clicks, conversions or bounces.")
]


def command(
    folder: Folder,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with events as they come, until Ctrl-C.")] = False,
    kind: KindOption = None,
    limit: Annotated[int, typer.Option(help="So many events that are there already.")] = 10,
    json: options.Json = False,
) -> None:
    """Show the last events of a log, one a line: time, kind, id and payload.

    Another process may write the log meanwhile.

    \b
    Example:
      broadmatch events tail events/
      broadmatch events tail events/ --follow --kind clicks --json
    """
    from broadmatch.io import EmbeddedEventLog

    with EmbeddedEventLog(folder) as log:
        batch, position = log.tail(limit, kind)
        for event in batch:
            _print(event, json)
        try:
            while follow:
                if log.wait(position, _WAIT_SECONDS):
                    batch, position = log.read(position)
                    for event in batch if kind is None else batch.only(kind):
                        _print(event, json)
        except KeyboardInterrupt:
            return


def _print(event: "Event", json: bool) -> None:
    try:
        when = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=event.time)).isoformat(
            timespec="microseconds"
        )
    except OverflowError:
        when = str(event.time)
    payload = event.payload.decode("utf-8", "replace")
    if not json:
        typer.echo(f"{when}  {event.kind:<11}  {output.one_line(event.id)}  {output.one_line(payload)}")
        return
    try:
        plain = json_text.loads(payload)
    except (ValueError, RecursionError):
        plain = payload
    output.print_json({"id": event.id, "time": when, "kind": event.kind, "payload": plain})
