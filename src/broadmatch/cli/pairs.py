"""Tables of two columns (page and phrase, label and text): CSV, TSV, JSON lines or Parquet, packed or not."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.io import ClickLog, Rejects


class Columns(NamedTuple):
    """What the two columns are called: our names, each with those that are found without `option`."""

    first: str
    second: str
    usual: Mapping[str, tuple[str, ...]]
    option: str


REVEALED = Columns(
    "page",
    "phrase",
    {"page": ("page", "point", "url", "name", "id"), "phrase": ("phrase", "label", "query")},
    "--revealed-columns",
)
LABEL_TEXTS = Columns(
    "label",
    "text",
    {"label": ("label", "name", "id"), "text": ("text", "description", "title")},
    "--label-columns",
)


def is_table(file: Path) -> bool:
    """Whether the name is that of a table of text or Parquet.

    >>> is_table(Path("bids.csv.gz")), is_table(Path("Y_test.npz"))
    (True, False)
    """
    from broadmatch.io.files import base_name
    from broadmatch.io.log_files import FORMATS

    return Path(base_name(file)).suffix in FORMATS


def read_pairs(
    file: Path, columns: Columns, given: Mapping[str, str] | None, rejects: "Rejects | None" = None
) -> list[tuple[str, str]]:
    """The different pairs of a table, sorted; rows with an empty field are bad rows."""
    from broadmatch.io import ClickLog, Rejects
    from broadmatch.io.files import expand
    from broadmatch.io.log_files import look_at

    (one,) = found if len(found := expand(file)) == 1 else (None,)
    if one is None:
        raise BadInput(f"{file} stands for {len(found)} files; name one.")
    first, second = _chosen(one, columns, given or {}, look_at(one, None, None).columns)
    with Rejects() if rejects is None else rejects as bad:
        # A table of pairs is a click log without times: its reader is the one that knows all formats.
        log = ClickLog(one, columns={"page": first, "query": second}, rejects=bad)
        return _pairs(log)


def _chosen(file: Path, columns: Columns, given: Mapping[str, str], present: tuple[str, ...]) -> tuple[str, str]:
    for ours in given:
        if ours not in columns.usual:
            raise typer.BadParameter(
                f"{columns.option} says what {columns.first} and {columns.second} are called, but it has {ours!r}."
            )
    found = []
    for ours in (columns.first, columns.second):
        wanted = (given[ours],) if ours in given else columns.usual[ours]
        there = [name for name in wanted if name in present]
        if not there:
            raise BadInput(
                f"{file} has no column {' or '.join(wanted)} for the {ours}; its columns are "
                f"{', '.join(map(repr, present))}: say which it is with {columns.option} {ours}=YOURS."
            )
        found.append(there[0])
    return found[0], found[1]


def _pairs(log: "ClickLog") -> list[tuple[str, str]]:
    from broadmatch.io.duck import clear_errors, connect

    log.check_packed()
    with connect() as db, clear_errors(log.files):
        rows = f"(FROM ({log.sql(store_rejects=True)}) SELECT page, query, clicks, fault)"
        db.execute(f"CREATE TEMP TABLE pairs AS FROM {rows}")
        counts = dict(db.execute("FROM pairs SELECT fault, count(*) GROUP BY fault").fetchall())
        good = counts.pop(None, 0)
        log.settle(db, good, counts)
        asked = "FROM pairs SELECT DISTINCT page, query WHERE fault IS NULL AND clicks > 0 ORDER BY page, query"
        return [(str(page), str(query)) for page, query in db.execute(asked).fetchall()]
