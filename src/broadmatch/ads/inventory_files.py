"""Inventories in files: tables of our own, and the bulk files of Google Ads Editor and Microsoft Advertising.

Editor writes UTF-16 with tabs, Microsoft's bulk file is UTF-8 with commas; both are told by their headers. A row says
by what is filled in what it is, in Editor's files and in ours; Microsoft's has it in its first column.
"""

import codecs
import csv
import io
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from broadmatch.ads.inventory import Inventory, InventoryProblem, InventoryReport
from broadmatch.ads.inventory_rows import INVENTORY_COLUMNS, InventoryBuilder
from broadmatch.ads.match_types import MATCH_TYPES
from broadmatch.errors import BadInput, BadParameter
from broadmatch.io.columns import ColumnMap
from broadmatch.io.files import Source, expand, replacing_file
from broadmatch.io.formats import TABLES, known_format, suffixes
from broadmatch.io.rejects import Rejects
from broadmatch.io.streams import RecordStream
from broadmatch.params import OneOf

_OURS = ("advertiser", "campaign", "budget", "group", "ad", "page", "title", "text", "phrase", "match", "bid")
_GOOGLE = ("Account", "Campaign", "Campaign Daily Budget", "Ad Group", "", "Final URL", "Headline 1", "Description 1",
           "Keyword", "Criterion Type", "Max CPC")  # fmt: skip
_MICROSOFT = ("Type", "Status", "Id", "Parent Id", "Campaign", "Ad Group", "Budget", "Budget Type", "Final Url",
              "Headline", "Description", "Keyword", "Match Type", "Bid", "Name")  # fmt: skip


class _BadLines(Rejects):
    """Takes lines that are no rows as problems of the inventory."""

    def __init__(self, problems: list[InventoryProblem]) -> None:
        super().__init__()
        self._problems = problems

    def add(self, source: str, line: int | None, reason: str, row: str = "", count: int = 1) -> None:
        self._problems.append(InventoryProblem(source, line or 0, "row", reason, "correct the line"))


def check_inventory(source: Source, *, columns: Mapping[str, str] | None = None) -> InventoryReport:
    """Read tables or bulk files as one inventory, with every problem in them.

    `source` is a file, a folder, a pattern, or a list of these; rows of campaigns, ads and phrases may stand in files
    of their own. `columns` maps our columns to others (`{"phrase": "term"}`); those that are not mapped are found by
    their usual names. Rows that are paused or removed are left out and counted.
    """
    builder, unused = InventoryBuilder(), dict[str, None]()
    rejects, n_rows = _BadLines(builder.problems), 0
    names = ColumnMap(INVENTORY_COLUMNS, columns or {}, optional=tuple(INVENTORY_COLUMNS))
    for file in expand(source, suffixes(TABLES, packed=True)):
        try:
            stream = RecordStream(file, columns=names, rejects=rejects, dictionaries=False)
        except BadParameter as error:
            raise BadInput(f"{file} has no column of an inventory, such as {', '.join(_OURS)}; map yours.") from error
        used = names.find(file, stream.columns).values()
        unused.update(dict.fromkeys(column for column in stream.columns if column not in used))
        for records in stream:
            n_rows += len(records)
            for i, row in enumerate(_with_amounts(records.table).to_pylist()):
                builder.add(records.file, records.line(i), row)
    rejects.finish(n_rows)
    return replace(builder.report(), unused=tuple(unused))


def _with_amounts(table: Any) -> Any:
    """A table with its sums of money as texts of numbers."""
    from broadmatch.io.values import with_points

    for i, name in enumerate(table.schema.names):
        if name in ("budget", "group_bid", "bid"):
            table = table.set_column(i, name, with_points(table, name))
    return table


def read_inventory(source: Source, *, columns: Mapping[str, str] | None = None) -> Inventory:
    """Read an inventory, as `check_inventory` does; all errors in it are raised as one.

    >>> _ = Path("ads.csv").write_text("page,phrase,match,bid\\na.html,red shoes,broad,0.5\\n,taxi,exact,-1\\n")
    >>> read_inventory("ads.csv")
    Traceback (most recent call last):
        ...
    broadmatch.errors.BadInput: The inventory has 1 error:
      ads.csv, line 3, group: it is empty; name the ad group.
    """
    return check_inventory(source, columns=columns).checked()


def write_inventory(inventory: Inventory, path: str | os.PathLike[str], system: str | None) -> None:
    """Write an inventory in a format of ours, or of a system."""
    OneOf((None, "google", "microsoft")).check("system", system)
    if system == "microsoft":
        _write_text(path, _microsoft(inventory), ",", "utf-8", codecs.BOM_UTF8)
        return
    rows = [tuple(map(_cell, row)) for row in _rows(inventory)]
    if system == "google":
        kept = [i for i, name in enumerate(_GOOGLE) if name]
        titled = [tuple(word.title() if i == 9 else word for i, word in enumerate(row)) for row in rows]
        _write_text(
            path, [[row[i] for i in kept] for row in (_GOOGLE, *titled)], "\t", "utf-16-le", codecs.BOM_UTF16_LE
        )
        return
    format = known_format(Path(path), ("parquet", "csv", "tsv"), "a table")
    if format == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = list(zip(*rows, strict=True)) if rows else [()] * len(_OURS)
        table = pa.table(
            {name: pa.array(list(column), pa.string()) for name, column in zip(_OURS, columns, strict=True)}
        )
        with replacing_file(path) as out:
            pq.write_table(table, out)
        return
    _write_text(path, [_OURS, *rows], "," if format == "csv" else "\t", "utf-8", b"")


def _rows(inventory: Inventory) -> Iterator[tuple[Any, ...]]:
    """One row for each campaign, ad, phrase and negative, in the order of `_OURS`."""
    above = [
        (inventory.advertisers[a], inventory.campaigns[c]) for c, a in enumerate(inventory.campaign_advertiser.tolist())
    ]
    groups = [(*above[c], "", inventory.groups[g]) for g, c in enumerate(inventory.group_campaign.tolist())]
    for owner, budget in zip(above, inventory.budgets.tolist(), strict=True):
        yield (*owner, budget, *[""] * 8)
    texts = zip(inventory.ads, inventory.pages, inventory.titles, inventory.texts, strict=True)
    for ad, g in zip(texts, inventory.ad_group.tolist(), strict=True):
        yield (*groups[g], *ad, "", "", "")
    phrases = zip(inventory.phrases, inventory.phrase_group.tolist(), inventory.phrase_match.tolist(), strict=True)
    for (phrase, g, match), bid in zip(phrases, inventory.bids.tolist(), strict=True):
        yield (*groups[g], "", "", "", "", phrase, MATCH_TYPES[match], bid)
    places = zip(inventory.negative_campaign.tolist(), inventory.negative_group.tolist(), strict=True)
    for negative, match, (c, g) in zip(inventory.negatives, inventory.negative_match.tolist(), places, strict=True):
        kind = f"{'campaign ' if g < 0 else ''}negative {MATCH_TYPES[match]}"
        yield (*(groups[g] if g >= 0 else (*above[c], "", "")), "", "", "", "", negative, kind, "")


def _microsoft(inventory: Inventory) -> list[tuple[str, ...]]:
    """The records of a bulk file of format 6.0; new entities have negative ids."""
    found = [_MICROSOFT, _record(type="Format Version", name="6.0")]
    for _, campaign, budget, group, _, page, title, text, phrase, match, bid in _rows(inventory):
        place = {"status": "Active", "campaign": campaign, "ad_group": group}
        kind = match.split()[-1] if match else ""
        if phrase and "negative" in match:
            if kind == "broad" and " " in phrase:
                raise BadInput(
                    f"Microsoft has no broad negatives, and {phrase!r} has several words; make it a phrase negative."
                )
            record = "Campaign Negative Keyword" if not group else "Ad Group Negative Keyword"
            found.append(
                _record(type=record, keyword=phrase, match_type="Phrase" if kind == "broad" else kind.title(), **place)
            )
        elif phrase:
            found.append(_record(type="Keyword", keyword=phrase, match_type=kind.title(), bid=_cell(bid), **place))
        elif group:
            assets = {"headline": _assets(title), "description": _assets(text)}
            found.append(_record(type="Responsive Search Ad", final_url=page, **assets, **place))
        else:
            kinds = {"budget": _cell(budget), "budget_type": "" if math.isnan(budget) else "DailyBudgetStandard"}
            found.append(_record(type="Campaign", **kinds, **place))
    names = [(inventory.campaigns[c], inventory.groups[g]) for g, c in enumerate(inventory.group_campaign.tolist())]
    own = [_record(type="Ad Group", status="Active", campaign=campaign, ad_group=group) for campaign, group in names]
    n = 2 + len(inventory.campaigns)
    return [*found[:n], *own, *found[n:]]


def _record(**cells: str) -> tuple[str, ...]:
    return tuple(cells.get(name.lower().replace(" ", "_"), "") for name in _MICROSOFT)


def _assets(text: str) -> str:
    return json.dumps([{"text": text}], ensure_ascii=False) if text else ""


def _cell(value: Any) -> str:
    """A cell of a table as text; numbers as Python reads them back."""
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    return str(value)


def _write_text(path: str | os.PathLike[str], rows: Any, delimiter: str, encoding: str, mark: bytes) -> None:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n" if mark else "\n").writerows(rows)
    with replacing_file(path) as out:
        out.write(mark + text.getvalue().encode(encoding))
