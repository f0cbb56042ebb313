"""Kinds of landing pages: those of figure 1 of the MLRF paper (WWW 2013), each hard for one side of its comparison."""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import I64
from broadmatch.simulate.verticals import VERTICALS

PREMIUM = 8
"""One brand in so many is premium, the best known of each vertical; more of their pages are images."""
PREMIUM_IMAGES, OTHER_IMAGES, ANIMATED = 0.2, 0.05, 0.5
TEMPLATE_SITES, MISLABELLED = 0.12, 0.08
TEXT_SHARE = 0.06
"""Of pages with text: those of each other kind, where it can be."""


class Kind(IntEnum):
    """What is special about a page; in brackets, the page of figure 1 that is like it."""

    PLAIN = 0
    IMAGES = 1
    """Almost all images, with telling file names (a: Geico)."""
    ANIMATION = 2
    """Pictures and an animation whose file names tell nothing (b: Domino's)."""
    RIVALS = 3
    """Names its rivals (c: MetLife)."""
    TEMPLATE = 4
    """Of a site whose navigation offers other things on every page (d: Vistaprint's T-shirts)."""
    ONE_SIDED = 5
    """Speaks of one product, though it sells many (e: KCS Flowers and funerals)."""
    GENERIC = 6
    """Full of generic phrases (f: Simone and Sylvia's)."""
    BOILERPLATE = 7
    """Says little of itself among notices that any site has (g: Mr Electric)."""
    AMONG_MISLABELLED = 8
    """A restaurant in whose city another of a different cuisine is clicked for the same queries (h: Wanta Thai)."""
    MISLABELLED = 9
    """A restaurant that the log takes for one of another cuisine."""
    MIXED = 10
    """Half one cuisine, half another."""

    @property
    def title(self) -> str:
        """The name in the truth.

        >>> Kind.ONE_SIDED.title
        'one-sided'
        """
        return self.name.lower().replace("_", "-" if self is Kind.ONE_SIDED else " ")


IMAGE_KINDS = (Kind.IMAGES, Kind.ANIMATION)


def restaurants() -> list[int]:
    """The verticals of one family whose pages can be mixed, and taken for each other."""
    return [v for v, known in enumerate(VERTICALS) if known.family == "restaurants"]


def draw_kinds(
    *,
    brand: I64,
    premium: NDArray[np.bool_],
    vertical: I64,
    second: I64,
    city: I64,
    wide: NDArray[np.bool_],
    rng: np.random.Generator,
) -> tuple[I64, I64]:
    """The kind of each page, and the vertical that it is taken for (-1: its own).

    `premium` says that its brand is one of the best known, `wide` that it sells several products.
    """
    n = len(brand)
    image = rng.random(n) < np.where(premium, PREMIUM_IMAGES, OTHER_IMAGES)
    animated = rng.random(n) < ANIMATED
    template = (rng.random(int(brand.max()) + 1) < TEMPLATE_SITES)[brand]
    family = restaurants()
    before = np.full(len(VERTICALS), -1)
    before[family] = np.roll(family, 1)
    fooled = (before[vertical] >= 0) & (second < 0) & (rng.random(n) < MISLABELLED)
    chance = rng.random(n) / TEXT_SHARE
    kind = np.select(
        [
            image & ~animated,
            image,
            second >= 0,
            fooled,
            template,
            chance < 1,
            (chance < 2) & wide,
            (chance >= 2) & (chance < 3),
            (chance >= 3) & (chance < 4) & (city >= 0),
        ],
        [
            Kind.IMAGES,
            Kind.ANIMATION,
            Kind.MIXED,
            Kind.MISLABELLED,
            Kind.TEMPLATE,
            Kind.RIVALS,
            Kind.ONE_SIDED,
            Kind.GENERIC,
            Kind.BOILERPLATE,
        ],
        Kind.PLAIN,
    )
    taken_for = np.where(kind == Kind.MISLABELLED, before[vertical], -1)
    wrong = kind == Kind.MISLABELLED
    among = np.isin(vertical * 1000 + city, taken_for[wrong] * 1000 + city[wrong]) & (kind == Kind.PLAIN) & (city >= 0)
    return np.where(among, Kind.AMONG_MISLABELLED, kind), taken_for
