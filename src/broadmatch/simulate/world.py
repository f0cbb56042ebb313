"""The hidden side of the marketplace: who advertises, what each landing page sells, and where."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.simulate.kinds import PREMIUM, draw_kinds, restaurants
from broadmatch.simulate.verticals import CITIES, SYLLABLES, VERTICALS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

PAGES_PER_BRAND = 6
BRANDS_PER_SEGMENT = 5
MIXED_SHARE = 0.15


class Columns:
    """Base of data classes whose fields are arrays of one length."""

    def take(self, rows: Any) -> Self:
        """The given rows of every column."""
        return type(self)(*(column[rows] for column in vars(self).values()))


@dataclass(frozen=True)
class Brands:
    """Advertisers: name, vertical, city (-1: the whole country), segment of rivals, the next rival, what it offers."""

    names: list[str]
    vertical: Ints
    city: Ints
    segment: Ints
    rival: Ints
    products: Ints
    attributes: Ints
    first: Ints
    """Brands of vertical v are first[v] to first[v + 1]."""

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class Pages:
    """Landing pages, in columns; products and attributes are bit sets over the vertical's tuples.

    `second` is the other vertical of a mixed page (-1: none); `focus` marks pages about one or two products;
    `city` is -1 for pages that serve the whole country; `taken_for` is the vertical that the log takes a page for, if
    not its own (-1: its own).
    """

    urls: list[str]
    brand: Ints
    vertical: Ints
    second: Ints
    city: Ints
    products: Ints
    second_products: Ints
    attributes: Ints
    focus: NDArray[np.bool_]
    kind: Ints
    taken_for: Ints
    bid: Floats
    quality: Floats

    def __len__(self) -> int:
        return len(self.urls)


@dataclass(frozen=True)
class World:
    """Brands and pages, drawn from a seed."""

    brands: Brands
    pages: Pages
    n_cities: int


def zipf(n: int, exponent: float = 1.0, shift: float = 1.0) -> Floats:
    """Probabilities of ranks 0 to n-1, falling as (rank + shift)^-exponent.

    >>> zipf(3).round(2).tolist()
    [0.55, 0.27, 0.18]
    """
    weight = (np.arange(n) + shift) ** -exponent
    probability: Floats = weight / weight.sum()
    return probability


def make_world(n_pages: int, rng: np.random.Generator) -> World:
    """Draw brands and their landing pages; every vertical gets at least one brand."""
    n_verticals = len(VERTICALS)
    per_vertical = rng.multinomial(max(0, n_pages - n_verticals), rng.permutation(zipf(n_verticals, 0.5, 3.0))) + 1
    n_cities = int(np.clip(n_pages // 150, 6, len(CITIES)))
    brands = _make_brands(np.maximum(1, per_vertical // PAGES_PER_BRAND), n_cities, rng)
    return World(brands, _make_pages(brands, per_vertical, n_cities, rng), n_cities)


def _make_brands(counts: Ints, n_cities: int, rng: np.random.Generator) -> Brands:
    first = np.concatenate([[0], np.cumsum(counts)])
    total = int(first[-1])
    vertical = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(total) - first[vertical]
    local = np.array([v.local for v in VERTICALS])[vertical]
    city = np.where(rng.random(total) < local, rng.choice(n_cities, total, p=zipf(n_cities, 0.7, 2.0)), -1)
    # Rivals: each vertical's brands in groups of five; the last group wraps to its own start.
    segment = first[vertical] + place // BRANDS_PER_SEGMENT
    following = np.arange(1, total + 1)
    start = first[vertical] + place // BRANDS_PER_SEGMENT * BRANDS_PER_SEGMENT
    ends = np.concatenate([segment[1:] != segment[:-1], [True]])
    rival = np.where(ends, start, following)
    n_products = np.array([len(v.products) for v in VERTICALS])[vertical]
    n_attributes = np.array([len(v.attributes) for v in VERTICALS])[vertical]
    return Brands(
        _brand_names(vertical, random.Random(int(rng.integers(2**31)))),
        vertical,
        city,
        segment,
        rival,
        _subset(n_products, rng.uniform(0.4, 0.9, total), rng),
        _subset(n_attributes, rng.uniform(0.3, 0.7, total), rng),
        first,
    )


def _subset(n: Ints, share: Floats, rng: np.random.Generator) -> Ints:
    """A random bit set of range(n) in each row, with at least one bit."""
    width = int(n.max())
    chosen = (rng.random((len(n), width)) < share[:, None]) & (np.arange(width) < n[:, None])
    chosen[np.arange(len(n)), rng.integers(0, n)] = True
    bits: Ints = chosen @ (1 << np.arange(width))
    return bits


def _brand_names(vertical: Ints, rng: random.Random) -> list[str]:
    """The hand-written names first, then syllables and a word of the trade; no name twice."""
    written = [list(v.brands) for v in VERTICALS]
    names: dict[str, None] = {}
    for v in vertical:
        name = written[v].pop(0) if written[v] else ""
        while not name or name in names:
            stem = "".join(rng.choice(part) for part in SYLLABLES[: rng.choice((2, 3, 3))]).capitalize()
            if rng.random() < 0.15:
                stem += f" & {rng.choice(SYLLABLES[0])}{rng.choice(SYLLABLES[2])}".title()
            name = f"{stem} {rng.choice(VERTICALS[v].suffixes)}"
        names[name] = None
    return list(names)


def _make_pages(brands: Brands, per_vertical: Ints, n_cities: int, rng: np.random.Generator) -> Pages:
    brand = np.concatenate([_brands_of_pages(brands, v, int(n), rng) for v, n in enumerate(per_vertical)])
    n = len(brand)
    vertical = brands.vertical[brand]
    home = np.concatenate([[True], brand[1:] != brand[:-1]])
    kind = rng.random(n)
    focus = ~home & (kind < 0.6)
    branch = ~home & (kind >= 0.6) & (kind < 0.85) & (brands.city[brand] < 0)
    city = np.where(branch, rng.choice(n_cities, n, p=zipf(n_cities, 0.7, 2.0)), brands.city[brand])
    second = _second_vertical(vertical, focus, rng)
    n_products = np.array([len(v.products) for v in VERTICALS])
    products = np.where(focus, _few_of(brands.products[brand], rng), brands.products[brand])
    mixed = second >= 0
    half = _subset(n_products[vertical], np.full(n, 0.5), rng) & products
    return Pages(
        _urls(brands, brand, city, products, focus, vertical),
        brand,
        vertical,
        second,
        city,
        np.where(mixed & (half > 0), half, products),
        np.where(mixed, _subset(n_products[np.maximum(second, 0)], np.full(n, 0.5), rng), 0),
        np.where(focus, _few_of(brands.attributes[brand], rng), brands.attributes[brand]),
        focus,
        *draw_kinds(
            brand=brand,
            premium=(brand - brands.first[vertical]) * PREMIUM < np.diff(brands.first)[vertical],
            vertical=vertical,
            second=second,
            city=city,
            wide=~focus & (np.bitwise_count(products) > 2),
            rng=rng,
        ),
        np.exp(rng.normal(0.0, 0.4, n)),
        rng.beta(6, 6, n) + 0.25,
    )


def _brands_of_pages(brands: Brands, vertical: int, n: int, rng: np.random.Generator) -> Ints:
    """The brand of each of a vertical's pages: one page each, the others by Zipf's law."""
    first, last = int(brands.first[vertical]), int(brands.first[vertical + 1])
    extra = rng.multinomial(n - (last - first), zipf(last - first, 0.8, 2.0))
    return np.repeat(np.arange(first, last), 1 + extra)


def _second_vertical(vertical: Ints, focus: NDArray[np.bool_], rng: np.random.Generator) -> Ints:
    """Some pages serve two verticals of one family: half Thai, half Italian."""
    second = np.full(len(vertical), -1)
    chance = rng.random(len(vertical)) < MIXED_SHARE
    family = restaurants()
    for v in family:
        rows = np.flatnonzero((vertical == v) & chance & ~focus)
        second[rows] = rng.choice([other for other in family if other != v], len(rows))
    return second


def _few_of(bits: Ints, rng: np.random.Generator) -> Ints:
    """One or two of the bits set in each row."""
    width = 16
    draw = rng.random((len(bits), width)) + 2.0 * ((bits[:, None] >> np.arange(width)) & 1 == 0)
    order = np.argsort(draw, axis=1)[:, :2]
    one, two = 1 << order[:, 0], 1 << order[:, 1]
    few: Ints = np.where(rng.random(len(bits)) < 0.5, one, (one | two) & bits)
    return few


def members(bits: int, words: Sequence[str]) -> list[str]:
    """The words of a bit set.

    >>> members(5, ("red", "green", "blue"))
    ['red', 'blue']
    """
    return [word for i, word in enumerate(words) if bits >> i & 1]


def slug(text: str) -> str:
    """A text as part of a web address.

    >>> slug("Bloom & Barrow")
    'bloom-barrow'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _urls(
    brands: Brands, brand: Ints, city: Ints, products: Ints, focus: NDArray[np.bool_], vertical: Ints
) -> list[str]:
    urls: dict[str, None] = {}
    for i in range(len(brand)):
        parts = [f"https://www.{slug(brands.names[brand[i]]).replace('-', '')}.example"]
        if focus[i]:
            parts += [slug(members(int(products[i]), VERTICALS[vertical[i]].products)[0])]
        elif city[i] >= 0 and brands.city[brand[i]] < 0:
            parts += ["locations", slug(CITIES[city[i]])]
        url = "/".join(parts) + "/"
        if url in urls:
            url += f"offer-{i}"
        urls[url] = None
    return list(urls)
