"""The suite that every click learner found in the package goes through, and what stands beside them in a stream."""

import inspect
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

import broadmatch
from broadmatch.clicks import Variant
from broadmatch.data import Batch, Impressions
from broadmatch.errors import BadInput, BadParameter
from broadmatch.io import artifacts
from tests.contract import (
    CALIBRATIONS,
    arrays_of,
    bits,
    every_click_learner,
    every_online,
    every_stream_step,
    memory_mapped,
)

N_ROWS = 300
VARIANTS = {"all": Variant(alpha=0.5), "some": Variant(alpha=0.5, fields=[0])}


def stream(seed=0, n=N_ROWS):
    """Impressions whose first signal decides about the click; one without features."""
    rng = np.random.default_rng(seed)
    rows = [[10 + int(rng.integers(0, 4)), 100 + int(rng.integers(0, 40))] for _ in range(n)]
    rows[3] = []
    clicked = [float(bool(row) and row[0] > 11 and rng.random() < 0.8) for row in rows]
    return Impressions.from_rows(rows, fields=[[0, 1][: len(row)] for row in rows], clicked=clicked)


NEEDED = {"variants": VARIANTS, "by": ("slice",), "window": 60}
"""Parameters without a default."""


def small(cls, **more):
    return cls(**{name: value for name, value in NEEDED.items() if name in cls.rules} | more)


def taught(cls, **more):
    learner = small(cls, **more)
    learner.learn_many(stream())
    return learner


@every_online
def test_parameters_are_keyword_only_and_have_a_rule_that_the_default_keeps(cls):
    arguments = list(inspect.signature(cls.__init__).parameters.values())[1:]
    assert {a.name for a in arguments} == set(cls.rules)
    positional = [a.name for a in arguments if a.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert positional == [name for name in cls.rules if name == "variants"]
    defaults = [a for a in arguments if a.default is not inspect.Parameter.empty]
    assert not [a.name for a in defaults if not cls.rules[a.name].holds(a.default)]
    small(cls).check_params()


@every_click_learner
def test_clone_and_parameters_round_trip(cls):
    learner = small(cls, seed=7)
    assert clone(learner).get_params() == learner.get_params()
    assert small(cls).set_params(**learner.get_params()).get_params() == learner.get_params()
    learned = taught(cls, seed=7)
    assert clone(learned).get_params() == learner.get_params()
    assert (clone(learned).n_learned, learned.n_learned) == (0, N_ROWS)  # a clone has learned nothing
    assert bits(clone(learned)) == bits(learner)
    with pytest.raises(BadParameter, match="set them on a clone"):
        learned.set_params(seed=8)
    with pytest.raises(BadParameter, match=r"'sed' is not a parameter of .* did you mean seed"):
        small(cls).set_params(sed=1)
    assert repr(learner).startswith(f"{cls.__name__}(")


@every_click_learner
def test_a_wrong_value_of_each_parameter_is_named_when_learning_starts(cls):
    for name, rule in cls.rules.items():
        wrong = [v for v in (object(), -7, 1.5, float("nan"), True) if not rule.holds(v)]
        assert wrong, f"{name} takes everything"
        for value in wrong:
            with pytest.raises(BadParameter, match=rf"^{name} must be "):
                small(cls).set_params(**{name: value}).learn_many(stream())


def passed(step, part):
    """What a step of a stream gives for the first or the second half of it, as bytes."""
    rows = stream().between(*((0, N_ROWS // 2), (N_ROWS // 2, N_ROWS))[part])
    probability, slices = np.linspace(0.05, 0.6, rows.n_rows), {"slice": np.arange(rows.n_rows) % 3}
    numbers = np.arange(rows.n_rows, dtype=np.uint64) + np.uint64(1 + part * N_ROWS)
    batch = Batch(rows, time=numbers.astype(np.int64) * 1_000_000, query=numbers // np.uint64(2), id=numbers)
    if type(step).__name__ in CALIBRATIONS:
        given = (slices,) if "by" in step.rules else ()
        step.learn_many(probability, rows.clicked, *given)
        step.refresh()
        return step.apply(probability, *given).tobytes()
    if hasattr(step, "tick"):
        step.add(batch, None, probability)
        return step.sums_.tobytes()
    if hasattr(step, "take"):
        return step.take(batch).impressions.weight.tobytes()
    step.add_impressions(batch)
    step.add_clicks(batch.id[rows.clicked > 0], batch.time[rows.clicked > 0])
    return step.ready().impressions.clicked.tobytes()


@every_stream_step
def test_a_step_of_a_stream_has_parameters_that_are_checked_when_first_used(cls):
    step = small(cls)
    assert clone(step).get_params() == step.get_params()
    for name, rule in cls.rules.items():
        for value in (v for v in (object(), -7, float("nan"), "no such thing") if not rule.holds(v)):
            with pytest.raises(BadParameter, match=rf"^{name} must be "):
                passed(small(cls).set_params(**{name: value}), 0)
    passed(step, 0)
    with pytest.raises(BadParameter, match="set them on a clone"):
        step.set_params(**step.get_params())
    assert bits(clone(step)) == bits(small(cls))


@every_stream_step
def test_a_step_of_a_stream_that_was_saved_goes_on_with_the_same_bits(cls, tmp_path):
    step = small(cls)
    passed(step, 0)
    artifacts.save(step, tmp_path / "one")
    loaded = broadmatch.load(tmp_path / "one")
    assert type(loaded) is cls
    assert bits(loaded) == bits(step)
    before = bits(step)
    assert passed(loaded, 1) == passed(step, 1)
    assert bits(loaded) == bits(step) != before


@every_click_learner
def test_many_at_once_equal_one_at_a_time(cls):
    whole, alone, parts = small(cls), small(cls), small(cls)
    rows = stream()
    progressive = whole.learn_many(rows)
    for i in range(N_ROWS):
        row = rows.row(i)
        if hasattr(cls, "learn_one"):
            before = alone.learn_one(row.keys, float(row.clicked[0]))
        else:
            before = alone.learn_many(row)[0]
        assert np.array_equal(before, progressive[i])
    for start in range(0, N_ROWS, 77):
        parts.learn_many(rows.between(start, min(start + 77, N_ROWS)))
    assert bits(whole) == bits(alone) == bits(parts)
    if hasattr(cls, "predict_one"):
        assert [whole.predict_one(rows.row(i).keys) for i in range(20)] == whole.predict_many(rows)[:20].tolist()


@every_click_learner
def test_it_learns_and_probabilities_come_before_the_update(cls):
    learner, rows = small(cls), stream()
    progressive = learner.learn_many(rows).reshape(N_ROWS, -1)
    assert np.array_equal(progressive[0], np.full(progressive.shape[1], 0.5))  # nothing was known of the first
    after = learner.predict_many(rows).reshape(N_ROWS, -1)
    clicked = rows.clicked > 0
    assert (after[clicked].mean(axis=0) > after[~clicked].mean(axis=0) + 0.1).all()
    assert ((after > 0) & (after < 1)).all()


@every_click_learner
def test_predicting_changes_nothing(cls):
    learner, rows = taught(cls), stream(1)
    before = bits(learner)
    first = learner.predict_many(rows)
    if hasattr(cls, "uncertainty_many"):
        assert (learner.uncertainty_many(rows) >= 0).all()
    assert np.array_equal(learner.predict_many(rows), first)
    assert bits(learner) == before


@every_click_learner
def test_the_same_again_gives_the_same_bits(cls):
    assert bits(taught(cls)) == bits(taught(cls))


@every_click_learner
def test_save_and_load_give_the_same_bits_and_learning_goes_on(cls, tmp_path):
    learner, more = taught(cls), stream(2)
    learner.save(tmp_path / "one")
    loaded = broadmatch.load(tmp_path / "one")
    assert type(loaded) is cls
    assert loaded.get_params() == learner.get_params()
    assert bits(loaded) == bits(learner)
    assert np.array_equal(loaded.predict_many(more), learner.predict_many(more))
    assert not any(memory_mapped(array) for array in arrays_of(loaded.to_state()).values())  # it goes on learning
    loaded.save(tmp_path / "two")
    one, two = (artifacts.read_manifest(tmp_path / name) for name in ("one", "two"))
    assert one == two
    assert np.array_equal(loaded.learn_many(more), learner.learn_many(more))
    assert bits(loaded) == bits(learner)


@every_click_learner
def test_many_threads_may_predict_at_once(cls):
    learner, rows = taught(cls), stream(3)
    expected = learner.predict_many(rows)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: learner.predict_many(rows), range(24)))
    assert all(np.array_equal(found, expected) for found in answers)


@every_click_learner
def test_bad_impressions_are_refused_and_leave_the_learner_alone(cls):
    learner = taught(cls)
    before, rows = bits(learner), stream()
    twice = Impressions.from_rows([[7, 7]], fields=[[0, 0]], clicked=[1.0])
    for bad in (rows._replace(clicked=rows.clicked[:0]), twice, rows._replace(clicked=rows.clicked + 1)):
        with pytest.raises(BadInput):
            learner.learn_many(bad)
    assert bits(learner) == before
