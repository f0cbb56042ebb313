"""The ad engine answers as its parts do one after the other, whatever changes meanwhile."""

import contextlib
import itertools
import re
import shutil
import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.fuzz.models import array_bytes, read, read_array, signed, write
from broadmatch.ads import AdEngine, Auction, Budgets, Extended, Inventory
from broadmatch.ads.engine import engine as module
from broadmatch.clicks import FTRL, ClickModel, IsotonicCalibration, SlicedCalibration
from broadmatch.data import Impressions, Names
from broadmatch.errors import BadArtifact, BadInput, BadParameter, MissingFile
from broadmatch.signals import Categorical, Cross, Description, Encoder, Numeric, Text
from tests.reference import ads_engine as twin

WORDS = ["red", "blue", "shoes", "boots", "cheap"]
CITIES = ["boston", "rome", "7", ""]
SIGNALS = [
    *map(Categorical, ("query", "city", "hour", "ad", "advertiser", "campaign", "page", "phrase", "match", "position")),
    Text("query", name="words"),
    Text("title"),
    Text("phrase", name="phrase_words"),
    Categorical("text"),
    Numeric("hour", buckets=[6, 18], name="daytime"),
    Numeric("position", name="place"),
    Cross("ad", "query"),
    Cross("city", "advertiser", "daytime"),
    Cross("words", "title"),
]
DESCRIPTION = Description(label="clicked", signals=SIGNALS)


def inventory(seed=0, n=24):
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        words = rng.choice(WORDS, int(rng.integers(1, 4)), replace=False)
        rows.append(
            {
                "advertiser": f"v{i % 5}", "campaign": f"c{i % 10}", "ad": f"{'ab'[seed % 2]}{i}", "page": f"p{i % 7}",
                "title": " ".join(rng.choice(WORDS, 3)) + (" Ünï" if i % 4 == 0 else ""), "text": ["", "now"][i % 2],
                "phrase": " ".join(words), "match": ["exact", "phrase", "broad"][i % 3],
                "bid": round(float(rng.uniform(0.1, 3)), 2),
            }
        )  # fmt: skip
    return Inventory.from_rows(rows)


def model(seed=0, calibration=None, description=DESCRIPTION):
    """A model that has learned from a log that nobody clicked for a reason."""
    rng, n = np.random.default_rng(seed), 600
    log = {name: rng.choice(values, n).tolist() for name, values in {
        "query": ["red shoes", "shoes", "cheap boots"], "city": CITIES, "hour": range(24), "text": ["now", ""],
        "ad": [f"a{i}" for i in range(24)], "advertiser": [f"v{i}" for i in range(5)], "title": WORDS,
        "campaign": [f"c{i}" for i in range(10)], "page": [f"p{i}" for i in range(7)], "phrase": WORDS,
        "match": ["exact", "phrase", "broad"], "position": range(1, 5), "clicked": [0, 0, 1],
    }.items()}  # fmt: skip
    batch = Encoder(description).encode(pa.RecordBatch.from_pydict(log))
    learner = FTRL(alpha=0.5)
    p = learner.learn_many(batch.impressions)
    if calibration is not None:
        slices = {name: log[name] for name in getattr(calibration, "by", ())}
        calibration.learn_many(p, log["clicked"], *([slices] if slices else []))
        calibration.refresh()
    return ClickModel(description, {"model": learner.to_serving()}, calibration=calibration)


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    return AdEngine.create(tmp_path_factory.mktemp("engine") / "engine", inventory(), clicks=model())


@pytest.fixture
def own(tmp_path):
    return AdEngine.create(tmp_path / "engine", inventory(), clicks=model())


def check(engine, queries, context, limit=200, key=None):
    """Arrays, a few answers, single ones and the twin agree bit for bit; gives the answers."""
    found, p, u, result, rows = twin.answers(engine, queries, context, limit, key)
    many = engine.answer_many(Names.of(queries), context, limit=limit, key=key)
    for one, other in zip(many.candidates, found, strict=True):
        assert one.tolist() == other.tolist()
    assert many.probability.tolist() == p.tolist() and many.uncertainty.tolist() == u.tolist()
    for name in ("row", "price", "score", "outcome"):
        assert getattr(many.result, name).tolist() == getattr(result, name).tolist()
    contexts = [{name: values[q] for name, values in context.items()} for q in range(len(queries))]
    if queries:
        few = engine.answer_few(queries, contexts, limit=limit, key=key)
        assert few.probability.tolist() == p.tolist() and few.uncertainty.tolist() == u.tolist()
        assert few.result.row.tolist() == result.row.tolist() and few.result.price.tolist() == result.price.tolist()
        assert few.impressions().keys.tolist() == many.impressions().keys.tolist()
    for q, query in enumerate(queries):
        row = contexts[q]
        asked = {} if key is None else {"key": int(key[q])}
        places = engine.answer(query, row, limit=limit, **asked).places
        shown = result.row[q][result.row[q] >= 0].tolist()
        if key is not None or engine.auction.explore != "thompson":
            assert [(place.ad, place.phrase, place.match, place.probability, place.uncertainty, place.score, place.bid)
                    for place in places] == [
                (rows[i]["ad"], rows[i]["phrase"], rows[i]["match"], p[i], u[i], result.score[i], found.bid[i])
                for i in shown
            ]  # fmt: skip
            assert [place.price for place in places] == result.price[q][: len(shown)].tolist()
            assert [place.place for place in places] == list(range(1, len(shown) + 1))
    return many


QUERY = st.lists(st.sampled_from([*WORDS, "zz"]), max_size=5).map(" ".join)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(QUERY, st.sampled_from(CITIES), st.integers(0, 23)), min_size=1, max_size=4), st.integers(1, 9)
)
def test_answers_are_those_of_the_parts(engine, asked, limit):
    queries, cities, hours = (list(column) for column in zip(*asked, strict=True))
    check(engine, queries, {"city": cities, "hour": hours}, limit)


@pytest.mark.parametrize("by", [None, ("city",), ("advertiser", "city"), ("daytime",)])
def test_calibrated_of_all_traffic_and_by_slices(engine, by):
    before = engine.clicks
    calibration = IsotonicCalibration() if by is None else SlicedCalibration(by=by, strength=0.1)
    engine.clicks = model(calibration=None)
    if by != ("daytime",):
        engine.clicks = model(calibration=calibration)
    else:
        described = Description(label="clicked", signals=SIGNALS, slices=["daytime"])
        calibration.learn_many([0.1] * 30, [0, 1, 1] * 10, {"daytime": ["6 to 18"] * 30})
        calibration.refresh()
        engine.clicks = ClickModel(described, model().models, calibration=calibration)
    plain = ClickModel(engine.clicks.description, engine.clicks.models)
    context = {"city": ["rome", "boston"], "hour": [3, 9]}
    many = check(engine, ["red shoes boots", "cheap red shoes"], context)
    engine.clicks = plain
    raw = check(engine, ["red shoes boots", "cheap red shoes"], context)
    assert (raw.probability != many.probability).any()
    engine.clicks = before


@pytest.mark.parametrize("auction", [
    Auction(explore="ucb", scale=3.0), Auction(explore="thompson", scale=5.0, seed=3, places=2),
    Auction(rule="vcg", reserve=0.1, squashing=0.5, floor=0.2), Auction(rule="first", places=1),
])  # fmt: skip
def test_auctions(own, auction):
    own.auction = auction
    queries = ["red shoes", "cheap red boots", "blue", "red shoes"]
    key = np.array([5, 2**63 + 9, 7, 6], np.uint64)
    context = {"city": ["rome", "boston", "", "rome"], "hour": [1, 2, 3, 1]}
    many = check(own, queries, context, key=key)
    assert many.result.row.shape == (4, auction.places)
    if auction.explore == "thompson":  # the key alone tells two equal queries apart
        ptr = many.candidates.ptr
        scores = [many.result.score[a:b].tolist() for a, b in itertools.pairwise(ptr)]
        assert scores[0] != scores[3]


def test_thousands_of_queries_at_once(engine):
    rng = np.random.default_rng(0)
    queries = [" ".join(rng.choice(WORDS, 3)) for _ in range(2_500)]
    hours = rng.integers(0, 24, 2_500)
    whole = engine.answer_many(Names.of(queries), {"hour": hours}, limit=5)
    for first in range(0, 2_500, 700):
        part = engine.answer_many(Names.of(queries[first : first + 700]), {"hour": hours[first : first + 700]}, limit=5)
        a, b = whole.candidates.ptr[first], whole.candidates.ptr[min(first + 700, 2_500)]
        assert part.probability.tolist() == whole.probability[a:b].tolist()
        assert part.result.price.tolist() == whole.result.price[first : first + 700].tolist()


def test_budgets(own):
    queries, key = ["red shoes boots cheap blue"] * 40, np.arange(40)
    context = {"city": ["rome"] * 40, "hour": [1] * 40}
    with own.index.change() as change:
        change.put_ad("free", [("red", "broad", 2.9)], page="x")
        change.put_ad("later", [("red", "broad", 2.8)], campaign="new", page="x")
    budgets = Budgets(budget=[1e-6, np.inf, 8.0, *[np.inf] * 7], traffic=np.ones(24))
    budgets.charge([2], [4.1])
    pending = np.zeros(10)
    many = own.answer_many(Names.of(queries), context, key=key, budgets=budgets, hour=12.0, pending=pending)
    campaign = own.ad_campaign[many.candidates.ad]
    known = (campaign >= 0) & (campaign < 10)
    inside = budgets.admit(np.where(known, campaign, 1), many.candidates.bid, hour=12.0, offsets=many.candidates.ptr,
                           key=key, pending=pending)  # fmt: skip
    assert ((many.result.outcome == 2) == ~inside).all()
    assert not inside[campaign == 0].any() and 0 < inside[campaign == 2].mean() < 1 and (~known).sum() == 80
    with pytest.raises(BadInput, match="give hour"):
        own.answer_many(Names.of(queries), context, budgets=budgets)
    one = own.answer(queries[3], {"city": "rome", "hour": 1}, key=3, budgets=budgets, hour=12.0)
    assert (
        one.arrays.result.outcome.tolist()
        == many.result.outcome[many.candidates.ptr[3] : many.candidates.ptr[4]].tolist()
    )


def test_budgets_of_campaigns_are_in_the_index(tmp_path):
    bids = {"page": "p", "match": "broad", "bid": 1.0}
    rows = [{**bids, "campaign": "paid", "ad": "a", "phrase": "red", "budget": 7.5},
            {**bids, "campaign": "free", "ad": "b", "phrase": "red"}]  # fmt: skip
    engine = AdEngine.create(tmp_path / "engine", Inventory.from_rows(rows), clicks=model())
    assert engine.campaign_budget.tolist() == [7.5, np.inf]
    with engine.index.change() as change:
        change.set_budget("free", 2)
        change.set_budget("paid", None)
        change.set_budget("new", 0)
    assert engine.campaign_budget.tolist() == [np.inf, 2.0, 0.0]
    with engine.index.change() as change:
        change.set_campaign_negatives("free", [("cheap", "broad")])  # what else changes keeps the budget
    engine.index.compact()
    assert AdEngine(tmp_path / "engine").campaign_budget.tolist() == [np.inf, 2.0, 0.0]
    for amount in (-1.0, float("nan"), "7"):
        with pytest.raises(BadParameter, match="amount must be"), engine.index.change() as change:
            change.set_budget("paid", amount)


def test_impressions_are_what_was_shown_in_its_place(engine):
    queries = ["red shoes", "zz", "cheap blue boots", "red shoes"]
    context = {"city": ["rome", "rome", "boston", "7"], "hour": [1, 2, 20, 4]}
    answers = engine.answer_many(Names.of(queries), context)
    shown = engine.impressions(answers)
    rows = twin.log_of(engine.index, answers.candidates, queries, context)
    wanted = [{**rows[i], "position": t + 1} for q in range(4) for t, i in enumerate(answers.result.row[q]) if i >= 0]
    log = Encoder(DESCRIPTION).encode(pa.RecordBatch.from_pylist(wanted), labelled=False).impressions
    for name in Impressions._fields:
        assert np.array_equal(getattr(shown, name), getattr(log, name), equal_nan=True)
    assert np.isnan(shown.clicked).all()
    FTRL().learn_many(shown._replace(clicked=np.ones(shown.n_rows, np.float32)))


def test_nothing_to_answer(engine):
    assert engine.answer("zz").places == [] and engine.answer("").places == [] and engine.answer("!?").places == []
    none = engine.answer_many(Names.of(["zz", ""]), {"city": ["a", "b"]})
    assert none.result.row.tolist() == [[-1] * 4] * 2 and engine.impressions(none).n_rows == 0
    nobody = engine.answer_many(Names.of([]))
    assert len(nobody) == 0 and engine.impressions(nobody).n_rows == 0
    assert engine.explain("zz").candidates == []


def test_context_that_is_missing_or_of_any_kind(engine):
    queries = ["red shoes", "cheap boots"]
    bare = engine.answer_many(Names.of(queries))
    assert (
        bare.probability.tolist()
        == check(engine, queries, {"city": [None, None], "hour": [None, None]}).probability.tolist()
    )
    wanted = check(engine, queries, {"city": ["7", "rome"], "hour": [7, 9]}).probability.tolist()
    for cities in (Names.of(["7", "rome"]), pa.array(["7", "rome"]), pa.chunked_array([["7"], ["rome"]]),
                   pa.array(["7", "rome"]).dictionary_encode(), np.array(["7", "rome"]), ("7", "rome")):  # fmt: skip
        for hours in (np.array([7, 9], np.int8), np.array([7.0, 9.0]), pa.array([7, 9]), [7, 9], ["7", "9"]):
            given = {"city": cities, "hour": hours, "nobody asks": [object(), object()]}
            assert engine.answer_many(Names.of(queries), given).probability.tolist() == wanted
    assert engine.answer("red shoes", {"city": 7, "hour": np.int8(7)}).arrays.probability.tolist() == wanted[: len(
        engine.index.match("red shoes").ad)]  # fmt: skip
    for wrong, what in (({"city": ["a"]}, "1 values for 2 queries"), ({"ad": ["a", "b"]}, "fills in 'ad' itself"),
                        ({"hour": ["noon", "9"]}, "hour"), ({"city": [1, "a"]}, "of one kind")):  # fmt: skip
        with pytest.raises(BadInput, match=what):
            engine.answer_many(Names.of(queries), wrong)
    with pytest.raises(BadInput, match="fills in 'query' itself"):
        engine.answer("red", {"query": "blue"})


def test_long_queries_cost_what_their_first_words_do(engine):
    words = ["red", "shoes", *(f"w{i}" for i in range(9_998))]
    long, short = " ".join(words), " ".join(words[:64])
    context = {"city": ["rome", "rome"], "hour": [1, 1]}
    answers = engine.answer_many(Names.of([long, short]), context)
    a, b, c = answers.candidates.ptr
    assert 0 < b - a == c - b and answers.probability[a:b].tolist() == answers.probability[b:c].tolist()
    assert (
        engine.answer(long, {"city": "rome", "hour": 1}).arrays.probability.tolist() == answers.probability[:b].tolist()
    )
    served, _ = answers.rows.encode()
    assert np.diff(served.indptr).max() < 64 * 10


def test_ads_that_change_live(own):
    queries = ["red shoes", "cheap red boots", "blue shoes", "new thing"]
    context = {"city": ["rome", "boston", "", "7"], "hour": [1, 2, 3, 4]}
    check(own, queries, context)
    with own.index.change() as change:
        change.put_ad(
            "a3", [("red shoes", "broad", 2.5), ("new thing", "exact", 1.0)], campaign="c1", title="Other words"
        )
        change.put_ad("fresh", [("red", "broad", 2.2), ("new thing", "phrase", 0.5)], campaign="c99", advertiser="v9",
                      page="p0", title="Blue boots", text="now")  # fmt: skip
        change.put_ad("alone", [("shoes", "phrase", 2.1)])
        change.put_ad("also alone", [("shoes", "phrase", 2.05)])
        change.put_ad("second of v9", [("new", "broad", 0.7)], campaign="c99")
        change.remove_ad("a5")
    many = check(own, queries, context)
    names = own.index.names(many.candidates.ad)
    assert {"fresh", "a3", "alone", "second of v9"} <= set(names) and "a5" not in names
    fresh, second = (own.index.number(name) for name in ("fresh", "second of v9"))
    assert own.ad_advertiser[fresh] == own.ad_advertiser[second] and own.ad_campaign[fresh] == own.ad_campaign[second]
    assert own.index.record(own.index.number("a3")).page == "p3"  # what was not given stayed
    with own.index.change() as change:
        change.remove_ad("fresh")
        change.set_phrase("alone", "new thing", "exact", 3.0)
    again = check(own, queries, context)
    assert "fresh" not in own.index.names(again.candidates.ad)
    own.index.compact()
    check(own, queries, context)
    check(AdEngine(own.path), queries, context)
    with own.index.change() as change:
        change.put_ad("after", [("red", "broad", 2.9)], campaign="c2", title="red")
    check(own, queries, context)
    other = AdEngine(own.path)
    with other.index.change() as change:
        change.set_phrase("after", "blue shoes", "phrase", 2.8)
    own.index.refresh()
    check(own, queries, context)


def test_answers_while_ads_change_are_of_one_moment(own):
    """The bid and the title of an ad change together, and no answer has one without the other."""
    query, context = "only this", {"city": "rome", "hour": 1}
    versions, expected = [(1.0, "red"), (2.0, "Blue boots")], []

    def put(bid, title):
        with own.index.change() as change:
            change.put_ad("flips", [(query, "exact", bid)], title=title)

    for version in versions:
        put(*version)
        (place,) = own.answer(query, context).places
        expected.append((place.bid, place.probability))
    assert expected[0][1] != expected[1][1]
    done, seen, own.index.every = threading.Event(), set(), 0.0

    def ask():
        while not done.is_set():
            seen.update((place.bid, place.probability) for place in own.answer(query, context).places)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(40):
        put(*versions[i % 2])
        if i % 15 == 7:
            own.index.compact()
    done.set()
    for thread in threads:
        thread.join()
    assert seen == set(expected)


def test_texts_of_ads_are_bounded(own, tmp_path):
    with pytest.raises(BadInput, match="title of an ad has at most 16,384 bytes"), own.index.change() as change:
        change.put_ad("long", [("red", "broad", 1)], title="word " * 4000)
    rows = [{"ad": "x", "page": "p", "text": "word " * 4000, "phrase": "red", "match": "broad", "bid": 1}]
    with pytest.raises(BadInput, match="text of an ad has at most"):
        AdEngine.create(tmp_path / "long", Inventory.from_rows(rows), clicks=model())
    assert not (tmp_path / "long").exists() and own.index.number("long") is None


def test_extended_matches(tmp_path):
    shop = inventory()
    extended = Extended(Names.of(["sneakers sale"]), np.array([2]), np.array([2]), np.array([0.9]))
    engine = AdEngine.create(tmp_path / "engine", shop, clicks=model(), extended=extended)
    (place,) = (
        check(engine, ["sneakers sale"], {"city": ["rome"], "hour": [1]}) and engine.answer("sneakers sale").places
    )
    assert (place.ad, place.match, place.phrase) == ("a2", "extended", shop.phrases[2])


def test_every_step_is_explained(engine):
    context = {"city": "boston", "hour": 9}
    answer = engine.answer("Cheap RED shoes!", context, explain=True, key=4)
    why = answer.explanation
    assert why.query == "cheap red shoes" and why.context == context
    assert why.n_candidates == len(why.candidates) == len(answer.arrays.candidates.ad)
    shown = [one for one in why.candidates if one.place]
    assert [(one.ad, one.price, one.probability) for one in shown] == [
        (place.ad, place.price, place.probability) for place in answer.places
    ]
    everything = engine.answer_many(Names.of(["cheap red shoes"]), {"city": ["boston"], "hour": [9]})
    served, _ = everything.rows.encode()
    for one in why.candidates:
        number = engine.index.number(one.ad)
        row = int(np.flatnonzero(everything.candidates.ad == number)[0])
        assert one.n_features == len(served.row(row).keys)
        assert 1 / (1 + np.exp(-one.log_odds)) == pytest.approx(one.raw)
        amounts = [abs(share.amount) for share in one.features]
        assert amounts == sorted(amounts, reverse=True) and len(amounts) == 10
        named = {(share.signal, share.value) for share in one.features}
        assert all(signal != "?" for signal, _ in named)
    ad = engine.explain("cheap red shoes", context, why.candidates[0].ad)
    assert [one.ad for one in ad.candidates] == [why.candidates[0].ad] and ad.to_dict()["candidates"][0]["place"] == 1
    assert "place 1 at" in str(ad) and "matched by the" in str(ad)
    assert len(shown) > 1 and f"the score behind it {shown[1].score:.4g}" in shown[0].formula
    for one in shown:
        bid, behind, score = (float(number) for number in re.findall(r"[0-9][0-9.e-]*", one.formula))
        assert one.price == pytest.approx(bid * behind / score, rel=1e-3)
    out = engine.explain("nothing here", context, "a1")
    assert out.not_matched is not None and "none of its" in str(out) and out.candidates == []
    assert "no ad 'nobody'" in str(engine.explain("red", context, "nobody"))


def test_explained_with_calibration_and_other_rules(own):
    own.clicks = model(calibration=IsotonicCalibration())
    for rule, said in (("first", "the bid"), ("vcg", "what others lose")):
        own.auction = Auction(rule=rule)
        one = own.explain("cheap red shoes").candidates[0]
        assert (
            one.raw != one.probability and said in one.formula and "calibrated" in str(own.explain("cheap red shoes"))
        )


def test_each_answer_is_of_one_model_and_one_auction(own):
    """Models and auctions are exchanged while others answer: no answer sees half of two."""
    models, auctions = [model(seed) for seed in range(3)], [Auction(places=n) for n in (1, 2, 3)]
    query, context = "cheap red shoes boots", {"city": "rome", "hour": 1}
    expected = []
    for one in models:
        own.clicks = one
        expected.append(own.answer(query, context).arrays.probability.tolist())
    assert expected[0] != expected[1] != expected[2]
    own.auction = auctions[0]
    done, wrong = threading.Event(), []

    def ask():
        while not done.is_set():
            many = own.answer_many(Names.of([query] * 3), {name: [value] * 3 for name, value in context.items()})
            found = [part.tolist() for part in np.split(many.probability, 3)]
            if found[0] not in expected or found != [found[0]] * 3 or many.result.row.shape[1] not in (1, 2, 3):
                wrong.append(found)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(40):
        own.clicks, own.auction = models[i % 3], auctions[i % 3]
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_folder_is_exchanged_as_a_whole(tmp_path):
    kept = {seed: AdEngine.create(tmp_path / f"engine{seed}", inventory(seed), clicks=model(seed)) for seed in (0, 1)}
    query, context = "cheap red shoes boots blue", {"city": "rome", "hour": 1}

    def state(engine):
        answer = engine.answer(query, context)
        return [place.ad for place in answer.places], answer.arrays.probability.tolist()

    expected = {seed: state(engine) for seed, engine in kept.items()}
    assert expected[0] != expected[1]
    engine = AdEngine.create(tmp_path / "live", inventory(0), clicks=model(0))
    done, wrong = threading.Event(), []

    def ask():
        while not done.is_set():
            found = state(engine)
            if found not in expected.values():
                wrong.append(found)

    thread = threading.Thread(target=ask)
    thread.start()
    for seed in (1, 0, 1):
        AdEngine.create(tmp_path / "live", inventory(seed), clicks=model(seed))
        engine.reload()
        assert state(engine) == expected[seed]
    done.set()
    thread.join()
    assert not wrong and state(AdEngine(tmp_path / "live")) == expected[1]


def test_a_folder_that_is_replaced_while_it_is_opened(tmp_path, monkeypatch):
    """Nothing of two folders comes together: what was read while the name changed hands is read again."""
    engine = AdEngine.create(tmp_path / "live", inventory(0), clicks=model(0))
    query, context, calls = "cheap red shoes boots blue", {"city": "rome", "hour": 1}, []
    honest = module.load

    def load(path, kind):
        calls.append(kind)
        if len(calls) == 1:  # the index is open, the rest will be of another folder
            monkeypatch.setattr(module, "load", honest)
            AdEngine.create(tmp_path / "live", inventory(1), clicks=model(1))
            monkeypatch.setattr(module, "load", load)
        if len(calls) == 3:  # and now for a moment there is none
            (tmp_path / "live").rename(tmp_path / "away")
        return honest(path, kind)

    monkeypatch.setattr(module, "load", load)
    monkeypatch.setattr(module.time, "sleep", lambda seconds: (tmp_path / "away").rename(tmp_path / "live"))
    engine.reload()
    monkeypatch.setattr(module, "load", honest)
    assert len(calls) == 5
    found, wanted = (one.answer(query, context) for one in (engine, AdEngine(tmp_path / "live")))
    assert found.places == wanted.places and {place.ad[0] for place in found.places} == {"b"}


def test_folders_that_are_none(tmp_path, own):
    with pytest.raises(MissingFile, match="no ad engine"):
        AdEngine(tmp_path / "nowhere")
    shutil.rmtree(own.path / "auction")
    with pytest.raises(BadArtifact, match="not an ad engine"):
        AdEngine(own.path)
    with pytest.raises(BadInput, match="vw text"):
        AdEngine.create(tmp_path / "vw", inventory(), clicks=ClickModel("vw", model().models))
    assert not (tmp_path / "vw").exists()


def test_columns_that_are_forged_are_refused(own):
    """Whatever the columns of ads say, no kernel reads beyond them; an empty name too many does no harm."""
    (folder,) = own.path.glob("index/postings-*")
    files, opened, before = read(folder), 0, own.answer("cheap red shoes").places
    names = [name for name in files if name.startswith("columns") and read_array(files[name]).size]
    assert before and len(names) > 12
    for name in names:
        array = read_array(files[name])
        wrong = np.nan if array.dtype.kind == "f" else np.iinfo(array.dtype).max
        for forged in (np.full_like(array, wrong), array[:-1], np.append(array, array[-1:])):
            shutil.rmtree(folder)
            write(signed(files | {name: array_bytes(forged)}), folder)
            with contextlib.suppress(BadArtifact):
                assert AdEngine(own.path).answer("cheap red shoes").places == before
                opened += 1
    assert opened == 2
