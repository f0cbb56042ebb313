"""The truth: how relevant a page is to a query, from what the page sells and what the query means."""

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from broadmatch.simulate.queries import Intent, Queries
from broadmatch.simulate.world import Brands, Columns, Ints, Pages


@dataclass(frozen=True)
class PageSide(Columns):
    """The columns of pages that decide relevance."""

    brand: Ints
    vertical: Ints
    second: Ints
    city: Ints
    products: Ints
    second_products: Ints
    attributes: Ints
    segment: Ints
    focus: NDArray[np.bool_]

    @classmethod
    def of(cls, pages: Pages, brands: Brands) -> "PageSide":
        same = {f.name: getattr(pages, f.name) for f in fields(cls) if f.name != "segment"}
        return cls(**same, segment=brands.segment[pages.brand])

    def as_seen(self, taken_for: Ints) -> "PageSide":
        """What the matcher and users make of pages: one that is taken for another vertical seems to sell all of it."""
        fooled = taken_for >= 0
        everything = np.where(fooled, (1 << 16) - 1, self.second_products)
        return replace(self, second=np.where(fooled, taken_for, self.second), second_products=everything)


@dataclass(frozen=True)
class QuerySide(Columns):
    """The columns of queries that decide relevance; `other` is the second brand of "one vs two"."""

    intent: Ints
    vertical: Ints
    brand: Ints
    other: Ints
    segment: Ints
    brand_city: Ints
    city: Ints
    product: Ints
    attribute: Ints

    @classmethod
    def of(cls, queries: Queries, brands: Brands) -> "QuerySide":
        branded = queries.brand >= 0
        brand = np.maximum(queries.brand, 0)
        return cls(
            queries.intent,
            queries.vertical,
            queries.brand,
            np.where(queries.intent == Intent.VERSUS, brands.rival[brand], -1),
            np.where(branded, brands.segment[brand], -1),
            np.where(branded, brands.city[brand], -1),
            queries.city,
            queries.product,
            queries.attribute,
        )

    def as_column(self) -> "QuerySide":
        """Shaped to be held against a row of pages."""
        return self.take((slice(None), None))


def grades(page: PageSide, query: QuerySide) -> NDArray[np.int8]:
    """Grade pages for queries, by numpy's broadcasting: 3 the very thing, 2 good, 1 acceptable, 0 wrong.

    A page must sell in the query's vertical; a product that is asked for must be on the page; a city that is named
    must be the page's, unless the page serves the whole country. Then:
    own brand 3, rival of the same segment 1 (a local rival only for a brand of its city or of the whole country);
    product 3 on a page about that product, 2 on a page that has it among others;
    generic, price or local 2, but 1 on a page about one product; questions 1;
    a vague query 0, for it does not tell what is wanted.
    An attribute that the page does not offer, and the second vertical of a mixed page, cost one grade, down to 1.
    """
    main = page.vertical == query.vertical
    side = ~main & (page.second == query.vertical)
    offered = np.where(main, page.products, np.where(side, page.second_products, 0))
    wants_product = query.product >= 0
    has_product = ~wants_product | ((offered >> np.maximum(query.product, 0)) & 1 == 1)
    serves = (query.city < 0) | (page.city < 0) | (page.city == query.city)
    possible = (main | side) & has_product & serves & (query.intent != Intent.VAGUE)

    own = (query.brand >= 0) & ((page.brand == query.brand) | (page.brand == query.other))
    near = (page.city < 0) | (query.brand_city < 0) | (page.city == query.brand_city)
    rival = (page.segment == query.segment) & near
    branded = np.where(own, 3, np.where(rival, 1, 0))

    plain = np.where(wants_product, np.where(page.focus, 3, 2), np.where(page.focus, 1, 2))
    lacks = (query.attribute >= 0) & ((page.attributes >> np.maximum(query.attribute, 0)) & 1 == 0)
    plain = np.maximum(1, plain - lacks - side)
    plain = np.where(query.intent == Intent.QUESTION, 1, plain)
    grade: NDArray[np.int8] = np.where(possible, np.where(query.brand >= 0, branded, plain), 0).astype(np.int8)
    return grade
