"""Impressions as they are answered and logged: bytes joined to bytes, and no object for an impression."""

from typing import NamedTuple

import numpy as np
from msgspec import json

from broadmatch.ads import AdAnswers
from broadmatch.ads.engine.context import first_words
from broadmatch.ads.index._match import MOST_WORDS
from broadmatch.io import EventBatch
from broadmatch.io.event_log.kinds import KINDS
from broadmatch.serve.endpoints.ad_texts import AdTexts
from broadmatch.serve.impression_ids import Charge, ImpressionIds
from broadmatch.serve.messages import MatchRequest, Scalar

_IMPRESSIONS = KINDS.index("impressions")


class Search(NamedTuple):
    """A search that is to be answered: `key` names its auction, `time` is in microseconds, `query` is normalised."""

    request: MatchRequest
    key: int
    time: int
    query: str


class ShownEvents:
    """Collects the impressions of searches, to be logged together."""

    def __init__(self, ids: ImpressionIds) -> None:
        self._ids = ids
        self._names: list[str] = []
        self._payloads: list[bytes] = []
        self._lengths: list[int] = []
        self._times: list[int] = []

    def __len__(self) -> int:
        return len(self._names)

    def add(
        self, searches: list[Search], answers: AdAnswers, texts: AdTexts, arm: str, version: str
    ) -> list[list[bytes]]:
        """The answers to some searches, but for their end; their impressions are collected."""
        row, found = answers.result.row, answers.candidates
        shown = row >= 0
        rows = row[shown]
        columns = (found.ad, found.phrase, found.match, found.bid, answers.probability, answers.uncertainty)
        values = zip(*(column[rows].tolist() for column in columns), answers.result.price[shown].tolist(), strict=True)
        made_by = f'"arm":"{arm}","version":"{version}"'
        versions = f'","versions":{{"arm":"{arm}","clicks":"{version}","index":"{texts.version}"}},"places":['
        replies, make = list[list[bytes]](), self._ids.make
        known_ads, known_phrases = texts.ads, texts.phrases
        for (request, key, time, query), count in zip(searches, shown.sum(axis=1).tolist(), strict=True):
            search = f"{key:016x}"
            before, after = _around(request, query, search, made_by)
            reply = [f'{{"search":"{search}{versions}'.encode()]
            for place in range(1, count + 1):
                ad, phrase, match, bid, probability, uncertainty, price = next(values)
                about = known_ads.get(ad) or texts.ad(ad)
                wording = known_phrases.get((phrase, match)) or texts.phrase(phrase, match)
                judged = f'"bid":{bid!r},"price":{price!r},"probability":{probability!r},"uncertainty":{uncertainty!r}'
                name = make(Charge(key, place, about.campaign, price))
                payload = b"".join(
                    (before, about.event, b",", wording, f',"position":{place},{judged}'.encode(), after)
                )
                comma = "," if place > 1 else ""
                opening = f'{comma}{{"impression":"{name}","place":{place},'.encode()
                reply += (opening, about.answer, b",", wording, f",{judged}}}".encode())
                self._names.append(name)
                self._payloads.append(payload)
                self._lengths.append(len(payload))
            self._times += [time] * count
            replies.append(reply)
        return replies

    def batch(self) -> EventBatch:
        """The impressions as the log takes them."""
        n = len(self._names)
        ids, payloads = "".join(self._names).encode(), b"".join(self._payloads)
        payload_ptr = np.zeros(n + 1, np.int64)
        np.cumsum(self._lengths, out=payload_ptr[1:])
        return EventBatch(
            np.array(self._times, np.int64),
            np.full(n, _IMPRESSIONS, np.uint8),
            np.frombuffer(bytearray(ids), np.uint8),
            np.arange(n + 1, dtype=np.int64) * (len(ids) // n),
            np.frombuffer(bytearray(payloads), np.uint8),
            payload_ptr,
        )


def _around(request: MatchRequest, query: str, search: str, made_by: str) -> tuple[bytes, bytes]:
    """What all payloads of a search begin and end with."""
    known: dict[str, Scalar] = {"query": first_words(query, MOST_WORDS)}
    known |= {name: value for name, value in request.context.items() if value is not None}
    session = b"" if request.session is None else b',"session":' + json.encode(request.session)
    after = f',{made_by},"search":"{search}"'.encode() + session + b"}\n"
    return json.encode(known)[:-1] + b",", after
