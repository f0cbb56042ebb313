"""Forests are the same however they were shared out over threads and nodes; finished trees are taken up again."""

import numpy as np
import pytest

from broadmatch.data import CSR
from broadmatch.labels import FastXML, PfastreXML, SwiftXML, xml_forest
from tests.contract import bits, points
from tests.reference import xml_tree as reference
from tests.reference.xml_predict import seen_by_trees

MODELS = pytest.mark.parametrize("cls", [FastXML, PfastreXML, SwiftXML], ids=lambda c: c.__name__)
ALL_AT_ONCE = 10**9


def trees(model):
    """The forest as nested objects, whose nodes have no numbers."""
    return [reference.unpack(*model.forest_[1:], node=int(root)) for root in model.forest_.roots]


def depth(tree):
    return 0 if isinstance(tree, reference.Leaf) else 1 + max(depth(tree.left), depth(tree.right))


@MODELS
def test_the_size_of_parts_makes_no_other_tree(cls, monkeypatch):
    X, Y = points()
    monkeypatch.setattr(xml_forest, "_PART", ALL_AT_ONCE)
    whole = cls(n_trees=3, max_leaf=3, n_jobs=1).fit(X, Y)
    expected = trees(whole)
    assert min(depth(tree) for tree in expected) > 3
    for part in (1, 20, 150):
        monkeypatch.setattr(xml_forest, "_PART", part)
        by_parts = [cls(n_trees=3, max_leaf=3, n_jobs=n_jobs).fit(X, Y) for n_jobs in (1, 2, 4)]
        assert trees(by_parts[0]) == expected
        assert all(bits(model) == bits(by_parts[0]) for model in by_parts)
        assert (by_parts[0].predict_topk(X, k=4) != whole.predict_topk(X, k=4)).nnz == 0


@MODELS
@pytest.mark.parametrize("n_trees", [1, 2, 5])
def test_whole_trees_or_nodes_side_by_side(cls, n_trees, monkeypatch):
    monkeypatch.setattr(xml_forest, "_PART", 30)
    X, Y = points()
    alone = bits(cls(n_trees=n_trees, n_jobs=1).fit(X, Y))
    for n_jobs in (2, 3, 8):
        assert bits(cls(n_trees=n_trees, n_jobs=n_jobs).fit(X, Y)) == alone


@MODELS
def test_trees_are_the_same_however_many_there_are(cls, tmp_path):
    X, Y = points()
    cls(n_trees=3).fit(X, Y, checkpoint=tmp_path / "c")
    for n_trees in (6, 2):
        model = cls(n_trees=n_trees).fit(X, Y, checkpoint=tmp_path / "c")
        assert bits(model) == bits(cls(n_trees=n_trees).fit(X, Y))


@MODELS
def test_trees_differ(cls):
    X, Y = points()
    first, second, third = trees(cls(n_trees=3).fit(X, Y))
    assert first != second != third != first
    other = trees(cls(n_trees=3, seed=1).fit(X, Y))
    assert all(a != b for a in (first, second, third) for b in other)


def test_every_labelled_point_is_in_one_leaf_of_each_tree(monkeypatch):
    X, Y = points()
    labelled = np.flatnonzero(np.diff(Y.indptr))
    assert len(labelled) < X.shape[0]
    for part in (20, ALL_AT_ONCE):
        monkeypatch.setattr(xml_forest, "_PART", part)
        for tree in trees(FastXML(n_trees=3, max_leaf=3).fit(X, Y)):
            leaves = reference.leaves(tree)
            assert sum(leaf.size for leaf in leaves) == len(labelled)
            # So the leaves, by their sizes, hold as much of each label as the points do.
            held = sum(leaf.size * leaf.values.get(0, 0) for leaf in leaves)
            assert held == pytest.approx(Y[:, 0].sum(), rel=1e-5)


def test_leaves_hold_the_mean_of_the_points_that_reach_them():
    X, Y = points()
    rows = CSR.from_scipy(X)
    seen = np.array([seen_by_trees(row) for row in X.toarray().astype(np.float64)], np.float32)
    labelled = np.flatnonzero(np.diff(Y.indptr))
    (tree,) = trees(FastXML(n_trees=1, max_leaf=8).fit(rows, Y))
    reached = {}
    for i in labelled:
        leaf, closest = reference.walk(tree, seen[i])
        assert closest > 1e-6
        reached.setdefault(id(leaf), (leaf, []))[1].append(i)
    assert len(reached) == len(reference.leaves(tree)) > 10
    for leaf, members in reached.values():
        assert leaf.size == len(members)
        assert leaf.values == pytest.approx(reference.mean_labels(tuple(members), Y.toarray(), 100), rel=1e-5)


def test_joined_trees_stand_behind_each_other():
    X, Y = points()
    forest = FastXML(n_trees=4, max_leaf=3).fit(X, Y).forest_
    n_nodes, n_leaves = len(forest.child), len(forest.leaf_size)
    assert forest.roots[0] == 0
    assert (np.diff(forest.roots) > 0).all()
    assert sorted(-1 - forest.child[forest.child < 0]) == list(range(n_leaves))
    inner = forest.child[forest.child >= 0]
    assert sorted([*forest.roots, *inner, *(inner + 1)]) == list(range(n_nodes))  # every node has one parent
    assert len(forest.weight_ptr) == len(forest.bias) + 1 == n_nodes + 1
    assert forest.weight_ptr[-1] == len(forest.weight_feature) == len(forest.weight_value)
    assert forest.leaf_ptr[-1] == len(forest.leaf_label) == len(forest.leaf_value)
