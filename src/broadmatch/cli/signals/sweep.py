"""`broadmatch signals sweep`: what can be deleted, as a plan."""

from pathlib import Path
from typing import Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.consumption import open_index
from broadmatch.cli.output import Column
from broadmatch.cli.signals.common import Index


def command(
    descriptions: Annotated[
        list[str] | None, typer.Argument(metavar="[DESCRIPTIONS]...", help="TOML files and folders to look through.")
    ] = None,
    signals: Index = None,
    days: Annotated[float, typer.Option(min=0, metavar="N", help="That no model consumed for so long.")] = 90.0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The plan: .json, or a page of text.")] = None,
    json: options.Json = False,
) -> None:
    """Write what can be deleted: signals that nobody consumes, with their files, tables, columns and lines.

    Data that another signal needs is left out. Nothing is ever deleted by this command.

    \b
    Example:
      broadmatch signals sweep descriptions/ --days 90 --out plan.md --signals signals/
    """
    from broadmatch.registry.sweep import sweep_plan, write_plan

    with open_index(signals) as index:
        plan = sweep_plan(index, days, descriptions or ())
    if out is not None:
        write_plan(plan, out)
    if json:
        output.print_json(plan.to_dict())
        return
    columns = [Column("signal", spare="shorten"), Column("status"), Column("owner"), Column("data", right=True)]
    rows = [
        (
            one.signal,
            one.status,
            one.owner,
            f"{len(one.files) + len(one.tables) + len(one.columns)}",
            f"{len(one.lines)}",
        )
        for one in plan.signals
    ]
    output.print_table([*columns, Column("entries", right=True)], rows)
    where = "" if out is None else f"; the plan is in {out}"
    output.print_text(
        f"{len(plan.signals):,} signals that no model consumed for {days:g} days{where}; nothing was deleted."
    )
    for name in plan.unread:
        output.print_text(f"Not read: {name}")
