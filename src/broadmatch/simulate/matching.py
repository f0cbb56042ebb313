"""The ads of the log: which of them match a query, which a search shows, and which are clicked."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from broadmatch import progress
from broadmatch.ads._auction import BELOW_RESERVE, GSP, OUTRANKED, allot_places
from broadmatch.parallel import blocks
from broadmatch.simulate.queries import Intent, Queries
from broadmatch.simulate.relevance import PageSide, QuerySide, grades
from broadmatch.simulate.sessions import Searches
from broadmatch.simulate.users import PLACES, SEEN, SLIP, attraction
from broadmatch.simulate.world import Floats, Ints, Pages, World

CANDIDATES = 40
"""Ads that can win a query, at most."""
_MATCH = np.array([-2.2, 0.0, 0.4, 0.8], np.float32)
"""What the matcher makes of grades 0 to 3, in logarithms; it errs, so wrong ads get in."""
_PHRASE_SPREAD = 1.0
"""Spread of an advertiser's bids from phrase to phrase, in logarithms."""
_MOOD = 0.6
"""Scale of the luck of a single auction (Gumbel)."""
_RESERVE = -1.1
_ELSEWHERE = -1.5
"""What an ad for another city than the user's loses."""
_ASTRAY = 0.02
"""Share of positions given to any ad at all."""


@dataclass(frozen=True)
class Candidates:
    """For each distinct query its best ads: page (-1: none), log score before luck, and grade as it seems to users."""

    page: NDArray[np.int32]
    score: NDArray[np.float32]
    grade: NDArray[np.int8]

    def bids(self, query: Ints, place: Ints, pages: Pages) -> Floats:
        """What the ads at these places of these queries bid."""
        money = np.exp(self.score[query, place] - _MATCH[self.grade[query, place]])
        bid: Floats = money / pages.quality[self.page[query, place]]
        return bid


@dataclass(frozen=True)
class ShownAds:
    """Ads in order of search and position: row of the search, page, position, money, click."""

    search: Ints
    page: Ints
    position: Ints
    bid: NDArray[np.float32]
    price: NDArray[np.float32]
    clicked: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.search)


def find_candidates(world: World, queries: Queries, rng: np.random.Generator) -> Candidates:
    """Match every distinct query with the ads that bid most for it, good matches preferred."""
    found = Candidates(
        np.full((len(queries), CANDIDATES), -1, np.int32),
        np.full((len(queries), CANDIDATES), -np.inf, np.float32),
        np.zeros((len(queries), CANDIDATES), np.int8),
    )
    page_side = PageSide.of(world.pages, world.brands).as_seen(world.pages.taken_for)
    query_side = QuerySide.of(queries, world.brands)
    base = np.log(world.pages.bid * world.pages.quality).astype(np.float32)
    with progress.task("Matching queries with ads", total=len(queries), unit="queries") as task:
        for vertical in np.unique(queries.vertical):
            pages = np.flatnonzero((page_side.vertical == vertical) | (page_side.second == vertical))
            rows = np.flatnonzero(queries.vertical == vertical)
            side = page_side.take(pages)
            keep = min(CANDIDATES, len(pages))
            for start, stop in blocks(len(rows), max(1, 2_000_000 // len(pages))):
                block = rows[start:stop]
                grade = grades(side, query_side.take(block).as_column())
                score = base[pages] + _MATCH[grade]
                score += rng.standard_normal(score.shape, np.float32) * np.float32(_PHRASE_SPREAD)
                best = np.argpartition(-score, keep - 1, axis=1)[:, :keep]
                found.page[block, :keep] = pages[best]
                found.score[block, :keep] = np.take_along_axis(score, best, axis=1)
                found.grade[block, :keep] = np.take_along_axis(grade, best, axis=1)
                task.advance(len(block))
    return found


def run_auctions(
    world: World, searches: Searches, query_of: Ints, candidates: Candidates, rng: np.random.Generator
) -> ShownAds:
    """Rank the candidates of each search by bid × quality, show the first, and let the user click."""
    parts = []
    with progress.task("Running auctions", total=len(query_of), unit="searches") as task:
        for start, stop in blocks(len(query_of), 50_000):
            parts.append(_auction_block(world, searches, query_of, candidates, start, stop, rng))
            task.advance(stop - start)
    return ShownAds(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _auction_block(
    world: World,
    searches: Searches,
    query_of: Ints,
    candidates: Candidates,
    start: int,
    stop: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.generic], ...]:
    query, pages = query_of[start:stop], world.pages
    page = candidates.page[query]
    away = (pages.city[page] >= 0) & (pages.city[page] != searches.city[start:stop, None])
    luck = np.maximum(rng.standard_exponential(page.shape, np.float32), np.float32(1e-30))
    score = np.exp(candidates.score[query] + _ELSEWHERE * away - np.float32(_MOOD) * np.log(luck))
    row, share = _places(score)

    rows, position = np.nonzero(row >= 0)
    place = row[rows, position] - rows * CANDIDATES
    bid = candidates.bids(query[rows], place, pages)
    price = bid * share[rows, position]
    chosen = page[rows, place].astype(np.int64)
    astray = rng.random(len(rows)) < _ASTRAY
    chosen[astray] = rng.integers(0, len(pages), int(astray.sum()))
    good = np.where(astray, 0, candidates.grade[query[rows], place])
    vague = (searches.queries.intent[start:stop][rows] == Intent.VAGUE) & ~astray
    chance = SEEN[position] * attraction(good, pages.quality[chosen], away[rows, place], vague) + SLIP
    clicked = rng.random(len(rows)) < chance
    return rows + start, chosen, position + 1, bid.astype(np.float32), price.astype(np.float32), clicked


def _places(score: Floats) -> tuple[Ints, Floats]:
    """Who stands in each place of each search (a row of `score`), and the share of the bid that a click costs."""
    n, reserve = len(score), float(np.exp(_RESERVE))
    outcome = np.where(score >= reserve, OUTRANKED, BELOW_RESERVE).astype(np.uint8).ravel()
    row, share = np.empty((n, PLACES), np.int64), np.empty((n, PLACES))
    starts, no_owners = np.arange(n + 1) * CANDIDATES, np.empty(0, np.int64)
    allot_places(
        starts, np.ones(score.size), no_owners, SEEN, reserve, GSP, score.ravel(), outcome, row.ravel(), share.ravel()
    )
    return row, share
