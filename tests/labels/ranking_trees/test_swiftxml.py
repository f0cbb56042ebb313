"""SwiftXML as a model: item sets in splits and in the re-ranker, label features of every kind, warm and cold starts."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import broadmatch
from broadmatch.data import CSR, reveal
from broadmatch.errors import BadInput
from broadmatch.evaluate import precision_at_k
from broadmatch.labels import PfastreXML, SwiftXML
from broadmatch.labels.ranking_trees.forest import without_slots
from broadmatch.labels.ranking_trees.tail import mean_other_labels
from broadmatch.simulate import synthetic_dataset
from tests.contract import N_FEATURES, N_LABELS, bits, points
from tests.labels.ranking_trees.test_forest import trees
from tests.labels.ranking_trees.test_pfastrexml import doubles, unit_table
from tests.reference import item_sets
from tests.reference import ranking_trees_neighbours as xml_neighbours
from tests.reference import ranking_trees_predict as reference


def groups(n=900, seed=0):
    """(X, Y): labels in 20 groups of 5; a point has four of a group. The features say only which quarter it is in."""
    rng = np.random.default_rng(seed)
    group = rng.integers(20, size=n)
    X = np.where(np.arange(40) // 10 == (group % 4)[:, None], rng.random((n, 40)), 0).astype(np.float32)
    Y = np.zeros((n, 100), np.float32)
    for i in range(n):
        Y[i, 5 * group[i] + rng.permutation(5)[:4]] = 1
    return sp.csr_matrix(X), sp.csr_matrix(Y)


def label_features(seed=0, width=7):
    """Sparse random features of the labels; label 3 has none."""
    rng = np.random.default_rng(seed)
    Z = np.where(rng.random((N_LABELS, width)) < 0.5, rng.random((N_LABELS, width)), 0).astype(np.float32)
    Z[:, 0] = 1
    Z[3] = 0
    return sp.csr_matrix(Z)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.5, 1.0]), st.sampled_from([1, 2]))
def test_mean_item_sets_of_the_other_labels_equal_the_formula(seed, density, n_jobs):
    rng = np.random.default_rng(seed)
    n, d, n_labels = rng.integers(1, 12, 3)
    Y = np.where(rng.random((n, n_labels)) < density, rng.choice([1, 0.25, 3], (n, n_labels)), 0).astype(np.float32)
    Z = np.where(rng.random((n_labels, d)) < density, rng.random((n_labels, d)), 0).astype(np.float32)
    means = mean_other_labels(CSR.from_scipy(Y), CSR.from_scipy(Z), n_jobs)
    expected = reference.mean_other_labels(Y.astype(np.float64), Z.astype(np.float64))
    assert means.rows.to_scipy().toarray() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert means.squares == pytest.approx((expected**2).sum(axis=1), rel=1e-5, abs=1e-9)


def training_points(model, X, Y):
    """The points with labels as the reference takes them; how they are asked is the model's."""
    labelled = np.flatnonzero(Y.getnnz(axis=1))
    how = model.neighbours_
    return xml_neighbours.Points(doubles(Y)[labelled], unit_table(X)[labelled], model.propensities_, how.most,
                                 *how[-5:])  # fmt: skip


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_it_answers_as_the_reference(weight):
    X, Y = points()
    Z = label_features()
    model = SwiftXML(n_trees=7, max_leaf=4, alpha=0.6, gamma=12, item_set_weight=weight).fit(X, Y, label_features=Z)
    described = doubles(model.label_features_.to_scipy())
    nu = reference.mean_other_labels(doubles(Y), described)
    own = np.array([item_sets.unit(row) for row in doubles(Z)])
    own = np.hstack([own, np.zeros((N_LABELS, N_LABELS))])  # what describes a label, but not the feature of its own
    tail = reference.Tail(reference.mean_points(unit_table(X), doubles(Y)), nu, own, 0.6, 12, weight)
    near = training_points(model, X, Y)
    known, _ = reveal(CSR.from_scipy(Y), 0.5)
    sets = item_sets.item_sets(doubles(known.to_scipy()), described)
    n_known = np.diff(known.indptr)[:, None]
    sets = sets * np.sqrt(n_known / (n_known + 1))
    grown, compared = trees(model), 0
    for i in range(0, 300, 5):
        for z, revealed in ((sets[i], known.row(i)[0]), (np.zeros(described.shape[1]), [])):
            expected, closest = reference.scores(doubles(X[i]).ravel(), z, grown, tail, list(revealed), near)
            if closest > 1e-5:
                expected = {label: score for label, score in expected.items() if label not in revealed}
                labels, scores = model.predict_one(X[i], k=9, revealed=revealed)
                assert dict(zip(labels.tolist(), scores.tolist(), strict=True)) == pytest.approx(expected, rel=1e-4)
                compared += 1
    assert compared > 100


def test_item_sets_split_nodes():
    X, Y = groups()
    for C, used in ((10.0, True), (1e-6, False)):
        model = SwiftXML(n_trees=2, c_item_sets=C).fit(X, Y)
        assert (without_slots(model.forest_).weight_feature >= 40).any() == used


def test_warm_beats_cold_where_the_item_set_matters():
    (X, Y), (new_X, new_Y) = groups(), groups(300, seed=1)
    known, hidden = reveal(CSR.from_scipy(new_Y), 0.5)
    warm = SwiftXML(n_trees=10, max_leaf=5).fit(X, Y).predict_topk(new_X, k=2, revealed=known).to_csr()
    cold = PfastreXML(n_trees=10, max_leaf=5).fit(X, Y).predict_topk(new_X, k=2, revealed=known).to_csr()
    # Of three labels that are left of the group two are right; without the group, it is one of five.
    assert precision_at_k(hidden, warm, k=1) > 0.55
    assert precision_at_k(hidden, cold, k=1) < 0.3


def test_warm_beats_cold_on_planted_topics_with_few_words():
    data = synthetic_dataset(1500, 150, 800, features_per_point=4, seed=4)
    first, last = np.arange(1200), np.arange(1200, 1500)
    known, hidden = reveal(data.Y.take(last), 0.6)
    found = {}
    for cls in (SwiftXML, PfastreXML):
        model = cls(n_trees=5).fit(data.X.take(first), data.Y.take(first))
        found[cls] = precision_at_k(hidden, model.predict_topk(data.X.take(last), k=3, revealed=known), k=3)
    assert found[SwiftXML] > 1.15 * found[PfastreXML]


def test_eurlex_does_not_fall_behind(eurlex):
    (X, Y), (new_X, new_Y) = eurlex
    model = SwiftXML(n_trees=3).fit(X, Y)
    assert 100 * precision_at_k(new_Y, model.predict_topk(new_X, k=1), k=1) > 55
    known, hidden = reveal(new_Y, 0.6)
    warm = model.predict_topk(new_X, k=1, revealed=known)
    assert 100 * precision_at_k(hidden, warm, k=1) > 30


def test_the_model_that_was_saved_starts_warm_too(tmp_path):
    X, Y = points()
    model = SwiftXML(n_trees=3).fit(X, Y, label_features=label_features())
    model.save(tmp_path / "m")
    loaded = broadmatch.load(tmp_path / "m")
    known, _ = reveal(CSR.from_scipy(Y), 0.5)
    assert bits(loaded) == bits(model)
    assert (
        loaded.predict_topk(X, k=3, revealed=known).to_csr() != model.predict_topk(X, k=3, revealed=known).to_csr()
    ).nnz == 0
    assert (loaded.predict_topk(X, k=3).to_csr() != model.predict_topk(X, k=3).to_csr()).nnz == 0


def test_labels_describe_themselves_where_no_features_are_given():
    X, Y = points()
    p = np.linspace(0.2, 1, N_LABELS)
    model = SwiftXML(n_trees=1).fit(X, Y, propensities=p)
    assert model.label_features_.to_scipy().toarray() == pytest.approx(np.diag(1 / p))


def test_given_features_stand_beside_the_labels_themselves_and_rare_labels_count_more():
    X, Y = points()
    Z, p = label_features(), np.linspace(0.2, 1, N_LABELS)
    model = SwiftXML(n_trees=1).fit(X, Y, label_features=Z, propensities=p)
    expected = np.zeros((N_LABELS, 7 + N_LABELS))
    for label, row in enumerate(doubles(Z)):
        length, kinds = np.linalg.norm(row), 2 if row.any() else 1
        expected[label, :7] = row / max(length, 1e-9) / np.sqrt(kinds) / p[label]
        expected[label, 7 + label] = 1 / np.sqrt(kinds) / p[label]
    assert model.label_features_.to_scipy().toarray() == pytest.approx(expected, rel=1e-6)


def test_label_features_in_any_form_and_of_any_length():
    X, Y = points()
    Z = label_features()
    expected = bits(SwiftXML(n_trees=2).fit(X, Y, label_features=Z))
    for form in (Z.toarray(), Z.tocsc(), CSR.from_scipy(Z), Z.toarray().tolist(), Z.astype(np.float64), Z * 4.0):
        assert bits(SwiftXML(n_trees=2).fit(X, Y, label_features=form)) == expected


def test_a_label_without_given_features_still_tells_something():
    Y = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 20, axis=0)
    model = SwiftXML(n_trees=5, max_leaf=20, c_item_sets=10, reveal=0.5)
    model.fit(np.ones((40, 1)), Y, label_features=[[1, 0], [0, 0], [0, 1], [0, 0]])  # labels 1 and 3 have none
    for known, best in ((1, 0), (3, 2)):
        assert model.predict_one([1], k=1, revealed=[known])[0].tolist() == [best]


@pytest.mark.parametrize("n_rows", [1, 8, 10])
def test_label_features_of_another_number_of_labels_are_refused(n_rows):
    X, Y = points()
    with pytest.raises(BadInput, match=f"label_features has {n_rows} rows, but there are 9 labels"):
        SwiftXML(n_trees=1).fit(X, Y, label_features=np.ones((n_rows, 4)))


def test_other_bad_label_features_are_refused():
    X, Y = points()
    for wrong, said in [
        (np.zeros((9, 4)), "no feature at all"),
        (np.zeros((9, 0)), "no feature at all"),
        (np.full((9, 4), np.nan), "not a finite number"),
        (np.ones(9), "two dimensions"),
        ([["word"]] * 9, "must hold numbers"),
    ]:
        model = SwiftXML(n_trees=1)
        with pytest.raises(BadInput, match=said):
            model.fit(X, Y, label_features=wrong)
        assert not hasattr(model, "label_names_")


def test_features_of_another_width_are_refused():
    X, Y = points()
    model = SwiftXML(n_trees=1).fit(X, Y)
    with pytest.raises(BadInput, match=f"{N_FEATURES + 1} features, but the model was fitted on {N_FEATURES}"):
        model.predict_topk(sp.hstack([X, X[:, :1]]), revealed=Y).to_csr()
    with pytest.raises(BadInput, match=f"{N_FEATURES - 1} features, but the model was fitted on {N_FEATURES}"):
        model.predict_one(X[:1, 1:], revealed=[0])


@pytest.mark.parametrize("share", [0, 1])
def test_training_points_may_show_all_labels_or_none(share):
    X, Y = points()
    model = SwiftXML(n_trees=3, reveal=share).fit(X, Y)
    item = without_slots(model.forest_).weight_feature >= N_FEATURES
    assert item.any() == (share == 1)
    assert model.score(X, Y) > 0.6
    assert model.predict_topk(X, k=3, revealed=Y).to_csr().multiply(Y).nnz == 0


def test_a_point_without_features_is_ranked_by_its_labels():
    (X, Y), (_, new_Y) = groups(), groups(300, seed=1)
    known, hidden = reveal(CSR.from_scipy(new_Y), 0.5)
    nothing = sp.csr_matrix((300, 40), dtype=np.float32)
    model = SwiftXML(n_trees=10, max_leaf=5, c_item_sets=10).fit(X, Y)
    assert precision_at_k(hidden, model.predict_topk(nothing, k=1, revealed=known), k=1) > 0.3
    assert precision_at_k(new_Y, model.predict_topk(nothing, k=1), k=1) < 0.1


def test_weights_of_revealed_labels_weigh_in_the_item_set():
    X, Y = points()
    model = SwiftXML(n_trees=10, max_leaf=3).fit(X, Y, label_features=label_features())
    even, twice, one_sided = (
        sp.csr_matrix(([a, b], [4, 5], [0, 2]), shape=(1, 9)) for a, b in ((1, 1), (2, 2), (9, 1))
    )
    answers = [model.predict_topk(X[1], k=9, revealed=known).to_csr() for known in (even, twice, one_sided)]
    assert answers[0].data == pytest.approx(answers[1].data, rel=1e-4)
    assert answers[0].data.tolist() != answers[2].data.tolist()
