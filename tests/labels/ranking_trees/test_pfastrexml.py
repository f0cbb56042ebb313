"""PfastreXML as a model: propensities, the re-ranker's formulas, bad propensities, how well it ranks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.data import CSR, PROPENSITY_PRESETS, propensity
from broadmatch.errors import BadInput
from broadmatch.evaluate import precision_at_k
from broadmatch.labels import FastXML, PfastreXML, SwiftXML
from broadmatch.labels.ranking_trees.tail import mean_points
from tests.contract import N_LABELS, bits, points
from tests.labels.ranking_trees.test_forest import trees
from tests.reference import ranking_trees_predict as reference
from tests.reference.item_sets import unit

WEIGHTED = pytest.mark.parametrize("cls", [PfastreXML, SwiftXML], ids=lambda c: c.__name__)


def doubles(matrix):
    return matrix.toarray().astype(np.float64)


def unit_table(X):
    return np.array([unit(row) for row in doubles(X)])


def forest_bits(model):
    return [array.tobytes() for array in model.forest_]


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.5, 1.0]), st.sampled_from([1, 2]))
def test_mean_points_equal_the_formula(seed, density, n_jobs):
    rng = np.random.default_rng(seed)
    n, d, n_labels = rng.integers(1, 12, 3)
    X = np.where(rng.random((n, d)) < density, rng.normal(size=(n, d)), 0).astype(np.float32)
    X = np.array([unit(row) for row in X.astype(np.float64)], np.float32)
    Y = np.where(rng.random((n, n_labels)) < density, rng.choice([1, 0.25, 3], (n, n_labels)), 0).astype(np.float32)
    means = mean_points(CSR.from_scipy(X), CSR.from_scipy(Y), n_jobs)
    expected = reference.mean_points(X.astype(np.float64), Y.astype(np.float64))
    assert means.rows.to_scipy().toarray() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert means.squares == pytest.approx((expected**2).sum(axis=1), rel=1e-5, abs=1e-9)


def test_it_answers_as_the_reference():
    X, Y = points()
    model = PfastreXML(n_trees=7, max_leaf=4, alpha=0.6, gamma=12).fit(X, Y)
    no_sets = np.zeros((N_LABELS, 0))
    tail = reference.Tail(reference.mean_points(unit_table(X), doubles(Y)), no_sets, no_sets, 0.6, 12, 0)
    grown, compared = trees(model), 0
    for i in range(0, 300, 5):
        expected, closest = reference.scores(doubles(X[i]).ravel(), np.zeros(0), grown, tail)
        if closest > 1e-5:
            labels, scores = model.predict_one(X[i], k=9)
            assert dict(zip(labels.tolist(), scores.tolist(), strict=True)) == pytest.approx(expected, rel=1e-4)
            compared += 1
    assert compared > 50


def test_leaves_hold_gains_of_labels_over_their_propensities():
    X, Y = points()
    p = np.linspace(0.1, 1, N_LABELS)
    model = PfastreXML(n_trees=1, max_leaf=1000, alpha=1).fit(X, Y, propensities=p)
    labels, scores = model.predict_one(X[0], k=9)
    means = np.asarray(Y.sum(axis=0)).ravel() / np.count_nonzero(np.diff(Y.indptr)) / p
    assert scores == pytest.approx(means[labels], rel=1e-5)


def test_the_trees_alone_are_those_of_fastxml_where_every_label_is_sure():
    X, Y = points()
    sure = PfastreXML(n_trees=3, alpha=1, c_features=4).fit(X, Y, propensities=np.ones(N_LABELS))
    plain = FastXML(n_trees=3, c_features=4).fit(X, Y)
    assert forest_bits(sure) == forest_bits(plain)
    assert (sure.predict_topk(X, k=4).to_csr() != plain.predict_topk(X, k=4).to_csr()).nnz == 0


def test_alpha_and_gamma_do_not_touch_the_trees():
    X, Y = points()
    plain = PfastreXML(n_trees=3).fit(X, Y)
    other = PfastreXML(n_trees=3, alpha=0.3, gamma=2).fit(X, Y)
    assert forest_bits(plain) == forest_bits(other)
    flat = PfastreXML(n_trees=3, gamma=0, alpha=0.5).fit(X, Y)  # every distance counts nothing: P_tail is 1/2
    alone = PfastreXML(n_trees=3, alpha=1).fit(X, Y)
    expected = np.sqrt(0.5 * alone.predict_topk(X, k=9).to_csr().data)
    assert flat.predict_topk(X, k=9).to_csr().data == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("preset", PROPENSITY_PRESETS)
def test_propensities_of_the_presets(preset):
    X, Y = points()
    model = PfastreXML(n_trees=1, propensity=preset).fit(X, Y)
    constants = PROPENSITY_PRESETS[preset]
    a, b = constants["a"], constants["b"]
    counts = np.asarray((Y > 0).sum(axis=0)).ravel()
    c = (np.log(300) - 1) * (b + 1) ** a
    assert model.propensities_ == pytest.approx(1 / (1 + c * (counts + b) ** -a), rel=1e-6)
    assert model.propensities_ == pytest.approx(propensity(counts, 300, **constants))
    given = PfastreXML(n_trees=1).fit(X, Y, propensities=model.propensities_)
    assert forest_bits(given) == forest_bits(model)


def test_weights_of_labels_count_in_the_gains_and_not_in_the_propensities():
    X, Y = points()
    one, half = (PfastreXML(n_trees=1).fit(X, Y * np.float32(weight)) for weight in (1, 0.5))
    assert one.propensities_.tolist() == half.propensities_.tolist()
    assert (0.5 * one.forest_.leaf_value).tolist() == half.forest_.leaf_value.tolist()


def test_two_points_have_propensities_too():
    model = PfastreXML(n_trees=2).fit(np.eye(2), np.eye(2))
    assert ((model.propensities_ > 0) & (model.propensities_ <= 1)).all()
    assert model.predict_one([1, 0])[0][0] == 0


@WEIGHTED
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([0.5] * 8 + [0], "label 8 has 0.0; a propensity is a probability above 0 and at most 1"),
        ([0.5, -0.25] + [0.5] * 7, "label 1 has -0.25"),
        ([0.5] * 8 + [1.01], "label 8 has 1.01"),
        ([0.5] * 8 + [np.nan], "label 8 has nan"),
        ([0.5] * 8 + [np.inf], "label 8 has inf"),
        ([0.5] * 8, "one number for each of the 9 labels"),
        ([0.5] * 10, "one number for each of the 9 labels"),
        (0.5, "one number for each of the 9 labels"),
        ([[0.5] * 9], "one number for each of the 9 labels"),
        (["often"] * 9, "must be numbers, one for each label"),
        ([[0.5], [0.5, 1]], "must be numbers, one for each label"),
    ],
)
def test_bad_propensities_are_refused(cls, given, said):
    X, Y = points()
    model = cls(n_trees=1)
    with pytest.raises(BadInput, match=said):
        model.fit(X, Y, propensities=given)
    assert not hasattr(model, "label_names_")


@WEIGHTED
def test_a_tiny_propensity_does_not_break_anything(cls):
    X, Y = points()
    model = cls(n_trees=2).fit(X, Y, propensities=[1e-30] + [1.0] * 8)
    found = model.predict_topk(X, k=4).to_csr()
    assert np.isfinite(found.data).all()
    assert (found.data > 0).all()


def test_rare_labels_come_up_more(planted):
    (X, Y), (new_X, _) = planted
    counts = np.bincount(Y.indices, minlength=300)
    plain, weighted = (cls(n_trees=5).fit(X, Y).predict_topk(new_X, k=5).to_csr() for cls in (FastXML, PfastreXML))
    assert counts[weighted.indices].mean() < 0.9 * counts[plain.indices].mean()


def test_it_learns_planted_topics(planted):
    (X, Y), (new_X, new_Y) = planted
    found = PfastreXML(n_trees=10).fit(X, Y).predict_topk(new_X, k=5)
    assert precision_at_k(new_Y, found, k=1) > 0.5
    assert precision_at_k(new_Y, found, k=5) > 0.35


def test_eurlex_does_not_fall_behind(eurlex):
    (X, Y), (new_X, new_Y) = eurlex
    found = PfastreXML(n_trees=5).fit(X, Y).predict_topk(new_X, k=5)
    figures = [100 * precision_at_k(new_Y, found, k=k) for k in (1, 3, 5)]
    assert all(value >= floor for value, floor in zip(figures, [60.0, 46.0, 37.0], strict=True)), figures


def test_the_same_propensities_are_the_same_model_and_others_another():
    X, Y = points()
    one, two = (PfastreXML(n_trees=2).fit(X, Y, propensities=p) for p in (np.full(9, 0.5), [0.5] * 9))
    assert bits(one) == bits(two)
    other = PfastreXML(n_trees=2).fit(X, Y, propensities=np.linspace(0.2, 1, 9))
    assert bits(one) != bits(other)
