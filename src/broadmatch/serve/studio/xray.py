"""`xray`: an auction taken apart, with other bids and rules if these are given; nobody is shown, nothing logged."""

import contextlib
import math
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from broadmatch.ads import AdAnswers, AdEngine, AdIndex, Auction
from broadmatch.ads._auction import NO_BUDGET
from broadmatch.ads.engine.engine import AdAnswer
from broadmatch.ads.engine.explain import ExplainedCandidate
from broadmatch.errors import BroadmatchError
from broadmatch.kernels import F64
from broadmatch.params import clone
from broadmatch.serve.endpoints.endpoint import Endpoint
from broadmatch.serve.endpoints.matching import Matching, PreparedSearch
from broadmatch.serve.messages import MOST_CANDIDATES, AdName, AnsweredVersions, Key, Reply, SearchRequest
from broadmatch.serve.studio.work import StudioWork

_LARGEST = 1 << 17
_MOST_FEATURES, _EXAMPLES, _LOOKED, _STRIDE = 1 << 10, 6, 200, 7_919
"""Features of a candidate that are answered (all, but for texts without end); examples, ads looked at for them."""
_CHANGED = ("rule", "places", "squashing", "reserve")
Rule = Literal["gsp", "vcg", "first"]
TriedBids = Annotated[dict[AdName, Annotated[float, Meta(ge=0, le=1e6)]], Meta(max_length=MOST_CANDIDATES)]


class XrayRequest(SearchRequest, frozen=True):
    """A search, and what is to be tried: bids by ad, and the auction's rule, places, squashing and reserve."""

    bids: TriedBids | None = None
    rule: Rule | None = None
    places: Annotated[int, Meta(ge=1, le=100)] | None = None
    squashing: Annotated[float, Meta(ge=0, le=10)] | None = None
    reserve: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    ad: Annotated[AdName, Meta(description="An ad, to hear what keeps it out.")] | None = None


class AuctionTerms(Reply, frozen=True):
    """How an auction ranks and prices."""

    rule: Rule
    places: int
    squashing: float
    reserve: float
    floor: float
    explore: str | None
    scale: float


class SignalShare(Reply, frozen=True):
    """What the features of one signal add to the log-odds, each as value, amount, and part of the uncertainty."""

    signal: str
    amount: float
    features: list[tuple[str, float, float]]


class XrayCandidate(Reply, frozen=True):
    """A candidate, from the phrase that matched to the price.

    `log_odds` is the sum of the shares, before calibration, and `raw` its probability; `probability` is calibrated, and
    lies between `low` and `high` if the log-odds move by the uncertainty u(x). `gsp` and `vcg` are the prices of a
    click in its place under both rules, null where it has none.
    """

    ad: str
    advertiser: str
    campaign: str
    page: str
    title: str
    phrase: str
    match: str
    bid: float
    own_bid: float
    log_odds: float
    raw: float
    probability: float
    low: float
    high: float
    uncertainty: float
    shares: list[SignalShare]
    score: float
    outcome: str
    needed: float | None
    place: int
    price: float
    gsp: float | None
    vcg: float | None
    formula: str


class XrayReply(Reply, frozen=True):
    """An auction: its candidates by score; `served` are the terms of the server, `terms` those that were tried.

    `asked` is what keeps the ad out that was asked for, if it is no candidate.
    """

    search: Key
    query: str
    versions: AnsweredVersions
    served: AuctionTerms
    terms: AuctionTerms
    reads: Annotated[list[str], Meta(description="The columns of the context that the click model reads.")]
    n_ads: int
    examples: Annotated[list[str], Meta(description="Phrases to begin with, if there is no query.")]
    candidates: list[XrayCandidate]
    asked: str | None


class Xray:
    """Takes auctions apart, by the arm that would answer."""

    def __init__(self, matching: Matching, work: StudioWork) -> None:
        self._matching, self._work = matching, work

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The one endpoint."""
        about = "Every step of an auction, with bids and rules to try; nothing is logged."
        return (
            Endpoint(
                "studio", "POST", "/v1/studio/xray", "serve", about, self.answer, XrayRequest, XrayReply, _LARGEST,
                problems=(503,),
            ),
        )  # fmt: skip

    async def answer(self, request: XrayRequest) -> XrayReply:
        """An auction as it would be now."""
        return await self._work.run(take_apart, self._matching.prepare(request), request)


def take_apart(prepared: PreparedSearch, request: XrayRequest) -> XrayReply:
    """Answer a search with what is to be tried, and explain it; the engine in service stays as it is."""
    arm, search, context, terms = prepared
    served = arm.engine.auction
    tried = _with(served, {name: getattr(request, name) for name in _CHANGED})
    engine = arm.engine if tried is served else arm.engine.with_auction(tried)
    found = engine.answer(search.query, context, key=search.key, bids=request.bids, explain=_MOST_FEATURES, **terms)
    view = found.arrays.ads.view
    asked = None
    if request.ad is not None:
        why = engine.index.why(search.query, request.ad, request.limit)
        asked = None if why.shown else f"{why.reason}."
    return XrayReply(
        search=f"{search.key:016x}",
        query=found.query,
        versions=AnsweredVersions(arm=arm.name, clicks=arm.version, index=f"{view.postings}.{view.change}"),
        served=_terms_of(served),
        terms=_terms_of(tried),
        reads=[name for name in arm.context_columns if name != "time"],
        n_ads=view.n_ads,
        examples=[] if found.query else _examples(engine.index, view.n_ads),
        candidates=_candidates(engine, found, request, search.key),
        asked=asked,
    )


def _examples(index: AdIndex, n_ads: int) -> list[str]:
    """The phrases with the highest bids of a few ads, from all over the index; none if all of many were removed."""
    best: dict[str, None] = {}
    for number in (i * _STRIDE % n_ads for i in range(min(n_ads, _LOOKED))):
        if len(best) == _EXAMPLES:
            break
        with contextlib.suppress(BroadmatchError):  # of one that was removed
            for phrase in sorted(index.record(number).phrases, key=lambda phrase: -phrase.bid)[:1]:
                best[phrase.text] = None
    return list(best)


def _with(auction: Auction, changes: dict[str, Any]) -> Auction:
    """The auction with what is given changed; itself, if that is nothing."""
    changed = {name: value for name, value in changes.items() if value not in (None, getattr(auction, name))}
    tried: Auction = clone(auction).set_params(**changed) if changed else auction
    return tried


def _terms_of(auction: Auction) -> AuctionTerms:
    plain: Any = {name: getattr(auction, name) for name in AuctionTerms.__struct_fields__}
    return AuctionTerms(**plain)


def _candidates(engine: AdEngine, found: AdAnswer, request: XrayRequest, key: int) -> list[XrayCandidate]:
    """All candidates, those with the highest scores first."""
    arrays = found.arrays
    assert found.explanation is not None  # noqa: S101
    order = np.argsort(-arrays.result.score, kind="stable").tolist()
    by_rule = {rule: _prices(engine.auction, rule, arrays, key) for rule in ("gsp", "vcg")}
    made = []
    for row, one in zip(order, found.explanation.candidates, strict=True):
        about = arrays.ads.columns(arrays.candidates.ad.item(row))
        own = _own_bid(engine, arrays, row) if one.ad in (request.bids or ()) else one.bid
        low, high = (_moved(one.probability, sign * one.uncertainty) for sign in (-1, 1))
        plain: Any = {name: getattr(one, name) for name in _TAKEN}
        plain |= {name: about[name] for name in ("advertiser", "campaign", "page", "title")}
        plain |= {rule: prices.item(0, one.place - 1) if one.place else None for rule, prices in by_rule.items()}
        made.append(XrayCandidate(**plain, own_bid=own, low=low, high=high, shares=_shares(one)))
    return made


_TAKEN = tuple(name for name in ExplainedCandidate.__dataclass_fields__ if name in XrayCandidate.__struct_fields__)


def _prices(auction: Auction, rule: str, arrays: AdAnswers, key: int) -> F64:
    """The price of a click in each place under a rule: places do not depend on it."""
    if rule == auction.rule:
        return arrays.result.price
    result = _with(auction, {"rule": rule}).run(
        arrays.candidates.bid,
        arrays.probability,
        advertiser=arrays.result.advertiser,
        uncertainty=arrays.uncertainty,
        in_budget=arrays.result.outcome != NO_BUDGET,
        key=np.array([key], np.uint64),
    )
    return result.price


def _own_bid(engine: AdEngine, arrays: AdAnswers, row: int) -> float:
    """What an ad bids for the phrase by which it matched."""
    ad, phrase = arrays.candidates.ad.item(row), arrays.candidates.phrase.item(row)
    bids = [one.bid for one in engine.index.record(ad).phrases if one.number == phrase]
    return max(bids, default=arrays.candidates.bid.item(row))


def _moved(probability: float, log_odds: float) -> float:
    """A probability whose log-odds move by some."""
    if not 0 < probability < 1:
        return probability
    return 1 / (1 + math.exp(min(700.0, math.log1p(-probability) - math.log(probability) - log_odds)))


def _shares(one: ExplainedCandidate) -> list[SignalShare]:
    """The features by signal, the signals that move the log-odds most first."""
    groups: dict[str, list[tuple[str, float, float]]] = {}
    for feature in one.features:
        groups.setdefault(feature.signal, []).append((feature.value, feature.amount, feature.uncertainty))
    made = [
        SignalShare(signal=signal, amount=math.fsum(share for _, share, _ in features), features=features)
        for signal, features in groups.items()
    ]
    return sorted(made, key=lambda share: (-abs(share.amount), share.signal))
