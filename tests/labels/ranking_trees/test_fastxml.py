"""FastXML as a model: what its leaves hold, what it answers, what its parameters do, how well it ranks."""

import numpy as np
import pytest
import scipy.sparse as sp

from broadmatch.data import CSR
from broadmatch.evaluate import precision_at_k
from broadmatch.labels import FastXML
from broadmatch.labels.ranking_trees.forest import without_slots
from tests.contract import bits, points
from tests.labels.ranking_trees.test_forest import trees
from tests.reference import ranking_trees_predict as reference


def test_it_answers_as_the_reference():
    X, Y = points()
    model = FastXML(n_trees=7, max_leaf=4).fit(X, Y)
    grown, compared = trees(model), 0
    for i in range(0, 300, 5):
        expected, closest = reference.scores(X[i].toarray().ravel().astype(np.float64), np.zeros(0), grown, None)
        if closest > 1e-5:
            labels, scores = model.predict_one(X[i], k=9)
            assert dict(zip(labels.tolist(), scores.tolist(), strict=True)) == pytest.approx(expected, rel=1e-5)
            compared += 1
    assert compared > 50


def test_it_learns_planted_topics(planted):
    (X, Y), (new_X, new_Y) = planted
    model = FastXML(n_trees=10).fit(X, Y)
    popular = np.bincount(Y.indices, minlength=300)
    always = sp.csr_matrix(np.tile(np.where(popular == popular.max(), 1.0, 0), (600, 1)).astype(np.float32))
    found = model.predict_topk(new_X, k=5).to_csr()
    # MLRF with as many trees: 0.64 and 0.37.
    assert precision_at_k(new_Y, found, k=1) > 0.62
    assert precision_at_k(new_Y, found, k=5) > 0.36
    assert precision_at_k(new_Y, always, k=1) < 0.3


def test_eurlex_does_not_fall_behind(eurlex):
    (X, Y), (new_X, new_Y) = eurlex
    found = FastXML(n_trees=5).fit(X, Y).predict_topk(new_X, k=5)
    figures = [100 * precision_at_k(new_Y, found, k=k) for k in (1, 3, 5)]
    assert all(value >= floor for value, floor in zip(figures, [60.0, 46.0, 37.0], strict=True)), figures


def test_one_leaf_gives_the_mean_of_the_labels():
    X, Y = points()
    labels, scores = FastXML(n_trees=2, max_leaf=1000).fit(X, Y).predict_one(X[0], k=9)
    means = np.asarray(Y.sum(axis=0)).ravel() / np.count_nonzero(np.diff(Y.indptr))
    assert np.allclose(scores, means[labels], rtol=1e-6)
    assert np.allclose(scores, np.sort(means)[::-1][: len(labels)], rtol=1e-6)


def test_a_belief_votes_with_its_weight():
    Y = np.array([[1, 0.6], [1, 0.6], [1, 0.2]])
    labels, scores = FastXML(n_trees=1).fit(np.ones((3, 1)), Y).predict_one([1])
    assert labels.tolist() == [0, 1]
    assert np.allclose(scores, [1, 1.4 / 3])


def test_a_leaf_keeps_its_strongest_labels_only():
    X, Y = points()
    assert np.diff(FastXML(n_trees=3, max_leaf=50, leaf_labels=2).fit(X, Y).forest_.leaf_ptr).max() == 2
    assert np.diff(FastXML(n_trees=3, max_leaf=50).fit(X, Y).forest_.leaf_ptr).max() > 2
    everything = FastXML(n_trees=3, max_leaf=50, leaf_labels=2**40).fit(X, Y)
    assert np.diff(everything.forest_.leaf_ptr).max() <= 8


@pytest.mark.parametrize("max_leaf", [1, 5, 20, 2**40])
def test_nodes_are_split_down_to_the_size_that_was_asked(max_leaf, planted):
    (X, Y), _ = planted
    few = np.arange(400)
    # With a small C no weight is worth its price in a small node, and it is not split.
    model = FastXML(n_trees=2, max_leaf=max_leaf, c_features=1000).fit(X.take(few), Y.take(few))
    sizes = model.forest_.leaf_size
    assert sizes.sum() == 800
    assert np.mean(sizes <= max_leaf) > 0.8


def test_rows_count_by_their_direction():
    X, Y = points()
    far = sp.csr_matrix(X.multiply(4.0 ** np.arange(-20, 280)[:, None].clip(-20, 20)), dtype=np.float32)
    assert bits(FastXML(n_trees=3).fit(far, Y)) == bits(FastXML(n_trees=3).fit(X, Y))


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_features_of_any_size(scale):
    X, Y = points()
    model = FastXML(n_trees=3).fit(X * np.float32(scale), Y)
    assert model.score(X * np.float32(scale), Y) > 0.6
    assert np.isfinite(without_slots(model.forest_).weight_value).all()


@pytest.mark.parametrize("scale", [2.0**-110, 2.0**110])
def test_labels_of_any_weight(scale):
    X, Y = points()
    scaled, plain = FastXML(n_trees=3).fit(X, Y * np.float32(scale)), FastXML(n_trees=3).fit(X, Y)
    found, expected = scaled.predict_topk(X, k=3).to_csr(), plain.predict_topk(X, k=3).to_csr()
    assert np.isfinite(found.data).all()
    assert found.indices.tolist() == expected.indices.tolist()
    assert found.data == pytest.approx(expected.data * scale, rel=1e-6)


def test_larger_c_makes_larger_hyperplanes():
    X, Y = points()
    forests = [without_slots(FastXML(n_trees=3, c_features=c).fit(X, Y).forest_) for c in (0.3, 3, 30)]
    sizes = [np.count_nonzero(forest.weight_value) for forest in forests]
    assert sizes[0] < sizes[1] < sizes[2]


def test_labels_that_no_two_points_share():
    X = CSR.from_rows([[i] for i in range(60)], n_cols=60)
    model = FastXML(n_trees=20, max_leaf=2).fit(X, np.eye(60)[::-1])
    assert model.score(X, np.eye(60)[::-1]) > 0.5


def test_a_row_that_shares_nothing_with_training_is_answered_too():
    X, Y = points()
    wide = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(300, 31))
    model = FastXML(n_trees=3).fit(wide, Y)
    labels, scores = model.predict_one((np.array([30]), np.array([1.0])), k=3)
    again, same = model.predict_one(np.zeros(31), k=3)
    assert len(labels) == 3
    assert (labels.tolist(), scores.tolist()) == (again.tolist(), same.tolist())
