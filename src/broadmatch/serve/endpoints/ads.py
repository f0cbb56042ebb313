"""`ads`: what the index has of an ad, and changes, which are made together or not at all."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

from broadmatch.ads import MATCH_TYPES, AdChanges, AdIndex
from broadmatch.serve.endpoints.endpoint import Endpoint
from broadmatch.serve.messages import (
    LONGEST_AD,
    AdBody,
    AdChange,
    AdReply,
    BidOn,
    ChangedReply,
    ChangesRequest,
    Negative,
    PutAd,
    RemoveAd,
    RemoveBid,
    SetBid,
    SetBudget,
)
from broadmatch.serve.problems import Problem
from broadmatch.serve.service import LiveService

_LARGEST = 1 << 22
_ABOUT = ("campaign", "advertiser", "page", "title", "text")


class Ads:
    """Reads and changes the ads of the index in service."""

    def __init__(self, live: LiveService, pool: Executor) -> None:
        self._live, self._pool = live, pool
        self._changing = threading.Lock()

    def endpoints(self) -> tuple[Endpoint, ...]:
        """What is answered about ads."""
        one = "/v1/ads/{name:text}"
        return (
            Endpoint("ad", "GET", one, "read", "An ad as the index has it.", self.read, None, AdReply, problems=(404,)),
            Endpoint(
                "ad", "PUT", one, "admin", "Add an ad, or replace it.", self.put, AdBody, ChangedReply, _LARGEST,
                problems=(404, 409, 503),
            ),
            Endpoint(
                "ad", "DELETE", one, "admin", "Remove an ad.", self.remove, None, ChangedReply, problems=(404, 409, 503)
            ),
            Endpoint(
                "ads", "POST", "/v1/ads/changes", "admin", "Change several ads, all or none.", self.change,
                ChangesRequest, ChangedReply, _LARGEST, problems=(409, 503),
            ),
        )  # fmt: skip

    @property
    def _index(self) -> AdIndex:
        return self._live.current.arms[0].engine.index

    def _number(self, name: str) -> int | None:
        if len(name) > LONGEST_AD:
            raise Problem(422, f"The name of an ad has at most {LONGEST_AD} characters; shorten it.")
        return self._index.number(name)

    async def read(self, name: str) -> AdReply:
        """An ad by its name."""
        index, number = self._index, self._number(name)
        if number is None:
            raise Problem(404, f"There is no ad {name[:100]!r} in the index; put it first.")
        record = index.record(number)
        campaign = index.campaign(record.campaign) if record.campaign >= 0 else None
        return AdReply(
            ad=record.name,
            phrases=[BidOn(phrase.text, MATCH_TYPES[phrase.match], phrase.bid) for phrase in record.phrases],
            negatives=[Negative(text, MATCH_TYPES[match]) for text, match in record.negatives],
            campaign="" if campaign is None else campaign.name,
            advertiser=record.advertiser or ("" if campaign is None else campaign.advertiser),
            page=record.page,
            title=record.title,
            text=record.text,
            extended=len(record.extended),
        )

    async def put(self, body: AdBody, name: str) -> ChangedReply:
        """Add or replace one ad."""
        self._number(name)
        given = {field: getattr(body, field) for field in AdBody.__struct_fields__}
        return await self._make([PutAd(ad=name, **given)])

    async def remove(self, name: str) -> ChangedReply:
        """Remove one ad."""
        if self._number(name) is None:
            raise Problem(404, f"There is no ad {name[:100]!r} in the index; nothing was removed.")
        return await self._make([RemoveAd(ad=name)])

    async def change(self, request: ChangesRequest) -> ChangedReply:
        """Make several changes."""
        return await self._make(request.changes)

    async def _make(self, changes: Sequence[AdChange]) -> ChangedReply:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._make_now, changes)

    def _make_now(self, changes: Sequence[AdChange]) -> ChangedReply:
        index = self._index
        with self._changing, index.change() as change:
            for one in changes:
                _apply(change, one)
        view = index.view()
        return ChangedReply(changed=len(changes), index=f"{view.postings}.{view.change}")


def _apply(change: AdChanges, one: AdChange) -> None:
    """One change, among others."""
    if isinstance(one, PutAd):
        about: dict[str, Any] = {name: getattr(one, name) for name in _ABOUT}
        phrases = [(bid.phrase, bid.match, bid.bid) for bid in one.phrases]
        change.put_ad(one.ad, phrases, negatives=_pairs(one.negatives), **about)
    elif isinstance(one, RemoveAd):
        change.remove_ad(one.ad)
    elif isinstance(one, SetBid):
        change.set_phrase(one.ad, one.phrase, one.match, one.bid)
    elif isinstance(one, RemoveBid):
        change.remove_phrase(one.ad, one.phrase, one.match)
    elif isinstance(one, SetBudget):
        change.set_budget(one.campaign, one.amount)
    elif (one.ad is None) == (one.campaign is None):
        raise Problem(422, "Negatives are those of an ad or of a campaign: give one of both.")
    elif one.ad is not None:
        change.set_negatives(one.ad, _pairs(one.negatives))
    elif one.campaign is not None:
        change.set_campaign_negatives(one.campaign, _pairs(one.negatives))


def _pairs(negatives: Sequence[Negative]) -> list[tuple[str, str]]:
    return [(one.phrase, one.match) for one in negatives]
