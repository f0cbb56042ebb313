"""The studio's parts into a server's folder; each appears whole or not at all, and a running server takes it up."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import broadmatch
from broadmatch.ads import AdEngine
from broadmatch.errors import BadInput, MissingFile
from broadmatch.io.files import replacing_file
from broadmatch.labels import KEX
from broadmatch.serve.serving import check_name
from broadmatch.serve.studio.folder import StudioFolder
from broadmatch.serve.studio.planner.query_facts import FactsWritten, write_query_facts

_MOST_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True)
class PublishedParts:
    """What was published."""

    queries: FactsWritten | None = None
    extractor: bool = False
    grids: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By name, how many models and slices."""
    loop: str | None = None


def publish_studio(
    folder: Path,
    *,
    queries: Path | None = None,
    auctions: Path | None = None,
    extractor: Path | None = None,
    grids: Mapping[str, Path] | None = None,
    loop: Path | None = None,
) -> PublishedParts:
    """Put parts of the studio into the folder of a server.

    `queries` is a query table, or what `harvest` wrote; `auctions` a log of impressions, as `simulate` or `events
    export` writes one; together they are what the planner says of phrases. `extractor` is a trained KEX. `grids` are
    predictions by name, `loop` is what `simulate --arms --json` printed.
    """
    if not AdEngine.is_at(folder):
        raise MissingFile(f"{folder} is no folder of a server; `broadmatch ads index --clicks` makes one.")
    studio = StudioFolder(folder)
    for name in grids or {}:
        check_name("grid", name)
    facts = None
    if queries is not None or auctions is not None:
        facts = write_query_facts(studio.queries, queries=queries, auctions=auctions)
    if extractor is not None:
        model: KEX = broadmatch.load(extractor, KEX)
        studio.path.mkdir(exist_ok=True)
        model.save(studio.extractor)
    sizes = {name: _publish_grid(studio, name, source) for name, source in (grids or {}).items()}
    run = None if loop is None else _publish_loop(studio, loop)
    return PublishedParts(queries=facts, extractor=extractor is not None, grids=sizes, loop=run)


def _publish_grid(studio: StudioFolder, name: str, source: Path) -> tuple[int, int]:
    """Build a grid of predictions, or take one that was built."""
    from broadmatch.evaluate.gridviz import build_grid, read_grid, write_grid

    grid = read_grid(source) if source.suffix == ".grid" else build_grid(source, title=name)
    studio.grids.mkdir(parents=True, exist_ok=True)
    write_grid(grid, studio.grids / f"{name}.grid")
    return len(grid.models), len(grid.slices)


def _publish_loop(studio: StudioFolder, source: Path) -> str:
    """Take the result of a loop, after a look at what it is."""
    name = check_name("loop", source.stem)
    if not source.is_file():
        raise MissingFile(
            f"There is no {source}; `broadmatch simulate MARKET --arms … --json > {name}.json` writes it."
        )
    content = source.read_bytes() if source.stat().st_size <= _MOST_BYTES else b""
    try:
        plain: Any = json.loads(content)
        if not plain["arms"] or int(plain["days"]) < 1:
            raise ValueError("it has no arms or no days")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(
            f"{source} is no result of a loop ({str(error)[:100]}); write it with `broadmatch simulate --arms --json`."
        ) from error
    studio.loop.mkdir(parents=True, exist_ok=True)
    with replacing_file(studio.loop / f"{name}.json") as out:
        out.write(content)
    return name
