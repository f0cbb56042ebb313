"""Points that are held out, and what is measured on them."""

import numpy as np
import pytest

from broadmatch.data import CSR
from broadmatch.labels import OneVsRest, SwiftXML, ranking_reports, tune
from broadmatch.labels.choosing.held_out import HeldOut, Metric, true_labels
from tests.contract import points


@pytest.mark.parametrize(
    ("text", "name", "k"),
    [("P@3", "P@3", 3), ("ndcg", "nDCG@5", 5), ("PSnDCG@1", "PSnDCG@1", 1), ("Recall@10", "recall@10", 10),
     ("exact_match", "exact match", 0), ("Exact-Match", "exact match", 0), ("MACRO-F1", "macro-F1", 0),
     ("average precision", "average precision", 100)],
)  # fmt: skip
def test_metrics_by_name(text, name, k):
    assert Metric.of(text) == (name, k)


def test_a_fifth_is_held_out_by_the_seed():
    X, Y = (CSR.from_scipy(part) for part in points())
    held, again, other = (HeldOut.of(X, Y, Metric("P@1", 1), seed=seed) for seed in (0, 0, 1))
    assert held.X.n_rows == 60
    assert len(held.train) == 240
    assert held.train.tolist() == again.train.tolist() != other.train.tolist()
    rest = np.setdiff1d(np.arange(300), held.train)
    assert (held.X.to_scipy() != X.take(rest).to_scipy()).nnz == 0


def test_the_figures_are_those_of_a_report():
    X, Y = (CSR.from_scipy(part) for part in points())
    held = HeldOut.of(X, Y, Metric("PSP@3", 3))
    model = OneVsRest(n_jobs=1).fit(X.take(held.train), Y.take(held.train))
    rest = np.setdiff1d(np.arange(300), held.train)
    from broadmatch.data import Dataset, Names

    data = Dataset(X.take(rest), Y.take(rest), Names.numbers(Y.n_cols))
    expected = ranking_reports(model, data, ks=(3,))["log"]
    assert held.measured(model)["PSP@3"].value == pytest.approx(expected["PSP@3"].value)


def test_what_is_shown_is_not_asked_for():
    X, Y = (CSR.from_scipy(part) for part in points())
    held = HeldOut.of(X, Y, Metric("P@1", 1), shown=0.5)
    assert held.shown is not None
    both = held.shown.to_scipy() + held.truth.to_scipy()
    rest = np.setdiff1d(np.arange(300), held.train)
    assert (both != true_labels(Y.take(rest)).to_scipy()).nnz == 0
    assert held.shown.nnz == pytest.approx(held.truth.nnz, rel=0.2)
    tuned = tune(SwiftXML(n_trees=2, n_jobs=1), X, Y, metric="P@1", budget=0.01)
    model = SwiftXML(n_trees=1, n_jobs=1).fit(X.take(held.train), Y.take(held.train))  # a fifth of the trees
    assert tuned.trials[0].score.value == held.measured(model)["P@1"].value


def test_beliefs_that_nobody_saw_are_not_true():
    weights = np.array([0.9, 0.3, 0.2, 0.15], np.float32)
    Y = CSR(np.array([0, 2, 4, 4]), np.array([0, 1, 1, 2], np.int32), weights, 3)
    assert true_labels(Y).to_scipy().toarray().tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
