"""One-vs-rest is what scikit-learn's LIBLINEAR finds for each label alone, and keeps its word on odd data."""

import logging
import signal
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

import broadmatch
from broadmatch.data import CSR, propensity
from broadmatch.errors import BadArtifact, BadInput, BadParameter
from broadmatch.evaluate import precision_at_k
from broadmatch.io import artifacts
from broadmatch.kernels.intrinsics import LANES
from broadmatch.labels import OneVsRest, one_vs_rest
from broadmatch.simulate import synthetic_dataset
from tests.contract import bits
from tests.reference import one_vs_rest as reference

LOSSES = ["squared_hinge", "logistic"]
every_loss = pytest.mark.parametrize("loss", LOSSES)


@pytest.fixture(scope="module")
def generated():
    """Training points with some hundred labels, and others to ask about."""
    data = synthetic_dataset(1500, 300, 1000, features_per_point=25, seed=4)
    return data.take(np.arange(1200)), data.take(np.arange(1200, 1500))


def rows_of(X, damped=True):
    """Rows as the model has them: roots of the values if damped, of length 1."""
    values = np.sign(X.data) * np.sqrt(np.abs(X.data)) if damped else X.data
    return normalize(X._replace(data=values).to_scipy())


def alone(loss, X, has, c, weight=None):
    """scikit-learn's classifier of one label, as weights with the bias last; None where all points are alike."""
    if has.all() or not has.any():
        return None
    if loss == "logistic":
        model = LogisticRegression(solver="liblinear", C=c, intercept_scaling=1, tol=1e-6, max_iter=10_000)
    else:
        model = LinearSVC(C=c, intercept_scaling=1, tol=1e-6, max_iter=100_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, has, weight)
    return np.append(model.coef_[0], model.intercept_[0])


def objective(loss, X, has, cost, w):
    with_bias = sp.hstack([X, np.ones((X.shape[0], 1))], format="csr")
    return reference.OBJECTIVES[loss](with_bias, np.where(has, 1.0, -1.0), cost, w)


def weights(model):
    """Labels × features, the bias last."""
    return np.column_stack([model.weights_.to_scipy().toarray().T, model.bias_]).astype(np.float64)


def agrees(loss, model, X, Y, c, labels, sample_cost=None):
    """Every label's objective is that of scikit-learn, within a thousandth."""
    found = weights(model)
    for label in labels:
        has = Y[:, [label]].toarray().ravel() > 0
        cost = np.full(len(has), c) if sample_cost is None else sample_cost(label, has)
        peer = alone(loss, X, has, 1.0, cost)
        if peer is not None:
            ours, theirs = (objective(loss, X, has, cost, w) for w in (found[label], peer))
            assert ours == pytest.approx(theirs, rel=1e-3)


def agreement(found, scores, k=5):
    """The share of the peer's k best labels that are among ours, and of points where they are the same set."""
    ours, theirs = (np.sort(np.argsort(-s, axis=1, kind="stable")[:, :k], axis=1) for s in (found, scores))
    shared = np.array([len(np.intersect1d(a, b)) for a, b in zip(ours, theirs, strict=True)])
    return (shared / k).mean(), (shared == k).mean()


@every_loss
@pytest.mark.parametrize(("c", "tolerance"), [(0.3, 0.02), (1.0, 0.02), (10.0, 0.01)])  # its square is worth c times
def test_objectives_are_those_of_scikit_learn(generated, loss, c, tolerance):
    train, _ = generated
    model = OneVsRest(tail=0, loss=loss, c=c, prune=0, tolerance=tolerance, n_jobs=1).fit(train.X, train.Y)
    assert model.c_ == c
    agrees(loss, model, rows_of(train.X), train.Y.to_scipy(), c, range(0, 300, 7))


def test_rows_are_damped_unless_one_says_no(generated):
    train, test = generated
    raw = train.X._replace(data=train.X.data * np.float32(-7))  # the length of a row does not count, signs do
    for damped in (True, False):
        model = OneVsRest(tail=0, damped=damped, prune=0, n_jobs=1).fit(raw, train.Y)
        agrees("squared_hinge", model, rows_of(raw, damped), train.Y.to_scipy(), 1.0, range(5, 300, 50))
        said = rows_of(test.X, damped) @ weights(model)[:, :-1].T + model.bias_
        assert model.decision_function(test.X) == pytest.approx(said, abs=1e-4)


@every_loss
def test_the_five_best_labels_are_those_of_scikit_learn(generated, loss):
    train, test = generated
    X, has = rows_of(train.X), train.Y.to_scipy().toarray() > 0
    seen = np.flatnonzero(has.any(axis=0) & ~has.all(axis=0))
    peers = np.array([alone(loss, X, has[:, label], 1.0) for label in seen])
    scores = rows_of(test.X) @ peers[:, :-1].T + peers[:, -1]
    model = OneVsRest(tail=0, loss=loss, prune=0, n_jobs=1).fit(train.X, train.Y)
    assert agreement(model.decision_function(test.X)[:, seen], scores)[0] >= 0.985  # within the tolerance
    exact = OneVsRest(tail=0, loss=loss, tolerance=0.001, prune=0, n_jobs=1).fit(train.X, train.Y)
    assert agreement(exact.decision_function(test.X)[:, seen], scores)[1] >= 0.995


def test_on_eurlex_too(eurlex):
    (X, Y), (X_test, _) = eurlex
    labels = np.argsort(-np.bincount(Y.indices, minlength=Y.n_cols), kind="stable")[:400:20]  # often and seldom seen
    some = CSR.from_scipy(Y.to_scipy()[:, labels])
    model = OneVsRest(tail=0, prune=0, n_jobs=1).fit(X, some)
    exact = OneVsRest(tail=0, tolerance=0.001, prune=0, n_jobs=1).fit(X, some)
    agrees("squared_hinge", exact, rows_of(X), some.to_scipy(), 1.0, range(0, len(labels), 4))
    has = some.to_scipy().toarray() > 0
    peers = np.array([alone("squared_hinge", rows_of(X), has[:, label], 1.0) for label in range(len(labels))])
    scores = rows_of(X_test) @ peers[:, :-1].T + peers[:, -1]
    # Most points have none of so few labels, and their scores are all about the same.
    assert agreement(exact.decision_function(X_test), scores)[1] >= 0.995
    assert model.decision_function(X_test) == pytest.approx(scores, abs=0.04)


@every_loss
@pytest.mark.parametrize("positives", ["balanced", "propensity"])
def test_positives_cost_what_their_parameter_says(generated, loss, positives):
    train, _ = generated
    counts = np.bincount(train.Y.indices, minlength=300)
    n = len(train)
    factor = (n - counts) / np.maximum(counts, 1) if positives == "balanced" else 2 / propensity(counts, n) - 1
    model = OneVsRest(tail=0, loss=loss, c=0.5, positives=positives, prune=0, n_jobs=1).fit(train.X, train.Y)
    agrees(loss, model, rows_of(train.X), train.Y.to_scipy(), 0.5, range(1, 300, 19),
           lambda label, has: np.where(has, 0.5 * factor[label], 0.5))  # fmt: skip
    plain = OneVsRest(tail=0, loss=loss, c=0.5, prune=0, n_jobs=1).fit(train.X, train.Y)
    has = train.Y.to_scipy().toarray() > 0
    assert (model.decision_function(train.X) > plain.decision_function(train.X))[has].mean() > 0.9


@every_loss
def test_beliefs_are_weights_of_examples(generated, loss):
    train, _ = generated
    beliefs = np.random.default_rng(0).uniform(0.1, 3, train.Y.nnz).astype(np.float32)
    Y = train.Y._replace(data=beliefs)
    dense = Y.to_scipy().toarray()
    model = OneVsRest(tail=0, loss=loss, c=2.0, prune=0, n_jobs=1).fit(train.X, Y)
    agrees(loss, model, rows_of(train.X), Y.to_scipy(), 2.0, range(2, 300, 19),
           lambda label, has: np.where(has, 2.0 * dense[:, label], 2.0))  # fmt: skip


def test_scores_of_the_logistic_loss_are_log_odds():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 6)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    truth = X @ rng.normal(0, 3, (6, 4)) - 1
    Y = rng.random(truth.shape) < 1 / (1 + np.exp(-truth))
    scores = OneVsRest(loss="logistic", c=100.0, damped=False, prune=0, n_jobs=1).fit(X, Y).decision_function(X)
    assert scores == pytest.approx(truth, abs=0.4)


def test_c_is_found_by_search(generated, caplog):
    train = generated[0].take(np.arange(600))
    with caplog.at_level(logging.INFO, "broadmatch"):
        model = OneVsRest(c="search", n_jobs=1).fit(train.X, train.Y)
    told = [r.args for r in caplog.records if "average precision" in r.msg]
    assert [c for c, *_ in told] == list(one_vs_rest._SEARCHED)
    assert model.c_ == max(told, key=lambda args: args[1])[0]
    assert bits(model) == bits(OneVsRest(c=model.c_, n_jobs=1).fit(train.X, train.Y))
    assert bits(OneVsRest(c="search", n_jobs=2).fit(train.X, train.Y)) == bits(model)
    with pytest.raises(BadInput, match="too few points"):
        OneVsRest(c="search").fit([[1.0], [2.0]], [["a"], ["b"]])


@pytest.mark.parametrize(
    ("wrong", "name"),
    [({"c": 0}, "c"), ({"c": "best"}, "c"), ({"loss": "hinge"}, "loss"), ({"positives": "many"}, "positives"),
     ({"prune": -1}, "prune"), ({"tolerance": 0}, "tolerance")],
)  # fmt: skip
def test_wrong_parameters_are_refused(wrong, name):
    with pytest.raises(BadParameter, match=rf"^{name} must be"):
        OneVsRest(**wrong).fit([[1.0]], [["a"]])


@every_loss
@pytest.mark.parametrize("positives", ["plain", "balanced", "propensity"])
def test_a_label_of_nobody_one_of_everybody_and_empty_rows(loss, positives):
    rng = np.random.default_rng(0)
    X = sp.random_array((60, 8), density=0.4, rng=rng, dtype=np.float32, format="csr")
    X.data[X.indptr[3] : X.indptr[4]] = 0
    X.eliminate_zeros()
    Y = np.zeros((60, 4), np.float32)
    Y[:, 1], Y[:20, 2] = 1, 1
    Y[5] = 0
    Y[:, 1] = 1
    model = OneVsRest(loss=loss, positives=positives, n_jobs=1).fit(X, Y)
    scores = model.decision_function(X)
    assert np.isfinite(scores).all()
    assert (scores[:, [0, 3]] < 0).all()
    assert (scores[:, 1] > 0).all()
    assert scores[3] == pytest.approx(model.bias_)  # an empty row has but the bias
    top = model.predict_topk(X, k=4).to_csr()
    assert not top[:, [0, 3]].nnz
    assert (np.diff(top.indptr) == 2).all()
    labels, best = model.predict_one(X[[3]], k=4)
    assert sorted(labels.tolist()) == [1, 2]
    assert best[0] == scores[3].max()


@every_loss
def test_one_label_and_one_point(loss):
    rng = np.random.default_rng(0)
    X = rng.random((30, 5)).astype(np.float32)
    one = OneVsRest(tail=0, loss=loss, prune=0, n_jobs=1).fit(X, (X[:, :1] > 0.5).astype(np.float32))
    agrees(loss, one, rows_of(CSR.from_scipy(sp.csr_matrix(X))), sp.csc_array(X[:, :1] > 0.5), 1.0, [0])
    single = OneVsRest(loss=loss, n_jobs=1).fit([[3.0, 4.0]], [["a", "b"]])
    scores = single.decision_function([[3.0, 4.0]])
    assert (scores > 0).all()
    assert scores[0, 0] == scores[0, 1]


@every_loss
def test_prune_drops_small_weights_only(generated, loss):
    train, _ = generated
    whole, some, none = (OneVsRest(tail=0, loss=loss, prune=p, n_jobs=1).fit(train.X, train.Y) for p in (0, 0.05, 1e9))
    dense = whole.weights_.to_scipy().toarray()
    assert np.array_equal(some.weights_.to_scipy().toarray(), np.where(np.abs(dense) > 0.05, dense, 0))
    assert np.array_equal(some.bias_, whole.bias_)
    assert some.weights_.nnz < whole.weights_.nnz
    assert none.weights_.nnz == 0
    assert np.array_equal(none.decision_function(train.X)[5], none.bias_)


@every_loss
def test_any_number_of_threads_and_any_parts_give_the_same_bits(generated, loss, monkeypatch):
    train, test = generated
    one, two = (OneVsRest(loss=loss, n_jobs=n).fit(train.X, train.Y) for n in (1, 2))
    assert bits(one) == bits(two)
    assert np.array_equal(one.decision_function(test.X), two.decision_function(test.X))
    monkeypatch.setattr(one_vs_rest, "_PART", LANES + 7)  # blocks that are not full
    monkeypatch.setattr(one_vs_rest, "_PARTS", 1)
    assert bits(OneVsRest(loss=loss, n_jobs=2).fit(train.X, train.Y)) == bits(one)


@every_loss
def test_the_bits_do_not_depend_on_other_labels(generated, loss):
    train, _ = generated
    some = np.arange(40, 90)
    whole = weights(OneVsRest(tail=0, loss=loss, n_jobs=1).fit(train.X, train.Y))
    alone = OneVsRest(tail=0, loss=loss, n_jobs=1).fit(train.X, CSR.from_scipy(train.Y.to_scipy()[:, some]))
    # The order in which points are taken up goes by the label's number, so that the hinge differs within the tolerance.
    exact = {"abs": 0} if loss == "logistic" else {"abs": 0.1}
    assert weights(alone) == pytest.approx(whole[some], rel=0, **exact)


@every_loss
def test_explanations_add_up_to_the_score(generated, loss):
    train, test = generated
    names = [f"word {f}" for f in range(train.X.n_cols)]
    model = OneVsRest(loss=loss, n_jobs=1).fit(train.X, train.Y, feature_names=names)
    scores = model.decision_function(test.X)
    for i in range(0, 300, 50):
        labels, best = model.predict_one(test.X.row(i), k=3)
        for label, score in zip(labels, best, strict=True):
            why = model.explain(test.X.row(i), int(label))
            parts = [(one.feature, one.amount) for one in why.contributions]
            assert why.score == sum(amount for _, amount in parts)
            assert [one.feature for one in why.of("bias")] == ["bias"]
            assert sum(amount for _, amount in parts) == pytest.approx(score, abs=1e-4) == scores[i, label]
            assert [abs(amount) for _, amount in parts] == sorted((abs(amount) for _, amount in parts), reverse=True)
            assert {name for name, _ in parts} <= {"bias", *(names[f] for f in test.X.row(i)[0])}
    unnamed = OneVsRest(loss=loss, n_jobs=1).fit([[1.0, 0.0], [0.0, 1.0]], [["a"], ["b"]])
    assert {one.feature for one in unnamed.explain([1.0, 0.0], "a").contributions} == {"bias", "0"}


@every_loss
def test_a_saved_model_says_the_same(generated, loss, tmp_path):
    train, test = generated
    model = OneVsRest(loss=loss, n_jobs=1).fit(train.X, train.Y)
    model.save(tmp_path / "m")
    loaded = broadmatch.load(tmp_path / "m")
    assert loaded.get_params() == model.get_params()
    assert loaded.c_ == model.c_
    assert np.array_equal(loaded.decision_function(test.X), model.decision_function(test.X))
    for i in range(5):
        for a, b in zip(loaded.predict_one(test.X.row(i)), model.predict_one(test.X.row(i)), strict=True):
            assert np.array_equal(a, b)


@every_loss
def test_a_fit_takes_up_its_checkpoint(generated, loss, tmp_path, monkeypatch):
    train, _ = generated
    model = OneVsRest(loss=loss, n_jobs=1)
    expected = bits(model.fit(train.X, train.Y, checkpoint=tmp_path / "c"))
    solved, block = [], OneVsRest._block
    monkeypatch.setattr(OneVsRest, "_block", lambda self, *rest: solved.append(rest[0]) or block(self, *rest))
    assert bits(model.fit(train.X, train.Y, checkpoint=tmp_path / "c")) == expected
    assert not solved
    other = LOSSES[loss == LOSSES[0]]
    for wrong in ({"loss": other}, {"c": 2.0}, {"positives": "balanced"}, {"prune": 0.0}, {"tolerance": 0.1}):
        with pytest.raises(BadArtifact, match="other data or with other parameters"):
            OneVsRest(**({"loss": loss, "n_jobs": 1} | wrong)).fit(train.X, train.Y, checkpoint=tmp_path / "c")


@every_loss
def test_ctrl_c_ends_a_fit_in_the_middle_of_a_part(loss, tmp_path):
    data = synthetic_dataset(20_000, 2000, 3000, features_per_point=60, seed=1)
    model = OneVsRest(loss=loss, n_jobs=1)
    OneVsRest(loss=loss, n_jobs=1).fit(data.X.take(np.arange(50)), data.Y.take(np.arange(50)))  # compile
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)  # raises KeyboardInterrupt, as SIGINT does
    started = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 2)
        with pytest.raises(KeyboardInterrupt):
            model.fit(data.X, data.Y, checkpoint=tmp_path)
        took = time.monotonic() - started - 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert took < 3
    assert not hasattr(model, "weights_")
    for kept in tmp_path.iterdir():  # a part that was not finished is not kept as if it were
        assert len(artifacts.load_state(kept).arrays["bias"]) == 128


def test_what_is_not_within_the_tolerance_is_told(caplog):
    rng = np.random.default_rng(0)
    with caplog.at_level(logging.INFO, "broadmatch"):
        OneVsRest(loss="logistic", tolerance=1e-12, c=100.0).fit(rng.normal(size=(50, 4)), rng.random((50, 1)) < 0.5)
    assert "1 of the labels 0 to 1 are not within the tolerance" in caplog.text


def test_it_ranks_planted_labels(planted):
    (X, Y), (X_test, Y_test) = planted
    for loss in LOSSES:
        model = OneVsRest(loss=loss, n_jobs=1).fit(X, Y)
        assert precision_at_k(Y_test, model.predict_topk(X_test), k=1) > 0.5


@every_loss
def test_tail_lifts_the_weights_of_rare_labels_by_a_power_of_how_often_they_were_seen(generated, loss, tmp_path):
    train, test = generated
    plain = OneVsRest(loss=loss, tail=0, n_jobs=1).fit(train.X, train.Y, checkpoint=tmp_path)
    lifted = OneVsRest(loss=loss, tail=0.5, n_jobs=1).fit(train.X, train.Y, checkpoint=tmp_path)
    often = np.bincount(train.Y.indices, minlength=train.Y.n_cols)
    usual = np.exp(np.log(often[train.Y.indices]).mean())
    evidence = plain.decision_function(test.X) - plain.bias_
    expected = evidence * np.sqrt(usual / np.maximum(1, often)) + plain.bias_
    np.testing.assert_allclose(lifted.decision_function(test.X), expected, atol=1e-4)
    rarity = [-np.log(often[model.predict_topk(test.X, 5).to_csr().indices]).mean() for model in (plain, lifted)]
    assert rarity[1] > rarity[0]
    never = often == 0
    assert not never[lifted.predict_topk(test.X, 5).to_csr().indices].any()
