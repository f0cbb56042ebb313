"""The one suite that every estimator found in the package goes through.

A new estimator needs nothing here; if it takes data of a new kind, it needs a row in `DATA` of tests/contract.py.
"""

import inspect
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler

import broadmatch
from broadmatch.data import CSR, Dataset, Names, as_features, as_labels
from broadmatch.data.convert import column_names
from broadmatch.errors import BadArtifact, BadInput, BadParameter, NotFitted
from broadmatch.features import PageVectorizer
from broadmatch.io import artifacts
from broadmatch.labels import OneVsRest, Recommender
from broadmatch.labels.base import LabelModel
from tests.contract import (
    CLICK_LEARNERS,
    DATA,
    ESTIMATORS,
    FOUND,
    N_FEATURES,
    N_LABELS,
    N_POINTS,
    NAMES,
    NEVER,
    SETTINGS_ONLY,
    STREAM_STEPS,
    answer,
    arrays_of,
    bits,
    data_of,
    every_estimator,
    every_label_model,
    every_predictor,
    every_set_model,
    every_transformer,
    every_vectorizer,
    fitted,
    memory_mapped,
    pages,
    points,
    small,
)

# ---------------------------------------------------------------- every estimator


def test_what_is_found_is_what_is_written():
    assert {c.__name__ for c in FOUND} == NAMES
    assert {c.__name__ for c in ESTIMATORS} == NAMES - {*CLICK_LEARNERS, *STREAM_STEPS, *SETTINGS_ONLY} == set(DATA)


@every_estimator
def test_parameters_are_keyword_only_and_have_a_rule_that_the_default_keeps(cls):
    arguments = list(inspect.signature(cls.__init__).parameters.values())[1:]
    assert arguments
    positional = [a.name for a in arguments if a.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert positional == [name for name in cls.rules if name == "model"]  # a wrapped estimator may come first
    assert {a.name for a in arguments} == set(cls.rules)
    assert not [a.name for a in arguments if not cls.rules[a.name].holds(a.default)]
    cls().check_params()


@every_estimator
def test_clone_and_parameters_round_trip(cls):
    model = small(cls)
    assert clone(model).get_params() == model.get_params()
    assert cls().set_params(**model.get_params()).get_params() == model.get_params()
    assert clone(fitted(cls)).get_params() == model.get_params()  # and a clone of a fitted one is not fitted
    with pytest.raises(NotFitted):
        answer(clone(fitted(cls)))
    assert repr(model).startswith(cls.__name__)


@every_estimator
def test_a_wrong_value_of_each_parameter_is_named(cls):
    for name, rule in cls.rules.items():
        wrong = [v for v in (object(), -7, 1.5, float("nan"), "no such thing", True, [1.5]) if not rule.holds(v)]
        assert wrong, f"{name} takes everything"
        for value in wrong:
            with pytest.raises(BadParameter, match=rf"^{name} must be "):
                small(cls).set_params(**{name: value}).fit(*data_of(cls))


@every_estimator
def test_no_threads_at_all_is_refused(cls):
    if "n_jobs" not in cls.rules:
        pytest.skip("has no n_jobs")
    with pytest.raises(BadParameter, match="n_jobs"):
        fitted(cls, n_jobs=0)


@every_estimator
def test_fit_returns_itself_and_leaves_parameters_alone(cls):
    model = small(cls)
    before = model.get_params()
    assert model.fit(*data_of(cls)) is model
    assert model.get_params() == before


@every_estimator
def test_not_fitted(cls, tmp_path):
    calls = [answer, lambda model: model.save(tmp_path / "m"), lambda model: artifacts.save(model, tmp_path / "m")]
    if issubclass(cls, LabelModel):
        X, Y = points()
        calls += [lambda m: m.predict_one(X[0]), lambda m: m.score(X, Y), lambda m: m.score(X, [["a"]] * N_POINTS)]
        calls += [lambda m: m.explain(X[0], 0)] if hasattr(cls, "explain") else []
    for call in calls:
        with pytest.raises(NotFitted, match=cls.__name__):
            call(small(cls))
        with pytest.raises(NotFittedError):  # scikit-learn's, where it is loaded
            call(small(cls))
    assert not (tmp_path / "m").exists()


@every_estimator
def test_the_same_again_gives_the_same_bits(cls):
    assert bits(fitted(cls)) == bits(fitted(cls))


@every_estimator
@pytest.mark.parametrize("n_jobs", [2, 3, None])
def test_every_number_of_threads_gives_the_same_bits(cls, n_jobs):
    if "n_jobs" not in cls.rules:
        pytest.skip("has no n_jobs")
    one, several = fitted(cls), fitted(cls, n_jobs=n_jobs)
    assert bits(one) == bits(several)
    assert answer(one) == answer(several)


@every_estimator
def test_asking_changes_nothing(cls):
    model = fitted(cls)
    before, given = bits(model), data_of(cls)
    first = answer(model, given)
    if issubclass(cls, LabelModel):
        model.predict_one(given[0][0], k=2)
        model.score(*given)
    assert answer(model, given) == first
    assert bits(model) == before


@every_estimator
def test_save_and_load_give_the_same_bits(cls, tmp_path):
    model = fitted(cls)
    model.save(tmp_path / "one")
    loaded = broadmatch.load(tmp_path / "one")
    assert type(loaded) is cls
    assert loaded.get_params() == model.get_params()
    assert bits(loaded) == bits(model)
    assert answer(loaded) == answer(model)
    for name, array in arrays_of(loaded.to_state()).items():
        assert not array.size or memory_mapped(array), f"{name} is not memory-mapped"
    loaded.save(tmp_path / "two")
    one, two = (artifacts.read_manifest(tmp_path / name) for name in ("one", "two"))
    assert one["arrays"] == two["arrays"]
    assert one == two


@every_estimator
def test_many_threads_may_ask_at_once(cls):
    model, given = fitted(cls, n_jobs=2), data_of(cls)
    expected = answer(model, given)
    with ThreadPoolExecutor(8) as pool:
        assert all(said == expected for said in pool.map(lambda _: answer(model, given), range(24)))


# ---------------------------------------------------------------- label models


@every_label_model
def test_another_seed_gives_another_model(cls):
    if "seed" not in cls.rules:
        pytest.skip("has no seed")
    assert bits(fitted(cls, seed=1)) != bits(fitted(cls, seed=2))


@every_label_model
def test_fitting_leaves_the_data_alone(cls):
    X, Y = points()
    before = [a.tobytes() for m in (X, Y) for a in (m.indptr, m.indices, m.data)]
    small(cls).fit(X, Y).predict_topk(X).to_csr()
    assert [a.tobytes() for m in (X, Y) for a in (m.indptr, m.indices, m.data)] == before


@every_label_model
def test_a_batch_equals_one_row_at_a_time(cls):
    model, (X, _) = fitted(cls), points()
    rows = CSR.from_scipy(model.predict_topk(X, k=4).to_csr())
    assert rows.shape == (N_POINTS, N_LABELS)
    for i in range(N_POINTS):
        labels, scores = model.predict_one(X[i], k=4)
        assert labels.dtype == np.int32
        assert scores.dtype == np.float32
        order = np.lexsort((labels, -scores))
        assert np.array_equal(order, np.arange(len(order)))  # best first, equal ones by the lower label
        ascending = np.argsort(labels)
        assert np.array_equal(labels[ascending], rows.row(i)[0])
        assert np.array_equal(scores[ascending], rows.row(i)[1])


@every_label_model
def test_one_row_may_come_in_many_forms(cls):
    model, (X, _) = fitted(cls), points()
    row = X[0].toarray()[0]
    expected = model.predict_one(X[0])
    pair = (X[0].indices, X[0].data)
    wide = (X[0].indices.astype(np.int64), X[0].data.astype(np.float64))
    strided = (np.repeat(X[0].indices, 2)[::2], np.repeat(X[0].data, 2)[::2])
    lists = (X[0].indices.tolist(), X[0].data.tolist())
    for form in (
        pair,
        wide,
        strided,
        lists,
        row,
        row.tolist(),
        X[0].toarray(),
        sp.csr_array(X[0]),
        sp.coo_matrix(X[0]),
    ):
        assert all(np.array_equal(a, b) for a, b in zip(model.predict_one(form), expected, strict=True))
    nothing = model.predict_one(([], []))
    assert all(np.array_equal(a, b) for a, b in zip(model.predict_one(np.zeros(N_FEATURES)), nothing, strict=True))


@every_label_model
def test_a_bad_row_is_refused(cls):
    model = fitted(cls)
    for row in (
        ([3, 1], [1.0, 1.0]),
        ([1, 1], [1.0, 1.0]),
        ([1], [1.0, 2.0]),
        ([0.5], [1.0]),
        ([0], ["a"]),
        (0, 1),
        ([-1], [1.0]),
        ([N_FEATURES], [1.0]),
        ([0], [float("nan")]),
        ([0], [1e300]),
        [1.0, 2.0],
        np.full(N_FEATURES, np.inf),
        np.zeros((2, N_FEATURES)),
    ):
        with pytest.raises(BadInput):
            model.predict_one(row)


@every_label_model
def test_k(cls):
    model, (X, _) = fitted(cls), points()
    for k in (0, -1, 1.5, None, True):
        with pytest.raises(BadParameter, match=r"^k must be "):
            model.predict_topk(X, k=k).to_csr()
        with pytest.raises(BadParameter, match=r"^k must be "):
            model.predict_one(X[0], k=k)
    most = model.predict_topk(X, k=10**12).to_csr()
    assert most.shape == (N_POINTS, N_LABELS)
    assert not most[:, NEVER].nnz  # a label never seen is never recommended
    assert len(model.predict_one(X[0], k=10**12)[0]) == most[0].nnz
    first = model.predict_topk(X, k=np.int64(1)).to_csr()
    assert (np.diff(first.indptr) <= 1).all()


@every_label_model
def test_bad_training_data_is_refused_with_the_place(cls):
    X, Y = points()
    nan, negative, nan_label = X.copy(), Y.copy(), Y.copy()
    nan.data[0] = np.nan
    negative.data[0] = -1
    nan_label.data[0] = np.nan
    for bad_X, bad_Y, sentence in (
        (nan, Y, "X: row 0, column .* not a finite number"),
        (X, negative, "Y: row 0, column .* negative"),
        (X, nan_label, "Y: row 0, column .* not a finite number"),
        (X[:10], Y[:9], "X has 10 rows and Y has 9"),
        (X, sp.csr_matrix(Y.shape, dtype=np.float32), "no label at all"),
        (X, [[]] * N_POINTS, "no label at all"),
        (sp.csr_matrix((N_POINTS, 0), dtype=np.float32), Y, "no features"),
        (X.toarray()[0], Y, "two dimensions"),
        (X, ["pizza"] * N_POINTS, "list of strings"),
    ):
        with pytest.raises(BadInput, match=sentence):
            small(cls).fit(bad_X, bad_Y)
    for names in ("label_names", "feature_names", "point_names"):
        with pytest.raises(BadInput, match="2 names for"):
            small(cls).fit(X, Y, **{names: ["a", "b"]})
    with pytest.raises(BadInput, match=rf"31 features, .* fitted on {N_FEATURES}"):
        fitted(cls).predict_topk(sp.csr_matrix((3, 31), dtype=np.float32)).to_csr()
    with pytest.raises(BadInput, match="not a finite number"):
        fitted(cls).predict_topk(nan).to_csr()


@every_label_model
def test_a_refused_fit_does_not_pass_for_a_fitted_model(cls):
    X, Y = points()
    model = small(cls)
    with pytest.raises(BadInput):
        model.fit(X[:10], Y[:9])
    with pytest.raises(NotFitted):
        model.predict_topk(X).to_csr()


@every_label_model
def test_every_form_of_data_gives_the_same_bits(cls):
    X, Y = points()
    expected = bits(fitted(cls))
    table = X.toarray()
    named = {f"f{j}": table[:, j] for j in range(N_FEATURES)}
    forms = [table, table.astype(np.float64), X.tocsc(), sp.coo_array(X), CSR.from_scipy(X), pd.DataFrame(named),
             pl.DataFrame(named), pa.table(named)]  # fmt: skip
    for form in forms:
        model = small(cls).fit(form, Y)
        found = bits(model)
        if column_names(form) is not None:  # a table brings the names of its columns
            assert list(model.feature_names_) == list(named)
            del found["feature_names_text"], found["feature_names_offsets"]
        assert found == expected
        assert answer(model, (form,)) == answer(model, (X,))
    for labels in (Y.toarray(), Y.tocsc(), Y.astype(bool), CSR.from_scipy(Y)):
        assert bits(small(cls).fit(X, labels)) == expected


@every_label_model
def test_labels_by_name(cls):
    X, Y = points()
    phrases = [f"phrase {j}" for j in range(N_LABELS)]
    lists = [[phrases[j] for j in Y[i].indices] for i in range(N_POINTS)]
    model, by_matrix = small(cls).fit(X, lists), small(cls).fit(X, Y, label_names=phrases)
    assert set(model.label_names_) == set(phrases[:NEVER])
    assert list(by_matrix.label_names_) == phrases
    assert by_matrix.score(X, lists) == by_matrix.score(X, Y) > 0.5
    # Of labels that are equally good the lower number comes first, and a list of names numbers them otherwise.
    assert model.score(X, lists) == pytest.approx(by_matrix.score(X, Y), abs=0.05)
    assert model.score(X, lists) > 0.5
    stranger = [["never heard of"] for _ in range(N_POINTS)]
    assert model.score(X, stranger) == 0


@every_label_model
def test_names_travel_with_the_saved_model(cls, tmp_path):
    X, Y = points()
    phrases, words, urls = ([f"{what} {i}" for i in range(n)] for what, n in
                            (("phrase", N_LABELS), ("wörd", N_FEATURES), ("page", N_POINTS)))  # fmt: skip
    small(cls).fit(X, Y, label_names=phrases, feature_names=words, point_names=urls).save(tmp_path / "m")
    loaded = broadmatch.load(tmp_path / "m")
    assert [list(loaded.label_names_), list(loaded.feature_names_), list(loaded.point_names_)] == [phrases, words, urls]


@every_label_model
def test_memory_mapped_data_is_read_where_it_is(cls, tmp_path):
    X, Y = (CSR.from_scipy(m) for m in points())
    artifacts.save(Dataset(X, Y, Names.numbers(N_LABELS)), tmp_path / "data")
    data = broadmatch.load(tmp_path / "data")
    assert all(memory_mapped(a) for a in (*data.X[:3], *data.Y[:3]))
    taken = (*as_features(data.X)[:3], *as_labels(data.Y)[0][:3])
    assert all(np.shares_memory(a, b) for a, b in zip((*data.X[:3], *data.Y[:3]), taken, strict=True))
    model = small(cls).fit(data.X, data.Y)
    assert bits(model) == bits(fitted(cls))
    assert answer(model, (data.X,)) == answer(model, (X,))


@every_label_model
def test_in_a_search_and_in_a_pipeline(cls):
    X, Y = points()
    grid = {"seed": [0, 1]} if "seed" in cls.rules else {"n_jobs": [1]}
    search = GridSearchCV(small(cls), grid, cv=2).fit(X, Y)
    assert 0.2 < search.best_score_ <= 1
    pipeline = Pipeline([("scale", MaxAbsScaler()), ("model", small(cls))]).fit(X, Y)
    alone = small(cls).fit(MaxAbsScaler().fit_transform(X), Y)
    assert pipeline.score(X, Y) == alone.score(MaxAbsScaler().fit_transform(X), Y) > 0.5
    assert (pipeline.predict(X) != alone.predict(MaxAbsScaler().fit_transform(X))).nnz == 0


@every_label_model
def test_odd_data_is_learned_from(cls):
    X, Y = points()
    one = small(cls).fit(X, Y[:, :1])  # one label only
    assert one.predict_one(X[0])[0].tolist() in ([0], [])
    alike = small(cls).fit(np.ones((20, 2)), Y[:20])  # identical points: nothing tells them apart
    assert alike.predict_topk(np.ones((1, 2)), k=3).to_csr().nnz == 3
    single = small(cls).fit(X[0], [["only"]])
    assert single.predict_one(X[0])[0].tolist() == [0]
    empty = small(cls).fit(sp.csr_matrix((3, 4), dtype=np.float32), [["a"], ["a", "b"], []])
    assert empty.predict_one(np.zeros(4))[0].tolist()[:1] == [0]
    assert fitted(cls).predict_topk(sp.csr_matrix((0, N_FEATURES), dtype=np.float32)).to_csr().shape == (0, N_LABELS)


@every_label_model
def test_predict_gives_the_labels_above_the_bar_as_0_and_1(cls):
    model, (X, Y) = fitted(cls), points()
    sets, every = model.predict(X), model.predict_topk(X, k=N_LABELS)
    assert sp.issparse(sets)
    assert set(sets.data.tolist()) <= {1.0}
    above = [np.sort(labels[scores > model.bar]).tolist() for labels, scores in every]
    assert [sets[i].indices.tolist() for i in range(N_POINTS)] == above
    assert sum(map(len, above)) > 50
    dense = small(cls).fit(X, Y.toarray())
    assert isinstance(dense.predict(X), np.ndarray)
    assert np.array_equal(dense.predict(X), sets.toarray())
    scores = model.decision_function(X)
    scores = scores.toarray() if sp.issparse(scores) else scores
    assert np.array_equal(scores[:, :NEVER] > model.bar, sets.toarray()[:, :NEVER] > 0)


@every_label_model
def test_a_ranking_has_names_and_rows(cls):
    X, Y = points()
    ranking = small(cls).fit(X, Y, label_names=[f"phrase {j}" for j in range(N_LABELS)]).predict_topk(X, k=3)
    assert len(ranking) == N_POINTS
    assert ranking.labels.shape == ranking.scores.shape == (N_POINTS, 3)
    for i, (names, (labels, scores)) in enumerate(zip(ranking.names(), ranking, strict=True)):
        assert names == [f"phrase {j}" for j in labels]
        assert len(scores) == ranking.lengths[i]


@every_label_model
def test_scorers_of_scikit_learn_take_what_it_predicts(cls):
    X, Y = (m.toarray() for m in points())
    Y = Y[:, :NEVER].astype(int)
    for scoring, least in (("f1_micro", 0.3), ("accuracy", 0.05), ("average_precision", 0.3)):
        assert cross_val_score(small(cls), X, Y, cv=2, scoring=scoring).min() > least, scoring
    search = GridSearchCV(small(cls), {"n_jobs": [1, 2]}, cv=2, scoring="f1_micro").fit(X, Y)
    assert search.best_score_ == pytest.approx(cross_val_score(small(cls), X, Y, cv=2, scoring="f1_micro").mean())


# ---------------------------------------------------------------- models of sets


def extra(cls):
    """What `fit` takes besides X and Y."""
    return {"hierarchy": data_of(cls)[2]} if cls.__name__ == "HierarchicalLabels" else {}


@every_set_model
def test_a_wrapped_model_is_the_one_positional_argument(cls):
    inside = OneVsRest(c=3.0)
    model = cls(inside)
    assert model.model is inside
    assert model.get_params()["model__c"] == 3.0
    assert model.set_params(model__c=2.0).model.c == inside.c == 2.0
    assert repr(cls(inside)) == f"{cls.__name__}(model=OneVsRest(c=2.0))"
    with pytest.raises(TypeError):
        cls(inside, 1)


@every_set_model
def test_sets_are_0_and_1_sparse_or_dense_as_Y_was(cls):
    model, (X, Y) = fitted(cls), points()
    sets, best = model.predict(X), model.predict_sets(X)
    assert sp.issparse(sets)
    assert sets.dtype == np.float32
    assert set(sets.data.tolist()) == {1.0}
    assert [sets[i].indices.tolist() for i in range(N_POINTS)] == [np.sort(labels).tolist() for labels, _ in best]
    assert model.set_sizes(X).tolist() == np.diff(sets.indptr).tolist() == best.lengths.tolist()
    for labels, scores in best:
        assert np.array_equal(np.lexsort((labels, -scores)), np.arange(len(labels)))
    dense = small(cls).fit(X, Y.toarray(), **extra(cls))
    assert isinstance(dense.predict(X), np.ndarray)
    assert np.array_equal(dense.predict(X), sets.toarray())
    assert isinstance(dense.decision_function(X), np.ndarray)
    scores = np.asarray(dense.decision_function(X))
    for i, (labels, found) in enumerate(best):
        assert np.array_equal(scores[i, labels], found)


@every_set_model
def test_the_set_of_one_row_is_that_of_the_batch(cls):
    model, (X, _) = fitted(cls), points()
    if not cls.pointwise:
        with pytest.raises(BadInput, match="cannot answer for one"):
            model.predict_one(X[0])
        return
    best = model.predict_sets(X)
    for i in range(0, N_POINTS, 7):
        for form in (X[i], X[i].toarray()[0], (X[i].indices, X[i].data)):
            labels, scores = model.predict_one(form)
            assert np.array_equal(labels, best[i][0])
            assert np.array_equal(scores, best[i][1])


@every_set_model
def test_tables_carry_their_names_through(cls):
    X, Y = points()
    names = [f"f{j}" for j in range(N_FEATURES)]
    table, labels = (
        pd.DataFrame(X.toarray(), columns=names),
        pd.DataFrame(Y.toarray(), columns=map(str, range(N_LABELS))),
    )
    model = small(cls).fit(table, labels, **extra(cls))
    assert list(model.feature_names_) == names
    assert list(model.label_names_) == [str(j) for j in range(N_LABELS)]
    assert model.n_features_in_ == N_FEATURES
    assert np.array_equal(model.predict(table[names[::-1]]), model.predict(table))  # columns are matched by name
    with pytest.raises(BadInput, match="X has no column 'f0'"):
        model.predict(table[names[1:]])


@every_set_model
def test_sets_in_a_search_a_pipeline_and_scorers(cls):
    X, Y = points()
    if cls.__name__ == "HierarchicalLabels":
        search = GridSearchCV(small(cls, model=OneVsRest(n_jobs=1)), {"model__c": [0.1, 1.0]}, cv=2)
        assert 0.3 < search.fit(X, Y, **extra(cls)).best_score_ <= 1
        return
    settings = {"model": OneVsRest(n_jobs=1)}
    search = GridSearchCV(small(cls, **settings), {"model__c": [0.1, 1.0]}, cv=2).fit(X, Y)
    assert 0.3 < search.best_score_ <= 1
    assert clone(search.best_estimator_).model.c == search.best_params_["model__c"]
    pipeline = Pipeline([("scale", MaxAbsScaler()), ("sets", small(cls, **settings))])
    nested = GridSearchCV(pipeline, {"sets__model__c": [0.1, 1.0]}, cv=2).fit(X, Y)
    assert nested.predict(X).shape == Y.shape
    dense = Y.toarray()[:, :NEVER].astype(int)
    assert cross_val_score(small(cls, **settings), X, dense, cv=2, scoring="f1_micro").min() > 0.3


# ---------------------------------------------------------------- behind a vectorizer


@every_predictor
def test_in_a_recommender(cls, tmp_path):
    texts = pages()
    vectorizer = small(PageVectorizer)
    rows = vectorizer.fit_transform(texts)
    Y = sp.csr_matrix(rows[:, :N_LABELS] > 0.3, dtype=np.float32)
    model = small(cls).fit(rows, Y, **extra(cls))
    made = Recommender(vectorizer, model)
    before = bits(made)
    ks = [*([3] if cls.__name__ != "HierarchicalLabels" else []), *([None] if cls.pointwise else [])]
    for k in ks:
        found = list(made.recommend(texts, k))
        best = model.predict_sets(rows) if k is None else model.predict_topk(rows, k)
        assert [recommendation.name for recommendation in found] == [str(i) for i in range(len(texts))]
        assert [[p.phrase for p in phrases] for _, phrases in found] == best.names()
        assert [[p.score for p in phrases] for _, phrases in found] == [scores.tolist() for _, scores in best]
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _, k=k: list(made.recommend(texts, k)), range(8)))
        assert answers == [found] * 8
        made.save(tmp_path / str(k))
        assert list(broadmatch.load(tmp_path / str(k)).recommend(texts, k)) == found
    assert ks
    assert bits(made) == before


# ---------------------------------------------------------------- label models: checkpoints


@every_label_model
def test_a_fit_takes_up_what_the_checkpoint_holds(cls, tmp_path):
    X, Y = points()
    folder = tmp_path / "checkpoint"
    assert bits(small(cls).fit(X, Y, checkpoint=folder)) == bits(fitted(cls))
    pieces = sorted(folder.iterdir())
    assert len(pieces) > 1
    for piece in pieces[1::2]:
        shutil.rmtree(piece)
    kept = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
    resumed = small(cls, n_jobs=2).fit(X, Y, checkpoint=folder)  # the number of threads may change
    assert bits(resumed) == bits(fitted(cls))
    assert sorted(folder.iterdir()) == pieces
    assert {name: (folder / name).stat().st_mtime_ns for name in kept} == kept


@every_label_model
def test_a_foreign_or_damaged_checkpoint_is_refused(cls, tmp_path):
    X, Y = points()
    folder = tmp_path / "checkpoint"
    small(cls).fit(X, Y, checkpoint=folder)
    more, less = X.copy(), Y.copy()
    more.data[0] *= 2
    less.data[0] *= 0.5
    others = [(small(cls), more, Y), (small(cls), X, less), (small(cls), X[1:], Y[1:])]
    shaping = {"seed": 5, "max_leaf": 4, "features_per_node": 6}
    others += [(small(cls, **{name: value}), X, Y) for name, value in shaping.items() if name in cls.rules]
    for model, x, y in others:
        with pytest.raises(BadArtifact, match="other data or with other parameters"):
            model.fit(x, y, checkpoint=folder)
    first = sorted(folder.iterdir())[0]
    largest = max(first.glob("*.npy"), key=lambda f: f.stat().st_size)
    with largest.open("r+b") as file:
        file.truncate(largest.stat().st_size - 1)
    with pytest.raises(BadArtifact, match=largest.name):
        small(cls).fit(X, Y, checkpoint=folder)


FIT_FOR_LONG = """
import sys
from tests import contract
cls = next(c for c in contract.ESTIMATORS if c.__name__ == sys.argv[1])
contract.make_long(cls)
try:
    contract.small(cls, contract.LONG, n_jobs=2).fit(*contract.points(), checkpoint=sys.argv[2])
except KeyboardInterrupt:
    sys.exit(77)
"""


@every_label_model
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_fit_that_is_stopped_leaves_whole_pieces_and_can_be_resumed(cls, how, tmp_path):
    folder = tmp_path / "checkpoint"
    root = Path(__file__).parents[1]
    run = subprocess.Popen([sys.executable, "-c", FIT_FOR_LONG, cls.__name__, str(folder)], cwd=root,
                           stderr=subprocess.PIPE, text=True)  # fmt: skip
    try:
        patience = time.monotonic() + 120
        while run.poll() is None and time.monotonic() < patience and len(whole(folder)) < 4:
            time.sleep(0.02)
        assert run.poll() is None, run.stderr.read()
        sent = time.monotonic()
        os.kill(run.pid, how)
        _, told = run.communicate(timeout=60)
        took = time.monotonic() - sent
    finally:
        run.kill()
    assert run.returncode == (77 if how == signal.SIGINT else -signal.SIGKILL), told
    assert took < 10
    pieces = whole(folder)
    for piece in pieces:
        artifacts.load_state(piece)
    if how == signal.SIGINT:
        assert sorted(folder.iterdir()) == pieces  # not even a temporary name is left
    before = {p: p.stat().st_mtime_ns for p in pieces[:4]}
    assert bits(small(cls).fit(*points(), checkpoint=folder)) == bits(fitted(cls))
    assert {p: p.stat().st_mtime_ns for p in before} == before


def whole(folder):
    """The pieces of a checkpoint that have their name."""
    return sorted(p for p in folder.glob("*") if not p.name.startswith("."))


# ---------------------------------------------------------------- transformers


@every_transformer
def test_fit_then_transform_equals_fit_transform(cls):
    both, one = small(cls), fitted(cls)
    at_once = both.fit_transform(*data_of(cls))
    then = one.transform(data_of(cls)[0])
    assert bits(both) == bits(one)
    for a, b in ((at_once.indptr, then.indptr), (at_once.indices, then.indices), (at_once.data, then.data)):
        assert np.array_equal(a, b)
    assert at_once.shape == then.shape
    assert at_once.dtype == np.float32


@every_vectorizer
def test_a_stream_is_as_good_as_a_list(cls):
    stream = small(cls).fit(iter(data_of(cls)[0]))
    assert bits(stream) == bits(fitted(cls))
    assert answer(stream, (iter(data_of(cls)[0]),)) == answer(stream)


@every_vectorizer
def test_row_by_row_equals_all_at_once(cls):
    model, rows = fitted(cls), list(data_of(cls)[0])
    together = model.transform(rows)
    alone = sp.vstack([model.transform([row]) for row in rows], format="csr")
    assert np.array_equal(together.indptr, alone.indptr)
    assert np.array_equal(together.indices, alone.indices)
    assert np.array_equal(together.data, alone.data)


@every_vectorizer
def test_nothing_to_learn_from_is_refused(cls):
    with pytest.raises(BadInput):
        small(cls).fit([])
    assert fitted(cls).transform([]).shape[0] == 0
