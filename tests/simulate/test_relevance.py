from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.simulate.matching import find_candidates
from broadmatch.simulate.queries import Intent, Queries, canonical, misspelled, texts
from broadmatch.simulate.relevance import PageSide, QuerySide, grades
from broadmatch.simulate.sessions import _FIRST, _NEXT, draw_searches
from broadmatch.simulate.truth import pages_table, queries_table, relevant_pairs
from broadmatch.simulate.verticals import BRAND_MODIFIERS, CITIES, GENERIC_MODIFIERS, PRICE_MODIFIERS, STATES, VERTICALS
from broadmatch.simulate.world import World, make_world, members
from tests.reference import relevance as reference


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(400, np.random.default_rng(2))


@pytest.fixture(scope="module")
def queries(world: World) -> Queries:
    searches = draw_searches(world, 1500, 3, np.random.default_rng(3))
    return Queries.from_codes(np.unique(searches.queries.codes()))


def test_the_tables_of_words_fit_together() -> None:
    names = [v.name for v in VERTICALS]
    assert len(set(names)) == len(names) >= 12
    for v in VERTICALS:
        assert set(v.related) <= set(names) - {v.name}
        assert 4 <= len(v.nouns) <= 5
        assert len(v.products) <= 15
        assert len(v.attributes) <= 15
        assert len(v.questions) <= 5
        assert len(v.generic) == 4
        for word in (*v.nouns, *v.products, *v.attributes, *v.generic):
            assert word == word.lower()
            assert word.replace(" ", "").isalnum()
    assert len(STATES) == len(CITIES) < 63
    assert min(len(m) for m in (BRAND_MODIFIERS, GENERIC_MODIFIERS, PRICE_MODIFIERS)) >= 8
    np.testing.assert_allclose(_NEXT.sum(axis=1), 1)
    np.testing.assert_allclose(_FIRST.sum(), 1)


@settings(max_examples=100, deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "intent": st.integers(0, 8),
            "vertical": st.integers(0, len(VERTICALS) - 1),
            "noun": st.integers(-1, 4),
            "brand": st.integers(-1, 10**6),
            "city": st.integers(-1, 39),
            "product": st.integers(-1, 14),
            "attribute": st.integers(-1, 14),
            "modifier": st.integers(-1, 8),
            "order": st.integers(0, 2),
            "spelling": st.integers(0, 3),
        }
    )
)
def test_codes_hold_every_slot(slots: dict[str, int]) -> None:
    query = Queries(**{name: np.array([value]) for name, value in slots.items()})
    back = Queries.from_codes(query.codes())
    assert {f.name: int(getattr(back, f.name)[0]) for f in fields(back)} == slots


def test_canonical_queries_stay_as_they_are(queries: Queries) -> None:
    np.testing.assert_array_equal(canonical(queries).codes(), queries.codes())


def test_texts_are_clean_and_keep_their_meaning(world: World, queries: Queries) -> None:
    for text, intent, brand, spelling in zip(
        texts(queries, world.brands), queries.intent, queries.brand, queries.spelling, strict=True
    ):
        assert text == " ".join(text.lower().split())
        assert text.replace(" ", "").isalnum()
        if intent == Intent.BRAND and spelling == 0:
            assert world.brands.names[brand].lower().replace("&", "and") in text


@given(st.text("abcdefg ", min_size=1, max_size=30), st.integers(1, 3))
def test_misspelling_is_one_small_step(text: str, variant: int) -> None:
    wrong = misspelled(text, variant)
    assert wrong == misspelled(text, variant)
    assert abs(len(wrong) - len(text)) <= 1
    assert wrong.count(" ") == text.count(" ")
    assert (wrong != text) == any(len(word) >= 4 for word in text.split(" "))


def _readable(world: World, queries: Queries) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Pages, queries and brands in words, for the slow version."""
    pages = pages_table(world).to_pylist()
    for i, page in enumerate(pages):
        vertical = VERTICALS[world.pages.vertical[i]]
        page["own_products"] = members(int(world.pages.products[i]), vertical.products)
        page["second_products"] = page["products"][len(page["own_products"]) :]
        page["attribute_numbers"] = [k for k in range(16) if world.pages.attributes[i] >> k & 1]
        page["segment"] = int(world.brands.segment[world.pages.brand[i]])
    zeros = np.zeros(len(queries), np.int64)
    asked = queries_table(world, queries, texts(queries, world.brands), zeros, zeros).to_pylist()
    for i, query in enumerate(asked):
        query["attribute_number"] = int(queries.attribute[i]) if queries.attribute[i] >= 0 else None
    names = world.brands.names
    brands = {
        name: {
            "city": CITIES[world.brands.city[b]] if world.brands.city[b] >= 0 else None,
            "segment": int(world.brands.segment[b]),
            "rival": names[world.brands.rival[b]],
        }
        for b, name in enumerate(names)
    }
    return pages, asked, brands


def test_grades_equal_the_slow_version(world: World, queries: Queries) -> None:
    pages, asked, brands = _readable(world, queries)
    some = np.random.default_rng(0).permutation(len(queries))[:300]
    fast = grades(PageSide.of(world.pages, world.brands), QuerySide.of(queries, world.brands).take(some).as_column())
    slow = [[reference.grade(page, asked[q], brands) for page in pages] for q in some]
    np.testing.assert_array_equal(fast, slow)
    assert set(np.unique(fast)) == {0, 1, 2, 3}


def test_relevant_pairs_are_all_pairs_above_zero(world: World, queries: Queries) -> None:
    page_side, query_side = PageSide.of(world.pages, world.brands), QuerySide.of(queries, world.brands)
    whole = grades(page_side, query_side.as_column())
    page, query, grade = relevant_pairs(page_side, query_side)
    dense = np.zeros_like(whole)
    dense[query, page] = grade
    np.testing.assert_array_equal(dense, whole)


def test_candidates_prefer_good_matches_but_err(world: World, queries: Queries) -> None:
    found = find_candidates(world, queries, np.random.default_rng(0))
    filled = found.page >= 0
    page_side = PageSide.of(world.pages, world.brands).as_seen(world.pages.taken_for)
    query_side = QuerySide.of(queries, world.brands)
    row, column = np.nonzero(filled)
    np.testing.assert_array_equal(
        found.grade[filled], grades(page_side.take(found.page[row, column]), query_side.take(row))
    )
    assert found.score[found.grade > 0].mean() > found.score[filled & (found.grade == 0)].mean() + 1
    assert np.isneginf(found.score[~filled]).all()


def test_brands_have_rivals_in_their_segment(world: World) -> None:
    brands = world.brands
    assert len(set(brands.names)) == len(brands)
    np.testing.assert_array_equal(brands.segment[brands.rival], brands.segment)
    np.testing.assert_array_equal(brands.vertical[brands.rival], brands.vertical)
    sizes = np.bincount(brands.segment)
    alone = sizes[brands.segment] == 1
    assert ((brands.rival == np.arange(len(brands))) == alone).all()
    assert sizes.max() == 5


def test_product_pages_offer_one_or_two_products_of_their_brand(world: World) -> None:
    pages = world.pages
    counts = np.array([bin(int(b)).count("1") for b in pages.products])
    assert set(counts[pages.focus]) <= {1, 2}
    assert (counts >= 1).all()
    assert (pages.products & ~world.brands.products[pages.brand] == 0).all()
    assert len(set(pages.urls)) == len(pages) == 400
