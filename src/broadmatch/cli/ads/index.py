"""`broadmatch ads index`: the ad index of an inventory."""

from pathlib import Path
from typing import Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.ads.check import Columns, Sources


def command(
    sources: Sources,
    out: Annotated[Path, typer.Option("--out", metavar="INDEX", help="The folder of the index.")],
    columns: Columns = None,
    json: options.Json = False,
) -> None:
    """Make the ad index of an inventory, which has to be free of errors.

    \b
    Example:
      broadmatch ads index ads.csv --out index/
    """
    from broadmatch.ads import AdIndex, read_inventory

    inventory = read_inventory(sources, columns=options.parse_columns(columns, "--columns"))
    AdIndex.create(out, inventory)
    facts = {"ads": len(inventory.ads), "phrases": len(inventory.phrases), "negatives": len(inventory.negatives)}
    if json:
        output.print_json({"index": str(out), **facts})
    else:
        output.print_text(f"{out}: " + ", ".join(f"{n:,} {what}" for what, n in facts.items()) + ".")
