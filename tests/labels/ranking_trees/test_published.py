"""The tree models as their papers print them: each setting does what it says, and the class method sets them all."""

import numpy as np
import pytest
import scipy.sparse as sp

import broadmatch
from broadmatch.data import CSR
from broadmatch.errors import BadInput
from broadmatch.labels import MLRF, FastXML, PfastreXML, SwiftXML
from broadmatch.labels.ranking_trees._points import inverse_discounts
from broadmatch.labels.ranking_trees.item_sets import ItemSets, item_sets
from tests.contract import N_LABELS, points
from tests.labels.ranking_trees.test_predict import unit_rows
from tests.labels.ranking_trees.test_swiftxml import label_features
from tests.reference.ranking_trees_tree import node_weights

TREES = pytest.mark.parametrize("cls", [FastXML, PfastreXML, SwiftXML])


def fitted(cls, **more):
    X, Y = points()
    described = {"label_features": label_features()} if cls is SwiftXML else {}
    return cls.as_published(n_trees=4, **more).fit(X, Y, **described)


def walked(model, x, z=()):
    """The leaf of each tree by the formula, for a point that is on no hyperplane."""
    forest, row = model.forest_, np.concatenate([x, z])
    weights = node_weights(forest)
    leaves = []
    for root in forest.roots:
        node = int(root)
        while forest.child[node] >= 0:
            score = forest.bias[node] + sum(weight * row[feature] for feature, weight in weights[node].items())
            if abs(score) < 1e-6:
                return None
            node = int(forest.child[node]) + (score <= 0)
        leaves.append(-1 - int(forest.child[node]))
    return leaves


def test_the_settings_are_those_of_the_papers():
    assert MLRF.as_published().get_params() == MLRF(n_trees=100, max_leaf=1000, min_leaf=1, bootstrap=True).get_params()
    trees = {"max_leaf": 10, "c_features": 1.0, "damped": False, "normaliser": "ranks", "ties": "random"}
    assert FastXML.as_published().get_params() == FastXML(**trees).get_params()
    assert PfastreXML.as_published().get_params() == PfastreXML(**trees, gamma=30.0).get_params()
    warm = {"c_item_sets": 1.0, "item_set_weight": 1.0, "item_sets": "plain", "neighbours": 0, "reveal": 1.0,
            "alpha": 0.8}  # fmt: skip
    assert SwiftXML.as_published().get_params() == SwiftXML(**trees, **warm, gamma=30.0).get_params()
    assert SwiftXML.as_published(n_trees=3, reveal=0.5).get_params()["reveal"] == 0.5


@TREES
def test_trees_see_rows_as_they_are(cls):
    model = fitted(cls)
    X, _ = points()
    table = unit_rows(X.toarray().astype(np.float64))
    width = 7 if cls is SwiftXML else 0
    checked = 0
    for i in range(0, 300, 5):
        leaves = walked(model, table[i], np.zeros(width))
        if leaves is not None:
            why = model.explain(X[i], 0)
            assert [leaf.n_points for leaf in why.leaves] == model.forest_.leaf_size[leaves].tolist()
            checked += 1
    assert checked


@TREES
def test_saved_models_and_single_rows_give_the_same_bits(cls, tmp_path):
    model = fitted(cls)
    X, Y = points()
    model.save(tmp_path / "m")
    loaded = broadmatch.load(tmp_path / "m")
    for known in (None, Y):
        ranking = model.predict_topk(X, k=4, revealed=known)
        again = loaded.predict_topk(X, k=4, revealed=known)
        np.testing.assert_array_equal(again.labels, ranking.labels)
        np.testing.assert_array_equal(again.scores, ranking.scores)
        for i in (0, 5, 123):
            revealed = None if known is None else known[i].indices.tolist()
            labels, scores = model.predict_one(X[i], k=4, revealed=revealed)
            assert labels.tolist() == ranking.labels[i, : ranking.lengths[i]].tolist()
            assert scores.tolist() == ranking.scores[i, : ranking.lengths[i]].tolist()
            for label, score in zip(labels, scores, strict=True):
                assert model.explain(X[i], int(label), revealed=revealed).score == pytest.approx(score, rel=1e-4)


def test_ranks_are_counted_for_as_many_labels_as_a_point_has():
    found = inverse_discounts(np.array([0, 0, 1, 4]))
    discounts = 1 / np.log([2, 3, 4])
    assert found == pytest.approx([0, 1 / discounts[0], 1 / discounts.sum()])


def test_points_on_every_hyperplane_go_both_ways():
    """A point without features, where no node has a bias, is on each hyperplane."""
    X, Y = points()
    empty = np.flatnonzero(X.getnnz(axis=1) == 0)[0]
    models = {ties: FastXML(n_trees=60, ties=ties).fit(X, Y) for ties in ("right", "random")}
    for model in models.values():
        model.forest_.bias[:] = 0
    ways = {
        ties: [s.went_left for leaf in m.explain(X[empty], 0).leaves for s in leaf.path] for ties, m in models.items()
    }
    assert not any(ways["right"])
    assert 0.2 < np.mean(ways["random"]) < 0.8
    other = FastXML(n_trees=60, ties="random", seed=1)
    other.forest_ = models["random"].forest_
    assert other._routing() != models["random"]._routing()


def test_plain_item_sets_are_unit_rows_of_the_features_that_were_given():
    _, Y = points()
    model = fitted(SwiftXML)
    assert (model.label_features_.to_scipy() != label_features()).nnz == 0
    sets = ItemSets(model.label_features_, weighed=False)
    revealed = CSR.from_scipy(Y)
    assert (sets.of_rows(revealed, 1).to_scipy() != item_sets(revealed, model.label_features_).to_scipy()).nnz == 0
    assert np.square(sets.of_row(revealed.row(0))[1]).sum() == pytest.approx(1)
    assert len(model.neighbours_.row) == len(model.tail_.own_value) == 0


def test_the_published_re_ranker_compares_with_the_mean_item_set():
    X, Y = points()
    model = fitted(SwiftXML)
    sets = item_sets(Y, label_features()).to_scipy().toarray().astype(np.float64)
    mean = (Y.toarray()[:, 2] @ sets) / Y.toarray()[:, 2].sum()
    known = np.zeros((1, N_LABELS), np.float32)
    known[0, [0, 4]] = 1
    z = item_sets(known, label_features()).to_scipy().toarray()[0]
    factors = model.explain(X[123], 2, revealed=[0, 4]).factors
    assert factors["distance_revealed"] == pytest.approx(((z - mean) ** 2).sum(), rel=1e-4)
    assert "p_near" not in factors


def test_points_can_be_added():
    X, Y = points()
    model = fitted(SwiftXML)
    wider = sp.hstack([Y[:40], np.ones((40, 1), np.float32)]).tocsr()
    before = model.label_features_
    model.add_points(X[:40], wider, label_features=np.ones((1, 7), np.float32))
    assert model.label_features_.shape == (N_LABELS + 1, 7)
    assert (model.label_features_.to_scipy()[:N_LABELS] != before.to_scipy()).nnz == 0
    assert N_LABELS in model.predict_one(X[0], k=N_LABELS + 1)[0]
    again = fitted(SwiftXML).add_points(X[:40], wider)
    assert again.label_features_.row(N_LABELS)[0].tolist() == []


def test_plain_item_sets_need_label_features():
    X, Y = points()
    with pytest.raises(BadInput, match="give one row of features for each label"):
        SwiftXML.as_published(n_trees=1).fit(X, Y)
