"""`broadmatch keys list`: the API keys of a server."""

from broadmatch.cli import options, output
from broadmatch.cli.keys.add import Folder
from broadmatch.cli.output import Column
from broadmatch.serve.config import ServeFolder


def command(folder: Folder, json: options.Json = False) -> None:
    """List the API keys of a server: name, role, rate, when they were made, and the first letters of each.

    \b
    Example:
      broadmatch keys list shop/
    """
    from broadmatch.serve.api_keys import read_keys

    path = ServeFolder(folder).keys
    found = [key.info for key in read_keys(path)] if path.exists() else []
    if json:
        output.print_json([key._asdict() for key in found])
        return
    columns = [Column("name", spare="shorten"), Column("role"), Column("a second", right=True), Column("created")]
    rows = [(k.name, k.role, "any" if k.rate is None else f"{k.rate:g}", k.created, f"bm_{k.id}…") for k in found]
    output.print_table([*columns, Column("key")], rows)
