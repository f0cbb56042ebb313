"""How an ad index is made: an inventory into the store, and the store into postings."""

import shutil
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from broadmatch.ads.index._match import MOST_WORDS
from broadmatch.ads.index._postings import count_words
from broadmatch.ads.index.ad_columns import COLUMNS, AdColumns
from broadmatch.ads.index.postings import Postings, build_postings
from broadmatch.ads.index.records import about_bytes, check_about, encode
from broadmatch.ads.index.store import FOLDER, FORMAT, LONGEST_NAME, AdStore, key_of
from broadmatch.ads.inventory import Inventory
from broadmatch.data import Names
from broadmatch.data.csr import gathered, offsets
from broadmatch.errors import BadInput
from broadmatch.harvest.queries import normalise_query
from broadmatch.io.artifacts import save
from broadmatch.kernels import F64, I64
from broadmatch.state import State, pack

KIND = "ad_postings"
_ADS, _TEXTS = 50_000, 100_000
"""Ads written in one transaction, and texts normalised at a time."""


class Extended(NamedTuple):
    """Queries that ads are shown for beyond their own phrases, one a row, as a model scored them.

    `ad` and `phrase` are rows of the inventory's ads and phrases: the bid phrase that the query goes with, and its bid.
    """

    query: Names
    ad: I64
    phrase: I64
    score: F64


def select_extended(rows: Extended, *, threshold: float = 0.7, at_least: int = 2) -> Extended:
    """Of every ad the queries that score at least the threshold, and the best `at_least` in any case (SwiftXML §5).

    A query goes with one phrase of the ad, the one that scores highest.

    >>> names = Names.of(["cheap taxi", "taxi", "taxi", "airport cab"])
    >>> rows = Extended(names, np.zeros(4, np.int64), np.array([5, 5, 6, 6]), np.array([0.5, 0.8, 0.9, 0.6]))
    >>> kept = select_extended(rows)
    >>> list(kept.query), kept.phrase.tolist()
    (['taxi', 'airport cab'], [6, 6])
    """
    texts = Names.of([normalise_query(query) for query in rows.query])
    _, query = np.unique(np.array(list(texts), np.dtypes.StringDType()), return_inverse=True)
    best = np.lexsort((rows.phrase, -rows.score, query, rows.ad))
    pair = np.stack([rows.ad[best], query[best]])
    best = best[np.append(True, (pair[:, 1:] != pair[:, :-1]).any(0))[: len(best)]]
    best = best[np.lexsort((query[best], -rows.score[best], rows.ad[best]))]
    ad = rows.ad[best]
    rank = np.arange(len(best)) - np.searchsorted(ad, ad)
    kept = best[((rows.score[best] >= threshold) | (rank < at_least)) & (np.diff(texts.offsets)[best] > 0)]
    return Extended(texts.take(kept), rows.ad[kept], rows.phrase[kept], rows.score[kept])


class _TextColumn(NamedTuple):
    """Normalised texts behind each other."""

    text: bytearray
    ptr: I64


def is_index(path: Path) -> bool:
    """Whether a folder is an ad index."""
    return (path / FOLDER / "data.mdb").is_file()


def write_index(folder: Path, inventory: Inventory, extended: Extended | None) -> None:
    """Write the store and the postings of an inventory into a new folder."""
    store = AdStore(folder, new=True)
    try:
        fill_store(store, inventory, extended)
        write_postings(store, folder)
    finally:
        store.close()


def fill_store(store: AdStore, inventory: Inventory, extended: Extended | None) -> None:
    """Write all ads and campaigns into an empty store, numbered by their rows."""
    for names, what in ((inventory.ads, "ad"), (inventory.campaigns, "campaign")):
        sizes = np.diff(names.offsets)
        if len(sizes) and (sizes.max() > LONGEST_NAME or sizes.min() == 0):
            worst = names[int(np.argmax(sizes) if sizes.min() else np.argmin(sizes))]
            raise BadInput(
                f"The name of an {what} must have 1 to {LONGEST_NAME} bytes, but {worst[:60]!r} has not; rename it."
            )
        if len(set(names)) < len(names):
            raise BadInput(f"Two {what}s have the same name; the names of an inventory must differ.")
    phrases, negatives = _normalised(inventory.phrases, "phrase"), _normalised(inventory.negatives, "negative")
    of_campaign = _records(inventory, phrases, negatives, None, campaigns=True)
    of_ad = _records(inventory, phrases, negatives, extended, campaigns=False)
    for names, records, table in ((inventory.campaigns, of_campaign, "campaign"), (inventory.ads, of_ad, "ad")):
        for first in range(0, len(names), _ADS):
            part = range(first, min(first + _ADS, len(names)))
            pairs = [(key_of(number), next(records)) for number in part]
            order = sorted(
                (name.encode(), key_of(number)) for number, name in zip(part, names[first : part.stop], strict=True)
            )

            def put(txn: Any, meta: dict[str, Any], pairs: Any = pairs, order: Any = order, table: str = table) -> None:
                txn.cursor(store.tables[f"{table}s"]).putmulti(pairs, append=True)
                txn.cursor(store.tables[f"{table}_names"]).putmulti(order)

            store.write(put)

    def finish(txn: Any, meta: dict[str, Any]) -> None:
        meta.update(format=FORMAT, change=0, postings="", since=0, phrases=len(inventory.phrases))
        meta.update(ads=len(inventory.ads), campaigns=len(inventory.campaigns))

    store.write(finish)


def _normalised(names: Names, what: str) -> _TextColumn:
    pieces, sizes = [], array("q")
    for first in range(0, len(names), _TEXTS):
        texts = [normalise_query(text).encode() for text in names[first : first + _TEXTS]]
        sizes.extend(map(len, texts))
        pieces.append(b"".join(texts))
    column = _TextColumn(bytearray().join(pieces), offsets(np.asarray(sizes, np.int64)))
    counts = np.empty(len(names), np.int64)
    count_words(np.frombuffer(column.text or bytearray(1), np.uint8), column.ptr[:-1], column.ptr[1:], counts)
    bad = np.flatnonzero((counts == 0) | (counts > MOST_WORDS))
    if len(bad):
        raise BadInput(
            f"{len(bad):,} {what}s have no word, or more than {MOST_WORDS}, such as {names[int(bad[0])][:60]!r} in row "
            f"{bad[0]}; read_inventory finds all of them."
        )
    return column


def _records(
    inventory: Inventory, phrases: _TextColumn, negatives: _TextColumn, extended: Extended | None, *, campaigns: bool
) -> Iterator[bytes]:
    """The records of all ads, or of all campaigns, in order."""
    names = inventory.campaigns if campaigns else inventory.ads
    level = inventory.negative_group < 0
    owner = np.where(level, inventory.negative_campaign, -1) if campaigns else inventory.negative_group
    n_owners = len(inventory.campaigns) if campaigns else len(inventory.groups)
    neg_ptr, neg_text, neg_words = _by_owner(owner, n_owners, negatives, inventory.negative_match)
    group = np.arange(len(names)) if campaigns else inventory.ad_group
    campaign = np.full(len(names), -1) if campaigns else inventory.group_campaign[group]
    of = np.full(0, -1) if campaigns else inventory.phrase_group
    own = np.flatnonzero(of >= 0)
    ptr, text, words = _by_owner(of, n_owners, phrases, inventory.phrase_match)
    order = own[np.argsort(of[own], kind="stable")]
    table = (
        np.stack([order, inventory.bids[order].view(np.int64), words], 1) if len(order) else np.empty((0, 3), np.int64)
    )
    place = np.empty(len(inventory.phrases), np.int64)
    place[order] = np.arange(len(order)) - np.repeat(ptr[:-1], np.diff(ptr))
    queries = _extended(inventory, extended, place, len(names))
    about = _about_campaigns(inventory) if campaigns else _about_ads(inventory)
    budget = np.nan_to_num(inventory.budgets, nan=np.inf) if campaigns else np.full(len(names), np.inf)
    rows = zip(names, group.tolist(), campaign.tolist(), about, budget.tolist(), strict=True)
    for i, (name, g, c, known, amount) in enumerate(rows):
        a, b, m, n = int(ptr[g]), int(ptr[g + 1]), int(neg_ptr[g]), int(neg_ptr[g + 1])
        x, y = int(queries.ptr[i]), int(queries.ptr[i + 1])
        parts = table[a:b].tobytes() + neg_words[m:n].tobytes() + queries.table[x:y].tobytes()
        texts = (text.text[text.ptr[a] : text.ptr[b]], neg_text.text[neg_text.ptr[m] : neg_text.ptr[n]])
        yield encode(
            (c, b - a, n - m, y - x),
            parts,
            name.encode(),
            b"".join(texts) + queries.text[queries.at[x] : queries.at[y]],
            known,
            amount,
        )


def _about_campaigns(inventory: Inventory) -> Iterator[bytes]:
    advertisers = list(inventory.advertisers)
    return (about_bytes(advertisers[i], "", "", "") for i in inventory.campaign_advertiser.tolist())


def _about_ads(inventory: Inventory) -> Iterator[bytes]:
    columns = {"page": inventory.pages, "title": inventory.titles, "text": inventory.texts}
    for name, column in columns.items():
        if len(column):
            check_about(name, column[int(np.argmax(np.diff(column.offsets)))])
    return (about_bytes("", *texts) for texts in zip(*columns.values(), strict=True))


def _by_owner(owner: Any, n_owners: int, column: _TextColumn, match: Any) -> tuple[I64, _TextColumn, I64]:
    """Rows in order of their owners (−1: left out): where each owner's begin, their texts, and 256·bytes + match."""
    rows = np.flatnonzero(owner >= 0)
    rows = rows[np.argsort(owner[rows], kind="stable")]
    ptr = np.searchsorted(owner[rows], np.arange(n_owners + 1))
    at, where = gathered(column.ptr, rows)
    text = np.frombuffer(column.text, np.uint8)[where].tobytes()
    return ptr, _TextColumn(bytearray(text), at), np.diff(at) << 8 | match[rows]


class _Queries(NamedTuple):
    """Extended matches in order of their ads: table of place, score and bytes; texts with `at`; `ptr` by ad."""

    ptr: I64
    table: I64
    text: bytes
    at: I64


def _extended(inventory: Inventory, extended: Extended | None, place: I64, n_ads: int) -> _Queries:
    if extended is None or not len(extended.ad):
        return _Queries(np.zeros(n_ads + 1, np.int64), np.empty((0, 3), np.int64), b"", np.zeros(1, np.int64))
    if (inventory.phrase_group[extended.phrase] != inventory.ad_group[extended.ad]).any():
        row = int(np.argmax(inventory.phrase_group[extended.phrase] != inventory.ad_group[extended.ad]))
        raise BadInput(
            f"Extended match {row}: phrase {extended.phrase[row]} is not one of ad {extended.ad[row]}; "
            "map a query to a phrase that the ad bids on."
        )
    order = np.argsort(extended.ad, kind="stable")
    names = extended.query.take(order)
    table = np.stack([place[extended.phrase[order]], extended.score[order].view(np.int64), np.diff(names.offsets)], 1)
    ptr = np.searchsorted(extended.ad[order], np.arange(n_ads + 1))
    return _Queries(ptr, table, names.text.tobytes(), names.offsets)


def write_postings(store: AdStore, index: Path) -> None:
    """Make postings of the whole store, as it is now, and let them be the ones to read; changes go on meanwhile."""
    meta = store.read(store.meta)
    name = f"postings-{meta['change']:012d}"
    if meta["postings"] == name:
        return
    postings, columns = _whole(store, meta)
    arrays = {**postings._asdict(), **pack(KIND, {COLUMNS: columns}).arrays}
    save(State(KIND, {}, arrays, {"format": FORMAT}), index / name)

    def exchange(txn: Any, now: dict[str, Any]) -> None:
        old = now["postings"]
        now.update(postings=name, since=meta["change"])
        changes = txn.cursor(store.tables["changes"])
        while changes.first() and int.from_bytes(changes.key(), "big") <= meta["change"]:
            changes.delete()
        for folder in index.glob("postings-*"):  # a reader may be about to open those that were read until now
            if folder.name not in (name, old):
                shutil.rmtree(folder, ignore_errors=True)

    store.write(exchange)


def _whole(store: AdStore, meta: dict[str, Any]) -> tuple[Postings, AdColumns]:
    """The postings and the columns of all that is in the store.

    It is read a few ads at a time, so that the store does not grow by what changes meanwhile. What changed since the
    postings were begun is read from the log of changes, by whoever reads them.
    """
    blob, starts, numbers = bytearray(), array("q"), {"ads": array("q"), "campaigns": array("q")}
    for table, found in numbers.items():

        def take(txn: Any, table: str = table, found: "array[int]" = found) -> bool:
            cursor = txn.cursor(store.tables[table])
            more = cursor.set_range(key_of(found[-1] + 1 if found else 0))
            for _, (key, value) in zip(range(_ADS), cursor if more else (), strict=False):
                found.append(int.from_bytes(key, "big"))
                starts.append(len(blob) >> 3)
                blob.extend(value)
            return bool(more)

        while store.read(take, buffers=True):
            pass
    ads, campaigns = (np.asarray(found, np.int64) for found in numbers.values())
    begin = np.asarray(starts, np.int64)
    # what was added meanwhile has numbers that the store's own count did not know yet
    n = {
        name: max(meta[name], int(found.max(initial=-1)) + 1)
        for name, found in (("ads", ads), ("campaigns", campaigns))
    }
    columns = AdColumns.of_records(ads, campaigns, blob, begin, n["ads"], n["campaigns"], meta["phrases"])
    return build_postings(ads, campaigns, blob, begin), columns
