"""Changes to an ad index that is open: collected, then made together."""

import math
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

import numpy as np

from broadmatch.ads.index._match import MOST_WORDS
from broadmatch.ads.index.records import AdRecord, BidPhrase, ExtendedMatch, check_about
from broadmatch.ads.index.store import LONGEST_NAME, AdStore, key_of
from broadmatch.ads.match_types import MATCH_TYPES, match_number
from broadmatch.errors import BadInput, BroadmatchError
from broadmatch.harvest.queries import normalise_query
from broadmatch.params import Number

MOST_BID = 1e6
_BID, _BUDGET = Number(0, MOST_BID, above=True), Number(0, none=True)


class AdChanges:
    """Changes that are made when the `with` block ends well: acknowledged then, and never half.

    Nothing is made if the block raises. Phrases and negatives are normalised; ads are named.
    """

    def __init__(self, store: AdStore, done: Callable[[], None]) -> None:
        self._store, self._done = store, done
        self._meta = store.read(store.meta)
        self._based_on = self._meta["change"]
        self._names: dict[tuple[str, str], int | None] = {}
        self._records: dict[tuple[str, int], AdRecord | None] = {}

    def put_ad(
        self,
        ad: str,
        phrases: Iterable[tuple[str, str, float]] = (),
        *,
        negatives: Iterable[tuple[str, str]] = (),
        campaign: str | None = None,
        advertiser: str | None = None,
        page: str | None = None,
        title: str | None = None,
        text: str | None = None,
    ) -> None:
        """Add an ad, or replace it: phrases with match type and bid, negatives with match type, and its campaign.

        Phrases that it had keep their numbers, and their extended matches. Of advertiser, page, title and text, what is
        not given stays as it was; the advertiser of a new ad is that of its campaign.
        """
        number, old = self._get("ad", ad)
        owner = -1 if campaign is None else self._number("campaign", campaign, advertiser or "")
        if number is None:
            number = self._new("ad", ad)
        record = AdRecord(ad, owner, list(old.phrases) if old else [], _negatives(negatives))
        for name, given in (("advertiser", advertiser), ("page", page), ("title", title), ("text", text)):
            check_about(name, given or "")
            setattr(record, name, given if given is not None else getattr(old, name) if old else "")
        self._records["ad", number] = record
        wanted = {(_words(phrase), match_number(match)): bid for phrase, match, bid in phrases}
        for phrase in old.phrases if old else ():
            if (phrase.text, phrase.match) not in wanted:
                self._drop(self._record_of("ad", ad), phrase)
        for (words, match), bid in wanted.items():
            self.set_phrase(ad, words, MATCH_TYPES[match], bid)
        if old is not None:
            record = self._record_of("ad", ad)
            kept = {phrase.number for phrase in record.phrases}
            record.extended = [match for match in old.extended if match.phrase in kept]

    def remove_ad(self, ad: str) -> None:
        """Remove an ad."""
        self._record_of("ad", ad)
        self._records["ad", self._number("ad", ad)] = None
        self._names["ad", ad] = None

    def set_phrase(self, ad: str, phrase: str, match: str, bid: float) -> None:
        """Let an ad bid on a phrase; if it does already, change the bid."""
        _BID.check("bid", bid)
        record, text, kind = self._record_of("ad", ad), _words(phrase), match_number(match)
        known = [old for old in record.phrases if (old.text, old.match) == (text, kind)]
        if known:
            record.phrases = [old._replace(bid=float(bid)) if old in known else old for old in record.phrases]
            return
        record.phrases.append(BidPhrase(self._meta["phrases"], text, kind, float(bid)))
        self._meta["phrases"] += 1

    def remove_phrase(self, ad: str, phrase: str, match: str) -> None:
        """Let an ad bid on a phrase no more."""
        record, wanted = self._record_of("ad", ad), (_words(phrase), match_number(match))
        known = [old for old in record.phrases if (old.text, old.match) == wanted]
        if not known:
            raise BadInput(f"The ad {ad!r} does not bid on {phrase!r} ({match}); look at its record.")
        for old in known:
            self._drop(record, old)

    def set_negatives(self, ad: str, negatives: Iterable[tuple[str, str]]) -> None:
        """Replace the negatives of an ad, texts with match type."""
        self._record_of("ad", ad).negatives = _negatives(negatives)

    def set_campaign_negatives(self, campaign: str, negatives: Iterable[tuple[str, str]]) -> None:
        """Replace the negatives of a campaign, which is made if it is new."""
        self._number("campaign", campaign)
        self._record_of("campaign", campaign).negatives = _negatives(negatives)

    def set_budget(self, campaign: str, amount: float | None) -> None:
        """Set what a campaign may spend in a day, None for no limit; the campaign is made if it is new."""
        _BUDGET.check("amount", amount)
        self._number("campaign", campaign)
        self._record_of("campaign", campaign).budget = math.inf if amount is None else float(amount)

    def set_extended(self, ad: str, matches: Iterable[tuple[str, int, float]]) -> None:
        """Replace the extended matches of an ad: query, number of the bid phrase that it goes with, score."""
        record = self._record_of("ad", ad)
        known, found = {phrase.number for phrase in record.phrases}, dict[str, ExtendedMatch]()
        for query, phrase, score in matches:
            if phrase not in known:
                raise BadInput(f"The ad {ad!r} has no phrase of number {phrase}; look at its record.")
            found[_words(query)] = ExtendedMatch(_words(query), phrase, float(score))
        record.extended = list(found.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._records:
            self._store.write(self._make)
            self._done()

    def _make(self, txn: Any, meta: dict[str, Any]) -> None:
        if meta["change"] != self._based_on:
            raise BroadmatchError("Another process changed the index meanwhile; one writes at a time, so try again.")
        tables, log = self._store.tables, []
        for (what, number), record in self._records.items():
            log.append(number if what == "ad" else -1 - number)
            if record is None:
                txn.delete(key_of(number), db=tables[f"{what}s"])
            else:
                txn.put(key_of(number), record.to_bytes(), db=tables[f"{what}s"])
        for (what, name), known in self._names.items():
            if known is None:
                txn.delete(name.encode(), db=tables[f"{what}_names"])
            else:
                txn.put(name.encode(), key_of(known), db=tables[f"{what}_names"])
        meta.update({name: self._meta[name] for name in ("ads", "campaigns", "phrases")}, change=meta["change"] + 1)
        txn.put(key_of(meta["change"]), np.array(log, np.int64).tobytes(), db=tables["changes"])

    def _drop(self, record: AdRecord, phrase: BidPhrase) -> None:
        record.phrases.remove(phrase)
        record.extended = [match for match in record.extended if match.phrase != phrase.number]

    def _get(self, what: str, name: str) -> tuple[int | None, AdRecord | None]:
        """The number and the record of an ad or campaign, as they are after the changes so far."""
        if not 0 < len(name.encode("utf-8", "replace")) <= LONGEST_NAME:
            raise BadInput(f"The name of an {what} must have 1 to {LONGEST_NAME} bytes, but it is {name[:60]!r}.")
        tables = self._store.tables
        if (what, name) not in self._names:
            found = self._store.read(lambda txn: txn.get(name.encode(), db=tables[f"{what}_names"]))
            if found is None:
                return None, None
            self._names[what, name] = int.from_bytes(found, "big")
        number = self._names[what, name]
        if number is None:
            return None, None
        if (what, number) not in self._records:
            data = self._store.read(lambda txn: txn.get(key_of(number), db=tables[f"{what}s"]))
            return number, AdRecord.from_bytes(data)
        return number, self._records[what, number]

    def _record_of(self, what: str, name: str) -> AdRecord:
        """The record of an ad or campaign that is there, to be changed."""
        number, record = self._get(what, name)
        if number is None or record is None:
            raise BadInput(f"There is no {what} {name!r} in the index; put it first.")
        self._records[what, number] = record
        return record

    def _number(self, what: str, name: str, advertiser: str = "") -> int:
        """The number of an ad or a campaign; a campaign that is new is made, of this advertiser."""
        number, _ = self._get(what, name)
        if number is None:
            number = self._new(what, name)
            self._records[what, number] = AdRecord(name, advertiser=advertiser)
        return number

    def _new(self, what: str, name: str) -> int:
        number: int = self._meta[f"{what}s"]
        self._meta[f"{what}s"] += 1
        self._names[what, name] = number
        return number


def _negatives(given: Iterable[tuple[str, str]]) -> list[tuple[str, int]]:
    return sorted({(_words(text), match_number(match)) for text, match in given})


def _words(text: str) -> str:
    """A phrase, normalised; refused if it could never match."""
    words = normalise_query(text)
    if not words or words.count(" ") >= MOST_WORDS:
        raise BadInput(f"A phrase must have 1 to {MOST_WORDS} words, but {text[:60]!r} has {len(words.split())}.")
    return words
