"""Query → bid phrase: features and trees as their slow twins have them, and a model that finds the right phrase."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import broadmatch
from broadmatch.ads import AdIndex, BidPhraseModel, Inventory, extended_matches
from broadmatch.ads.bid_phrase._features import FEATURES, RISING, pair_features
from broadmatch.ads.bid_phrase._trees import sum_of_leaves
from broadmatch.ads.bid_phrase.reading import read_click_graph
from broadmatch.ads.bid_phrase.texts import MOST_WORDS, encode, log_facts
from broadmatch.ads.bid_phrase.trees import boost
from broadmatch.data import CSR, Names
from broadmatch.errors import BadInput, MissingExtra
from tests.reference import bid_phrase as slow

THINGS = ["pizza", "taxi", "shoes", "hotel", "piano"]
MORE = ["cheap", "best", "near me", "red", "airport", "in paris"]
WORDS = st.sampled_from(["pizza", "pizzas", "taxi", "cheap", "near", "me", "ünïcode", "x", "unheard"])
TEXTS = st.lists(WORDS, max_size=5).map(" ".join)


def graph():
    """Clicks on two ads of each thing, and their phrases."""
    queries = [f"{more} {thing}" for thing in THINGS for more in MORE]
    ads = [[2 * THINGS.index(thing), 2 * THINGS.index(thing) + 1] for thing in THINGS for _ in MORE]
    phrases = [f"{thing} {more}" for thing in THINGS for more in ("", "deals", "red", "airport")]
    bids = [[4 * (ad // 2) + j for j in (range(4) if ad % 2 else (0, 1, 2))] for ad in range(2 * len(THINGS))]
    return queries, CSR.from_rows(ads, 10), phrases, CSR.from_rows(bids, len(phrases))


@pytest.fixture(scope="module")
def model():
    return BidPhraseModel(n_trees=10, n_jobs=1).fit_graph(*graph())


@pytest.fixture(scope="module")
def facts():
    queries, clicks, _, _ = graph()
    return log_facts(Names.of(queries), clicks, 8, 0)


def test_there_is_a_direction_for_each_feature():
    assert len(FEATURES) == len(RISING) == len(set(FEATURES))


@settings(max_examples=60, deadline=None)
@given(query=TEXTS, phrase=TEXTS)
def test_features_are_those_of_the_slow_twin(facts, query, phrase):
    texts = encode([query, phrase], facts)
    found = np.empty((1, len(FEATURES)), np.float32)
    pair_features(texts, np.zeros(1, np.int32), np.ones(1, np.int32), 0, 1, found)
    words = list(dict.fromkeys([*query.split(), *phrase.split()]))
    rarity, weight, vector = (
        dict(zip(words, a, strict=True)) for a in (texts.rarity, texts.weight, texts.word_vectors)
    )
    expected = slow.features(query, phrase, rarity, weight, vector, texts.vectors, texts.vectors_of_words)
    np.testing.assert_allclose(found[0], expected, atol=1e-5)
    assert np.isfinite(found).all()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 20))
def test_trees_as_arrays_are_those_of_lightgbm(seed, n_leaves):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 5, (300, 4)).astype(np.float32) / 3
    target = (rows.sum(axis=1) + rng.random(300) > 3).astype(np.float64)
    start = rng.random(4)
    trees, booster = boost(rows, target, None, start=start, rising=(1, 0, 1, 0), n_trees=8, n_leaves=n_leaves,
                           learning_rate=0.2, seed=0, n_jobs=1)  # fmt: skip
    found = np.empty(len(rows))
    sum_of_leaves(trees, start, rows, found)
    np.testing.assert_allclose(found, rows @ start + booster.predict(rows, raw_score=True), rtol=0, atol=1e-9)
    trees._check_whole()


def test_more_in_common_is_never_less_likely(model):
    scores = model.decision_function(["red pizza"] * 4, ["red pizza", "pizza", "taxi deals", "unheard of"])
    assert scores[0] >= scores[1] > scores[2] >= scores[3]


def test_the_right_phrase_is_found(model):
    rows = [{"campaign": "c", "group": "g", "ad": "x", "page": "https://x.example/"}]
    phrases = ["pizza", "taxi deals", "red shoes", "of"]
    rows += [{"campaign": "c", "group": "g", "phrase": one, "match": "exact", "bid": 1.0} for one in phrases]
    inventory = Inventory.from_rows(rows)
    asked = Names.of(["pizzza", "cheap taxi", "shoes in paris"])
    found, chance = model.best(asked, np.zeros(3, np.int64), inventory)
    assert [inventory.phrases[i] for i in found] == ["pizza", "taxi deals", "red shoes"]
    assert ((chance > 0) & (chance < 1)).all()
    np.testing.assert_allclose(chance, model.predict(asked, ["pizza", "taxi deals", "red shoes"]))


def test_extended_matches_for_an_index(model, tmp_path, caplog):
    rows = [
        {"campaign": "c", "group": "g", "ad": "x", "page": "https://x.example/"},
        {"campaign": "c", "group": "g", "phrase": "pizza", "match": "broad", "bid": 1},
        {"campaign": "c", "group": "g", "phrase": "pizza deals", "match": "broad", "bid": 2},
        {"campaign": "c", "group": "h", "ad": "empty", "page": "https://e.example/"},
    ]  # fmt: skip
    inventory = Inventory.from_rows(rows)
    asked = Names.of(["Cheap pizza", "pizza deals today", "best pizza", "taxi", "red pizza"])
    found = extended_matches(model, asked, [0, 0, 0, 1, 0], [0.9, 0.5, 0.2, 0.9, 0.75], inventory)
    assert list(found.query) == ["cheap pizza", "red pizza"]
    alone = extended_matches(model, asked, [0, 0, 0, 1, 0], [0.9, 0.5, 0.2, 0.9, 0.6], inventory, at_least=3)
    matched = dict(zip(alone.query, alone.phrase.tolist(), strict=True))
    assert matched == {"cheap pizza": 0, "red pizza": 0, "pizza deals today": 1}
    assert "without a bid phrase" in caplog.text
    index = AdIndex.create(tmp_path / "index", inventory, extended=alone)
    assert index.match("red pizza").bid.tolist() == [1.0]
    nothing = extended_matches(model, Names.of([]), [], [], inventory)
    assert len(nothing.ad) == 0
    with pytest.raises(BadInput, match="numbered from 0 to 1"):
        extended_matches(model, asked, [7] * 5, [1.0] * 5, inventory)
    with pytest.raises(BadInput, match="give rows"):
        extended_matches(model, asked, [0], [1.0], inventory)


def test_odd_texts_have_a_probability(model):
    odd = ["", "of the", "unheard", "pizza " * 1000, "\ud800", "日本 語", "x" * 10_000]
    found = model.predict(odd, odd[::-1])
    assert np.isfinite(found).all()
    assert ((found > 0) & (found < 1)).all()
    assert len(encode(["a " * 100], model.facts_).word) == MOST_WORDS
    with pytest.raises(BadInput, match="give pairs"):
        model.predict(["pizza"], [])


def test_one_query_one_ad_one_phrase():
    one = CSR.from_rows([[0]], 1)
    model = BidPhraseModel(n_trees=2, n_jobs=1).fit_graph(["pizza"], one, ["pizza place"], one)
    assert np.isfinite(model.predict(["pizza", ""], ["pizza", "taxi"])).all()


def test_what_cannot_be_learned_from_is_refused():
    queries, clicks, phrases, bids = graph()
    none = CSR.from_rows([[]] * 10, len(phrases))
    with pytest.raises(BadInput, match="No ad that was clicked has a bid phrase"):
        BidPhraseModel().fit_graph(queries, clicks, phrases, none)
    with pytest.raises(BadInput, match="queries × ads and ads × phrases"):
        BidPhraseModel().fit_graph(queries, clicks, phrases[1:], bids)
    with pytest.raises(BadInput, match="both are queries × ads"):
        BidPhraseModel().fit_graph(queries, clicks, phrases, bids, shown=bids)


def test_lightgbm_is_needed_to_learn_but_not_to_ask(model, tmp_path, monkeypatch):
    model.save(tmp_path / "model")
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    again = broadmatch.load(tmp_path / "model")
    assert again.predict(["pizza"], ["pizza deals"]).tolist() == model.predict(["pizza"], ["pizza deals"]).tolist()
    with pytest.raises(MissingExtra, match=r"broadmatch\[ads\]"):
        BidPhraseModel(n_jobs=1).fit_graph(*graph())


def test_logs_and_inventories_and_tables_of_bids_say_the_same(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text(
        "query,page,clicked\nPizza!,https://x.example/?gclid=1,1\npizza,https://x.example/,0\ntaxi,https://y.example,1\n"
        "taxi,https://z.example,1\n"
    )
    rows = [("https://x.example/", "pizza place"), ("https://x.example/", "pizzas"), ("https://y.example/", "cab")]
    bids = tmp_path / "bids.csv"
    bids.write_text("\n".join(["page,phrase", *(",".join(row) for row in rows)]))
    inventory = Inventory.from_rows(
        {"campaign": "c", "ad": page, "page": page, "phrase": phrase, "match": "exact", "bid": 1}
        for page, phrase in rows
    )
    for given_bids in (bids, inventory):
        found = read_click_graph(log, given_bids)
        assert list(found.queries) == ["pizza", "taxi"]
        assert found.clicks.to_scipy().toarray().tolist() == [[1, 0, 0], [0, 1, 1]]
        assert found.shown.to_scipy().toarray().tolist() == [[2, 0, 0], [0, 1, 1]]
        own = [sorted(found.phrases[j] for j in found.bids.row(i)[0]) for i in range(3)]
        assert own == [["pizza place", "pizzas"], ["cab"], []]
    left = read_click_graph(log, bids, without=["https://x.example"])
    assert list(left.queries) == ["taxi"]
    with pytest.raises(BadInput, match="has a bid phrase"):
        read_click_graph(log, bids, without=[page for page, _ in rows])


def test_probabilities_are_click_rates_where_impressions_are_known():
    queries, clicks, phrases, bids = graph()
    shown = clicks._replace(data=np.full(clicks.nnz, 4, np.float32))
    model = BidPhraseModel(n_trees=5, n_jobs=1).fit_graph(queries, clicks, phrases, bids, shown=shown)
    asked = model.predict(queries, [query.split()[-1] for query in queries])
    assert abs(asked.mean() - 0.25) < 0.05


def test_a_model_of_judgements_tells_good_from_bad():
    queries = [f"{more} {thing}" for thing in THINGS for more in MORE for _ in THINGS]
    titles = [f"{thing} by us" for _ in THINGS for _ in MORE for thing in THINGS]
    grades = [3 if title.split()[0] in query else 0 for query, title in zip(queries, titles, strict=True)]
    model = BidPhraseModel(n_trees=10, n_jobs=1).fit_judgements(queries, titles, grades)
    good, bad = model.predict(["new pizza"] * 2, ["pizza by us", "taxi by us"])
    assert good > 0.7 > 0.3 > bad
    with pytest.raises(BadInput, match="nothing to tell apart"):
        BidPhraseModel().fit_judgements(queries, titles, [0] * len(grades))
    with pytest.raises(BadInput, match="give rows"):
        BidPhraseModel().fit_judgements(queries, titles, [0, 3])
