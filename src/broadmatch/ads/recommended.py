"""What a recommender of phrases says of the pages of ads: queries to show the ads for, beyond what they bid on."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np

from broadmatch.ads.inventory import Inventory
from broadmatch.data import Names
from broadmatch.harvest.page_names import plain_page
from broadmatch.harvest.queries import normalise_query
from broadmatch.kernels import F64, I64
from broadmatch.labels import Recommender
from broadmatch.params import Whole


class _Named(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def html(self) -> bytes | str: ...


class RecommendedQueries(NamedTuple):
    """Queries for ads, one a row, best first of each ad: the ad's row in the inventory, and the score."""

    query: Names
    ad: I64
    score: F64


def own_phrases(inventory: Inventory) -> list[list[str]]:
    """The phrases of each ad, spelled as queries.

    >>> row = {"ad": "red", "page": "a.html", "phrase": "Red Shoes!", "match": "broad", "bid": 0.5}
    >>> own_phrases(Inventory.from_rows([row]))
    [['red shoes']]
    """
    phrases: dict[int, list[str]] = {}
    for phrase, group in zip(inventory.phrases, inventory.phrase_group.tolist(), strict=True):
        phrases.setdefault(group, []).append(normalise_query(phrase))
    return [phrases.get(group, []) for group in inventory.ad_group.tolist()]


def recommend_for_ads(
    recommender: Recommender, inventory: Inventory, pages: Iterable[_Named], k: int = 100
) -> RecommendedQueries:
    """The `k` best queries for the page of each ad that is among `pages`, beside the phrases that it bids on.

    A model for warm starts (`SwiftXML`) learns from these phrases; others leave them out. Pages are matched by their
    addresses without tracking parameters.
    """
    Whole(1).check("k", k)
    own, ads = own_phrases(inventory), dict[str, list[int]]()
    for ad, page in enumerate(inventory.pages):
        ads.setdefault(plain_page(page), []).append(ad)
    there = [(ad, page.html) for page in pages for ad in ads.pop(plain_page(page.name), ())]
    answers = recommender.recommend([html for _, html in there], k, revealed=[own[ad] for ad, _ in there])
    queries, of, scores = [], [], []
    for (ad, _), answer in zip(there, answers, strict=True):
        mine = set(own[ad])
        for phrase, score in answer.phrases:
            if phrase not in mine:
                queries.append(phrase)
                of.append(ad)
                scores.append(score)
    return RecommendedQueries(Names.of(queries), np.array(of, np.int64), np.array(scores, np.float64))
