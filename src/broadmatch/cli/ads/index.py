"""`broadmatch ads index`: the ad index of an inventory."""

from pathlib import Path
from typing import Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.ads.check import Columns, Sources


def command(
    sources: Sources,
    out: Annotated[Path, typer.Option("--out", metavar="INDEX", help="The folder of the index, or of the engine.")],
    clicks: Annotated[
        Path | None, typer.Option("--clicks", metavar="MODEL", help="A click model: makes an engine with it.")
    ] = None,
    columns: Columns = None,
    json: options.Json = False,
) -> None:
    """Make the ad index of an inventory, which has to be free of errors.

    With a click model, make an engine: index, model and auction in one folder, which answers queries with places.

    \b
    Example:
      broadmatch ads index ads.csv --out index/
      broadmatch ads index ads.csv --clicks clicks/ --out engine/
    """
    from broadmatch.ads import AdEngine, AdIndex, read_inventory
    from broadmatch.clicks import ClickModel
    from broadmatch.io.artifacts import load

    model = None if clicks is None else load(clicks, ClickModel)
    inventory = read_inventory(sources, columns=options.parse_columns(columns, "--columns"))
    if model is None:
        AdIndex.create(out, inventory)
    else:
        AdEngine.create(out, inventory, clicks=model)
    facts = {"ads": len(inventory.ads), "phrases": len(inventory.phrases), "negatives": len(inventory.negatives)}
    if json:
        output.print_json({"index": str(out), **facts})
    else:
        output.print_text(f"{out}: " + ", ".join(f"{n:,} {what}" for what, n in facts.items()) + ".")
