"""Rankings, sets, reports and phrases of pages by a cluster: those of one machine."""

import numpy as np
import pytest

from broadmatch.cluster import ClusterModel, ClusterRecommender, ThreadEngine, predicting
from broadmatch.data import Dataset, Names
from broadmatch.features import PageVectorizer
from broadmatch.labels import MLRF, Recommender, ranking_reports, revealed_report, set_reports
from broadmatch.sets import PCut, RCut
from tests.cluster.data import plain_data


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(predicting, "_ROWS", 130)
    monkeypatch.setattr(predicting, "_PAGES", 3)
    monkeypatch.setattr(predicting, "_AHEAD", 2)


def same(one, other):
    """Rankings are equal as far as they count."""
    return one.label_names == other.label_names and all(
        np.array_equal(a, b)
        for a, b in zip(
            (one.lengths, one.labels[one.found], one.scores[one.found]),
            (other.lengths, other.labels[other.found], other.scores[other.found]),
            strict=True,
        )
    )


def test_rankings_sets_and_reports_are_those_of_the_model(tmp_path):
    X, Y = plain_data(400)
    model = RCut(MLRF(n_trees=2), k=2).fit(X, Y)
    model.save(tmp_path / "model")
    spread = ClusterModel(ThreadEngine(), tmp_path / "model", model)
    assert same(spread.predict_topk(X, 5), model.predict_topk(X, 5))
    assert same(spread.predict_topk(X, 5, revealed=Y), model.predict_topk(X, 5, revealed=Y))
    assert same(spread.predict_sets(X), model.predict_sets(X))
    points = Dataset(X, Y, Names.numbers(Y.n_cols))
    for report in (ranking_reports, set_reports):
        ours, theirs = report(spread, points), report(model, points)
        assert str(ours) == str(theirs)


def test_warm_starts_are_evaluated(tmp_path):
    X, Y = plain_data(400)
    model = MLRF(n_trees=2).fit(X, Y)
    model.save(tmp_path / "model")
    points = Dataset(X, Y, Names.numbers(Y.n_cols))
    spread = ClusterModel(ThreadEngine(), tmp_path / "model", model)
    ours, theirs = (revealed_report(one, points, shares=[0.5], ks=(1,)).to_dict() for one in (spread, model))
    assert ours == theirs


def test_sets_of_all_rows_together_are_made_here(tmp_path):
    X, Y = plain_data(400)
    model = PCut(MLRF(n_trees=2)).fit(X, Y)
    model.save(tmp_path / "model")
    assert same(ClusterModel(ThreadEngine(), tmp_path / "model", model).predict_sets(X), model.predict_sets(X))


PAGES = {f"page {i}": f"<title>pizza {w}</title><p>{w} delivery</p>" for i, w in enumerate(["oven", "taxi", "tea"] * 4)}


@pytest.mark.parametrize("revealed", [None, {"page 1": ["pizza oven"]}, [["pizza tea"]] * 12])
def test_phrases_of_pages_are_those_of_the_recommender(tmp_path, revealed, caplog):
    vectorizer = PageVectorizer(min_pages=1)
    X = vectorizer.fit_transform(list(PAGES.values()))
    model = MLRF(n_trees=2, max_leaf=1).fit(X, [[page.split("<")[1][6:]] for page in PAGES.values()])
    recommender = Recommender(vectorizer, model)
    recommender.save(tmp_path / "model")
    spread = ClusterRecommender(ThreadEngine(), tmp_path / "model", recommender)
    assert list(spread.recommend(PAGES, 2, revealed=revealed)) == list(
        recommender.recommend(PAGES, 2, revealed=revealed)
    )


def test_what_could_not_be_used_is_said_once(tmp_path, caplog):
    vectorizer = PageVectorizer(min_pages=1)
    X = vectorizer.fit_transform(list(PAGES.values()))
    model = MLRF(n_trees=2, max_leaf=1).fit(X, [["pizza"], ["tea"]] * 6)
    recommender = Recommender(vectorizer, model)
    recommender.save(tmp_path / "model")
    pages = ["<p>zzz</p>"] * 7
    list(
        ClusterRecommender(ThreadEngine(), tmp_path / "model", recommender).recommend(
            pages, 2, revealed=[["nobody"]] * 7
        )
    )
    assert [record.message for record in caplog.records] == [
        "7 revealed phrases are unknown to the model.",
        "Pages without a word that the model knows: 7; their phrases are a guess.",
    ]
