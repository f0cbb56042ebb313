import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from selectolax.lexbor import LexborHTMLParser

from broadmatch.data import Names
from broadmatch.errors import MissingFile
from broadmatch.simulate import Marketplace, generic_phrases, truth_matrix
from broadmatch.simulate.kinds import Kind
from broadmatch.simulate.verticals import VERTICALS

TRADES = {v.name: v for v in VERTICALS}


@pytest.fixture(scope="module")
def facts(market: Marketplace) -> list[dict[str, Any]]:
    html = pq.read_table(market.pages)["html"].to_pylist()
    rows = pq.read_table(market.truth / "pages.parquet").to_pylist()
    return [row | {"html": page, "text": _text(page)} for row, page in zip(rows, html, strict=True)]


@pytest.fixture(scope="module")
def bids(market: Marketplace) -> list[dict[str, Any]]:
    return pq.read_table(market.bids).to_pylist()


def _text(html: str) -> str:
    tree = LexborHTMLParser(html)
    for node in tree.css("script, style"):
        node.decompose()
    return tree.body.text(separator=" ").lower() if tree.body else ""


def _of(facts: list[dict[str, Any]], kind: Kind) -> list[dict[str, Any]]:
    return [fact for fact in facts if fact["kind"] == kind.title]


def test_every_kind_has_pages_and_most_pages_are_plain(facts: list[dict[str, Any]]) -> None:
    count = Counter(fact["kind"] for fact in facts)
    assert set(count) == {kind.title for kind in Kind}
    assert count["plain"] > len(facts) / 3
    for fact in facts:
        assert fact["is_image_page"] == (fact["kind"] in ("images", "animation"))
        assert (fact["taken_for"] is not None) == (fact["kind"] == "mislabelled")
        assert fact["kind"] != "mixed" or fact["second_vertical"]


def test_pictures_have_telling_names_or_not(facts: list[dict[str, Any]]) -> None:
    def told(fact: dict[str, Any]) -> bool:
        return any(p.replace(" ", "-") in fact["html"] for p in fact["products"])

    assert all(told(fact) for fact in _of(facts, Kind.IMAGES))
    assert not any(told(fact) for fact in _of(facts, Kind.ANIMATION))


def test_pages_of_each_kind_say_what_makes_them_hard(facts: list[dict[str, Any]]) -> None:
    def generic(fact: dict[str, Any]) -> int:
        return sum(fact["text"].count(phrase) for phrase in TRADES[fact["vertical"]].generic)

    def shown(fact: dict[str, Any]) -> float:
        return float(np.mean([product in fact["text"] for product in fact["products"]]))

    plain = _of(facts, Kind.PLAIN)
    assert np.mean([generic(f) for f in _of(facts, Kind.GENERIC)]) > 3 * np.mean([generic(f) for f in plain])
    assert np.mean([shown(f) for f in _of(facts, Kind.ONE_SIDED)]) < 0.5 < np.mean([shown(f) for f in plain])
    compared = [f["text"].count(f"compare {f['brand'].lower()} with") for f in _of(facts, Kind.RIVALS)]
    assert max(compared) >= 1
    assert sum(f["text"].count("compare ") for f in plain) < sum(compared)


def test_a_template_offers_other_things_on_every_page_of_its_site(facts: list[dict[str, Any]]) -> None:
    shirts = "online business cards"
    assert shirts not in "".join(fact["text"] for fact in _of(facts, Kind.PLAIN))
    sites: dict[str, list[set[str]]] = {}
    for fact in _of(facts, Kind.TEMPLATE):
        others = {f"online {TRADES[name].nouns[0]}" for name in TRADES[fact["vertical"]].related}
        assert others
        assert all(phrase in fact["text"] for phrase in others)
        links = [node.text().lower() for node in LexborHTMLParser(fact["html"]).css("div.shelf a")]
        sites.setdefault(fact["brand"], []).append(set(links))
    assert all(links == pages[0] for pages in sites.values() for links in pages)


def test_mislabelled_pages_are_clicked_for_another_cuisine(market: Marketplace, facts: list[dict[str, Any]]) -> None:
    asked = {
        row["query"]: row["vertical"]
        for row in pq.read_table(market.truth / "queries.parquet").to_pylist()
        if not row["is_generic"]
    }
    wrong = [
        (row["page"], asked.get(row["query"])) for row in pq.read_table(market.truth / "wrong.parquet").to_pylist()
    ]
    fooled = {fact["page"]: fact["taken_for"] for fact in _of(facts, Kind.MISLABELLED)}
    times = Counter(page for page, vertical in wrong if fooled.get(page) == vertical and vertical is not None)
    assert np.mean([times[page] for page in fooled]) > 5
    places = {(fact["taken_for"], fact["city"]) for fact in _of(facts, Kind.MISLABELLED)}
    assert all((fact["vertical"], fact["city"]) in places for fact in _of(facts, Kind.AMONG_MISLABELLED))


def test_generic_phrases_are_typed_and_relevant_to_nothing(market: Marketplace) -> None:
    phrases = generic_phrases(market.folder)
    assert {"massachusetts", "customizable", "apparel", "call ahead", "own text"} <= phrases
    queries = pq.read_table(market.truth / "queries.parquet").to_pylist()
    typed = {row["query"] for row in queries if row["is_generic"] and not row["is_misspelled"]}
    assert typed <= phrases
    assert len(typed) > 30
    pages = Names.of(pq.read_table(market.pages)["page"].to_pylist())
    assert truth_matrix(market.folder, pages, Names.of(sorted(typed))).nnz == 0


def test_generic_phrases_of_another_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match="simulate_marketplace"):
        generic_phrases(tmp_path)


def test_ads_bid_on_phrases_that_mostly_fit(market: Marketplace, bids: list[dict[str, Any]]) -> None:
    assert market.n_bids == len(bids)
    columns = "advertiser, campaign, budget, ad, page, title, text, phrase, match, bid"
    assert ", ".join(bids[0]) == columns
    assert {bid["match"] for bid in bids} == {"exact", "phrase", "broad"}
    assert len({(bid["ad"], bid["phrase"]) for bid in bids}) == len(bids)
    assert min(bid["bid"] for bid in bids) > 0
    pages = Names.of(pq.read_table(market.pages)["page"].to_pylist())
    phrases = Names.of(dict.fromkeys(bid["phrase"] for bid in bids))
    truth = truth_matrix(market.folder, pages, phrases, graded=True).to_scipy().toarray()
    place, number = ({name: i for i, name in enumerate(names)} for names in (pages, phrases))
    grade = np.array([truth[place[bid["page"]], number[bid["phrase"]]] for bid in bids])
    known = generic_phrases(market.folder)
    generic = np.array([bid["phrase"] in known for bid in bids])
    assert 0.8 < (grade > 0).mean() < 0.98
    assert 0.003 < generic.mean() < 0.1
    assert 0.01 < ((grade == 0) & ~generic).mean() < 0.15
    brand = {row["query"]: row["brand"] for row in pq.read_table(market.truth / "queries.parquet").to_pylist()}
    rival = [bid["advertiser"] != brand[bid["phrase"]] for bid in bids if brand[bid["phrase"]]]
    assert 0.1 < np.mean(rival) < 0.9


def test_bids_are_those_of_the_log(market: Marketplace, bids: list[dict[str, Any]]) -> None:
    log = pq.read_table(market.impressions, columns=["page", "query", "bid"])
    seen: dict[tuple[str, str], set[float]] = {}
    for page, query, bid in zip(*(log[c].to_pylist() for c in log.column_names), strict=True):
        seen.setdefault((page, query), set()).add(bid)
    same = [bid["bid"] in seen[key] for bid in bids if (key := (bid["page"], bid["phrase"])) in seen]
    assert len(same) > 1000
    assert np.mean(same) > 0.9  # a text of two meanings has two bids, and some ads are shown by mistake


def test_a_query_before_a_click_is_relevant_though_words_of_it_are_not_on_the_page(
    market: Marketplace, facts: list[dict[str, Any]]
) -> None:
    """Sessions say what neither the page nor clicks do: rewrites that led to a click."""
    log = pq.read_table(market.impressions).to_pylist()
    log.sort(key=lambda row: (row["session"], row["time"]))
    steps = [list(rows) for _, rows in itertools.groupby(log, key=lambda row: (row["session"], row["query"]))]
    led = [
        (before[0]["query"], row["page"])
        for before, after in itertools.pairwise(steps)
        if before[0]["session"] == after[0]["session"] and not any(row["clicked"] for row in before)
        for row in after
        if row["clicked"]
    ]
    text = {fact["page"]: fact["text"] for fact in facts}
    pages, queries = Names.of(text), Names.of(dict.fromkeys(query for query, _ in led))
    truth = truth_matrix(market.folder, pages, queries).to_scipy().toarray()
    place, number = ({name: i for i, name in enumerate(names)} for names in (pages, queries))
    right = np.array([truth[place[page], number[query]] for query, page in led])
    new = np.array([not all(word in text[page] for word in query.split()) for query, page in led])
    assert len(led) > 1000
    assert right.mean() > 10 * truth.mean()
    assert right[new].mean() > 0.4
    assert new.mean() > 0.3
