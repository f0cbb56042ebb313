"""Covering errors against their definition, and coverings that are refused."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.data import CSR
from broadmatch.errors import BadInput, BadParameter
from broadmatch.evaluate import COVERINGS, covering_error, covering_report, paired_difference
from broadmatch.evaluate.coverings import CoveringRule
from tests.reference import adaboost_lc as slow

N_LABELS = 5
some_labels = st.sets(st.integers(0, N_LABELS - 1))
points = st.lists(st.tuples(some_labels, some_labels), min_size=1, max_size=8)
groups = st.lists(st.sets(st.integers(0, N_LABELS - 1), min_size=1), min_size=1, max_size=4)


def both(sample):
    chosen, truth = zip(*sample, strict=True)
    return CSR.from_rows(list(map(list, chosen)), N_LABELS), CSR.from_rows(list(map(list, truth)), N_LABELS)


def signed(labels):
    return [1 if label in labels else -1 for label in range(N_LABELS)]


def expected(sample, covering):
    return np.mean([slow.error(signed(chosen), signed(truth), covering) for chosen, truth in sample])


@settings(max_examples=100)
@given(points, groups)
def test_errors_are_those_of_the_definition(sample, given_groups):
    chosen, truth = both(sample)
    for name in COVERINGS:
        by_definition = slow.COVERINGS[name]
        assert covering_error(truth, chosen, covering=name) == pytest.approx(expected(sample, by_definition))

        def function(y, by_definition=by_definition):
            return by_definition(np.where(y, 1, -1))

        assert covering_error(truth, chosen, covering=function) == pytest.approx(expected(sample, by_definition))
    whole = [sorted(g) for g in given_groups] + [list(range(N_LABELS))] * 2
    assert covering_error(truth, chosen, covering=whole) == pytest.approx(expected(sample, lambda y: whole))


def test_figures_worked_out_by_hand():
    truth = CSR.from_rows([[0, 1], [2]], n_cols=4)
    nothing, everything = CSR.from_rows([[], []], n_cols=4), CSR.from_rows([[0, 1, 2, 3]] * 2, n_cols=4)

    def errors(chosen):
        return [covering_error(truth, chosen, covering=name) for name in ("ZO", "HM", "TS", "WP", "WN")]

    assert errors(truth) == [0] * len(COVERINGS)
    assert errors(nothing) == [1, 1.5, 1, 6, 1.5]
    assert errors(everything) == [1, 2.5, 1, 2.5, 4]


def test_scores_do_not_matter_and_groups_may_be_named():
    truth = sp.csr_matrix([[1, 0, 0.5], [0, 1, 0]])
    chosen = sp.csr_matrix([[-3.0, 0, 9], [1e-9, 2, 0]])
    names = ["pizza", "pasta", "taxi"]
    assert covering_error(truth, chosen, covering="HM") == 0.5
    assert covering_error(truth, chosen, covering=[["pizza", "pasta"], ["taxi"]], label_names=names) == 0.5
    assert covering_error(truth, chosen, covering=[("pizza", 1), {2}], label_names=iter(names)) == 0.5


def test_a_report_has_every_error_with_an_interval():
    rng = np.random.default_rng(0)
    truth, a, b = (sp.csr_matrix((rng.random((200, 6)) < p).astype(np.float32)) for p in (0.3, 0.3, 0.1))
    one, two = covering_report(truth, a), covering_report(truth, b)
    for name in COVERINGS:
        estimate = one[f"covering error@{name}"]
        assert estimate.value == covering_error(truth, a, covering=name)
        assert estimate.low < estimate.value < estimate.high
    apart = paired_difference(one, two, "covering error@HM")
    assert apart.value == pytest.approx(
        covering_error(truth, a, covering="HM") - covering_error(truth, b, covering="HM")
    )
    assert "label sets" in str(one)
    own = covering_report(truth, a, coverings={"halves": [[0, 1, 2], [3, 4, 5]]}, n_bootstrap=10)
    assert list(own.metrics) == ["covering error@halves"]
    for wrong in ({"n_bootstrap": 0}, {"level": 2}):
        with pytest.raises(BadParameter):
            covering_report(truth, a, **wrong)
    with pytest.raises(BadInput, match="coverings is empty"):
        covering_report(truth, a, coverings={})


@pytest.mark.parametrize(
    ("covering", "sentence"),
    [
        ("XX", "no covering 'XX'"),
        ([], "is empty"),
        ([[0, 1], []], "empty group"),
        ([[0], [1]], "misses label 2;"),
        ([[0]], "misses label 1 and 1 more"),
        ([[0, 1], [3]], "names 3, but the labels are 0 to 2"),
        ([[0, 1], [-1]], "names -1"),
        ([[0, 1], ["taxi"]], "names 'taxi', which is not one of the 3 labels"),
        ([[0, 1], [2.0]], "names 2.0"),
        (["abc"], r"holds 'abc', .* \['abc'\]"),
        (7, "is 7, but it must be a list of groups"),
        (lambda y: [], "covering of row 0 is empty"),
        (lambda y: [[0, 1, 2]] if y[0] else [[1]], "covering of row 1 misses label 0"),
        (lambda y: None, "covering of row 0 is None"),
    ],
)
def test_coverings_that_are_refused(covering, sentence):
    truth = CSR.from_rows([[0], [1]], n_cols=3)
    with pytest.raises(BadInput, match=sentence):
        covering_error(truth, truth, covering=covering)


def test_names_have_to_fit():
    truth = CSR.from_rows([[0], [1]], n_cols=3)
    with pytest.raises(BadInput, match="2 label names for 3 labels"):
        covering_error(truth, truth, covering="ZO", label_names=["a", "b"])
    with pytest.raises(BadInput, match="misses 'c'"):
        covering_error(truth, truth, covering=[["a", "b"]], label_names=["a", "b", "c"])


def test_the_rule_of_the_parameter():
    rule = CoveringRule()
    for good in ("ZO", [["a"], [1, "b"]], ((0,), (1,)), [{1}], lambda y: y, [[np.int64(1)]]):
        assert rule.holds(good)
    for bad in ("zo", "", None, 3, [], [[1.5]], [[True]], ["ab"], {"a": 1}, object()):
        assert not rule.holds(bad)
    assert "'ZO'" in rule.text()


def test_weighted_coverings_take_another_weight():
    truth, chosen = CSR.from_rows([[0, 1], [2]], n_cols=4), CSR.from_rows([[0], [1, 2, 3]], n_cols=4)
    assert covering_error(truth, chosen, covering="WP:6") == covering_error(truth, chosen, covering="WP") == 4.0
    assert covering_error(truth, chosen, covering="WP:2") == (2 + 2) / 2
    assert covering_error(truth, chosen, covering="WN:10") == (1 + 10) / 2
    for wrong in ("WP:", "WP:0", "WN:-1", "WP:x", "ZO:3", "HM:1"):
        assert not CoveringRule().holds(wrong)
        with pytest.raises(BadInput, match="There is no covering"):
            covering_error(truth, chosen, covering=wrong)
