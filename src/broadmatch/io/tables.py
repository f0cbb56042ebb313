"""Small tables of two columns, such as revealed labels, bids or texts of labels, from a file of any format."""

from collections.abc import Mapping
from pathlib import Path

from broadmatch.errors import BadInput
from broadmatch.io.click_log import CLICKS, clicks_in, texts_in
from broadmatch.io.columns import ColumnMap
from broadmatch.io.files import PathLike, expand
from broadmatch.io.formats import TABLES, format_of
from broadmatch.io.rejects import Faults, Rejects
from broadmatch.io.streams import RecordStream

REVEALED = {"page": ("page", "point", "url", "name", "id"), "phrase": ("phrase", "label", "query")}
"""The columns of a table of pages and the phrases they are known to have, with their usual names."""
LABEL_TEXTS = {"label": ("label", "name", "id"), "text": ("text", "description", "title")}
"""The columns of a table of labels and what they are about, with their usual names."""

_FORMULA = tuple("=+-@\t\r")


def guarded(text: str) -> str:
    """A text for a cell that a spreadsheet program must not take for a formula: with ' before what begins as one.

    >>> guarded("=1+1"), guarded("pizza")
    ("'=1+1", 'pizza')
    """
    return f"'{text}" if text.startswith(_FORMULA) else text


def is_table(path: PathLike) -> bool:
    """Whether the name is that of a table: CSV, TSV, JSON lines or Parquet, packed or not.

    >>> is_table("bids.csv.gz"), is_table("Y_test.npz")
    (True, False)
    """
    return format_of(Path(path), TABLES) is not None


def read_pairs(
    path: PathLike,
    usual: Mapping[str, tuple[str, ...]],
    columns: Mapping[str, str] | None = None,
    *,
    rejects: Rejects | None = None,
    option: str = "columns",
) -> list[tuple[str, str]]:
    """The different pairs of a table, sorted; rows with an empty field are bad rows.

    `usual` are our two columns with the names that are looked for, `columns` maps them to others. Texts that are
    `guarded` are as they were before. A click log is such a table too: of one with `clicks` or `clicked`, rows without
    a click are left out.

    >>> _ = Path("bids.csv").write_text("url,phrase\\na.html,pizza\\na.html,pizza\\na.html,pasta\\n")
    >>> read_pairs("bids.csv", REVEALED)
    [('a.html', 'pasta'), ('a.html', 'pizza')]
    """
    files = expand(path)
    if len(files) > 1:
        raise BadInput(f"{path} stands for {len(files)} files; name one.")
    clicks = {ours: (ours,) for ours in CLICKS}
    names = ColumnMap({**usual, **clicks}, columns or {}, optional=CLICKS, option=option)
    pairs: set[tuple[str, str]] = set()
    good = 0
    with Rejects() if rejects is None else rejects as bad:
        stream = RecordStream(files, columns=names, rejects=bad, dictionaries=False)
        for records in stream:
            faults = Faults(len(records))
            first, second = (texts_in(records.table, ours, faults) for ours in usual)
            clicked = clicks_in(records.table, faults) > 0
            faults.file(records.table, records.file, records.line, bad)
            good += len(records) - int(faults.bad.sum())
            kept = clicked & ~faults.bad
            rows = zip(first.to_pylist(), second.to_pylist(), kept.tolist(), strict=True)
            pairs.update((_plain(one), _plain(other)) for one, other, take in rows if take)
        bad.finish(good)
    return sorted(pairs)


def _plain(text: str) -> str:
    """The text that was guarded."""
    return text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text
