"""Metrics by depth against sets of Python with ancestors, and figures worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch import evaluate
from broadmatch.data import CSR, Hierarchy
from broadmatch.errors import BadInput
from tests.reference import hierarchy as slow
from tests.reference import sets as slow_sets

ABOVE = [[], [0], [0], [1, 2], [], [4], [4, 2]]
DEPTH = [slow.depth(ABOVE, i) for i in range(len(ABOVE))]
HIERARCHY = Hierarchy.of({str(i): [str(p) for p in parents] for i, parents in enumerate(ABOVE)})
categories = st.sets(st.integers(0, len(ABOVE) - 1), max_size=3)
samples = st.lists(st.tuples(categories, categories), min_size=1, max_size=6)


@given(samples)
def test_equals_the_slow_twin(sample):
    predicted, truth = ([sorted(both[side]) for both in sample] for side in (0, 1))
    reports = evaluate.depth_reports(
        CSR.from_rows(truth, len(ABOVE)), CSR.from_rows(predicted, len(ABOVE)), HIERARCHY, n_bootstrap=2
    )
    assert list(reports) == [1, 2, 3]
    for depth, report in reports.items():
        sides = [[{c for c in slow.with_ancestors(ABOVE, row) if DEPTH[c] == depth} for row in rows]
                 for rows in (predicted, truth)]  # fmt: skip
        for name, metric in (
            ("precision", slow_sets.precision),
            ("recall", slow_sets.recall),
            ("micro-F1", slow_sets.micro_f1),
            ("macro-F1", slow_sets.macro_f1),
            ("exact match", slow_sets.exact_match),
        ):
            assert report[name].value == pytest.approx(metric(*sides))


def test_by_hand():
    tree = Hierarchy.of({"food": [], "pizza": ["food"], "pasta": ["food"], "taxi": []})
    truth = CSR.from_rows([[1], [2], [3]], 4)
    found = CSR.from_rows([[1], [1], [0]], 4)
    reports = evaluate.depth_reports(truth, found, tree)
    assert [reports[1][name].value for name in ("precision", "recall")] == pytest.approx([2 / 3, 2 / 3])
    assert [reports[2][name].value for name in ("precision", "recall")] == pytest.approx([1 / 2, 1 / 2])
    assert reports[2].n_labels == 2
    assert reports[1]["recall"].low <= 2 / 3 <= reports[1]["recall"].high
    better = evaluate.depth_reports(truth, truth, tree)
    assert evaluate.paired_difference(better[2], reports[2], "recall").value == pytest.approx(1 / 2)


def test_a_stored_score_of_nought_counts_and_a_truth_of_nought_does_not():
    tree = Hierarchy.of({"food": [], "pizza": ["food"]})
    nought = CSR.from_rows([[1]], 2)
    nought.data[:] = 0
    one = CSR.from_rows([[1]], 2)
    assert evaluate.depth_reports(one, nought, tree)[1]["recall"].value == 1
    assert evaluate.depth_reports(nought, one, tree)[1]["precision"].value == 0


def test_bad_input():
    tree = Hierarchy.of({"food": [], "pizza": ["food"]})
    with pytest.raises(BadInput, match="3 columns, but the hierarchy has 2 categories"):
        evaluate.depth_reports(CSR.from_rows([[1]], 3), CSR.from_rows([[1]], 3), tree)
    with pytest.raises(BadInput, match="both must be the same points by the same labels"):
        evaluate.depth_reports(CSR.from_rows([[1], [0]], 2), CSR.from_rows([[1]], 2), tree)
