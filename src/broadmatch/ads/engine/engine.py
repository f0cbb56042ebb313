"""The ad engine: query → candidates → features → click probability → auction → places.

A folder holds the index, the click model and the auction; each can be exchanged while queries are answered, and an
answer is made by one set of them.
"""

import contextlib
import copy
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from broadmatch.ads.auction import Auction
from broadmatch.ads.budgets import Budgets
from broadmatch.ads.engine.answers import AdAnswers, CandidateRows, Place
from broadmatch.ads.engine.context import context_columns, first_words, refuse_own
from broadmatch.ads.engine.explain import MOST_FEATURES, AdExplanation, explain_rows
from broadmatch.ads.engine.tables import AD_COLUMNS, AdTables, LiveAds
from broadmatch.ads.index._match import MOST_WORDS
from broadmatch.ads.index.ad_index import AdCandidates, AdIndex
from broadmatch.ads.index.building import Extended, is_index, write_index
from broadmatch.ads.index.why import WhyMatched
from broadmatch.ads.inventory import Inventory
from broadmatch.ads.match_types import MATCH_TYPES
from broadmatch.clicks import ClickModel
from broadmatch.data import Impressions, Names
from broadmatch.errors import BadArtifact, BadInput, BroadmatchError, MissingFile
from broadmatch.harvest.queries import normalise_query
from broadmatch.io.artifacts import load, replacing, save
from broadmatch.io.values import arrow_of, texts_to_arrow
from broadmatch.kernels import F64, I64, U64, Flags
from broadmatch.signals.joined import JoinedEncoder, SignalTable

INDEX, CLICKS, AUCTION = "index", "clicks", "auction"
_SIDES = (AD_COLUMNS, ("phrase",), ("match",), ("position",))
_AD, _PHRASE, _MATCH, _POSITION, _QUERY = range(5)
OWN_COLUMNS = frozenset(("query", *(column for side in _SIDES for column in side)))
"""The columns that the engine fills in itself; all others are those of the context."""
_MOST_PLACES = 1000
_TRIES, _PAUSE = 20, 0.005
"""To open a folder that another process is replacing, and the seconds in between."""


@dataclass(frozen=True)
class AdAnswer:
    """The answer to one query: its places from the first on, the arrays that they come from, and why, if it was asked.

    `query` is the query as it was looked up.
    """

    query: str
    places: list[Place]
    arrays: AdAnswers
    explanation: AdExplanation | None = None


class _Model(NamedTuple):
    """A click model with what is made of its description once."""

    clicks: ClickModel
    encoder: JoinedEncoder
    match: SignalTable
    position: SignalTable

    @classmethod
    def of(cls, clicks: ClickModel) -> "_Model":
        description = clicks.description_to_predict()
        if isinstance(description, str):
            raise BadInput("The click model was trained on vw text; an engine needs one that was trained on columns.")
        encoder = JoinedEncoder(description, _SIDES)
        match = encoder.sides[_MATCH].table({"match": texts_to_arrow(MATCH_TYPES)}, len(MATCH_TYPES))
        places = np.arange(_MOST_PLACES + 1, dtype=np.int32)
        return cls(clicks, encoder, match, encoder.sides[_POSITION].table({"position": arrow_of(places)}, len(places)))

    def prepare(self, ads: LiveAds) -> None:
        """Make the tables that the model reads, before it answers."""
        tables = ads.tables()
        tables.ads(self.encoder.sides[_AD])
        tables.phrases(self.encoder.sides[_PHRASE])


class _Parts(NamedTuple):
    """What an answer is made with, read as one."""

    ads: LiveAds
    model: _Model
    auction: Auction


class AdEngine:
    """Answers queries with ads, from a folder with an index, a click model and an auction.

    The click model may use these columns: `query`, as `normalise_query` gives it, and everything in the context; `ad`,
    `advertiser`, `campaign`, `page`, `title`, `text`, `phrase` and `match` of the candidate; and `position`, which is 1
    where ads are scored, and the place where they are learned from. All methods may be called from several threads.

    >>> from broadmatch.clicks import FTRL, ClickModel
    >>> from broadmatch.signals import Categorical, Description
    >>> inventory = Inventory.from_rows([
    ...     {"ad": "shoes", "page": "https://shop.example/shoes", "phrase": "red shoes", "match": "broad", "bid": 0.5},
    ...     {"ad": "boots", "page": "https://shop.example/boots", "phrase": "red", "match": "broad", "bid": 0.8},
    ... ])
    >>> described = Description(label="clicked", signals=[Categorical("ad"), Categorical("position")])
    >>> engine = AdEngine.create("engine", inventory, clicks=ClickModel(described, {"ftrl": FTRL().to_serving()}))
    >>> [(place.ad, place.price) for place in engine.answer("cheap red shoes").places]
    [('boots', 0.5), ('shoes', 0.0)]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._exchange = threading.Lock()
        self._parts = self._open()

    @staticmethod
    def is_at(path: str | os.PathLike[str]) -> bool:
        """Whether a folder is that of an engine."""
        there = Path(path)
        return is_index(there / INDEX) and (there / CLICKS).is_dir() and (there / AUCTION).is_dir()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        inventory: Inventory,
        *,
        clicks: ClickModel,
        auction: Auction | None = None,
        extended: Extended | None = None,
    ) -> "AdEngine":
        """Write the folder of an engine, and open it; one that is there is replaced as a whole."""
        _Model.of(clicks)
        with replacing(path, cls.is_at) as folder:
            (folder / INDEX).mkdir()
            write_index(folder / INDEX, inventory, extended)
            clicks.save(folder / CLICKS)
            save(auction if auction is not None else Auction(), folder / AUCTION)
        return cls(path)

    def reload(self) -> None:
        """Read the folder again: index, click model and auction are exchanged together."""
        parts = self._open()
        with self._exchange:
            self._parts = parts

    def with_clicks(self, model: ClickModel) -> "AdEngine":
        """An engine of the same ads, live as these are, and the same auction, with another click model."""
        made = _Model.of(model)
        made.prepare(self._parts.ads)
        other = copy.copy(self)
        other._exchange, other._parts = threading.Lock(), self._parts._replace(model=made)
        return other

    def with_auction(self, auction: Auction) -> "AdEngine":
        """An engine of the same ads and click model, live as these are, with another auction."""
        auction.check_params()
        other = copy.copy(self)
        other._exchange, other._parts = threading.Lock(), self._parts._replace(auction=auction)
        return other

    @property
    def index(self) -> AdIndex:
        """The index of the ads, which may be changed while queries are answered."""
        return self._parts.ads.index

    @property
    def clicks(self) -> ClickModel:
        """The click model; another one set here answers from the next query on."""
        return self._parts.model.clicks

    @clicks.setter
    def clicks(self, model: ClickModel) -> None:
        made = _Model.of(model)
        made.prepare(self._parts.ads)
        with self._exchange:
            self._parts = self._parts._replace(model=made)

    @property
    def auction(self) -> Auction:
        """The auction; another one set here answers from the next query on."""
        return self._parts.auction

    @auction.setter
    def auction(self, auction: Auction) -> None:
        auction.check_params()
        with self._exchange:
            self._parts = self._parts._replace(auction=auction)

    def tables(self) -> AdTables:
        """What is known of the ads now, by their numbers."""
        return self._parts.ads.tables()

    @property
    def ad_campaign(self) -> I64:
        """The number of the campaign of each ad; −1 for none."""
        return self._parts.ads.tables().campaign

    @property
    def campaign_budget(self) -> F64:
        """What each campaign may spend in a day, by its number; infinite without a limit."""
        return self._parts.ads.tables().budget

    @property
    def ad_advertiser(self) -> I64:
        """The number of the advertiser of each ad; below 0, and no other's, for an ad without one."""
        return self._parts.ads.tables().advertiser

    @property
    def context_columns(self) -> tuple[str, ...]:
        """The columns of the context that the click model reads; all others change no answer."""
        side = self._parts.model.encoder.sides[_QUERY]
        return tuple(name for name in dict.fromkeys((*side.columns, *side.slices)) if name != "query")

    def answer(
        self,
        query: str,
        context: Mapping[str, Any] | None = None,
        *,
        key: int = 0,
        budgets: Budgets | None = None,
        hour: float | None = None,
        pending: ArrayLike | None = None,
        bids: Mapping[str, float] | None = None,
        limit: int = 200,
        explain: bool | int = False,
    ) -> AdAnswer:
        """The places beside the answer to one query; `key` names the auction where draws are made.

        At most `limit` candidates take part, those with the highest bids. With `budgets`, campaigns take part as these
        say at the `hour` of the day. With `bids`, ads that are named there take part with these instead of their own.
        With `explain`, every step comes with it, and if that is a number, so many features of each candidate.
        """
        one = self._one(query, context, _Terms(_key(key), budgets, hour, pending, bids), limit)
        why = _explained(one, None, most=MOST_FEATURES if explain is True else explain) if explain else None
        return AdAnswer(one.text, _places(one.answers, one.tables), one.answers, why)

    def explain(
        self,
        query: str,
        context: Mapping[str, Any] | None = None,
        ad: str | None = None,
        *,
        key: int = 0,
        budgets: Budgets | None = None,
        hour: float | None = None,
        pending: ArrayLike | None = None,
        limit: int = 200,
    ) -> AdExplanation:
        """Every step of the answer to a query: of all candidates, highest score first, or of one ad."""
        one = self._one(query, context, _Terms(_key(key), budgets, hour, pending), limit)
        if ad is None:
            return _explained(one, None)
        rows = [i for i, number in enumerate(one.answers.candidates.ad.tolist()) if one.tables.name(number) == ad]
        return _explained(one, rows, None if rows else one.parts.ads.index.why(query, ad, limit))

    def answer_many(
        self,
        queries: Names,
        context: Mapping[str, Any] | None = None,
        *,
        key: ArrayLike | None = None,
        budgets: Budgets | None = None,
        hour: float | None = None,
        pending: ArrayLike | None = None,
        limit: int = 200,
    ) -> AdAnswers:
        """The answers to many queries that `normalise_query` has given, as arrays.

        `context` has one value a query for each column (an array, a list, `Names` or an Arrow array), `key` names each
        auction (by default it is numbered).
        """
        parts, names = self._parts, Names.of(queries)
        given = {} if context is None else context
        refuse_own(given, OWN_COLUMNS)
        tables = parts.ads.tables()
        found = parts.ads.index.match_view(tables.view, names, limit)
        side = parts.model.encoder.sides[_QUERY]
        wanted = {name: values for name, values in given.items() if name in side.columns or name in side.slices}
        table = side.table(context_columns(names, wanted, MOST_WORDS), len(names))
        return _answers(parts, tables, found, table, _Terms(key, budgets, hour, pending))

    def answer_few(
        self,
        queries: Sequence[str],
        contexts: Sequence[Mapping[str, Any]],
        *,
        key: ArrayLike | None = None,
        budgets: Budgets | None = None,
        hour: float | None = None,
        limit: int = 200,
    ) -> AdAnswers:
        """As `answer_many`, of a few queries that came together, each with its context.

        For up to some dozens it takes less time than columns do, and values of a column may be of different kinds.
        """
        parts = self._parts
        tables = parts.ads.tables()
        for context in contexts:
            refuse_own(context, OWN_COLUMNS)
        rows = [
            {**context, "query": first_words(query, MOST_WORDS)}
            for query, context in zip(queries, contexts, strict=True)
        ]
        found = parts.ads.index.match_texts(tables.view, queries, limit)
        table = parts.model.encoder.sides[_QUERY].rows(rows)
        return _answers(parts, tables, found, table, _Terms(key, budgets, hour, None))

    def impressions(self, answers: AdAnswers) -> Impressions:
        """What was shown, by query and then by place, to learn from: `position` is the place, clicks are not known."""
        return answers.impressions()

    def _one(self, query: str, context: Mapping[str, Any] | None, terms: "_Terms", limit: int) -> "_One":
        parts, text = self._parts, normalise_query(query)
        given = {} if context is None else context
        refuse_own(given, OWN_COLUMNS)
        row = {**given, "query": first_words(text, MOST_WORDS)}
        tables = parts.ads.tables()
        found = terms.rebid(tables, parts.ads.index.match_texts(tables.view, [text], limit))
        table = parts.model.encoder.sides[_QUERY].rows([row])
        return _One(parts, tables, text, row, _answers(parts, tables, found, table, terms))

    def _open(self) -> _Parts:
        """What the folder holds, all of one moment; while it is replaced, it is not there for an instant."""
        for _ in range(_TRIES):
            before = self._inode()
            try:
                parts = self._read()
            except (BroadmatchError, OSError):
                if before is not None and self._inode() == before:
                    raise
                time.sleep(_PAUSE)
                continue
            if self._inode() == before:
                return parts
        raise MissingFile(f"There is no ad engine at {self.path}.")

    def _inode(self) -> int | None:
        with contextlib.suppress(OSError):
            return self.path.stat().st_ino
        return None

    def _read(self) -> _Parts:
        if not self.is_at(self.path):
            raise BadArtifact(f"{self.path} is not an ad engine: it has no {INDEX}, {CLICKS} and {AUCTION}.")
        ads, clicks = LiveAds(AdIndex(self.path / INDEX)), load(self.path / CLICKS, ClickModel)
        parts = _Parts(ads, _Model.of(clicks), load(self.path / AUCTION, Auction))
        parts.model.prepare(ads)
        return parts


class _Terms(NamedTuple):
    """On which terms candidates take part."""

    key: Any
    budgets: Budgets | None
    hour: float | None
    pending: ArrayLike | None
    bids: Mapping[str, float] | None = None

    def rebid(self, tables: AdTables, found: AdCandidates) -> AdCandidates:
        """Candidates with the bids that are given for their ads."""
        if not self.bids:
            return found
        names, own = map(tables.name, found.ad.tolist()), found.bid.tolist()
        bids = [self.bids.get(name, bid) for name, bid in zip(names, own, strict=True)]
        return found._replace(bid=np.array(bids, np.float64))

    def admit(self, tables: AdTables, found: AdCandidates) -> Flags | None:
        """Which candidates are in their budget; campaigns that have none, and ads without a campaign, always are."""
        if self.budgets is None:
            return None
        if self.hour is None:
            raise BadInput("Budgets are paced by the hour of the day: give hour, from 0 to 24.")
        campaign = tables.campaign[found.ad]
        limited = (campaign >= 0) & (campaign < len(self.budgets.spent))
        known = np.where(limited, campaign, 0)
        how: Any = {"hour": self.hour, "offsets": found.ptr, "key": self.key, "pending": self.pending}
        return self.budgets.admit(known, found.bid, **how) | ~limited


class _One(NamedTuple):
    """The answer to one query, with what it was made with."""

    parts: _Parts
    tables: AdTables
    text: str
    row: dict[str, Any]
    answers: AdAnswers


def _key(key: int) -> U64:
    return np.array([int(key) & 0xFFFFFFFFFFFFFFFF], np.uint64)


def _answers(parts: _Parts, tables: AdTables, found: AdCandidates, table: SignalTable, terms: _Terms) -> AdAnswers:
    """Features, probabilities and auctions of candidates; `table` is that of their queries."""
    model, sides, many = parts.model, parts.model.encoder.sides, len(found.ptr) != 2
    codes = np.empty((len(sides), len(found.ad)), np.int32)
    codes[_AD], codes[_PHRASE], codes[_MATCH], codes[_POSITION] = tables.rows(found.ad), found.phrase, found.match, 1
    codes[_QUERY] = np.repeat(np.arange(len(found.ptr) - 1), np.diff(found.ptr)) if many else 0
    ads, phrases = tables.ads(sides[_AD]), tables.phrases(sides[_PHRASE])
    rows = CandidateRows(model.encoder, [ads, phrases, model.match, model.position, table], codes, _POSITION)
    probability, uncertainty = model.clicks.serve_many(*rows.encode())
    result = parts.auction.run(
        found.bid,
        probability,
        offsets=found.ptr if many else None,
        advertiser=tables.advertiser[found.ad],
        uncertainty=uncertainty,
        in_budget=terms.admit(tables, found),
        key=terms.key,
    )
    return AdAnswers(found, probability, uncertainty, result, rows, tables)


def _places(arrays: AdAnswers, tables: AdTables) -> list[Place]:
    found, result, places = arrays.candidates, arrays.result, []
    for t, (i, price) in enumerate(zip(result.row[0].tolist(), result.price[0].tolist(), strict=True), 1):
        if i < 0:
            break
        ad, phrase, match = tables.name(found.ad.item(i)), tables.phrase(found.phrase.item(i)), found.match.item(i)
        judged = arrays.probability.item(i), arrays.uncertainty.item(i), result.score.item(i)
        places.append(Place(ad, phrase, MATCH_TYPES[match], found.bid.item(i), price, *judged, t))
    return places


def _explained(
    one: _One, rows: list[int] | None, not_matched: WhyMatched | None = None, most: int = MOST_FEATURES
) -> AdExplanation:
    answers = one.answers
    if rows is None:
        rows = np.argsort(-answers.result.score, kind="stable").tolist()
    found = explain_rows(one.parts.model.clicks, one.parts.auction, answers, one.tables, one.row, rows, most)
    context = {name: value for name, value in one.row.items() if name != "query"}
    return AdExplanation(one.text, context, len(answers.candidates.ad), found, not_matched)
