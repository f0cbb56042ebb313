"""Relevance of a page to a query, rule by rule on the words of the truth tables."""

from typing import Any


def grade(page: dict[str, Any], query: dict[str, Any], brands: dict[str, dict[str, Any]]) -> int:
    """`brands` gives each brand its home city (or None), its segment and the rival it is compared with."""
    if query["intent"] == "vague":
        return 0
    if query["vertical"] not in (page["vertical"], page["second_vertical"]):
        return 0
    own_words = page["own_products"] if query["vertical"] == page["vertical"] else page["second_products"]
    if query["product"] is not None and query["product"] not in own_words:
        return 0
    if query["city"] is not None and page["city"] not in (None, query["city"]):
        return 0
    if query["brand"] is not None:
        named = {query["brand"]}
        if query["intent"] == "versus":
            named.add(brands[query["brand"]]["rival"])
        if page["brand"] in named:
            return 3
        brand = brands[query["brand"]]
        if page["segment"] != brand["segment"]:
            return 0
        return 1 if page["city"] is None or brand["city"] in (None, page["city"]) else 0
    if query["intent"] == "question":
        return 1
    if query["product"] is not None:
        value = 3 if page["is_product_page"] else 2
    else:
        value = 1 if page["is_product_page"] else 2
    if query["attribute_number"] is not None and query["attribute_number"] not in page["attribute_numbers"]:
        value -= 1
    if query["vertical"] != page["vertical"]:
        value -= 1
    return max(1, value)
