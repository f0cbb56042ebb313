"""`broadmatch events export`: the events of a log as a table."""

from pathlib import Path
from typing import Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.events.tail import Folder, KindOption


def command(
    folder: Folder,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The table, a file .parquet.")],
    kind: KindOption = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="From this time on, as 2024-01-31T08:00.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Up to this time, itself left out.")] = None,
    rejects: options.RejectsFile = None,
    max_bad_rows: options.MaxBadRows = None,
    json: options.Json = False,
) -> None:
    """Write the events of a log to a Parquet file: id, time, kind, and a column for each key of the payloads.

    Times are those of the events, in UTC unless they say otherwise. A key whose values are of different types becomes a
    column of texts; an event with an object or a list in its payload is a bad row.

    \b
    Example:
      broadmatch events export events/ --out events.parquet
      broadmatch events export events/ --out monday.parquet --kind clicks --since 2024-01-29 --until 2024-01-30
    """
    from broadmatch.io import EmbeddedEventLog, Rejects, export_events
    from broadmatch.io.values import moment_of

    if out.suffix.lower() != ".parquet":
        raise typer.BadParameter(f"--out is a file .parquet, but it is {out}.")
    times = {name: None if text is None else moment_of(text) for name, text in (("since", since), ("until", until))}
    with EmbeddedEventLog(folder) as log, Rejects(rejects, max_bad_rows=max_bad_rows) as bad:
        written = export_events(log, out, kind=kind, rejects=bad, **times)
    if json:
        output.print_json({"out": str(out), "events": written, "bad_rows": bad.count})
    else:
        output.print_text(f"{out}: {written:,} events.")
