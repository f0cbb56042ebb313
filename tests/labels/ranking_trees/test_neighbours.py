"""The training points that SwiftXML keeps, how it chooses who is near, and what its answers owe to them."""

import numpy as np
import pytest
import scipy.sparse as sp

import broadmatch
from broadmatch.data import CSR, reveal
from broadmatch.errors import BadParameter
from broadmatch.labels import SwiftXML
from broadmatch.labels.ranking_trees import neighbours as xml_neighbours
from broadmatch.labels.ranking_trees.neighbours import KEPT, NO_POINTS, SETTINGS, keep_points, more_points
from tests.contract import N_FEATURES, N_LABELS, NEVER, bits, memory_mapped, points
from tests.labels.ranking_trees.test_pfastrexml import doubles, unit_table

HALF = 150
P = np.linspace(0.2, 1, N_LABELS)


def data():
    """X and weighted Y as matrices of the package; point 7 has no labels."""
    X, Y = points()
    Y = Y.multiply(np.random.default_rng(0).choice([1, 0.5, 3], Y.shape)).tocsr()
    return CSR.from_scipy(X), CSR.from_scipy(Y)


def part(X, Y, start, stop):
    rows = np.arange(start, stop)
    return X.take(rows), Y.take(rows)


def lists(near, n_labels=N_LABELS):
    """The points of each label."""
    return [near.point[near.point_ptr[j] : near.point_ptr[j + 1]].tolist() for j in range(n_labels)]


def test_points_with_labels_are_kept():
    X, Y = data()
    near = keep_points(X, Y, P, 20, 0.4, 0.8)
    labelled = np.flatnonzero(np.diff(Y.indptr))
    assert 7 not in labelled
    assert near.row.tolist() == labelled.tolist()
    assert (near.most, near.share) == (20, 0.4)
    y, n = doubles(Y.to_scipy())[labelled], len(labelled)
    gain = sp.csr_matrix((near.gain, near.label, near.label_ptr), shape=(n, N_LABELS)).toarray()
    np.testing.assert_allclose(gain, y / P, rtol=1e-6)
    x = sp.csr_matrix((near.x_value, near.x_feature, near.x_ptr), shape=(n, N_FEATURES)).toarray()
    np.testing.assert_allclose(x, unit_table(X.to_scipy())[labelled], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(near.rarity, 1 / P, rtol=1e-6)
    np.testing.assert_allclose(near.inverse_length, 1 / np.sqrt((y > 0) @ P**-2.0), rtol=1e-6)
    assert lists(near) == [np.flatnonzero(y[:, j]).tolist() for j in range(N_LABELS)]
    assert lists(near)[NEVER] == []


def test_the_largest_features_of_a_point_are_kept():
    rng = np.random.default_rng(0)
    X, Y = CSR.from_scipy(rng.random((5, 400))), CSR.from_scipy(np.ones((5, 2)))
    near = keep_points(X, Y, np.ones(2), 5, 0.5, 0.8)
    assert np.diff(near.x_ptr).tolist() == [200] * 5
    unit = unit_table(X.to_scipy())
    for i in range(5):
        here = slice(near.x_ptr[i], near.x_ptr[i + 1])
        assert set(near.x_feature[here].tolist()) == set(np.argsort(-unit[i])[:200].tolist())
        np.testing.assert_allclose(near.x_value[here], unit[i, near.x_feature[here]], rtol=1e-5)


def test_of_a_very_common_label_some_points_are_listed(monkeypatch):
    X, Y = data()
    whole = keep_points(X, Y, P, 20, 0.4, 0.8)
    counts = [len(one) for one in lists(whole)]
    listed = sorted(counts)[-4]
    assert sum(count > listed for count in counts) == 3
    monkeypatch.setattr(xml_neighbours, "_LISTED", listed)
    thin = keep_points(X, Y, P, 20, 0.4, 0.8)
    for some, everyone in zip(lists(thin), lists(whole), strict=True):
        assert len(some) == min(listed, len(everyone))
        at = np.searchsorted(everyone, some)
        assert [everyone[i] for i in at] == some
        gaps = np.diff(at)
        assert not len(gaps) or gaps.max() - gaps.min() <= 1  # evenly spaced
    np.testing.assert_array_equal(thin.label, whole.label)  # what the points themselves have stays whole


@pytest.mark.parametrize("listed", [10_000, 30])
def test_points_that_are_added_are_listed_as_if_they_had_been_there(monkeypatch, listed):
    monkeypatch.setattr(xml_neighbours, "_LISTED", listed)
    X, Y = data()
    whole = keep_points(X, Y, P, 20, 0.4, 0.8)
    first = keep_points(*part(X, Y, 0, HALF), P, 20, 0.4, 0.8)._replace(x_share=0.5, power=3.0)
    both = more_points(first, *part(X, Y, HALF, 200), P, HALF)
    both = more_points(both, *part(X, Y, 200, 300), P, 200)
    for name in KEPT:
        np.testing.assert_array_equal(getattr(both, name), getattr(whole, name), err_msg=name, strict=True)
    assert [getattr(both, name) for name in SETTINGS] == [20, 0.4, 1.0, 0.5, 3.0, 0.8]  # these stay as they were


def test_new_labels_are_listed_too():
    X, Y = data()
    first = CSR.from_scipy(Y.to_scipy()[:HALF, :5])
    near = keep_points(X.take(np.arange(HALF)), first, P[:5], 20, 0.4, 0.8)
    both = more_points(near, *part(X, Y, HALF, 300), P, HALF)
    assert len(both.rarity) == N_LABELS
    n_before = len(near.row)
    assert all(min(some, default=n_before) >= n_before for some in lists(both)[5:])
    assert any(lists(both)[5:])


@pytest.mark.parametrize(("most", "share"), [(0, 0.5), (5, 0.0)])
def test_nothing_is_kept_where_nobody_is_asked(most, share):
    X, Y = data()
    assert keep_points(X, Y, P, most, share, 0.8) is NO_POINTS
    assert more_points(NO_POINTS, X, Y, P, 10) is NO_POINTS


def test_points_with_one_label_tell_nothing_about_others():
    model = SwiftXML(n_trees=2).fit(np.eye(4), np.eye(4))
    assert 2 not in model.predict_one([0, 0, 1, 0], revealed=[2])[0]


@pytest.fixture(scope="module")
def model():
    X, Y = points()
    return SwiftXML(n_trees=4, max_leaf=4).fit(X, Y)


def known():
    return reveal(CSR.from_scipy(points()[1]), 0.5)[0]


@pytest.mark.parametrize("off", [{"neighbours": 0}, {"neighbour_share": 0}])
def test_without_neighbours_the_trees_and_the_re_ranker_answer(model, off):
    X, Y = points()
    without = SwiftXML(n_trees=4, max_leaf=4, **off).fit(X, Y)
    assert len(without.neighbours_.row) == 0
    without.forest_ = model.forest_  # of which trees are grown without some points, to choose on
    assert (model.predict_topk(X, k=4).to_csr() != without.predict_topk(X, k=4).to_csr()).nnz == 0
    answers = without.predict_topk(X, k=4, revealed=known()).to_csr()
    assert (answers != model.predict_topk(X, k=4, revealed=known()).to_csr()).nnz > 100
    asked, model.neighbours_ = model.neighbours_, NO_POINTS
    try:
        assert (answers != model.predict_topk(X, k=4, revealed=known()).to_csr()).nnz == 0
    finally:
        model.neighbours_ = asked
    assert "p_near" not in without.explain(X[0], 0, revealed=[1]).factors
    for m in (without, without.add_points(X[:20], Y[:20])):
        assert m.neighbours_ is NO_POINTS


def test_the_neighbours_are_saved(model, tmp_path):
    model.save(tmp_path / "m")
    loaded = broadmatch.load(tmp_path / "m")
    assert memory_mapped(loaded.neighbours_.x_value)
    for name in KEPT:
        np.testing.assert_array_equal(getattr(loaded.neighbours_, name), getattr(model.neighbours_, name), strict=True)
    assert [getattr(loaded.neighbours_, name) for name in SETTINGS] == [
        getattr(model.neighbours_, name) for name in SETTINGS
    ]
    X, _ = points()
    assert (
        loaded.predict_topk(X, revealed=known()).to_csr() != model.predict_topk(X, revealed=known()).to_csr()
    ).nnz == 0
    assert loaded.explain(X[0], 0, revealed=[1]) == model.explain(X[0], 0, revealed=[1])


@pytest.mark.parametrize("off", [{"neighbours": 0}, {"neighbour_share": 0.0}])
def test_a_model_without_neighbours_is_saved_without(off, tmp_path):
    X, Y = points()
    model = SwiftXML(n_trees=2, **off).fit(X, Y)
    model.set_params(neighbours=50, neighbour_share=0.5)  # of the next fit
    model.save(tmp_path / "m")
    loaded = broadmatch.load(tmp_path / "m")
    for m in (model, loaded):
        m.add_points(X[:50], Y[:50])
    assert bits(loaded) == bits(model)
    assert (
        loaded.predict_topk(X, revealed=known()).to_csr() != model.predict_topk(X, revealed=known()).to_csr()
    ).nnz == 0


def test_propensities_near_zero_break_nothing():
    X, Y = points()
    model = SwiftXML(n_trees=2).fit(X, Y, propensities=np.full(N_LABELS, 1e-25))
    found = model.predict_topk(X, revealed=known()).to_csr()
    assert found.nnz
    assert np.isfinite(found.data).all()


@pytest.mark.parametrize(
    "wrong", [{"neighbours": -1}, {"neighbours": 1.5}, {"neighbour_share": -0.1},
              {"neighbour_share": 1.1}, {"neighbour_share": "all"}]
)  # fmt: skip
def test_bad_parameters_are_refused(wrong):
    with pytest.raises(BadParameter, match=next(iter(wrong))):
        SwiftXML(**wrong).fit(*points())
