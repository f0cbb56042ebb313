"""The truth of users: how relevant an ad is to their search, whether they click on it, when, and whether they stay."""

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Names
from broadmatch.kernels import F64, I64, Flags
from broadmatch.kernels.hashing import seed_of
from broadmatch.parallel import blocks
from broadmatch.simulate._users import draw_pairs
from broadmatch.simulate.queries import Intent
from broadmatch.simulate.relevance import PageSide, grades
from broadmatch.simulate.traffic import DayTraffic
from broadmatch.simulate.world import World

PLACES = 4
SEEN = np.array([1.0, 0.6, 0.4, 0.28])
"""Chance that a user looks at each place."""
SLIP = 0.005
"""Chance of a click for no reason."""
_WANTED = np.array([0.02, 0.12, 0.26, 0.42])
"""Chance that a seen ad of grade 0 to 3 is clicked."""
_IDLE = 0.05
"""Chance that a seen ad is clicked after a vague query: less than if it were wanted, more than if it were wrong."""
_AWAY = 0.4
"""What the chance of an ad for another city than the user's is multiplied by."""
_BY_DEVICE = np.array([1.0, 0.95, 1.1])
"""What the chance is multiplied by on each of DEVICES."""
_BOUNCE = np.array([0.8, 0.5, 0.3, 0.2])
"""Chance that a user who clicked on a page of true grade 0 to 3 leaves it at once."""
_SOON, _LATE, _LATER = 40.0, 0.05, 900.0
"""Seconds until a click in the mean, the share of clicks that come later, and by how much in the mean."""
_CLICK, _STAY, _DELAY, _IS_LATE, _MORE = range(5)
"""Numbers of the draws of a pair."""
_BLOCK = 1 << 17
"""Pairs graded at a time: as many as stay in the cache."""


def attraction(grade: NDArray[np.int8], quality: F64, away: Flags, vague: Flags) -> F64:
    """Chance that a seen ad is clicked: by its grade as it seems, its quality, its city, and what was asked."""
    wanted = np.where(vague, _IDLE, _WANTED[grade])
    chance: F64 = wanted * (0.5 + 2 / 3 * quality) * np.where(away, _AWAY, 1.0)
    return chance


class Users:
    """What users of the simulated world do with ads, on arrays: pair i is `page[i]` shown for row `search[i]` of a day.

    Pages are numbered as in the world. Chances are separable: place t has SEEN[t − 1]·attraction + SLIP. What happens
    is a hash of the seed, the search and the page: an ad that is clicked in one arm of an experiment is clicked in the
    same or a better place of another arm, after the same delay and with the same stay.
    """

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self._seed = seed_of(f"users {seed}")
        self._true = PageSide.of(world.pages, world.brands)
        self._seen = self._true.as_seen(world.pages.taken_for)
        self._numbers = {url: number for number, url in enumerate(world.pages.urls)}

    def page_numbers(self, pages: Names) -> I64:
        """The number of each page by its address, −1 for those of another world."""
        return np.array([self._numbers.get(page, -1) for page in pages], np.int64)

    def grade(self, page: I64, day: DayTraffic, search: I64) -> NDArray[np.int8]:
        """How relevant pages truly are: 3 the very thing, 2 good, 1 acceptable, 0 wrong."""
        return self._grades(self._true, page, day, search)

    def seen_grade(self, page: I64, day: DayTraffic, search: I64) -> NDArray[np.int8]:
        """How relevant pages seem to users before they click: some are taken for what they are not."""
        return self._grades(self._seen, page, day, search)

    def chance_first(self, page: I64, day: DayTraffic, search: I64) -> F64:
        """The true probability of a click in the first place: what an oracle predicts."""
        return self._attraction(page, day, search) + SLIP

    def at_places(self, first: F64) -> F64:
        """The probability of a click in each place (the last axis), from that in the first."""
        found: F64 = SEEN * (first - SLIP) + SLIP
        return found

    def chance(self, page: I64, day: DayTraffic, search: I64, place: I64) -> F64:
        """The true probability of a click in a place, counted from 1."""
        found: F64 = SEEN[place - 1] * self._attraction(page, day, search) + SLIP
        return found

    def clicks(self, page: I64, day: DayTraffic, search: I64, place: I64) -> Flags:
        """Which ads are clicked in these places."""
        clicked: Flags = self._draw(_CLICK, page, day, search) < self.chance(page, day, search, place)
        return clicked

    def delay(self, page: I64, day: DayTraffic, search: I64) -> F64:
        """Seconds from the search to the click, if it is clicked: mostly less than a minute, some many minutes."""
        soon, late, more = (self._draw(number, page, day, search) for number in (_DELAY, _IS_LATE, _MORE))
        waited: F64 = 1.0 - _SOON * np.log1p(-soon) - np.where(late < _LATE, _LATER * np.log1p(-more), 0.0)
        return waited

    def bounces(self, page: I64, day: DayTraffic, search: I64) -> Flags:
        """Who leaves the page at once, if it is clicked: more where it is truly less relevant."""
        left: Flags = self._draw(_STAY, page, day, search) < _BOUNCE[self.grade(page, day, search)]
        return left

    def _attraction(self, page: I64, day: DayTraffic, search: I64) -> F64:
        city = self.world.pages.city[page]
        away = (city >= 0) & (city != day.city[search])
        vague = (day.queries.intent == Intent.VAGUE)[day.query[search]]
        found = attraction(self.seen_grade(page, day, search), self.world.pages.quality[page], away, vague)
        found *= _BY_DEVICE[day.device[search]]
        return found

    def _grades(self, side: PageSide, page: I64, day: DayTraffic, search: I64) -> NDArray[np.int8]:
        found, query = np.empty(len(page), np.int8), day.query[search]
        for start, stop in blocks(len(page), _BLOCK):
            found[start:stop] = grades(side.take(page[start:stop]), day.meaning.take(query[start:stop]))
        return found

    def _draw(self, number: int, page: I64, day: DayTraffic, search: I64) -> F64:
        drawn = np.empty(len(page))
        draw_pairs(self._seed, day.key[search], np.ascontiguousarray(page), number, drawn)
        return drawn
