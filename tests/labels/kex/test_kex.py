"""KEX from pages to phrases."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

import broadmatch
from benchmarks.kex import f1
from broadmatch.data import Names
from broadmatch.errors import BadArtifact, BadInput, BadParameter
from broadmatch.harvest import QueryTable
from broadmatch.io import Page
from broadmatch.labels import KEX
from broadmatch.labels.kex.kex import _leave_out

TOPICS = ["thai food", "airport taxi", "fresh flowers", "city tour", "used car", "running shoes", "garden tool"]


def shops():
    """Pages that are about a topic, with what is on all of them beside it."""
    for i in range(42):
        topic = TOPICS[i % 7]
        yield f"<title>{topic.title()}</title><p>Call us for {topic}s in town {i}. About the shop, opening hours"


@pytest.fixture(scope="module")
def model():
    return KEX(bits=13, n_jobs=1).fit(list(shops()), [[TOPICS[i % 7], "not on it"] for i in range(42)])


NEW = "<title>Cheap Pizza</title><p>Call us for cheap pizza in town. About the shop, opening hours"


def phrases(answer):
    return [one.phrase for one in answer.phrases]


def test_it_learns_what_pages_are_about(model):
    found = next(model.recommend(NEW, k=3))
    assert found.phrases[0].phrase == "cheap pizza"
    assert found.phrases[0].score > 0.5 > found.phrases[1].score > found.phrases[2].score
    assert phrases(next(model.recommend(NEW, None))) == ["cheap pizza"]


def test_batch_is_single_whatever_holds_the_pages(model):
    pages = [NEW, "", *shops(), "人工知能。機械学習", "الذكاء الاصطناعي، والتعلم", "x" * 100_000]
    for k in (5, None, 10**12):
        batch = list(model.recommend(pages, k))
        assert [next(model.recommend(page, k)).phrases for page in pages] == [found.phrases for found in batch]
        assert list(KEX.recommend(model, {str(i): p for i, p in enumerate(pages)}, k)) == batch
    table = pd.DataFrame({"url": ["a", "b"], "html": [NEW, ""]})
    assert [found.name for found in model.recommend(table)] == ["a", "b"]
    assert next(model.recommend([Page("p", NEW.encode())])).name == "p"
    assert [len(found.phrases) for found in model.recommend(pages[-1:], 3)] == [0]


def test_phrases_look_as_on_the_page(model):
    found = phrases(next(model.recommend("State-of-the-art TCP/IP and don't; Σας ÉTÉ", 100)))
    assert {"state-of-the-art", "tcp/ip", "σας été", "art tcp/ip"} <= set(found)


def test_an_address_counts_and_other_names_do_not():
    untrained = KEX.untrained(n_jobs=1)
    plain, named, number = (
        next(untrained.recommend([(name, "some words of red shoes, blue shirts")], 100))
        for name in ("7", "https://shop.com/blue-shirts", "blue shirts")
    )
    assert phrases(plain) == phrases(number)
    assert phrases(plain)[0] != "blue shirts" == phrases(named)[0]


def test_an_explanation_adds_up_and_says_where(model):
    why = model.explain(NEW, "Cheap  PIZZA")
    assert sum(one.amount for one in why.contributions) == pytest.approx(why.score)
    found = next(model.recommend(NEW, 1)).phrases[0]
    assert why.factors["probability"] == pytest.approx(found.score, abs=1e-6)
    assert (why.factors["times"], why.factors["first word"], why.factors["in title"]) == (2, 1, 1)
    assert any(one.feature == "zone: title" for one in why.contributions)
    for missing in ("thai food", "", "cheap pizza " * 100):
        with pytest.raises(BadInput, match="none of the"):
            model.explain(NEW, missing)


def test_a_query_log_helps_and_own_clicks_are_left_out():
    rng = np.random.default_rng(0)
    nouns = [f"noun{i}" for i in range(60)]
    pages = [" , ".join(rng.permutation(nouns)[:20]) for _ in range(60)]
    asked = set(nouns[::2])
    chosen = [[word for word in page.split(" , ") if word in asked][:3] for page in pages]
    table = QueryTable(Names.of(sorted(asked)), searches=np.full(30, 50.0), clicks=np.full(30, 9.0))
    model = KEX(bits=12, shape=False, n_jobs=1).fit(pages, chosen, queries=table)
    new = "gadget , " + " , ".join(nouns[:6])
    assert set(phrases(next(model.recommend(new, 3)))) == {"noun0", "noun2", "noun4"}
    facts = np.array([[10.0, 4.0, 3.0, 8.0], [2.0, 2.0, 1.0, 1.0], [5.0, -1.0, 2.0, -1.0], [-1.0, -1.0, 4.0, -1.0]])
    _leave_out(facts, np.array([1.0, 2.0, 0.0, 0.0]))
    assert facts.tolist() == [[9, 3, 3, 6], [-1, -1, 0, -1], [5, -1, 2, -1], [-1, -1, 4, -1]]


def test_clicks_weigh_as_a_mapping_and_long_phrases_do_no_harm():
    pages = list(shops())[:14]
    lists = [[TOPICS[i % 7]] for i in range(14)]
    plain = KEX(bits=12, n_jobs=1).fit(pages, lists)
    other = KEX(bits=12, n_jobs=1).fit(pages, [{TOPICS[i % 7].upper(): 1, "never": 0} for i in range(14)])
    assert np.array_equal(plain.weights_, other.weights_)
    long = KEX(bits=12, n_jobs=1).fit(pages, [[TOPICS[i % 7], "word " * 200] for i in range(14)])
    assert np.array_equal(plain.weights_, long.weights_)


@pytest.mark.parametrize(
    ("pages", "given", "why"),
    [
        (["a red bus"], [], "1 pages and 0 lists"),
        ([], [], "nothing to learn"),
        (["a red bus"], [["word " * 200]], "nothing to learn"),
        (["a red bus"], [["blue car"]], "None of the phrases stands on its page"),
        (["a red bus"], ["red bus"], "phrases of page 0 are 'red bus'"),
        (["a red bus"], [[7]], "A phrase of page 0 is 7"),
        (["a red bus"], [{"red bus": -1}], "clicks are at least 0"),
        ([3], [["red bus"]], "Page 0 is a int"),
    ],
)
def test_bad_training_data(pages, given, why):
    with pytest.raises(BadInput, match=why):
        KEX(bits=12, n_jobs=1).fit(pages, given)


def test_bad_questions(model):
    with pytest.raises(BadParameter, match="k must be"):
        model.recommend(NEW, 0)
    with pytest.raises(BadInput, match="Page 0"):
        list(model.recommend([None]))


def test_a_forged_folder_is_refused(model, tmp_path):
    model.save(tmp_path / "m")
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    manifest["params"]["bits"] = 14
    (tmp_path / "m" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BadArtifact):
        broadmatch.load(tmp_path / "m")


def test_abstracts_stay_near_the_figures_of_the_benchmark(shared_data):
    """A small version of benchmarks/kex.py: 300 documents to learn from, 150 to find the phrases of."""
    with gzip.open(shared_data / "inspec" / "documents.jsonl.gz", "rt") as lines:
        documents = [json.loads(line) for line, _ in zip(lines, range(450), strict=False)]
    texts, gold = [one["text"] for one in documents], [one["keyphrases"] for one in documents]
    trained = KEX().fit(texts[:300], gold[:300])
    for model, floor in ((trained, 0.31), (KEX.untrained(), 0.22)):
        found = model.recommend(texts[300:], 15)
        mean = np.mean([f1(phrases(one), wanted, [10]) for one, wanted in zip(found, gold[300:], strict=True)])
        assert mean >= floor
