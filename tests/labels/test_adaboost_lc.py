"""AdaBoost.LC: figure 2 round by round, the bound of theorem 3.1, and what is refused."""

import logging

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import broadmatch
from broadmatch.errors import BadInput, BadParameter
from broadmatch.evaluate import COVERINGS, covering_error
from broadmatch.labels import AdaBoostLC
from broadmatch.labels.boosting import make_hypotheses
from tests.contract import points
from tests.reference import adaboost_lc as slow

templates = st.sampled_from(["parallel", "sequential"])
coverings = st.sampled_from([*COVERINGS, "groups", "function"])


def data(seed, n=12, d=4, k=4):
    """Something to learn, negative values, an empty row, a label that nobody and one that everybody has."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)).astype(np.float32)
    Y = X @ rng.normal(size=(d, k)) + rng.normal(size=(n, k)) > 0
    X[0] = 0
    Y[:, k - 2], Y[:, k - 1] = True, False
    return X, Y


def named(kind, k=4):
    """A covering as the model takes it and as the reference does."""
    if kind == "function":
        return (lambda y: slow.weighted_negative(np.where(y, 1, -1))), slow.weighted_negative
    if kind == "groups":
        groups = [[0, 1], list(range(1, k)), [k - 1], [k - 1]]
        return groups, lambda y: groups
    return kind, slow.COVERINGS[kind]


def table(X):
    """The hypotheses as figure 2 has them: columns over their largest absolute value, and a constant."""
    limits = np.abs(X).max(axis=0)
    H = np.divide(X, limits, out=np.zeros_like(X), where=limits > 0)
    return np.hstack([H, np.ones((len(X), 1))]).astype(np.float64)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), coverings, templates, st.sampled_from([1e-4, 0.01, 1.0]))
def test_every_round_is_that_of_figure_2(seed, kind, template, smoothing):
    X, Y = data(seed)
    covering, by_definition = named(kind)
    model = AdaBoostLC(covering=covering, rounds=4, template=template, smoothing=smoothing, n_jobs=1).fit(X, Y)
    y = np.where(Y, 1, -1)
    alpha, _ = slow.figure_2(table(X), y, by_definition, 4, smoothing, template == "sequential")
    assert model.history_.of("loss")[-1] == pytest.approx(slow.mean_loss(table(X) @ alpha, y, by_definition), rel=1e-3)
    if template == "parallel":  # of two single hypotheses that gain the same, rounding may choose
        assert model.alpha_ == pytest.approx(alpha, rel=1e-3, abs=1e-4)
        assert model.decision_function(X) == pytest.approx(table(X) @ alpha, rel=1e-3, abs=1e-3)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), coverings, templates, st.sampled_from([1e-6, 1e-3, 0.1, 1.0, 30.0]))
def test_every_round_takes_off_what_theorem_3_1_says(seed, kind, template, smoothing):
    X, Y = data(seed)
    covering, by_definition = named(kind)
    model = AdaBoostLC(covering=covering, rounds=6, template=template, smoothing=smoothing, n_jobs=1).fit(X, Y)
    objective, promised = model.history_.of("objective"), model.history_.of("promised")
    rounding = 1e-5 * (1 + objective[0])
    assert (objective[:-1] - objective[1:] >= promised[:-1] - rounding).all()
    assert (promised >= 0).all()
    _, bounds = slow.figure_2(table(X), np.where(Y, 1, -1), by_definition, 2, smoothing, template == "sequential")
    assert promised[:2] == pytest.approx([bound for bound, _ in bounds], rel=1e-2, abs=rounding)
    more = slow.imagined(model.alpha_.astype(np.float64), smoothing)[2] / len(X)
    assert objective[-1] - model.history_.of("loss")[-1] == pytest.approx(more, rel=1e-4, abs=1e-7)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), coverings, templates)
def test_with_next_to_no_smoothing_the_loss_itself_falls_by_the_bound(seed, kind, template):
    X, Y = data(seed)
    covering, by_definition = named(kind)
    model = AdaBoostLC(covering=covering, rounds=3, template=template, smoothing=1e-10, n_jobs=1).fit(X, Y)
    loss = model.history_.of("loss")
    _, bounds = slow.figure_2(table(X), np.where(Y, 1, -1), by_definition, 3, 1e-10, template == "sequential")
    for fall, (_, alone) in zip(loss[:-1] - loss[1:], bounds, strict=True):
        assert fall >= alone - 1e-3 * (1 + loss[0])


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_the_template_keeps_to_equation_6(seed):
    X, _ = data(seed, n=20, d=6)
    X[:, 3] = 0
    matrix = sp.csr_matrix(X)
    rows = broadmatch.data.CSR.from_scipy(matrix)
    hypotheses, share = make_hypotheses(rows, np.abs(X).max(axis=0))
    H = table(X)
    assert share == pytest.approx(slow.parallel_template(H))
    assert (np.abs(H) @ share <= 1 + 1e-9).all()
    for j in range(H.shape[1]):
        at = slice(hypotheses.ptr[j], hypotheses.ptr[j + 1])
        assert hypotheses.points[at].tolist() == np.flatnonzero(H[:, j]).tolist()
        assert hypotheses.values[at] == pytest.approx(H[H[:, j] != 0, j])


@pytest.mark.parametrize("seed", range(3))
def test_hamming_is_adaboost_mh_with_the_logistic_loss(seed):
    X, Y = data(seed, n=30)
    model = AdaBoostLC(covering="HM", rounds=8, smoothing=0.5, n_jobs=1).fit(X, Y)
    expected = slow.log_loss_adaboost_mh(table(X), np.where(Y, 1, -1), 8, 0.5)
    assert model.alpha_ == pytest.approx(expected, rel=1e-3, abs=1e-4)
    alone = AdaBoostLC(covering="HM", rounds=8, smoothing=0.5, n_jobs=1).fit(X, Y[:, :1])
    assert np.array_equal(alone.alpha_[:, 0], model.alpha_[:, 0])  # a label does not know of the others


@pytest.mark.parametrize("kind", COVERINGS)
def test_sets_that_are_listed_give_what_the_closed_form_gives(kind):
    X, Y = data(5, n=40)
    closed = AdaBoostLC(covering=kind, n_jobs=1).fit(X, Y)
    by_function = AdaBoostLC(covering=lambda y: slow.COVERINGS[kind](np.where(y, 1, -1)), n_jobs=1).fit(X, Y)
    assert by_function.alpha_ == pytest.approx(closed.alpha_, rel=1e-4, abs=1e-5)


def test_groups_by_name_and_by_number():
    X, Y = data(6, n=40)
    names = ["football", "basketball", "markets", "currencies"]
    lists = [[names[j] for j in np.flatnonzero(row)] for row in Y]
    by_number = AdaBoostLC(covering=[[0, 1], [2, 3]], n_jobs=1).fit(X, Y)
    by_name = AdaBoostLC(covering=[["football", "basketball"], ("currencies", "markets")], n_jobs=1)
    assert np.array_equal(by_name.fit(X, Y, label_names=iter(names)).alpha_, by_number.alpha_)
    without_currencies = AdaBoostLC(covering=[["football", "basketball"], ["markets"]], n_jobs=1).fit(X, lists)
    assert set(without_currencies.label_names_) == set(names[:3])
    zero_one = AdaBoostLC(covering=[[0, 1, 2, 3]], n_jobs=1).fit(X, Y)
    assert zero_one.alpha_ == pytest.approx(AdaBoostLC(covering="ZO", n_jobs=1).fit(X, Y).alpha_)


@pytest.mark.parametrize(
    ("covering", "sentence"),
    [
        ([[0, 1], [3]], "misses label 2"),
        ([[0, 1], [2, 3], []], "empty group"),
        ([[0, 1, 2, 3], ["tennis"]], "names 'tennis'"),
        ([[0, 1, 2, 3, 4]], "names 4"),
        (lambda y: [], "covering of row 0 is empty"),
        (lambda y: [[0, 1, 2]], "misses label 3"),
    ],
)
def test_coverings_that_do_not_fit_the_labels_are_refused(covering, sentence):
    with pytest.raises(BadInput, match=sentence):
        AdaBoostLC(covering=covering).fit(*data(0))


@pytest.mark.parametrize("covering", [[], "zo", None, [[1.5]], 3])
def test_what_is_no_covering_at_all_is_refused(covering):
    with pytest.raises(BadParameter, match=r"^covering must be one of 'ZO'"):
        AdaBoostLC(covering=covering).fit(*data(0))


@pytest.mark.parametrize("kind", COVERINGS)
@pytest.mark.parametrize("template", ["parallel", "sequential"])
def test_a_label_of_nobody_and_one_of_everybody(kind, template):
    X, Y = data(1, n=60)
    model = AdaBoostLC(covering=kind, template=template, rounds=60, n_jobs=1).fit(X, Y)
    chosen = model.predict(X) > 0  # a table, as Y was
    assert chosen[:, 2].mean() > 0.95
    assert not chosen[:, 3].any()
    assert not model.predict_topk(X, k=4).to_csr()[:, 3].nnz
    assert np.isfinite(model.alpha_).all()


def test_history_tells_the_errors_of_every_round():
    X, Y = data(3, n=60)
    model = AdaBoostLC(covering="TS", rounds=7, n_jobs=1).fit(X[:40], Y[:40], evaluation=(X[40:], Y[40:]))
    history = model.history_
    for part, rows in (("training", slice(40)), ("evaluation", slice(40, 60))):
        truth = sp.csr_matrix(Y[rows].astype(np.float32))
        for name in COVERINGS:
            said = history.of(name, part)
            assert len(said) == 8
            assert said[0] == pytest.approx(covering_error(truth, sp.csr_matrix(truth.shape), covering=name))
            assert said[-1] == pytest.approx(covering_error(truth, model.predict(X[rows]), covering=name))
        assert history.of("error", part) == pytest.approx(history.of("TS", part), rel=1e-12)
        F = model.decision_function(X[rows])
        expected = slow.mean_loss(F, np.where(Y[rows], 1, -1), slow.two_sets)
        assert history.of("loss", part)[-1] == pytest.approx(expected, rel=1e-5)
    assert model.n_rounds_ == 7
    with pytest.raises(BadInput, match="no 'accuracy'"):
        history.of("accuracy")
    with pytest.raises(BadInput, match="no part 'test'"):
        history.of("loss", "test")
    with pytest.raises(BadInput, match="without evaluation points"):
        AdaBoostLC(rounds=2, n_jobs=1).fit(X, Y).history_.of("loss", "evaluation")


def test_patience_goes_back_to_the_best_round():
    X, Y = data(3, n=60)
    X, Y = X.copy(), np.random.default_rng(0).random((60, 4)) < 0.3  # nothing to learn, so it soon gets worse
    both = X[:40], Y[:40]
    stopped = AdaBoostLC(rounds=200, patience=3, smoothing=0.01, n_jobs=1).fit(*both, evaluation=(X[40:], Y[40:]))
    error = stopped.history_.of("error", "evaluation")
    assert stopped.n_rounds_ == np.argmin(error)
    assert len(error) == stopped.n_rounds_ + 4 < 200
    as_many = AdaBoostLC(rounds=max(stopped.n_rounds_, 1), smoothing=0.01, n_jobs=1).fit(*both)
    assert stopped.n_rounds_ == 0 or np.array_equal(stopped.alpha_, as_many.alpha_)
    with pytest.raises(BadParameter, match="patience must be None without evaluation points"):
        AdaBoostLC(patience=3).fit(X, Y)


def test_evaluation_points_are_checked_and_may_be_named():
    X, Y = data(3, n=40)
    names = ["a", "b", "c", "d"]
    lists = [[names[j] for j in np.flatnonzero(row)] for row in Y]
    by_name = AdaBoostLC(rounds=2, n_jobs=1).fit(X, Y, label_names=names, evaluation=(X, lists))
    by_number = AdaBoostLC(rounds=2, n_jobs=1).fit(X, Y, evaluation=(X, Y))
    assert np.array_equal(by_name.history_.evaluation, by_number.history_.evaluation)
    for wrong in ((X, Y[:3]), (X[:0], Y[:0]), (X, Y[:, :2]), (X[:, :2], Y), X):
        with pytest.raises(BadInput):
            AdaBoostLC(rounds=2).fit(X, Y, evaluation=wrong)


def test_a_function_is_not_saved_but_the_model_predicts(tmp_path, caplog):
    X, Y = data(4, n=40)
    model = AdaBoostLC(covering=lambda y: [range(len(y))], rounds=3, n_jobs=1).fit(X, Y)
    with caplog.at_level(logging.WARNING, "broadmatch"):
        model.save(tmp_path / "m")
    assert "function, which cannot be saved" in caplog.text
    loaded = broadmatch.load(tmp_path / "m")
    assert loaded.covering is None
    assert np.array_equal(loaded.decision_function(X), model.decision_function(X))
    assert np.array_equal(loaded.history_.training, model.history_.training)
    with pytest.raises(BadParameter, match=r"^covering must be"):
        loaded.fit(X, Y)
    loaded.save(tmp_path / "again")
    groups = AdaBoostLC(covering=({0, 1}, (2, np.int64(3))), rounds=3, n_jobs=1).fit(X, Y)
    groups.save(tmp_path / "groups")
    assert broadmatch.load(tmp_path / "groups").covering == [[0, 1], [2, 3]]


def test_a_checkpoint_goes_by_the_covering_and_the_evaluation_points(tmp_path):
    X, Y = data(4, n=40)
    AdaBoostLC(rounds=3, n_jobs=1).fit(X, Y, checkpoint=tmp_path / "c")
    longer = AdaBoostLC(rounds=5, n_jobs=1).fit(X, Y, checkpoint=tmp_path / "c")
    assert np.array_equal(longer.alpha_, AdaBoostLC(rounds=5, n_jobs=1).fit(X, Y).alpha_)
    shorter = AdaBoostLC(rounds=2, n_jobs=1).fit(X, Y, checkpoint=tmp_path / "c")
    assert np.array_equal(shorter.history_.training[:, 0], longer.history_.training[:3, 0])
    for other in ({"covering": "ZO"}, {"covering": [[0], [1], [2, 3]]}, {"template": "sequential"}, {"smoothing": 2}):
        with pytest.raises(broadmatch.errors.BadArtifact, match="other data or with other parameters"):
            AdaBoostLC(**({"rounds": 3, "n_jobs": 1} | other)).fit(X, Y, checkpoint=tmp_path / "c")
    with pytest.raises(broadmatch.errors.BadArtifact):
        AdaBoostLC(rounds=3, n_jobs=1).fit(X, Y, checkpoint=tmp_path / "c", evaluation=(X, Y))


def test_values_beyond_those_of_training_count_as_the_largest():
    X, Y = data(4, n=40)
    model = AdaBoostLC(rounds=3, n_jobs=1).fit(X, Y)
    largest = np.abs(X).max(axis=0)
    assert np.array_equal(model.decision_function([largest * 1000]), model.decision_function([largest]))


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), coverings, templates)
def test_any_number_of_threads_gives_the_same_bits(seed, kind, template):
    X, Y = data(seed, n=600, d=80)  # several blocks of rows and of hypotheses
    covering, _ = named(kind)
    one, two = (AdaBoostLC(covering=covering, template=template, rounds=2, n_jobs=j).fit(X, Y) for j in (1, 3))
    assert np.array_equal(one.alpha_, two.alpha_)
    assert np.array_equal(one.history_.training, two.history_.training)


def test_explanations_add_up_to_the_score():
    X, Y = points()
    model = AdaBoostLC(rounds=10).fit(X, Y, feature_names=[f"word {j}" for j in range(X.shape[1])])
    scores = model.decision_function(X)
    for i in (0, 5, 123):
        for label in range(Y.shape[1]):
            why = model.explain(X[i], label)
            assert why.score == pytest.approx(scores[i, label], abs=1e-5)
            assert why.score == sum(one.amount for one in why.contributions)
            assert [one.feature for one in why.of("bias")] == ["bias"]
            assert {one.feature for one in why.of("feature")} <= {f"word {f}" for f in X[i].indices}
