"""Revealed phrases that are no labels: they count by their words, as a label with these words would."""

import logging

import numpy as np
import pytest

import broadmatch
from broadmatch.data import CSR, as_labels
from broadmatch.features import PageVectorizer, text_label_features
from broadmatch.labels import MLRF, Recommender, SwiftXML

FOOD, RIDES = ["cheap pizza", "pizza delivery", "delivery now"], ["airport taxi", "cheap taxi", "taxi airport"]
Y, NAMES = as_labels([FOOD if i % 2 else RIDES for i in range(40)])


@pytest.fixture(scope="module", params=["weighed", "plain"])
def model(request):
    features, _ = text_label_features(NAMES)
    settings = {"n_trees": 10, "max_leaf": 2, "c_item_sets": 10, "item_sets": request.param, "n_jobs": 1}
    return SwiftXML(**settings).fit(np.ones((40, 1)), Y, label_names=NAMES, label_features=features)


def test_words_of_a_phrase_decide(model):
    found = model.predict_topk(
        np.ones((3, 1)), k=2, revealed=[["pizza place"], ["night taxi"], ["cheap pizza", "taxi"]]
    )
    first, second, third = found.names()
    assert set(first) <= set(FOOD)
    assert set(second) <= set(RIDES)
    assert "cheap pizza" not in third


def test_one_row_is_as_in_a_batch_and_after_loading(model, tmp_path):
    model.save(tmp_path / "model")
    again = broadmatch.load(tmp_path / "model")
    for revealed in (["pizza place"], ["taxi", "airport taxi"], ["pizza place", "unheard"], ["unheard"], []):
        labels, scores = again.predict_one([1.0], k=3, revealed=revealed)
        batch = model.predict_topk(np.ones((2, 1)), k=3, revealed=[revealed, []])[0]
        assert (labels.tolist(), scores.tolist()) == (batch[0].tolist(), batch[1].tolist())


def test_a_phrase_without_known_words_changes_nothing(model, caplog):
    cold = model.predict_topk(np.ones((1, 1)), k=3)[0]
    with caplog.at_level(logging.WARNING):
        found = model.predict_topk(np.ones((1, 1)), k=3, revealed=[["unheard"]])[0]
    assert found[0].tolist() == cold[0].tolist()
    assert "without a word that the labels have: 1" in caplog.text


def test_labels_that_are_described_otherwise_leave_phrases_out(caplog):
    settings = {"n_trees": 2, "n_jobs": 1}
    other = SwiftXML(**settings).fit(np.ones((40, 1)), Y, label_names=NAMES, label_features=np.eye(len(NAMES)))
    assert other.describe(["pizza"]) is None
    assert SwiftXML(**settings).fit(np.ones((40, 1)), Y, label_names=NAMES).describe(["pizza"]) is None
    assert MLRF(n_trees=2, n_jobs=1).fit(np.ones((40, 1)), Y).describe(["pizza"]) is None
    other.predict_topk(np.ones((1, 1)), k=3, revealed=[["pizza place"]])
    assert "unknown to the model" in caplog.text


def test_a_recommender_passes_them_on(model, caplog):
    pages = ["welcome here"] * 3
    recommender = Recommender(PageVectorizer(min_pages=1).fit(["welcome"]), model)
    found = list(recommender.recommend(pages, 2, revealed=[["pizza place"], ["night taxi", "unheard"], []]))
    assert {phrase for phrase, _ in found[0].phrases} <= set(FOOD)
    assert {phrase for phrase, _ in found[1].phrases} <= set(RIDES)
    assert "1 revealed phrases are unknown" in caplog.text


def test_phrases_count_as_labels_of_the_same_words_would(model):
    """A phrase with the words of a label gives an item set in its direction, but for the label's own column."""
    describer = model._describing()
    sets, nothing = model._item_sets(), CSR.from_rows([[]], len(NAMES))
    described = describer.describe(NAMES)
    one = CSR.from_rows([[0]], 1)
    for label in range(len(NAMES)):
        z = describer.item_sets(sets, nothing, one, described.take(np.array([label])), 1).to_scipy().toarray()[0]
        known = sets.of_rows(CSR.from_rows([[label]], len(NAMES)), 1).to_scipy().toarray()[0]
        width = described.n_cols
        direction = known[:width] / np.linalg.norm(known[:width])
        np.testing.assert_allclose(z[:width] / np.linalg.norm(z), direction, atol=1e-5)
        assert np.linalg.norm(z) == pytest.approx(np.linalg.norm(known), abs=1e-5)
