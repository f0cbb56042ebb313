"""From pages to phrases: the vectorizer and the model, asked together."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import broadmatch
from broadmatch.data import Hierarchy
from broadmatch.errors import BadArtifact, BadInput
from broadmatch.features import PageVectorizer
from broadmatch.io import Page, artifacts
from broadmatch.labels import MLRF, Phrase, Recommendation, Recommender, recommender
from broadmatch.sets import HierarchicalLabels, PCut, RCut
from broadmatch.state import State
from tests.contract import memory_mapped

TOPICS = {
    "pizza": ["cheap pizza", "pizza delivery"],
    "taxi": ["airport taxi", "taxi"],
    "flowers": ["send flowers", "fresh flowers"],
}


def pages():
    """(page, phrases) of a few shops."""
    for i, topic in itertools.product(range(12), TOPICS):
        html = (
            f"<title>{topic} shop {i}</title><p>the best {topic} in town, order {topic} {'today' if i % 2 else 'now'}"
        )
        yield html, TOPICS[topic][: 1 + i % 2]


@pytest.fixture(scope="module")
def trained():
    texts, phrases = zip(*pages(), strict=True)
    vectorizer = PageVectorizer(min_pages=2)
    model = MLRF(n_trees=5, max_leaf=3).fit(vectorizer.fit_transform(texts), list(phrases))
    return Recommender(vectorizer, model)


NEW = ["<title>Taxi</title> order a taxi", b"<p>fresh flowers today", "", "pizza", "words nobody knows"]


def test_it_is_the_vectorizer_and_then_the_model(trained):
    found = list(trained.recommend(NEW, k=3))
    rows = trained.vectorizer.transform(NEW)
    for i, (name, phrases) in enumerate(found):
        assert name == str(i)
        labels, scores = trained.model.predict_one(rows[i], k=3)
        expected = [trained.model.label_names_[j] for j in labels]
        assert phrases == [Phrase(p, float(s)) for p, s in zip(expected, scores, strict=True)]
    assert found[0].phrases[0].phrase == "airport taxi"
    assert found[3].phrases[0].phrase == "cheap pizza"


def test_pages_keep_their_names_and_one_text_is_one_page(trained):
    expected = list(trained.recommend(NEW, k=2))
    named = list(trained.recommend((Page(f"page {i}", html) for i, html in enumerate(NEW)), k=2))
    assert named == [Recommendation(f"page {i}", found.phrases) for i, found in enumerate(expected)]
    assert list(trained.recommend("pizza", k=2)) == [Recommendation("0", expected[3].phrases)]
    assert list(trained.recommend(NEW[1], k=2)) == [Recommendation("0", expected[1].phrases)]


def test_pages_may_come_in_a_table_by_name_or_alone(trained):
    texts = [html for html, _ in pages()][:3]
    expected = [(f"p{i}", answer.phrases) for i, answer in enumerate(trained.recommend(texts))]
    columns = {"URL": ["p0", "p1", "p2"], "title": ["x", "y", "z"], "html": texts}
    by_name = dict(zip(columns["URL"], texts, strict=True))
    for table in (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns), by_name):
        assert list(trained.recommend(table)) == expected
    assert list(trained.recommend(pl.Series(texts))) == list(trained.recommend(texts))
    assert list(trained.recommend(Page("p0", texts[0].encode()))) == expected[:1]


def test_sets_come_through_the_same_door(trained):
    rows = trained.vectorizer.transform(NEW)
    likely = trained.model.predict_sets(rows)
    assert [[p.phrase for p in found.phrases] for found in trained.recommend(NEW, None)] == likely.names()
    assert 0 < likely.lengths.sum() < len(NEW) * len(trained.model.label_names_)
    Y = trained.model.predict(rows)
    sets = Recommender(trained.vectorizer, RCut(trained.model, k=2).fit(rows, Y))
    assert list(sets.recommend(NEW, None)) == list(trained.recommend(NEW, 2))
    assert list(sets.recommend(NEW, 3)) == list(trained.recommend(NEW, 3))
    with pytest.raises(BadInput, match="RCut take no revealed labels"):
        list(sets.recommend(NEW, None, revealed={}))
    with pytest.raises(BadInput, match="sets of PCut depend on all pages together, but pages come in batches"):
        Recommender(trained.vectorizer, PCut(trained.model).fit(rows, Y)).recommend(NEW, None)


def test_a_hierarchy_has_sets_and_no_ranking(trained):
    rows = trained.vectorizer.transform(NEW)
    tree = Hierarchy.of({"food": [], "travel": []})
    filing = Recommender(
        trained.vectorizer, HierarchicalLabels(n_jobs=1).fit(rows, [["food"], ["travel"]] * 2 + [[]], tree)
    )
    assert [found.name for found in filing.recommend(NEW, None)] == list("01234")
    with pytest.raises(BadInput, match="HierarchicalLabels has sets of categories and no ranking"):
        list(filing.recommend(NEW))


def test_batches_make_no_difference(trained, monkeypatch):
    expected = list(trained.recommend(NEW * 3, k=2))
    monkeypatch.setattr(recommender, "_BATCH", 4)
    assert list(trained.recommend(NEW * 3, k=2)) == expected
    assert list(trained.recommend([], k=2)) == []


def test_pages_may_never_end(trained, monkeypatch):
    monkeypatch.setattr(recommender, "_BATCH", 4)
    read = []
    endless = (read.append(i) or "taxi" for i in itertools.count())
    assert next(trained.recommend(endless, k=1)).phrases[0].phrase == "airport taxi"
    assert len(read) == 4


def test_it_explains(trained):
    why = trained.explain(NEW[0], "airport taxi", n_voters=2)
    assert why.score == pytest.approx(next(trained.recommend(NEW[:1])).phrases[0].score)
    assert trained.explain(Page("taxis", NEW[0]), "airport taxi").score == why.score
    with pytest.raises(BadInput, match="not one of the"):
        trained.explain(NEW[0], "rocket")


def test_save_and_load(trained, tmp_path):
    trained.save(tmp_path / "r")
    loaded = broadmatch.load(tmp_path / "r")
    assert isinstance(loaded, Recommender)
    assert list(loaded.recommend(NEW)) == list(trained.recommend(NEW))
    assert memory_mapped(loaded.model.forest_.feature)
    loaded.save(tmp_path / "again")
    one, two = (artifacts.read_manifest(tmp_path / name) for name in ("r", "again"))
    assert one == two


def test_a_folder_of_something_else_is_refused(trained, tmp_path):
    state = trained.to_state()
    half = State("recommender", {}, {}, {}, {"model": state.parts["model"]})
    artifacts.save(half, tmp_path / "half")
    with pytest.raises(BadArtifact, match="vectorizer and a model"):
        broadmatch.load(tmp_path / "half")


def test_a_vectorizer_of_another_model_is_refused(trained):
    other = PageVectorizer(min_pages=1).fit(["one two three"])
    with pytest.raises(BadInput, match="the vectorizer the model was trained with"):
        list(Recommender(other, trained.model).recommend(NEW))


def test_scores_fall(trained):
    for _, phrases in trained.recommend(NEW, k=6):
        scores = [p.score for p in phrases]
        assert scores == sorted(scores, reverse=True)
        assert np.isfinite(scores).all()


def test_revealed_phrases_are_not_recommended_again(trained, monkeypatch, caplog):
    cold = [found.phrases for found in trained.recommend(NEW, 3)]
    known = [[found[0].phrase] for found in cold[:4]]
    answers = list(trained.recommend(NEW, 2, revealed=[*known, []]))
    warm = [found.phrases for found in answers]
    assert warm == [*(found[1:] for found in cold[:4]), cold[4][:2]]
    assert any(warm[:4])
    assert list(trained.recommend(NEW, 2, revealed={str(i): phrases for i, phrases in enumerate(known)})) == answers
    monkeypatch.setattr(recommender, "_BATCH", 2)
    assert list(trained.recommend(NEW, 2, revealed=iter([*known, ["nobody asks this"]]))) == answers
    assert "1 revealed phrases are unknown to the model" in caplog.text


def test_revealed_phrases_are_for_every_page(trained):
    with pytest.raises(BadInput, match="more pages than revealed lists"):
        list(trained.recommend(NEW, 2, revealed=[[]]))
