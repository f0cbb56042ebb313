"""scikit-learn's own checks, on every estimator whose `fit` takes X, or X and Y."""

import warnings

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from tests.contract import CLICK_LEARNERS, ESTIMATORS, FOUND, LABEL_MODELS, SELECTORS, SET_MODELS, small

LEFT_OUT = {
    "HierarchicalLabels": "fit takes a hierarchy beside X and Y",
    "PageVectorizer": "takes texts, for which scikit-learn has no checks",
    "PivotedVectorizer": "takes texts, for which scikit-learn has no checks",
    **dict.fromkeys(("KSP", "BidPhraseModel"), "takes logs, not X and y"),
    "ClickEmbeddings": "takes queries and their clicks, for which scikit-learn has no checks",
    "KEX": "takes pages and phrases, for which scikit-learn has no checks",
    "Auction": "has parameters and learns nothing",
    **dict.fromkeys(CLICK_LEARNERS, "learns from a stream by learn_many; it has no fit"),
    **dict.fromkeys(("ClickJoin", "Subsampler", "TrafficQuality"), "takes rows of a stream, not X and y"),
    **dict.fromkeys(("IsotonicCalibration", "PoissonCalibration", "SlicedCalibration"), "fits probabilities, not X"),
}
OWN_SENTENCE = "refused with a ValueError as the check wants, in a sentence of our own: "
EXPECTED = {
    "check_n_features_in_after_fitting": OWN_SENTENCE + "X has 3 features, but the model was fitted on 30; …",
    "check_complex_data": OWN_SENTENCE + "X must hold numbers, but it holds complex128.",
    "check_dtype_object": "numbers that are stored as Python objects are refused: X must hold numbers",
    "check_estimators_empty_data_messages": OWN_SENTENCE + "X has no features; there is nothing to learn from.",
    "check_estimators_nan_inf": OWN_SENTENCE + "X: row 0, column 3: nan is not a finite number.",
    "check_fit2d_predict1d": OWN_SENTENCE + "X must have two dimensions, points by columns, but it has 1.",
}
OF_ONE_POINT = {"check_fit2d_1sample": OWN_SENTENCE + "Scores of new points cannot be had from one point; …"}
OF_TRANSFORMERS = dict.fromkeys(
    ("check_transformer_data_not_an_array", "check_transformer_general", "check_transformer_preserve_dtypes"),
    "the check gives a transformer one label a point, whatever its tags say; Y must be a matrix",
)
EXPECTED_OF = {
    "RocchioSelector": EXPECTED | OF_TRANSFORMERS,
    **dict.fromkeys(("SCut", "TargetCut", "Threshold"), EXPECTED | OF_ONE_POINT),
}


def checks():
    """Every check of every estimator; those that are expected to fail are marked, and have to fail."""
    with warnings.catch_warnings():
        # What it costs not to be a BaseEstimator, whose import takes longer than all of broadmatch.
        warnings.filterwarnings("ignore", r"Estimator \w+ does not inherit from `sklearn.base.BaseEstimator`")
        for cls in ESTIMATORS:
            name = cls.__name__
            if name in LEFT_OUT:
                continue
            expected = EXPECTED_OF.get(name, EXPECTED)
            for made in estimator_checks_generator(small(cls), expected_failed_checks=expected, mark="xfail"):
                given = made if isinstance(made, tuple) and not hasattr(made, "marks") else made.values
                check = getattr(given[1], "func", given[1])
                yield pytest.param(*given, marks=getattr(made, "marks", ()), id=f"{name}-{check.__name__}")


def test_nothing_is_left_out_in_silence():
    assert {c.__name__ for c in FOUND} == {*LEFT_OUT, *LABEL_MODELS, *SET_MODELS, *SELECTORS}


@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learn(estimator, check):
    check(estimator)
