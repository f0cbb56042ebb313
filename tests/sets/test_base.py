"""What all set models share: the model inside, names, searches, bad input."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler

import broadmatch
from broadmatch.errors import BadInput, BadParameter, NotFitted
from broadmatch.labels import MLRF, OneVsRest
from broadmatch.sets import MetaLabeler, PCut, RCut, SCut, TargetCut, Threshold

EVERY = [MetaLabeler, PCut, RCut, SCut, TargetCut, Threshold]
every_class = pytest.mark.parametrize("cls", EVERY, ids=lambda c: c.__name__)


def small(cls, **more):
    settings = {"model": OneVsRest(n_jobs=1)} | ({"goal": 0.5} if cls is TargetCut else {})
    return cls(**(settings | more))


@every_class
def test_a_model_that_is_not_fitted_stays_so(cls, data):
    model = OneVsRest(n_jobs=1)
    fitted = small(cls, model=model).fit(*data[0])
    assert fitted.model is model
    assert not hasattr(model, "label_names_")
    assert fitted.model_ is not model


@every_class
def test_a_fitted_model_is_used_and_never_trained_again(cls, data, monkeypatch):
    (X, Y), (asked, truth) = data
    model = OneVsRest(n_jobs=1).fit(X, Y)
    trained = []
    monkeypatch.setattr(OneVsRest, "_fit", lambda self, *rest: trained.append(self))
    settings = {"counter": MLRF(n_trees=3, n_jobs=1), "on": "ranks"} if cls is MetaLabeler else {}
    fitted = small(cls, model=model, **settings).fit(asked, truth)
    assert fitted.model_ is model
    assert not trained


@every_class
def test_a_fitted_model_comes_back_fitted_and_its_labels_go_by_name(cls, data, tmp_path):
    (X, Y), (asked, truth) = data
    phrases = [f"phrase {j}" for j in range(Y.shape[1])]
    model = OneVsRest(n_jobs=1).fit(X, Y, label_names=phrases)
    lists = [[phrases[j] for j in truth[i].indices[::-1]] for i in range(truth.shape[0])]
    by_name, by_number = small(cls, model=model).fit(asked, lists), small(cls, model=model).fit(asked, truth)
    assert (by_name.predict(X) != by_number.predict(X)).nnz == 0
    assert list(by_name.label_names_) == phrases
    by_name.save(tmp_path / "m")
    loaded = broadmatch.load(tmp_path / "m")
    assert loaded.model is loaded.model_
    assert (loaded.predict(X) != by_name.predict(X)).nnz == 0
    assert not hasattr(clone(loaded).model, "label_names_")  # a copy starts anew


def test_a_fitted_model_refuses_other_labels_and_more_arguments(data):
    X, Y = data[0]
    model = OneVsRest(n_jobs=1).fit(X, Y)
    with pytest.raises(BadInput, match="Y has 2 labels, but the model knows 6"):
        RCut(model=model).fit(X, Y[:, :2])
    with pytest.raises(BadInput, match="fitted already, so it takes no label_names"):
        RCut(model=model).fit(X, Y, label_names=list("abcdef"))


@every_class
def test_arguments_for_the_model_reach_it(cls, data):
    X, Y = data[0]
    names = list("abcdef")
    fitted = small(cls).fit(X, Y, label_names=names, point_names=[str(i) for i in range(X.shape[0])])
    assert list(fitted.label_names_) == names
    assert len(fitted.model_.point_names_) == X.shape[0]


def test_what_describes_labels_reaches_the_models_of_the_folds_too(data):
    given = []

    class Described(OneVsRest):
        def fit(self, X, Y, *, label_features=None, **more):
            given.append((label_features, sorted(more)))
            return super().fit(X, Y, **more)

    X, Y = data[0]
    Threshold(model=Described(n_jobs=1), folds=2).fit(X, Y, label_features="these", feature_names=map(str, range(20)))
    assert given == [("these", ["feature_names"]), ("these", []), ("these", [])]


@every_class
def test_in_a_search_and_in_a_pipeline(cls, data):
    X, Y = data[0]
    search = GridSearchCV(small(cls), {"model__c": [0.1, 1.0]}, cv=2).fit(X, Y)
    assert 0.5 < search.best_score_ <= 1
    pipeline = Pipeline([("scale", MaxAbsScaler()), ("sets", small(cls))]).fit(X, Y)
    assert pipeline.predict(X).shape == Y.shape


@every_class
def test_every_number_of_threads_gives_the_same_bits(cls, data):
    (X, Y), (asked, _) = data
    one, two = (small(cls, model=OneVsRest(n_jobs=n)).fit(X, Y).predict_sets(asked).to_csr() for n in (1, 2))
    for a, b in ((one.indptr, two.indptr), (one.indices, two.indices), (one.data, two.data)):
        assert a.tobytes() == b.tobytes()


@every_class
def test_a_label_is_explained_with_what_it_was_held_against(cls, data):
    (X, Y), (asked, _) = data
    fitted = small(cls).fit(X, Y)
    for i in range(5):
        inside = set(fitted.predict(asked)[i].indices.tolist())
        best = fitted.model_.predict_one(asked[i], Y.shape[1])[0].tolist()
        for label in best:
            why, score = fitted.explain(asked[i], label), fitted.model_.explain(asked[i], label)
            assert (why.label, why.score, why.contributions) == (str(label), score.score, score.contributions)
            if cls is not PCut:
                assert why.factors["in_set"] == (label in inside)
            if "rank" in why.factors:
                assert best[int(why.factors["rank"]) - 1] == label
            if "threshold" in why.factors:
                assert (why.score > why.factors["threshold"]) == (label in inside)
            for size in {"k", "labels"} & set(why.factors):
                assert why.factors.get("rank", 99) <= why.factors[size] or label not in inside
    if cls is PCut:
        with pytest.raises(BadInput, match="cannot answer for one"):
            fitted.explain(asked[0])
        return
    why, size = fitted.explain(asked[0]), len(fitted.predict_one(asked[0])[0])
    assert why.label == ("1 label" if size == 1 else f"{size} labels")
    assert why.to_dict()["label"] == why.label


@every_class
def test_bad_input(cls, data):
    X, Y = data[0]
    with pytest.raises(BadInput, match="X has 10 rows and Y has 9"):
        small(cls).fit(X[:10], Y[:9])
    with pytest.raises(BadInput, match="no label at all"):
        small(cls).fit(X, sp.csr_matrix(Y.shape, dtype=np.float32))
    with pytest.raises(BadParameter, match="model must be a label model"):
        small(cls, model="one-vs-rest").fit(X, Y)
    fitted = small(cls).fit(X, Y)
    with pytest.raises(BadInput, match="fitted on 20"):
        fitted.predict(X[:, :3])
    with pytest.raises(NotFitted, match=cls.__name__):
        small(cls).predict(X)
    with pytest.raises(BadInput, match=f"sets of {cls.__name__} take no revealed labels"):
        fitted.predict(X, revealed=Y)


@pytest.mark.parametrize("cls", [SCut, TargetCut, Threshold])
def test_one_point_cannot_be_held_out(cls, data):
    X, Y = data[0]
    with pytest.raises(BadInput, match="from one point"):
        small(cls).fit(X[:1], Y[:1])


@every_class
def test_a_fold_without_any_label_is_no_reason_to_stop(cls, data):
    X = data[0][0]
    lonely = sp.csr_matrix(np.float32(np.arange(8) == 2)[:, None])  # the fold of that point trains on no label
    settings = {"on": "scores"} if cls is MetaLabeler else {}
    if cls is TargetCut:
        with pytest.raises(BadInput, match="No threshold reaches"):
            small(cls).fit(X[:8], lonely)
    else:
        assert small(cls, **settings).fit(X[:8], lonely).predict(X[:8]).shape == (8, 1)


def test_many_points_are_asked_in_blocks(data, monkeypatch):
    (X, Y), (asked, _) = data
    models = [small(cls).fit(X, Y) for cls in EVERY]
    whole = [m.predict(asked) for m in models]
    monkeypatch.setattr("broadmatch.sets.base._CELLS", 50)
    for model, expected in zip(models, whole, strict=True):
        assert (model.predict(asked) != expected).nnz == 0
