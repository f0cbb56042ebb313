"""A search for parameters: within its budget, by held-out training points alone, and never worse than the default."""

import json
import logging
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest

from broadmatch.data import CSR, Names, Ranking
from broadmatch.errors import BadInput, BadParameter
from broadmatch.labels import MLRF, AdaBoostLC, FastXML, OneVsRest, PfastreXML, SwiftXML, tune
from broadmatch.labels.choosing import trials
from broadmatch.labels.choosing.tuning import spaces_of
from broadmatch.params import Among, Estimator, Number, Range, Whole, learned
from broadmatch.sets import HierarchicalLabels, MetaLabeler, RCut, SCut
from broadmatch.simulate import synthetic_dataset
from tests.contract import SMALL, categories, points

N = 200


class Clock:
    """Time that passes only where a model is trained."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Toy(Estimator):
    """Finds the label of a point if the point's chance is below how good its parameters are; says what it has seen."""

    size: Annotated[float, Number(0), Range(1.0, 64.0, by=2), "best at 16"] = 1.0
    wise: Annotated[bool, Whole(0, 1), Among(0, 1), "worth a little"] = 0
    slow: Annotated[float, Number(0), "seconds of a training"] = 1.0
    seen_: Any = learned()

    clock: ClassVar[Any]
    fits: ClassVar[list[tuple[set[int], float]]]

    def fit(self, X: CSR, Y: CSR, **more: Any) -> "Toy":
        type(self).clock.seconds += self.slow * X.n_rows / N * (2.0 if self.wise else 1.0)
        rows = set(X.data[X.indices == 0].astype(int).tolist())
        type(self).fits.append((rows, type(self).clock.seconds))
        self.seen_, self.label_names_ = rows, Names.numbers(Y.n_cols)
        return self

    def predict_topk(self, X: CSR, k: int, *, revealed: Any = None) -> Ranking:
        number = X.data[X.indices == 0].astype(int) - 1
        good = 0.8 - 0.1 * abs(np.log2(self.size) - 4) + 0.05 * self.wise
        chance = (number * 0.6180339887) % 1.0
        labels = np.where(chance < good, number % 3, (number + 1) % 3).astype(np.int32)[:, None]
        n = len(labels)
        return Ranking(labels, np.ones((n, 1), np.float32), np.ones(n, np.int64), self.label_names_)


@pytest.fixture
def toy(monkeypatch):
    """The class with a clock of its own, and X, Y of points whose number is their first feature."""
    Toy.clock, Toy.fits = Clock(), []
    monkeypatch.setattr(trials, "now", Toy.clock)
    X = CSR.from_scipy(np.column_stack([np.arange(1, N + 1), np.ones(N)]))
    return X, CSR.from_rows([[i % 3] for i in range(N)], 3)


def test_the_best_is_found_on_points_that_no_trial_has_seen(toy):
    tuned = tune(Toy(), *toy, metric="P@1", budget=1000)
    assert tuned.settings == {"size": 16.0, "wise": 1}
    *seen, (last, _) = Toy.fits
    assert last == tuned.model.seen_ == set(range(1, N + 1))
    trained = set().union(*(rows for rows, _ in seen))
    assert len(trained) == 0.8 * N  # the other fifth was in no trial
    assert len(seen) == len(tuned.trials)
    full = [trial for trial in tuned.trials if not trial.small]
    assert max(trial.score.value for trial in full) == tuned.chosen.score.value
    assert tuned.chosen.difference.value == pytest.approx(tuned.chosen.score.value - full[0].score.value)
    assert tuned.chosen.difference.low > 0


@pytest.mark.parametrize("budget", [None, 1.7, 3.0, 5.0, 8.0, 20.0])
def test_the_budget_is_kept(toy, budget):
    tuned = tune(Toy(), *toy, metric="P@1", budget=budget)
    assert Toy.clock.seconds == tuned.seconds <= tuned.budget
    assert tuned.budget == (budget or 10.0)
    assert len(tuned.model.seen_) == N


def test_more_time_finds_no_less(toy):
    scores = []
    for budget in (1.7, 6.0, 50.0):
        found = tune(Toy(), *toy, metric="P@1", budget=budget)
        scores.append(found.model.size)
    assert scores[0] < scores[-1] == 16.0


def test_without_time_there_is_the_default(toy, caplog):
    tuned = tune(Toy(), *toy, metric="P@1", budget=0.5)
    assert tuned.settings == {}
    assert len(tuned.trials) == 1
    assert "too short" in caplog.text


def test_equal_scores_leave_the_default(toy, monkeypatch):
    monkeypatch.setattr(Toy, "predict_topk", lambda self, X, k, **_: Ranking(
        np.zeros((X.n_rows, 1), np.int32), np.ones((X.n_rows, 1), np.float32), np.ones(X.n_rows, np.int64),
        self.label_names_))  # fmt: skip
    tuned = tune(Toy(), *toy, metric="P@1", budget=1000)
    assert tuned.settings == {}
    assert "the default is the best" in str(tuned)


def test_what_is_fixed_stays(toy):
    tuned = tune(Toy(size=4.0), *toy, metric="P@1", budget=1000, fixed=["size"])
    assert tuned.settings == {"wise": 1}
    assert tuned.model.size == 4.0
    with pytest.raises(BadParameter, match="fixed names 'sice'"):
        tune(Toy(), *toy, fixed=["sice"])


def test_an_interruption_says_what_is_best_so_far(toy, monkeypatch, caplog):
    fit = Toy.fit

    def interrupted(self, X, Y, **more):
        if len(Toy.fits) == 12:
            raise KeyboardInterrupt
        return fit(self, X, Y, **more)

    monkeypatch.setattr(Toy, "fit", interrupted)
    with caplog.at_level(logging.INFO, "broadmatch"), pytest.raises(KeyboardInterrupt):
        tune(Toy(), *toy, metric="P@1", budget=1000)
    assert "Best so far: size=16" in caplog.text


class Grove(Toy):
    """As `Toy`; it takes as long as it has trees, and more of them are better."""

    n_trees: Annotated[int, Whole(1), Range(2, 100, by=2), "more are better"] = 10

    def fit(self, X: CSR, Y: CSR, **more: Any) -> "Grove":
        self.slow = self.n_trees / 10
        super().fit(X, Y, **more)
        return self

    def predict_topk(self, X: CSR, k: int, *, revealed: Any = None) -> Ranking:
        found = super().predict_topk(X, k)
        number = X.data[X.indices == 0].astype(int) - 1
        helped = (number * 0.7548776662) % 1.0 < 0.1 * np.log2(self.n_trees)
        found.labels[:, 0] = np.where(helped, number % 3, found.labels[:, 0])
        return found


def test_trees_are_tried_by_few_of_them_and_get_the_time_that_is_left(toy):
    tuned = tune(Grove(), *toy, metric="P@1", budget=30.0)
    assert tuned.settings["size"] == 16.0
    assert tuned.model.n_trees > 50  # 30 s are for 150 trees of twice the time, 45 % of them for the search
    assert Toy.clock.seconds == tuned.seconds <= 30.0
    assert {len(rows) for rows, _ in Toy.fits} == {int(0.8 * N), N}  # small trials, too, have all points
    small, whole = (next(trial for trial in tuned.trials if trial.small == few) for few in (True, False))
    assert small.seconds == pytest.approx(whole.seconds / 5)


def test_trees_that_are_of_no_use_stay_few(toy, monkeypatch):
    monkeypatch.setattr(Grove, "predict_topk", Toy.predict_topk)
    assert "n_trees" not in tune(Grove(), *toy, metric="P@1", budget=30.0).settings
    assert tune(Grove(), *toy, metric="P@1", budget=30.0, fixed=["n_trees"]).model.n_trees == 10


def test_none_is_tried_around_what_it_stands_for(ticking):
    data = synthetic_dataset(300, 20, 300, features_per_point=20, seed=3)
    others = set(spaces_of(MLRF())) - {"features_per_node"}
    tuned = tune(MLRF(n_trees=5, n_jobs=1), data.X, data.Y, metric="P@1", budget=200, fixed=others)
    tried = [trial.settings["features_per_node"] for trial in tuned.trials if trial.settings]
    space, near = spaces_of(MLRF())["features_per_node"], MLRF().by_the_data(data.X)["features_per_node"]
    assert tried[0] in {value for start in (near - 1, near, near + 1) for value in space.around(start)}
    assert len(set(tried)) < len(space.around(None))


@pytest.mark.parametrize("metric", ["P@0", "P@", "auc", "micro-F1@3", "", "P@99999", "exact"])
def test_a_metric_that_there_is_none_of(toy, metric):
    with pytest.raises(BadParameter, match=r"there are P@k, nDCG@k, PSP@k, .* micro-F1, macro-F1"):
        tune(Toy(), *toy, metric=metric)
    assert not Toy.fits


def test_bad_input(toy):
    X, Y = toy
    with pytest.raises(BadParameter, match="budget must be"):
        tune(Toy(), X, Y, budget=0)
    few = np.arange(5)
    with pytest.raises(BadInput, match="too few"):
        tune(Toy(), X.take(few), Y.take(few))


@pytest.fixture
def ticking(monkeypatch):
    """A clock that goes on by a second whenever it is looked at: a trial takes a few of them on any machine."""
    seconds = iter(range(1_000_000))
    monkeypatch.setattr(trials, "now", lambda: float(next(seconds)))


def test_a_bad_default_gets_better_and_the_same_every_time(ticking):
    data = synthetic_dataset(600, 40, 300, features_per_point=20, seed=3)
    bad = MLRF(n_trees=5, max_leaf=200, features_per_node=2, n_jobs=1)
    kept = {"n_trees", "balance", "bootstrap", "min_leaf"}
    first, again = (tune(bad, data.X, data.Y, metric="nDCG@3", budget=120, fixed=kept) for _ in range(2))
    assert first.chosen.difference.low > 0.02
    assert first.settings == again.settings
    one, two = ([trial[:4] for trial in found.trials] for found in (first, again))
    assert one == two
    plain = MLRF(**bad.get_params() | first.settings).fit(data.X, data.Y)
    found = (model.predict_topk(data.X).to_csr() for model in (first.model, again.model))
    assert all((one != plain.predict_topk(data.X).to_csr()).nnz == 0 for one in found)


SMALL_MODELS = {
    "MLRF": (MLRF(**{k: v for k, v in SMALL.items() if k in MLRF.rules}), "P@1"),
    "OneVsRest": (OneVsRest(n_jobs=1), "PSP@3"),
    "FastXML": (FastXML(n_trees=2, max_leaf=8, n_jobs=1), "nDCG@3"),
    "PfastreXML": (PfastreXML(n_trees=2, max_leaf=8, n_jobs=1), "PSnDCG@3"),
    "SwiftXML": (SwiftXML(n_trees=2, max_leaf=8, n_jobs=1), "recall@3"),
    "AdaBoostLC": (AdaBoostLC(rounds=2, n_jobs=1), "exact match"),
    "MetaLabeler": (MetaLabeler(OneVsRest(n_jobs=1)), "micro-F1"),
    "RCut": (RCut(MLRF(n_trees=2, n_jobs=1)), "macro-F1"),
    "SCut": (SCut(OneVsRest(n_jobs=1), folds=2), "micro-f1"),
    "none": (RCut(), "average precision"),
}


@pytest.mark.parametrize("name", SMALL_MODELS)
def test_every_model_can_be_tuned(name, tmp_path, ticking):
    model, metric = SMALL_MODELS[name]
    X, Y = points()
    names = [f"l{i}" for i in range(Y.shape[1])]
    before = model.get_params(deep=False)
    fixed = ["rounds"] if name == "AdaBoostLC" else []  # hundreds of rounds would be tried
    tuned = tune(model, X, Y, metric=metric, budget=45, fixed=fixed, label_names=names)
    assert model.get_params(deep=False) == before
    assert not getattr(model, "model_", None)
    assert list(tuned.model.label_names_) == names
    assert len(tuned.trials) > 2
    assert tuned.chosen.difference.value >= 0
    tuned.model.save(tmp_path / "m")
    tuned.write(tmp_path / "m")
    told = json.loads((tmp_path / "m" / "tuning.json").read_text(encoding="utf-8"))
    assert told == json.loads(json.dumps(tuned.to_dict()))
    assert told["settings"] == tuned.settings
    assert {"settings", "small", "score", "difference", "seconds"} == set(told["trials"][0])


def test_a_hierarchy_can_be_tuned(ticking):
    X, Y = points()
    names = [str(i) for i in range(Y.shape[1])]
    tuned = tune(HierarchicalLabels(OneVsRest(n_jobs=1), n_jobs=1), X, Y, metric="micro-F1", budget=40,
                 label_names=names, hierarchy=categories())  # fmt: skip
    assert len(tuned.trials) > 2
    assert tuned.model.predict_sets(X).lengths.sum() > 0


def test_what_may_be_tried_keeps_the_rules():
    models = [MLRF(), OneVsRest(), FastXML(), PfastreXML(), SwiftXML(), AdaBoostLC(), MetaLabeler(), RCut(), SCut()]
    for model in models:
        found = spaces_of(model)
        assert not {"seed", "n_jobs", "subtree_rows", "checkpoint"} & found.keys()
        for name, space in found.items():
            rule, value = model.rules[name], getattr(model, name)
            near = space.around(value)
            assert near, name
            for one in [*near, *(further for other in near for further in space.around(other))]:
                assert rule.holds(one), (name, one)


LIGHT = [(MLRF(n_trees=3, n_jobs=1), {"n_trees": 5}), (OneVsRest(n_jobs=1), {"tail": 0.1}),
         (PfastreXML(n_trees=2, n_jobs=1), {"alpha": 0.5}), (PfastreXML(n_trees=2, n_jobs=1), {"gamma": 3.0}),
         (SwiftXML(n_trees=2, n_jobs=1), {"item_set_weight": 8.0, "neighbour_share": 0.1, "neighbours": 3}),
         (AdaBoostLC(rounds=2, n_jobs=1), {"rounds": 4})]  # fmt: skip


@pytest.mark.parametrize(("model", "other"), LIGHT, ids=lambda one: type(one).__name__)
def test_finished_parts_serve_other_light_parameters(model, other, tmp_path):
    X, Y = points()
    assert set(other) <= set(model.light)
    model.fit(X, Y, checkpoint=tmp_path / "parts")
    changed = type(model)(**model.get_params() | other)
    taken = changed.fit(X, Y, checkpoint=tmp_path / "parts").predict_topk(X, k=9, revealed=Y[:, ::-1]).to_csr()
    fresh = type(model)(**model.get_params() | other).fit(X, Y).predict_topk(X, k=9, revealed=Y[:, ::-1]).to_csr()
    assert (taken != fresh).nnz == 0
