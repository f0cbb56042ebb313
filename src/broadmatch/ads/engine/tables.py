"""The ads of an index as tables of features by number, which follow its changes."""

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from broadmatch.ads.index.ad_columns import COLUMNS, AdColumns
from broadmatch.ads.index.ad_index import AdIndex, IndexView
from broadmatch.ads.index.records import AdRecord
from broadmatch.data import Names
from broadmatch.errors import BadArtifact
from broadmatch.io.artifacts import opening
from broadmatch.io.values import arrow_of, names_to_arrow, texts_to_arrow
from broadmatch.kernels import F64, I32, I64
from broadmatch.signals.joined import SignalTable, TableSide
from broadmatch.state import unpack

AD_COLUMNS = ("ad", "advertiser", "campaign", "page", "title", "text")
"""The columns that an ad gives to a click model."""


class AdTables:
    """What is known of the ads at the moment of a view: base columns, and rows behind them for ads that changed.

    `before` are tables of an earlier view: what did not change since is theirs. One thread makes them at a time.
    """

    def __init__(self, view: IndexView, before: "AdTables | None" = None) -> None:
        self.view = view
        same = before is not None and before.view.saved is view.saved
        self._base: AdColumns = before._base if same and before is not None else _columns(view)
        self._made: dict[Any, SignalTable] = before._made if same and before is not None else {}
        """Tables of the base columns, by the signature of the signals; tables of all rows are in `_whole`."""
        self._whole: dict[Any, SignalTable] = {}
        self._campaigns = {number: AdRecord.from_bytes(data) for number, data in view.campaigns.items() if data}
        old = before._changed if before is not None and same else {}
        self._changed: dict[int, tuple[bytes, AdRecord]] = {}
        for number, data in view.ads.items():
            if data:
                known = old.get(number)
                kept = known is not None and known[0] is data
                self._changed[number] = known if kept and known is not None else (data, AdRecord.from_bytes(data))
        self._phrases = {p.number: p.text for _, record in self._changed.values() for p in record.phrases}
        # numbers of advertisers are those of the base, and new ones keep theirs from view to view
        kept_names = before._advertisers if before is not None and same else {}
        self._advertisers: dict[str, int] = kept_names or {name: i for i, name in enumerate(self._base.advertisers)}
        self._number_ads()
        self.budget: F64 = np.full(view.n_campaigns, np.inf)
        """What each campaign may spend in a day, by its number; infinite without a limit."""
        self.budget[: len(self._base.budget)] = self._base.budget
        self.budget[list(self._campaigns)] = [record.budget for record in self._campaigns.values()]

    def name(self, ad: int) -> str:
        """The name of an ad."""
        known = self._changed.get(ad)
        return known[1].name if known is not None else self._base.name[ad]

    def phrase(self, number: int) -> str:
        """The text of a phrase."""
        known = self._phrases.get(number)
        return known if known is not None else self._base.phrase[number]

    def campaign_name(self, number: int) -> str:
        """The name of a campaign."""
        known = self._campaigns.get(number)
        return known.name if known is not None else self._base.campaigns[number]

    def columns(self, ad: int) -> dict[str, str]:
        """What an ad gives to a click model."""
        if ad in self._changed:
            record = self._changed[ad][1]
            about = (record.page, record.title, record.text)
            return _named(record.name, self._advertiser_of(record), self._campaign_of(record), *about)
        base = self._base
        advertiser, campaign = int(base.advertiser[ad]), int(base.campaign[ad])
        owner = base.advertisers[advertiser] if advertiser >= 0 else ""
        name = base.campaigns[campaign] if campaign >= 0 else ""
        return _named(base.name[ad], owner, name, base.page[ad], base.title[ad], base.text[ad])

    def rows(self, ads: I64) -> I64 | I32:
        """The rows of ads in their table."""
        if self._rows is None:
            return ads
        found: I32 = self._rows[ads]
        return found

    def ads(self, side: TableSide) -> SignalTable:
        """What signals make of the ads; `rows` says where each stands."""
        return self._table("ads", side, self._ad_columns, self._changed_columns)

    def phrases(self, side: TableSide) -> SignalTable:
        """What signals make of the phrases, by their numbers."""
        return self._table("phrases", side, self._phrase_columns, self._new_phrases)

    def _table(self, what: str, side: TableSide, base: Any, more: Any) -> SignalTable:
        signature = (what, side.signature)
        found = self._whole.get(signature)
        if found is None:
            found = self._made.get(signature)
            if found is None:
                found = self._made[signature] = side.table(*base())
            columns, n = more()
            if n:
                found = SignalTable.concatenate([found, side.table(columns, n)])
            self._whole[signature] = found
        return found

    def _ad_columns(self) -> tuple[Mapping[str, Any], int]:
        base = self._base
        return {
            "ad": names_to_arrow(base.name),
            "advertiser": _coded(base.advertiser, base.advertisers),
            "campaign": _coded(base.campaign, base.campaigns),
            "page": names_to_arrow(base.page),
            "title": names_to_arrow(base.title),
            "text": names_to_arrow(base.text),
        }, len(base.name)

    def _changed_columns(self) -> tuple[Mapping[str, Any], int]:
        """Rows of the ads that changed, and one without anything, for numbers that are free."""
        if self._rows is None:
            return {}, 0
        records = [record for _, record in self._changed.values()]
        columns = {
            "ad": [record.name for record in records],
            "advertiser": [self._advertiser_of(record) for record in records],
            "campaign": [self._campaign_of(record) for record in records],
            "page": [record.page for record in records],
            "title": [record.title for record in records],
            "text": [record.text for record in records],
        }
        return {name: texts_to_arrow([*texts, None]) for name, texts in columns.items()}, len(records) + 1

    def _phrase_columns(self) -> tuple[Mapping[str, Any], int]:
        return {"phrase": names_to_arrow(self._base.phrase)}, len(self._base.phrase)

    def _new_phrases(self) -> tuple[Mapping[str, Any], int]:
        first = len(self._base.phrase)
        n = max(self._phrases, default=-1) + 1 - first
        if n <= 0:
            return {}, 0
        return {"phrase": texts_to_arrow([self._phrases.get(first + i) for i in range(n)])}, n

    def _campaign_of(self, record: AdRecord) -> str:
        return "" if record.campaign < 0 else self.campaign_name(record.campaign)

    def _advertiser_of(self, record: AdRecord) -> str:
        if record.advertiser or record.campaign < 0:
            return record.advertiser
        known = self._campaigns.get(record.campaign)
        if known is not None:
            return known.advertiser
        number = int(self._base.campaign_advertiser[record.campaign])
        return self._base.advertisers[number] if number >= 0 else ""

    def _number_ads(self) -> None:
        """The campaign and the advertiser of each ad by number, and where it stands in the table."""
        base, n, changed = self._base, self.view.n_ads, self._changed
        n_base = len(base.name)
        self.campaign: I64 = np.full(n, -1, np.int64)
        """The campaign of each ad; −1 for none."""
        self.campaign[:n_base] = base.campaign[:n]
        self.advertiser: I64 = np.full(n, -1, np.int64)
        """The advertiser of each ad; below 0, and no other's, for an ad without one."""
        self.advertiser[:n_base] = base.advertiser[:n]
        self._rows: I32 | None = None
        if changed or n_base < n:
            self._rows = np.full(n, n_base + len(changed), np.int32)
            self._rows[:n_base] = np.arange(n_base)
        for i, (number, (_, record)) in enumerate(changed.items()):
            if self._rows is not None:
                self._rows[number] = n_base + i
            self.campaign[number] = record.campaign
            name = self._advertiser_of(record)
            self.advertiser[number] = self._advertisers.setdefault(name, len(self._advertisers)) if name else -1
        free = self.advertiser < 0
        self.advertiser[free] = -1 - np.flatnonzero(free)


class LiveAds:
    """An index with the tables of its ads, which follow it."""

    def __init__(self, index: AdIndex) -> None:
        self.index = index
        self._following = threading.Lock()
        self._tables: AdTables | None = None

    def tables(self) -> AdTables:
        """The tables of the index as it is now.

        Where the postings were made anew, all is made anew, which takes long: one thread does it, and others go on with
        what was known.
        """
        view, known = self.index.view(), self._tables
        if known is not None and known.view is view:
            return known
        waits = known is None or known.view.saved is view.saved
        if not self._following.acquire(blocking=waits) and known is not None:
            return known
        try:
            known = self._tables
            if known is None or known.view is not view:
                self._tables = known = AdTables(view, known)
            return known
        finally:
            self._following.release()


def _columns(view: IndexView) -> AdColumns:
    """The columns that stand beside the postings, checked: whatever is there, tables cover all numbers."""
    with opening(view.postings):
        found: AdColumns = unpack({COLUMNS: AdColumns}, view.saved)[COLUMNS]
    phrase = view.joined.base.rows[:, 1] >> 2
    fits = phrase.min(initial=0) >= 0 and phrase.max(initial=-1) < len(found.phrase)
    if not (fits and len(found.name) <= view.n_ads and len(found.campaigns) <= view.n_campaigns):
        raise BadArtifact(f"{view.postings} is damaged: its columns are not those of its ads; build the index again.")
    return found


def _named(*values: str) -> dict[str, str]:
    return dict(zip(AD_COLUMNS, values, strict=True))


def _coded(numbers: I32, names: Names) -> Any:
    """A column of names by number, without one where it is −1."""
    missing = numbers < 0
    return pa.DictionaryArray.from_arrays(arrow_of(numbers, missing if missing.any() else None), names_to_arrow(names))
