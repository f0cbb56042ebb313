"""The inverted ad index, live: which ads bid on a query, by which phrase, highest bid first (SwiftXML §5).

Lookups run on memory-mapped postings and on a small delta made of what changed since: readers follow the store by the
number of its last change.
"""

import logging
import os
import threading
import time
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from broadmatch.ads.index._match import MOST_WORDS, match_queries
from broadmatch.ads.index.building import KIND, Extended, is_index, write_index, write_postings
from broadmatch.ads.index.changes import AdChanges
from broadmatch.ads.index.postings import JoinedPostings, Postings, build_postings
from broadmatch.ads.index.records import AdRecord
from broadmatch.ads.index.store import AdStore, key_of
from broadmatch.ads.index.why import WhyMatched, explain_match
from broadmatch.ads.inventory import Inventory
from broadmatch.data import Names
from broadmatch.errors import BadArtifact, MissingFile
from broadmatch.harvest.queries import normalise_query
from broadmatch.io.artifacts import load_state, opening, replacing
from broadmatch.kernels import F64, I64, Bytes
from broadmatch.params import Number, Whole
from broadmatch.state import State, unpack_value

log = logging.getLogger("broadmatch")
LARGEST_DELTA = 200_000
"""Bids that changed since the postings were made; with more, following takes long, and a warning says so."""
_MANY, _MOST_CANDIDATES = 1 << 22, 1 << 20
"""Candidates for which there is room at a time, and the highest limit."""
_LIMIT = Whole(1, _MOST_CANDIDATES)


class AdCandidates(NamedTuple):
    """Ads that match, highest bid first; those of query q stand from ptr[q] to ptr[q + 1].

    `match` are numbers of `MATCH_TYPES`, `phrase` those of the phrases by which the ads match, `score` that of an
    extended match, 1 of others. Each ad stands once for a query, by its highest bid; of equal bids the ad with the
    lower number is first.
    """

    ad: I64
    phrase: I64
    bid: F64
    match: Bytes
    score: F64
    ptr: I64

    def of(self, query: int) -> "AdCandidates":
        """Those of one query, as views."""
        a, b = self.ptr[query], self.ptr[query + 1]
        return AdCandidates._make([*(column[a:b] for column in self[:-1]), np.array([0, b - a])])


class IndexView(NamedTuple):
    """What is read at a moment: the postings with the numbers of ads that changed, and the delta.

    `ads` and `campaigns` are the records of those that changed since the postings were made, empty if removed.
    """

    joined: JoinedPostings
    saved: State
    change: int
    postings: str
    ads: dict[int, bytes]
    campaigns: dict[int, bytes]
    n_ads: int
    n_campaigns: int


class AdIndex:
    """An ad index on disk, for reading and for changing; any number of processes may have it open.

    Changes that other processes made are seen within `every` seconds of a lookup. All methods may be called from
    several threads.

    >>> from broadmatch.ads import AdIndex, Inventory
    >>> inventory = Inventory.from_rows([
    ...     {"ad": "shoes", "page": "https://shop.example/shoes", "phrase": "red shoes", "match": "broad", "bid": 0.5}
    ... ])
    >>> index = AdIndex.create("index", inventory)
    >>> found = index.match("cheap red shoes")
    >>> index.names(found.ad), found.bid.tolist()
    (['shoes'], [0.5])
    >>> with index.change() as change:
    ...     change.set_negatives("shoes", [("cheap", "broad")])
    >>> index.match("cheap red shoes").ad.tolist()
    []
    """

    def __init__(self, path: str | os.PathLike[str], *, every: float = 0.2) -> None:
        Number(0).check("every", every)
        self.path, self.every = Path(path), every
        self.store = AdStore.of(self.path)
        self._following, self._next = threading.Lock(), 0.0
        self._view: IndexView | None = None
        self.refresh()

    @classmethod
    def create(cls, path: str | os.PathLike[str], inventory: Inventory, extended: Extended | None = None) -> "AdIndex":
        """Make the index of an inventory; ads and phrases have the numbers of their rows in it.

        `extended` are matches beyond the phrases, as `select_extended` leaves them. An index that is there is replaced.
        """
        with replacing(path, is_index) as folder:
            write_index(folder, inventory, extended)
        return cls(path)

    def match(self, query: str, limit: int = 200) -> AdCandidates:
        """The ads that match a query, at most `limit`; of a query of more than 64 words, the first 64 count."""
        return self.match_texts(self.view(), [normalise_query(query)], limit)

    def match_texts(self, view: "IndexView", queries: Sequence[str], limit: int) -> AdCandidates:
        """As `match` of a few queries that are normalised, at the moment of a view."""
        if not (type(limit) is int and 0 < limit <= _MOST_CANDIDATES):
            _LIMIT.check("limit", limit)
        if len(queries) * limit > _MANY:
            return self.match_view(view, Names.of(queries), limit)
        texts = [query.encode("utf-8", "replace") for query in queries]
        text = np.frombuffer(bytearray().join(texts), np.uint8)
        return self._match(view, text, np.array([0, *accumulate(map(len, texts))]), limit)

    def match_many(self, queries: Names | Iterable[str], limit: int = 200, *, normalised: bool = False) -> AdCandidates:
        """The ads that match each of many queries; with `normalised`, these are as `normalise_query` gives them."""
        names = Names.of(queries if normalised else [normalise_query(query) for query in queries])
        return self.match_view(self.view(), names, limit)

    def match_view(self, view: "IndexView", names: Names, limit: int) -> AdCandidates:
        """As `match_many` of queries that are normalised, at the moment of a view."""
        text = np.require(names.text, requirements="W")  # to numba, what can be written is of another type
        _LIMIT.check("limit", limit)
        step = _MANY // limit
        parts = [
            self._match(view, text, names.offsets[first : first + step + 1], limit)
            for first in range(0, max(len(names), 1), step)
        ]
        if len(parts) == 1:
            return parts[0]
        starts = np.cumsum([0, *(len(part.ad) for part in parts)])
        ptr = np.concatenate([[0], *(part.ptr[1:] + start for part, start in zip(parts, starts, strict=False))])
        columns = [np.concatenate(column) for column in zip(*(part[:-1] for part in parts), strict=True)]
        return AdCandidates._make([*columns, ptr])

    def why(self, query: str, ad: str, limit: int = 200) -> WhyMatched:
        """By which phrase an ad matches a query, or what keeps it out."""
        number = self.number(ad)
        record = None if number is None else self.record(number)
        campaign = None if record is None or record.campaign < 0 else self._record("campaigns", record.campaign)
        found = self.match(query, limit)
        place = np.flatnonzero(found.ad == (-1 if number is None else number))
        words = normalise_query(query).split()
        return explain_match(
            words[:MOST_WORDS],
            ad,
            record,
            campaign,
            len(words) <= MOST_WORDS,
            int(place[0]) if len(place) else None,
            limit,
        )

    def change(self) -> AdChanges:
        """Changes to ads, phrases, bids and negatives, made together when the `with` block ends, or not at all."""
        return AdChanges(self.store, self.refresh)

    def compact(self) -> None:
        """Make new postings with all that changed, so that the delta is small again; others read and write meanwhile.

        It takes as long as the making of the index, and is best done in a process of its own.
        """
        write_postings(self.store, self.path)
        self.refresh()

    def names(self, ads: Iterable[int] | NDArray[Any]) -> list[str]:
        """The names of ads by their numbers."""
        return [self.record(int(ad)).name for ad in ads]

    def number(self, ad: str) -> int | None:
        """The number of an ad by its name; None if there is none."""
        found = self.store.read(
            lambda txn: txn.get(ad.encode("utf-8", "replace")[:512], db=self.store.tables["ad_names"])
        )
        return None if found is None else int.from_bytes(found, "big")

    def record(self, ad: int) -> AdRecord:
        """What the store has of an ad: its name, phrases, negatives and extended matches."""
        return self._record("ads", ad)

    def campaign(self, number: int) -> AdRecord:
        """What the store has of a campaign: its name, advertiser and negatives."""
        return self._record("campaigns", number)

    def refresh(self) -> None:
        """See what was changed until now."""
        with self._following:
            self._follow()

    @property
    def n_bids(self) -> int:
        """How many bids the postings and the delta hold, those of ads that changed since counted in both."""
        view = self.view()
        return view.joined.base.n_bids + view.joined.delta.n_bids

    @classmethod
    def from_state(cls, state: State) -> NoReturn:
        """Refuse: postings are a part of an index."""
        raise BadArtifact("These are postings of an ad index: open the folder that they stand in with AdIndex.")

    def _record(self, table: str, number: int) -> AdRecord:
        found = self.store.read(lambda txn: txn.get(key_of(number), db=self.store.tables[table]))
        if found is None:
            raise MissingFile(f"There is no {table[:-1]} of number {number} in {self.path}.")
        return AdRecord.from_bytes(found)

    def _match(self, view: "IndexView", text: Bytes, ptr: I64, limit: int) -> AdCandidates:
        n = (len(ptr) - 1) * limit
        columns, match, out = np.empty((4, n), np.int64), np.empty(n, np.uint8), np.empty(len(ptr), np.int64)
        match_queries(text, ptr, view.joined.views, limit, columns, match, out)
        columns = columns[:, : out[-1]]
        bid, score = columns[2:].view(np.float64)
        return AdCandidates(columns[0], columns[1], bid, match[: out[-1]], score, out)

    def view(self) -> "IndexView":
        """What is read at this moment, for several lookups that have to agree."""
        now = time.monotonic()
        if now >= self._next and self._following.acquire(blocking=False):
            try:
                self._follow()
            finally:
                self._following.release()
        view = self._view
        if view is None:
            raise BadArtifact(f"{self.path} could not be read; build the index again.")
        return view

    def _follow(self) -> None:
        """Read what changed since the last time."""
        old = self._view
        while True:
            meta, ads, campaigns = self.store.read(lambda txn: self._news(txn, old))
            if old is not None and meta["change"] == old.change and meta["postings"] == old.postings:
                break
            try:
                self._view = self._read(meta, ads, campaigns, old)
                break
            except MissingFile:
                if self.store.read(self.store.meta)["postings"] == meta["postings"]:
                    raise  # else they were made anew twice in the meantime
        self._next = time.monotonic() + self.every

    def _news(self, txn: Any, old: IndexView | None) -> tuple[dict[str, Any], dict[int, bytes], dict[int, bytes]]:
        """What is known of the index, and the ads and campaigns that differ from its postings; empty if removed."""
        meta = self.store.meta(txn)
        fresh = old is None or meta["postings"] != old.postings
        if old is not None and not fresh and meta["change"] == old.change:
            return meta, old.ads, old.campaigns
        ads: dict[int, bytes] = {} if fresh or old is None else dict(old.ads)
        campaigns: dict[int, bytes] = {} if fresh or old is None else dict(old.campaigns)
        for part in self.store.changes(txn, meta["since"] if fresh or old is None else old.change):
            for number in np.frombuffer(part, np.int64).tolist():
                into, table = (ads, "ads") if number >= 0 else (campaigns, "campaigns")
                number = number if number >= 0 else -1 - number
                into[number] = bytes(txn.get(key_of(number), b"", db=self.store.tables[table]))
        return meta, ads, campaigns

    def _read(
        self, meta: dict[str, Any], ads: dict[int, bytes], campaigns: dict[int, bytes], old: IndexView | None
    ) -> IndexView:
        same = old is not None and old.postings == meta["postings"]
        whole, saved = (
            (old.joined.base, old.saved) if same and old is not None else _open(self.path / meta["postings"], meta)
        )
        delta = _delta(ads, campaigns)
        if delta.n_bids > LARGEST_DELTA:
            log.warning(
                "%s bids of %s changed since its postings were made: compact it.", f"{delta.n_bids:,}", self.path
            )
        changed = np.array(list(ads), np.int64), np.array(list(campaigns), np.int64)
        joined = JoinedPostings.of(whole, delta, changed, meta["ads"], meta["campaigns"])
        sizes = meta["ads"], meta["campaigns"]
        return IndexView(joined, saved, meta["change"], meta["postings"], ads, campaigns, *sizes)


def _delta(ads: dict[int, bytes], campaigns: dict[int, bytes]) -> Postings:
    """The postings of the ads and campaigns that changed; those that were removed are empty."""
    kept = [sorted(number for number, record in part.items() if record) for part in (ads, campaigns)]
    records = [part[number] for part, numbers in zip((ads, campaigns), kept, strict=True) for number in numbers]
    starts = np.cumsum([0, *map(len, records)], dtype=np.int64)[:-1] >> 3
    return build_postings(np.array(kept[0], np.int64), np.array(kept[1], np.int64), bytearray().join(records), starts)


def _open(folder: Path, meta: dict[str, Any]) -> tuple[Postings, State]:
    """The postings in a folder, checked: whatever it holds, lookups stay within its arrays; and all that is there."""
    state = load_state(folder, verify=False)
    with opening(folder):
        if state.kind != KIND:
            raise BadArtifact(f"{folder} holds a {state.kind}, not postings; build the index again.")
        postings: Postings = unpack_value(Postings, state, {})
    ad, campaign = postings.most
    if ad >= meta["ads"] or campaign >= meta["campaigns"]:
        raise BadArtifact(f"{folder} is damaged: its numbers are too high; build the index again.")
    return postings, state
