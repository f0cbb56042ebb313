"""What advertisers have: campaigns with budgets, groups of ads, the phrases that they bid on, and negatives."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Names
from broadmatch.errors import BadInput
from broadmatch.kernels import F64, I64

_SHOWN = 20
_PLACES = 3


@dataclass(frozen=True)
class Inventory:
    """Advertisers, campaigns, groups, ads, phrases and negatives as columns; a row's number is its place.

    Phrases and negatives belong to a group, and so to all ads of it; a negative of a campaign has group −1. Match types
    are numbers of `MATCH_TYPES`. A budget of NaN is none. `read_inventory` reads one from files.

    >>> shop = Inventory.from_rows([
    ...     {"campaign": "shoes", "ad": "red", "page": "https://shop.example/red", "phrase": "red shoes",
    ...      "match": "broad", "bid": 0.5},
    ...     {"campaign": "shoes", "phrase": "free", "match": "campaign negative broad"},
    ... ])
    >>> len(shop.ads), list(shop.phrases), shop.bids.tolist(), list(shop.negatives)
    (1, ['red shoes'], [0.5], ['free'])
    """

    advertisers: Names
    campaigns: Names
    campaign_advertiser: I64
    budgets: F64
    groups: Names
    group_campaign: I64
    ads: Names
    ad_group: I64
    pages: Names
    titles: Names
    texts: Names
    phrases: Names
    phrase_group: I64
    phrase_match: NDArray[np.uint8]
    bids: F64
    negatives: Names
    negative_campaign: I64
    negative_group: I64
    negative_match: NDArray[np.uint8]

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]]) -> "Inventory":
        """An inventory of rows with any of the columns of `INVENTORY_COLUMNS`; all that is wrong is in one error."""
        from broadmatch.ads.inventory_rows import InventoryBuilder

        builder = InventoryBuilder()
        for number, row in enumerate(rows, 1):
            builder.add("", number, row)
        return builder.report().checked()

    def write(self, path: str | os.PathLike[str], *, system: str | None = None) -> None:
        """Write it as CSV, TSV or Parquet, by suffix; or for a `system`, "google" (Editor) or "microsoft" (bulk)."""
        from broadmatch.ads.inventory_files import write_inventory

        write_inventory(self, path, system)


class InventoryProblem(NamedTuple):
    """What is wrong in a row, in which column, and what to do; one that is no `error` can be lived with."""

    source: str
    row: int
    column: str
    what: str
    remedy: str
    error: bool = True

    @property
    def place(self) -> str:
        """The file and line, or the number of the row."""
        return f"{self.source}, line {self.row}" if self.source else f"row {self.row}"

    def __str__(self) -> str:
        kind = "" if self.error else "warning: "
        return f"{self.place}, {self.column}: {kind}{self.what}; {self.remedy}."


@dataclass(frozen=True)
class InventoryReport:
    """An inventory without its bad rows, all problems in the order of rows, how many rows were paused, and the columns
    of the files that were not used."""

    inventory: Inventory
    problems: list[InventoryProblem]
    paused: int = 0
    unused: tuple[str, ...] = ()

    @property
    def errors(self) -> list[InventoryProblem]:
        """The problems that keep it from being used."""
        return [problem for problem in self.problems if problem.error]

    def summary(self) -> list[str]:
        """Each kind of problem once: its first case, how many more there are, and where the next ones stand."""
        kinds: dict[tuple[str, str, bool], list[InventoryProblem]] = {}
        for problem in self.problems:
            kinds.setdefault((problem.column, problem.remedy, problem.error), []).append(problem)
        return [_said_once(alike) for alike in kinds.values()]

    def checked(self) -> Inventory:
        """The inventory, if nothing is wrong with it; all errors at once if not."""
        if not self.errors:
            return self.inventory
        shown = [f"  {error}" for error in self.errors[:_SHOWN]]
        if len(self.errors) > _SHOWN:
            shown.append(f"  and {len(self.errors) - _SHOWN:,} more; check_inventory has all of them.")
        n = len(self.errors)
        raise BadInput("\n".join([f"The inventory has {n:,} error{'s' if n > 1 else ''}:", *shown]))


def _said_once(alike: list[InventoryProblem]) -> str:
    """Problems of one kind as a sentence or two."""
    first, *more = alike
    if not more:
        return str(first)
    places = "; ".join(problem.place for problem in more[:_PLACES]) + (" and on" if more[_PLACES:] else "")
    return f"{first} {len(more):,} more like it: {places}."
