"""What the learners refuse, and that the sentence says what is wrong; nothing is learned from a refused batch."""

import math

import numpy as np
import pytest

from broadmatch.clicks import FOBOS, FTRL, OGD, Bloom
from broadmatch.data import Impressions
from broadmatch.errors import BadInput, BadParameter
from broadmatch.params import clone

GOOD = Impressions.from_rows([[7, 8], [8]], values=[[1.0, 2.0], [1.0]], clicked=[1, 0])


def floats(*values):
    return np.array(values, np.float32)


BAD_ROWS = {
    "keys": (
        {"keys": np.array([7, 0, 8], np.uint64)},
        "0 cannot be the key of a feature; make keys with broadmatch.signals.",
    ),
    "equal keys": (
        {"keys": np.array([7, 7, 8], np.uint64)},
        "Row 0 has the key 7 2 times; give each key once, with the sum of its values.",
    ),
    "key type": (
        {"keys": np.array([7, 8, 8])},
        "The keys of the impressions must be uint64, not int64; convert the array.",
    ),
    "value count": ({"values": floats(1, 2)}, "There are 3 keys but 2 values; give one each, or none."),
    "value type": (
        {"values": np.ones(3)},
        "The values of the impressions must be float32, not float64; convert the array.",
    ),
    "nan value": (
        {"values": floats(1, math.nan, 1)},
        "The value of a feature is not a finite number; leave such features out.",
    ),
    "infinite value": (
        {"values": floats(1, -math.inf, 1)},
        "The value of a feature is not a finite number; leave such features out.",
    ),
} | {
    f"indptr {list(indptr)}": (
        {"indptr": np.array(indptr, np.int64)},
        "The indptr of the impressions must rise from 0 to the number of keys.",
    )
    for indptr in ([1, 2, 3], [0, 2, 4], [0, 4, 3], [0, 2, 2], [])
}
LABELS = "An impression to learn from must be clicked (1) or not (0); others can only be predicted."
WEIGHTS = "The weight of an impression must be a finite number of at least 0."
BAD_LABELS = {
    "nan label": ({"clicked": floats(1, math.nan)}, LABELS),
    "half a click": ({"clicked": floats(1, 0.5)}, LABELS),
    "minus one": ({"clicked": floats(1, -1)}, LABELS),
    "too few labels": ({"clicked": floats(1)}, "2 impressions need as many labels and weights, not 1 and 2."),
    "no weights": ({"weight": floats()}, "2 impressions need as many labels and weights, not 2 and 0."),
    "negative weight": ({"weight": floats(1, -1)}, WEIGHTS),
    "nan weight": ({"weight": floats(1, math.nan)}, WEIGHTS),
    "infinite weight": ({"weight": floats(1, math.inf)}, WEIGHTS),
}


@pytest.mark.parametrize("name", BAD_ROWS | BAD_LABELS)
def test_bad_rows_are_refused_whole(name):
    change, sentence = (BAD_ROWS | BAD_LABELS)[name]
    model = FTRL()
    for learn in (model.learn_many, model.learn_shared):
        with pytest.raises(BadInput) as caught:
            learn(GOOD._replace(**change))
        assert str(caught.value) == sentence
    assert model.n_learned == model.n_features == 0


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_are_not_predicted(name):
    change, sentence = BAD_ROWS[name]
    model = FTRL()
    model.learn_many(GOOD)
    for asked in (model, model.to_serving()):
        for question in (asked.predict_many, asked.uncertainty_many):
            with pytest.raises(BadInput) as caught:
                question(GOOD._replace(**change))
            assert str(caught.value) == sentence


def test_rows_without_labels_can_be_predicted():
    model = FTRL()
    assert model.predict_many(Impressions.from_rows([[7], []])).tolist() == [0.5, 0.5]
    with pytest.raises(BadInput, match=r"must be clicked \(1\) or not \(0\)"):
        model.learn_many(Impressions.from_rows([[7]]))
    assert len(model.learn_many(Impressions.from_rows([]))) == len(model.predict_many(Impressions.from_rows([]))) == 0


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"alpha": 0}, "alpha must be a number above 0, but it is 0."),
        ({"alpha": math.nan}, "alpha must be a number above 0, but it is nan."),
        ({"beta": -1}, "beta must be a number of at least 0, but it is -1."),
        ({"l1": -0.5}, "l1 must be a number of at least 0, but it is -0.5."),
        ({"l2": math.inf}, "l2 must be a number of at least 0, but it is inf."),
        ({"rates": "adam"}, "rates must be one of 'gradients', 'counts', 'global', but it is 'adam'."),
        ({"encoding": "float16"}, "encoding must be one of 'float64', 'float32', 'q2.13', but it is 'float16'."),
        ({"seed": -1}, "seed must be a whole number from 0 to 9223372036854775807, but it is -1."),
        (
            {"inclusion": 0.1},
            "inclusion must be None, Poisson(p) or Bloom(n); as text none, poisson:0.1 or bloom:2, but it is 0.1.",
        ),
    ],
)
@pytest.mark.parametrize("cls", [FTRL, FOBOS])
def test_wrong_parameters_are_named(cls, params, sentence):
    model = cls(**params)  # checked when it is first used, not here
    with pytest.raises(BadParameter) as caught:
        model.learn_many(GOOD)
    if cls is FTRL:  # None lets a race choose
        sentence = sentence.replace("above 0,", "above 0 or None,").replace("of 'gradients'", "of None, 'gradients'")
    assert str(caught.value) == sentence


def test_what_gradient_descent_cannot_do_is_refused():
    with pytest.raises(BadParameter, match="l1 is not a parameter of OGD"):
        OGD(l1=0.1).learn_many(GOOD)
    with pytest.raises(BadParameter, match="min_count must be a whole number of at least 0"):
        OGD(min_count=-1).learn_many(GOOD)
    for other in ({"rates": "counts"}, {"rates": "global"}, {"encoding": "q2.13"}):
        with pytest.raises(BadParameter, match="min_count needs rates='gradients'"):
            OGD(min_count=2, **other).learn_many(GOOD)


def test_one_impression_is_checked_too():
    model = FTRL()
    for wrong in ({"clicked": 2}, {"clicked": 1, "weight": -1}, {"clicked": 1, "values": [1.0]}):
        with pytest.raises(BadInput):
            model.learn_one([7, 8], **wrong)
    with pytest.raises(BadInput, match="0 cannot be the key"):
        model.predict_one([0])
    with pytest.raises(BadInput, match="0 cannot be the key"):
        model.to_serving().predict_one([7, 0])
    with pytest.raises(BadInput, match="not a finite number"):
        model.to_serving().predict_one([7, 8], [1.0, math.nan])
    assert model.n_learned == 0


def test_a_key_stands_once_in_a_row():
    """Twice would be learned as neither x = 1 nor x = 2; what an encoder or a reader gives has each key once."""
    model = FTRL()
    for twice in ([7, 7], [8, 7, 9, 7], [*range(1, 300), 1]):
        rows = Impressions.from_rows([[7], twice], clicked=[1, 0])
        with pytest.raises(BadInput, match=r"Row 1 has the key \d+ 2 times; give each key once"):
            model.learn_many(rows)
        with pytest.raises(BadInput, match="2 times"):
            model.predict_one(twice)
        with pytest.raises(BadInput, match="2 times"):
            model.learn_one(twice, 1)
    assert model.n_learned == model.n_features == 0


def test_parameters_are_those_of_an_estimator():
    model = FTRL(alpha=0.3, inclusion=Bloom(2))
    assert model.get_params() == {**FTRL().get_params(), "alpha": 0.3, "inclusion": Bloom(2)}
    other = clone(model).set_params(l1=0.5)
    assert (other.alpha, other.l1, model.l1) == (0.3, 0.5, 0.0)
    model.learn_many(GOOD)
    assert clone(model).n_learned == 0
    with pytest.raises(BadParameter, match="learns with its parameters already; set them on a clone"):
        model.set_params(alpha=0.1)
    with pytest.raises(BadParameter, match="did you mean alpha"):
        clone(model).set_params(alhpa=0.1)
