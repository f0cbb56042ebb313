"""Impressions as they are answered and logged: bytes joined to bytes, and no object for an impression."""

from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np
from msgspec import json

from broadmatch.ads import AdAnswers
from broadmatch.ads.engine.context import first_words
from broadmatch.ads.index._match import MOST_WORDS
from broadmatch.io import EventBatch
from broadmatch.io.event_log.kinds import KINDS
from broadmatch.serve.endpoints.ad_texts import AdTexts
from broadmatch.serve.impression_ids import ImpressionIds
from broadmatch.serve.messages import Scalar, SearchRequest

_IMPRESSIONS = KINDS.index("impressions")


class Search(NamedTuple):
    """A search that is to be answered: `key` names its auction, `time` is in microseconds, `query` is normalised."""

    request: SearchRequest
    key: int
    time: int
    query: str


class ShownEvents:
    """Collects the impressions of searches, to be logged together."""

    def __init__(self, ids: ImpressionIds) -> None:
        self._ids = ids
        self._names: list[str] = []
        self._payloads: list[bytes] = []
        self._times: list[int] = []

    def __len__(self) -> int:
        return len(self._names)

    def add(self, searches: list[Search], answers: AdAnswers, texts: AdTexts, arm: str, version: str) -> list[str]:
        """The answers to some searches, but for their end; their impressions are collected."""
        counts, ads, phrases, matches, judged = _shown(answers)
        numbers = json.encode(judged)[1:-1].decode().split(",")  # all at once: the shortest text of a float takes long
        known, wordings = texts.ads, texts.phrases
        abouts = [known.get(ad) or texts.ad(ad) for ad in ads]
        keyed = [(one.key, place) for one, n in zip(searches, counts, strict=True) for place in range(1, n + 1)]
        charges = zip(keyed, abouts, judged[1::4], strict=True)
        names = self._ids.make_many([(*key, about.campaign, price) for key, about, price in charges])
        made_by = f'"arm":"{arm}","version":"{version}"'
        versions = f'","versions":{{"arm":"{arm}","clicks":"{version}","index":"{texts.version}"}},"places":['
        replies: list[str] = []
        payloads, i = self._payloads, 0
        for (request, key, time, query), count in zip(searches, counts, strict=True):
            search = f"{key:016x}"
            places: list[str] = []
            before, after = _around(request, query, search, made_by)
            for place in range(1, count + 1):
                about, match = abouts[i], (phrases[i], matches[i])
                wording = wordings.get(match) or texts.phrase(*match)
                bid, price, probability, uncertainty = numbers[4 * i : 4 * i + 4]
                end = f'"bid":{bid},"price":{price},"probability":{probability},"uncertainty":{uncertainty}'
                payloads.append(f'{before}{about.event},{wording},"position":{place},{end}{after}'.encode())
                places.append(f'{{"impression":"{names[i]}","place":{place},{about.answer},{wording},{end}}}')
                i += 1
            self._times += [time] * count
            replies.append(f'{{"search":"{search}{versions}{",".join(places)}]')
        self._names += names
        return replies

    def batch(self) -> EventBatch:
        """The impressions as the log takes them."""
        n, ids = len(self._names), "".join(self._names).encode()
        return EventBatch(
            np.array(self._times, np.int64),
            np.full(n, _IMPRESSIONS, np.uint8),
            np.frombuffer(bytearray(ids), np.uint8),
            np.arange(0, len(ids) + 1, len(ids) // n),
            np.frombuffer(bytearray().join(self._payloads), np.uint8),
            np.array([0, *accumulate(map(len, self._payloads))], np.int64),
        )


class _ShownColumns(NamedTuple):
    """Who is shown: how many for each search, and by impression; `judged` has four numbers each."""

    counts: list[int]
    ads: list[int]
    phrases: list[int]
    matches: list[int]
    judged: list[float]


def _shown(answers: AdAnswers) -> _ShownColumns:
    """Who is shown, as plain lists; numbers are bid, price, probability and uncertainty."""
    result, found = answers.result, answers.candidates
    if len(result) == 1:
        (row,) = result.row.tolist()
        count = row.index(-1) if row[-1] < 0 else len(row)
        rows = result.row[0, :count]
        ad, phrase, match = found.ad[rows].tolist(), found.phrase[rows].tolist(), found.match[rows].tolist()
        bid, price = found.bid[rows].tolist(), result.price[0, :count].tolist()
        judged = zip(bid, price, answers.probability[rows].tolist(), answers.uncertainty[rows].tolist(), strict=True)
        return _ShownColumns([count], ad, phrase, match, list(chain.from_iterable(judged)))
    there = result.row >= 0
    rows = result.row[there]
    numbers = np.empty((len(rows), 4))
    numbers[:, 0], numbers[:, 1] = found.bid[rows], result.price[there]
    numbers[:, 2], numbers[:, 3] = answers.probability[rows], answers.uncertainty[rows]
    ad, phrase, match = (column[rows].tolist() for column in (found.ad, found.phrase, found.match))
    return _ShownColumns(there.sum(axis=1).tolist(), ad, phrase, match, numbers.ravel().tolist())


def _around(request: SearchRequest, query: str, search: str, made_by: str) -> tuple[str, str]:
    """What all payloads of a search begin and end with."""
    known: dict[str, Scalar] = {"query": first_words(query, MOST_WORDS)}
    known |= {name: value for name, value in request.context.items() if value is not None}
    session = "" if request.session is None else f',"session":{json.encode(request.session).decode()}'
    return f"{json.encode(known)[:-1].decode()},", f',{made_by},"search":"{search}"{session}}}\n'
