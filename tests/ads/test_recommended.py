"""Queries for ads beyond their phrases: what a recommender says of the pages of ads."""

import pytest

from broadmatch.ads import Inventory, recommend_for_ads
from broadmatch.errors import BadParameter
from broadmatch.features import PageVectorizer
from broadmatch.io import Page
from broadmatch.labels import MLRF, Recommender

PAGES = [
    Page(f"https://{shop}.example/{i}", f"<title>{shop}</title><p>{words}".encode())
    for shop, words in (("pizza", "stone oven pizza delivery"), ("taxi", "airport taxi fares"))
    for i in range(6)
]
LABELS = [["pizza", "pizza delivery"]] * 6 + [["taxi", "airport taxi"]] * 6


@pytest.fixture(scope="module")
def recommender() -> Recommender:
    vectorizer = PageVectorizer(min_pages=1)
    rows = vectorizer.fit_transform([page.html for page in PAGES])
    return Recommender(vectorizer, MLRF(n_trees=5, max_leaf=3).fit(rows, LABELS))


def inventory(*ads: tuple[str, str, str]) -> Inventory:
    rows = [{"ad": ad, "page": page, "phrase": phrase, "match": "broad", "bid": 1.0} for ad, page, phrase in ads]
    return Inventory.from_rows(rows)


def test_queries_come_by_page_without_the_phrases_of_the_ad(recommender: Recommender) -> None:
    ads = inventory(
        ("cab", "https://taxi.example/1/?utm_source=mail", "Airport Taxi!"),
        ("oven", "https://pizza.example/2", "calzone"),
        ("lost", "https://elsewhere.example", "shoes"),
    )
    found = recommend_for_ads(recommender, ads, PAGES, k=2)
    by_ad: dict[int, list[str]] = {}
    for query, ad in zip(found.query, found.ad.tolist(), strict=True):
        by_ad.setdefault(ad, []).append(query)
    assert by_ad[1] == ["pizza", "pizza delivery"]
    assert by_ad[0][0] == "taxi" and "airport taxi" not in by_ad[0]
    assert 2 not in by_ad
    assert (found.score > 0).any() and len(found.score) == len(found.query)


def test_two_ads_of_one_page_have_queries_each(recommender: Recommender) -> None:
    ads = inventory(("a", PAGES[0].name, "pizza"), ("b", PAGES[0].name, "calzone"))
    found = recommend_for_ads(recommender, ads, PAGES, k=1)
    assert dict(zip(found.ad.tolist(), found.query, strict=True)) == {0: "pizza delivery", 1: "pizza"}


def test_nothing_for_no_pages_and_no_k(recommender: Recommender) -> None:
    ads = inventory(("a", PAGES[0].name, "pizza"))
    assert len(recommend_for_ads(recommender, ads, []).query) == 0
    with pytest.raises(BadParameter, match="k"):
        recommend_for_ads(recommender, ads, PAGES, k=0)
