"""Forests are the same however they were shared out over threads and nodes; finished trees are taken up again."""

import numpy as np
import pytest

import broadmatch
from broadmatch.data import CSR
from broadmatch.labels import FastXML, PfastreXML, SwiftXML
from broadmatch.labels.ranking_trees import forest as forests
from broadmatch.labels.ranking_trees.forest import with_slots, without_slots
from tests.contract import N_FEATURES, N_LABELS, bits, memory_mapped, points
from tests.reference import ranking_trees_tree as reference
from tests.reference.ranking_trees_predict import seen_by_trees

MODELS = pytest.mark.parametrize("cls", [FastXML, PfastreXML, SwiftXML], ids=lambda c: c.__name__)
ALL_AT_ONCE = 10**9


def trees(model):
    """The forest as nested objects, whose nodes have no numbers."""
    return reference.trees(model.forest_)


def depth(tree):
    return 0 if isinstance(tree, reference.Leaf) else 1 + max(depth(tree.left), depth(tree.right))


@MODELS
def test_the_size_of_parts_makes_no_other_tree(cls, monkeypatch):
    X, Y = points()
    monkeypatch.setattr(forests, "_PART", ALL_AT_ONCE)
    whole = cls(n_trees=3, max_leaf=3, n_jobs=1).fit(X, Y)
    expected = trees(whole)
    assert min(depth(tree) for tree in expected) > 3
    for part in (1, 20, 150):
        monkeypatch.setattr(forests, "_PART", part)
        by_parts = [cls(n_trees=3, max_leaf=3, n_jobs=n_jobs).fit(X, Y) for n_jobs in (1, 2, 4)]
        assert trees(by_parts[0]) == expected
        assert all(bits(model) == bits(by_parts[0]) for model in by_parts)
        assert (by_parts[0].predict_topk(X, k=4).to_csr() != whole.predict_topk(X, k=4).to_csr()).nnz == 0


@MODELS
@pytest.mark.parametrize("n_trees", [1, 2, 5])
def test_whole_trees_or_nodes_side_by_side(cls, n_trees, monkeypatch):
    monkeypatch.setattr(forests, "_PART", 30)
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
        monkeypatch.setattr(forests, "_PART", part)
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


def frequencies(X):
    return X.getnnz(axis=0) / X.shape[0]


@MODELS
def test_nodes_near_the_roots_keep_rare_features_by_feature(cls):
    X, Y = points()
    all_grown = {"neighbours": 0} if cls is SwiftXML else {}  # no points are added to leaves after slots are given
    forest = cls(n_trees=6, max_leaf=3, **all_grown).fit(X, Y).forest_
    own = without_slots(forest)
    labelled = np.count_nonzero(np.diff(Y.indptr))
    share = {}

    def below(node):
        under = int(own.child[node])
        size = int(own.leaf_size[-1 - under]) if under < 0 else below(under) + below(under + 1)
        share[node] = size / labelled
        return size

    assert all(below(root) == labelled for root in own.roots.tolist())
    assert forest.slot_node.tolist() == np.flatnonzero(forest.slot >= 0).tolist()
    assert forest.slot[forest.slot_node].tolist() == list(range(len(forest.slot_node)))
    assert {int(root) for root in own.roots if own.weight_ptr[root] < own.weight_ptr[root + 1]} <= set(
        forest.slot_node.tolist()
    )
    assert all(share[node] >= forests._OFTEN for node in forest.slot_node.tolist())
    common = frequencies(X)
    early = np.repeat(np.arange(len(forest.ahead_ptr) - 1), np.diff(forest.ahead_ptr))
    assert len(early) > 50
    nodes = forest.slot_node[forest.ahead_slot].tolist()
    assert all(common[f] < share[n] for f, n in zip(early, nodes, strict=True) if f < N_FEATURES)
    for node in forest.slot_node.tolist():
        kept = forest.weight_feature[forest.weight_ptr[node] : forest.weight_ptr[node + 1]]
        assert all(common[f] >= share[node] for f in kept if f < N_FEATURES)


@MODELS
def test_slots_and_back_leave_every_node_its_weights(cls):
    X, Y = points()
    forest = cls(n_trees=6, max_leaf=3).fit(X, Y).forest_
    own = without_slots(forest)
    expected = reference.node_weights(forest)
    assert reference.node_weights(own) == expected
    assert (own.slot == -1).all()
    assert len(own.slot_node) == len(own.ahead_slot) == len(own.ahead_value) == 0
    width = N_FEATURES + (N_LABELS if cls is SwiftXML else 0)
    for seed in range(5):
        again = with_slots(own, np.random.default_rng(seed).random(width))
        assert len(again.ahead_value)
        assert reference.node_weights(again) == reference.node_weights(without_slots(again)) == expected
        assert all(a.dtype == b.dtype for a, b in zip(again, forest, strict=True))
    nowhere = with_slots(own, np.ones(width))  # features that all points have
    assert not len(nowhere.ahead_value)
    assert reference.node_weights(nowhere) == expected


def test_trees_of_one_leaf_have_no_slots():
    X, Y = points()
    model = FastXML(n_trees=3, max_leaf=1000).fit(X, Y)
    assert len(model.forest_.slot_node) == len(model.forest_.ahead_value) == 0
    assert without_slots(model.forest_).weight_ptr.tolist() == [0, 0, 0, 0]
    assert len(model.predict_one(X[0], k=3)[0]) == 3


def same_answers(model, X, revealed, k):
    """The model says the same, by rows and one by one, with its weights by feature and with all of them by node."""
    slots = model.forest_
    assert len(slots.ahead_value)
    said = model.predict_topk(X, k=k, revealed=revealed).to_csr()
    alone = [model.predict_one(X[i], k=k, revealed=None if revealed is None else revealed[i]) for i in range(20)]
    model.forest_ = without_slots(slots)
    assert (model.predict_topk(X, k=k, revealed=revealed).to_csr() != said).nnz == 0
    for i, (labels, scores) in enumerate(alone):
        again = model.predict_one(X[i], k=k, revealed=None if revealed is None else revealed[i])
        assert (labels.tolist(), scores.tolist()) == (again[0].tolist(), again[1].tolist())
    model.forest_ = slots
    return said


@MODELS
@pytest.mark.parametrize("known", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("k", [1, 3, 9])
def test_slots_change_no_answer(cls, known, k):
    X, Y = points()
    model = cls(n_trees=6, max_leaf=3).fit(X, Y)
    assert same_answers(model, X, Y if known else None, k).nnz > 200


@MODELS
def test_slots_change_no_answer_where_every_point_has_every_feature(cls):
    rng = np.random.default_rng(0)
    X = rng.random((200, 12)) + 0.01
    Y = (X[:, :5] > 0.6).astype(np.float32)
    forest = cls(n_trees=4).fit(X, Y).forest_
    assert (np.diff(forest.ahead_ptr)[:12] == 0).all()  # by node, these are read less often
    X[rng.random(X.shape) < 0.3] = 0
    model = cls(n_trees=4).fit(X, Y)
    said = same_answers(model, CSR.from_scipy(X).to_scipy(), None, 3)
    assert (model.predict_topk(X, k=3).to_csr() != said).nnz == 0


def test_item_features_of_new_labels_have_no_slots():
    X, Y = points()
    Y = Y[:, :7]
    model = SwiftXML(n_trees=6, max_leaf=3, c_item_sets=10).fit(X[:150], Y[:150])
    n_ahead = len(model.forest_.ahead_ptr) - 1
    assert n_ahead == N_FEATURES + 7
    assert model.forest_.ahead_ptr[-1] > model.forest_.ahead_ptr[N_FEATURES]  # some are of item sets
    both = np.zeros((300, 9), np.float32)
    both[:, :7] = Y.toarray()
    both[::3, 7], both[::5, 8] = 1, 1
    both = CSR.from_scipy(both).to_scipy()
    model.add_points(X[150:], both[150:])
    assert len(model.forest_.ahead_ptr) - 1 == n_ahead < N_FEATURES + model.label_features_.n_cols
    said = same_answers(model, X, both, 3)
    assert said.nnz
    told = model.explain(X[0], 1, revealed=[0, 7, 8])  # beyond the slots too
    labels, scores = model.predict_one(X[0], k=9, revealed=[0, 7, 8])
    assert told.score == pytest.approx(dict(zip(labels.tolist(), scores.tolist(), strict=True)).get(1, 0.0), rel=1e-5)


@MODELS
def test_a_saved_forest_keeps_its_slots(cls, tmp_path):
    X, Y = points()
    model = cls(n_trees=4, max_leaf=3).fit(X, Y)
    model.save(tmp_path / "model")
    loaded = broadmatch.load(tmp_path / "model")
    assert memory_mapped(loaded.forest_.ahead_value)
    for name, array in model.forest_._asdict().items():
        np.testing.assert_array_equal(getattr(loaded.forest_, name), array, strict=True)
    for known in (None, Y):
        same_answers(loaded, X, known, 3)
        assert (
            loaded.predict_topk(X, k=3, revealed=known).to_csr() != model.predict_topk(X, k=3, revealed=known).to_csr()
        ).nnz == 0
    told = [m.explain(X[123], 0, revealed=[1]) for m in (model, loaded)]
    assert told[0] == told[1]


def test_models_of_several_sizes_answer_by_turns():
    """They share the arrays of a thread, which must fit each."""
    X, Y = points()
    models = [FastXML(n_trees=n, max_leaf=3, n_jobs=1).fit(X, Y) for n in (2, 6)]
    assert len({len(model.forest_.slot_node) for model in models}) == 2
    first = [model.predict_topk(X, k=3).to_csr() for model in models]
    for _ in range(2):
        for model, said in zip(models, first, strict=True):
            assert (model.predict_topk(X, k=3).to_csr() != said).nnz == 0
            assert model.predict_one(X[0], k=3)[1].tolist() == said[0].data[np.argsort(-said[0].data)].tolist()
