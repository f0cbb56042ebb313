"""Calibrated scores are probabilities: right as often as they say, in the same order, kept with the model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import broadmatch
from broadmatch.data import CSR
from broadmatch.errors import BadInput, BadParameter, NotFitted
from broadmatch.evaluate import calibration_error
from broadmatch.io import read_dataset
from broadmatch.labels import MLRF, FastXML, PfastreXML, SwiftXML
from broadmatch.labels.calibration import fit_calibration
from tests.contract import N_LABELS, every_label_model, points, small
from tests.reference.label_calibration import pooled


def judged(model, X, Y, k=5):
    """The scores of the k best labels of each point, and whether each is right."""
    found = CSR.from_scipy(model.predict_topk(X, k=k).to_csr())
    rows = np.repeat(np.arange(found.n_rows), np.diff(found.indptr))
    return rows, found.data.astype(np.float64), Y.to_scipy()[rows, found.indices].A1 > 0


def noisy(n, seed):
    """Points of 12 topics with 3 labels each; those of every other topic are easy to tell, the others much less so."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, 12, n)
    X = np.eye(12)[topic] + 0.1 * rng.random((n, 12))
    chance = np.where(topic[:, None] % 2 == 0, [0.95, 0.9, 0.3], [0.65, 0.3, 0.2])
    rows = [(3 * t + np.flatnonzero(has)).tolist() for t, has in zip(topic, rng.random((n, 3)) < chance, strict=True)]
    return X.astype(np.float32), CSR.from_rows(rows, n_cols=36), topic % 2 == 0


MODELS = {
    "mlrf": lambda: MLRF(n_trees=10, max_leaf=40, features_per_node=3),
    "fastxml": lambda: FastXML(n_trees=10, max_leaf=40),
    "pfastrexml": lambda: PfastreXML(n_trees=10, max_leaf=40),
    "swiftxml": lambda: SwiftXML(n_trees=10, max_leaf=40),
}


@pytest.mark.parametrize("kind", MODELS)
def test_probabilities_are_right_on_new_points(kind):
    model = MODELS[kind]().fit(*noisy(1500, 0)[:2])
    X, Y, easy = noisy(2000, 2)
    _, raw, _ = judged(model, X, Y)
    model.calibrate(*noisy(1500, 1)[:2])
    rows, p, right = judged(model, X, Y)
    assert ((p > 0) & (p < 1)).all()
    assert calibration_error(right, p, n_bins=10) < 0.04
    if kind == "pfastrexml":  # rare labels count more, so its scores are far from being probabilities
        assert calibration_error(right, np.minimum(raw, 1), n_bins=10) > 0.06
    for some in (easy, ~easy):  # a threshold means the same on both
        chosen = some[rows] & (p >= 0.5)
        assert chosen.sum() > 300
        assert right[chosen].mean() > 0.5
        assert abs(right[chosen].mean() - p[chosen].mean()) < 0.2


@every_label_model
def test_the_order_stays(cls):
    X, Y = points()
    model = small(cls).fit(X, Y)
    before = [model.predict_one(X[i], k=N_LABELS) for i in range(20)]
    many = model.predict_topk(X, k=4).to_csr()
    assert model.calibrate(X, Y) is model
    for i in range(20):
        labels, p = model.predict_one(X[i], k=N_LABELS)
        assert labels.tolist() == before[i][0].tolist()
        np.testing.assert_array_equal(np.sign(np.diff(p)), np.sign(np.diff(before[i][1])))
    after = model.predict_topk(X, k=4).to_csr()
    np.testing.assert_array_equal(after.indices, many.indices)
    assert (after.data > 0).all()
    for i in range(20):  # one by one or all at once: the same bits
        one = dict(zip(*(a.tolist() for a in model.predict_one(X[i], k=4)), strict=True))
        assert one == dict(zip(after[i].indices.tolist(), after[i].data.tolist(), strict=True))


@every_label_model
def test_it_is_kept_with_the_model_and_dropped_by_a_fit(cls, tmp_path):
    X, Y = points()
    model = small(cls).fit(X, Y)
    raw = model.predict_topk(X).to_csr()
    model.calibrate(X, Y, revealed=Y[:, [0]] @ np.eye(1, N_LABELS))
    said = model.predict_topk(X).to_csr()
    assert (said != raw).nnz
    model.save(tmp_path / "model")
    assert (broadmatch.load(tmp_path / "model").predict_topk(X).to_csr() != said).nnz == 0
    assert (model.fit(X, Y).predict_topk(X).to_csr() != raw).nnz == 0
    model.save(tmp_path / "again")
    assert broadmatch.load(tmp_path / "again").calibration_ is None


def test_calibrating_twice_is_calibrating_once():
    X, Y = points()
    model = FastXML(n_trees=4).fit(X, Y).calibrate(X, Y)
    once = model.calibration_
    twice = model.calibrate(X, Y).calibration_
    np.testing.assert_array_equal(once, twice)


def test_add_points_keeps_it_and_explanations_do_not_use_it():
    X, Y = points()
    model = PfastreXML(n_trees=4).fit(X[:150], Y[:150])
    label, score = (part[0] for part in model.predict_one(X[0], k=1))
    model.calibrate(X[150:], Y[150:])
    assert model.explain(X[0], label).score == pytest.approx(score, rel=1e-5)
    kept = model.calibration_
    assert model.add_points(X[150:], Y[150:]).calibration_ is kept


def test_labels_by_name():
    X, Y = points()
    names = [f"label {j}" for j in range(N_LABELS)]
    by_name = [[names[j] for j in Y[i].indices] for i in range(Y.shape[0])]
    one = FastXML(n_trees=4).fit(X, Y, label_names=names)
    two = FastXML(n_trees=4).fit(X, Y, label_names=names)
    np.testing.assert_array_equal(one.calibrate(X, Y).calibration_, two.calibrate(X, by_name).calibration_)


def test_nothing_to_calibrate_on():
    X, Y = points()
    model = FastXML(n_trees=2).fit(X, Y, label_names=[f"label {j}" for j in range(N_LABELS)])
    for x, y, why in (
        (X[:0], Y[:0], r"nothing to calibrate on"),
        (X, Y * 0, r"no label that the model knows"),
        (X, [["unheard of"]] * X.shape[0], r"no label that the model knows"),
        (X, Y[:-1], r"299 rows"),
        (X, Y[:, :-1], r"8 labels"),
        (X[:, :-1], Y, r"features"),
    ):
        with pytest.raises(BadInput, match=why):
            model.calibrate(x, y)
    with pytest.raises(BadParameter, match="k must"):
        model.calibrate(X, Y, k=0)
    assert model.calibration_ is None
    with pytest.raises(NotFitted):
        FastXML().calibrate(X, Y)


@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=40))
def test_knots_are_the_centres_of_the_steps(pairs):
    scores, right = np.array([s for s, _ in pairs], np.float32), np.array([r for _, r in pairs])
    knots = fit_calibration(scores, right)
    x = np.concatenate([scores, [scores.min(), scores.max()]])
    expected = pooled(x, np.concatenate([right, [True, False]]))
    np.testing.assert_allclose(knots.scores, [step[0] for step in expected])
    np.testing.assert_allclose(knots.probabilities, [step[1] for step in expected])
    assert (np.diff(knots.scores) > 0).all()
    assert (np.diff(knots.probabilities) > 0).all()
    assert ((knots.probabilities > 0) & (knots.probabilities < 1)).all()


@pytest.mark.parametrize("kind", ["mlrf", "pfastrexml"])
def test_eurlex(kind, eurlex):
    """Half of the test points to calibrate on, the other half to look at."""
    train, first, (X, Y) = eurlex
    model = MODELS[kind]().fit(*train).calibrate(*first)
    rows, p, right = judged(model, X, Y, k=20)
    model.calibration_ = None
    raw = np.minimum(judged(model, X, Y, k=20)[1], 1)
    assert calibration_error(right, p) < 0.02
    if kind == "pfastrexml":
        assert calibration_error(right, p) < calibration_error(right, raw)
    best = np.full(X.n_rows, -1.0)
    np.maximum.at(best, rows, p)
    for some in (best >= np.median(best), best < np.median(best)):  # points with a sure label, and those without
        chosen = some[rows] & (p >= 0.5)
        if chosen.sum() >= 50:
            assert right[chosen].mean() > 0.47


@pytest.fixture(scope="module")
def eurlex(shared_data):
    train, test = (read_dataset(shared_data / "eurlex-4k" / f"{part}.txt.gz") for part in ("train", "test"))
    order = np.random.default_rng(0).permutation(len(test))
    parts = [(train, np.arange(0, len(train), 8)), (test, order[:1900]), (test, order[1900:])]
    return [(data.X.take(rows), data.Y.take(rows)) for data, rows in parts]
