"""How far apart in meaning two queries are: which of an ad's phrases a query should go with, as the truth has it."""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.csr import offsets
from broadmatch.data.names import Names
from broadmatch.simulate.queries import Intent
from broadmatch.simulate.relevance import QuerySide
from broadmatch.simulate.truth import read_queries
from broadmatch.simulate.world import Ints

NEEDED, ATTRIBUTE, INTENT = 2.0, 1.0, 0.5
"""What a difference costs: in brand, product or city, without which a page is wrong or of a rival; in an attribute,
which costs a page one grade (`relevance.grades`); in the intent, which tells equals apart."""


def meaning_distances(
    path: str | os.PathLike[str], queries: Names, phrases: Names, query: Ints, phrase: Ints
) -> NDArray[np.float64]:
    """How far the meanings of queries[query[i]] and phrases[phrase[i]] are apart, in the marketplace folder `path`.

    For each of brand, product, city and attribute: nothing if both say the same or nothing, the cost if only one says
    something, twice the cost if they say different things; one of the two brands of "one vs two" is the same. Another
    intent costs a little. What is of another trade, or vague, is infinitely far, and so is a text that the marketplace
    does not know. Of texts with several meanings the nearest count. The right phrases of a query among those of an ad
    are the nearest, all of them if several are.
    """
    names, side = read_queries(Path(path))
    numbers: dict[str, int] = {}
    text = np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)
    order = np.argsort(text, kind="stable")
    first, count = offsets(np.bincount(text)), np.bincount(text)
    asked, bid = (
        np.array([numbers.get(name, -1) for name in some], np.int64)[rows]
        for some, rows in ((queries, query), (phrases, phrase))
    )
    found = np.full(len(query), np.inf)
    known = np.flatnonzero((asked >= 0) & (bid >= 0))
    for i in range(int(count.max(initial=0))):
        for j in range(int(count.max(initial=0))):
            rows = known[(count[asked[known]] > i) & (count[bid[known]] > j)]
            one, other = (side.take(order[first[some[rows]] + k]) for some, k in ((asked, i), (bid, j)))
            found[rows] = np.minimum(found[rows], _distances(one, other))
    return found


def _distances(one: QuerySide, other: QuerySide) -> NDArray[np.float64]:
    total = np.where(one.intent == other.intent, 0.0, INTENT)
    versus = ((one.other >= 0) & (one.other == other.brand)) | ((other.other >= 0) & (other.other == one.brand))
    for name, cost in (("brand", NEEDED), ("product", NEEDED), ("city", NEEDED), ("attribute", ATTRIBUTE)):
        a, b = getattr(one, name), getattr(other, name)
        apart = np.where(a == b, 0.0, np.where((a >= 0) & (b >= 0), 2.0, 1.0))
        total += cost * (np.where(versus, 0.0, apart) if name == "brand" else apart)
    vague = (one.intent == Intent.VAGUE) | (other.intent == Intent.VAGUE)
    return np.where((one.vertical != other.vertical) | vague, np.inf, total)
