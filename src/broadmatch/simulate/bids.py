"""Phrases that ads bid on, as advertisers choose them: most fit, some are a rival's, generic or wrong."""

from typing import Any

import numpy as np

from broadmatch.simulate.matching import Candidates
from broadmatch.simulate.queries import Intent, Queries
from broadmatch.simulate.world import Ints, World

MATCHES = ("exact", "phrase", "broad")
_SHORT, _LONG = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.3, 0.2])
"""Shares of the match types for phrases of up to two words, and of more."""
_TASTE = np.array([0.02, 0.5, 1.0, 1.5])
"""How readily an advertiser takes a phrase of grade 0 to 3, as it seems to him."""
_VAGUE_TASTE = 0.3
_PHRASES, _SPREAD, _MOST = 25.0, 0.8, 400
"""Phrases of an ad: the middle, the spread in logarithms, and the most."""


def bids_table(
    world: World,
    queries: Queries,
    candidates: Candidates,
    names: list[str],
    text_of: Ints,
    searches: Ints,
    rng: np.random.Generator,
) -> Any:
    """Phrases by ad, in order of ads and of phrases: advertiser, ad, page, phrase, match, bid.

    Advertisers choose among queries that were searched twice or more and are spelled right, popular ones first; the
    bid is the one of the log. `names` are the texts of queries, `text_of` numbers the text of each query.
    """
    import pyarrow as pa

    asked = np.flatnonzero((queries.spelling == 0) & (searches >= 2))
    row, place = np.nonzero(candidates.page[asked] >= 0)
    query = asked[row]
    page = candidates.page[query, place].astype(np.int64)
    taste = np.where(queries.intent[query] == Intent.VAGUE, _VAGUE_TASTE, _TASTE[candidates.grade[query, place]])
    wish = np.log(taste * np.sqrt(searches[query])) + rng.gumbel(size=len(query))
    order = np.lexsort((-wish, page))
    order = order[_first_of_each(page[order] * len(names) + text_of[query[order]])]
    per_page = np.bincount(page[order], minlength=len(world.pages))
    wanted = np.exp(rng.normal(np.log(_PHRASES), _SPREAD, len(per_page))).astype(np.int64)
    rank = np.arange(len(order)) - np.repeat(np.cumsum(per_page) - per_page, per_page)
    chosen = order[rank < np.clip(wanted, 3, _MOST)[page[order]]]
    chosen = chosen[np.lexsort((text_of[query[chosen]], page[chosen]))]
    page, query, place = page[chosen], query[chosen], place[chosen]
    text = text_of[query]
    words = np.array([name.count(" ") + 1 for name in names])[text]
    shares = np.where((words <= 2)[:, None], np.cumsum(_SHORT), np.cumsum(_LONG))
    match = (rng.random(len(text))[:, None] > shares[:, :-1]).sum(axis=1)
    return pa.table(
        {
            "advertiser": pa.array(world.brands.names).take(world.pages.brand[page]),
            "ad": page,
            "page": pa.array(world.pages.urls).take(page),
            "phrase": pa.array(names).take(text),
            "match": pa.array(MATCHES).take(match),
            "bid": candidates.bids(query, place, world.pages).astype(np.float32),
        }
    )


def _first_of_each(keys: Ints) -> Ints:
    """Where each key occurs first, in order of place."""
    return np.sort(np.unique(keys, return_index=True)[1])
