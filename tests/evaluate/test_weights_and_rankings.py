"""Invariances of every metric and report: a weight is as many points, and a `Ranking` is the matrix it stands for."""

import numpy as np
import pytest
import scipy.sparse as sp

from broadmatch import evaluate
from broadmatch.data import CSR, Hierarchy, Names, Ranking
from broadmatch.errors import BadInput
from tests.evaluate.test_ranking_metrics import random_pair

PREDICTED, TRUTH = random_pair(seed=3, n_labels=12, n_scored=7, n_true=3)
P = np.linspace(0.1, 1, 12)
PHRASES = [f"{i % 4} {i % 3} x" for i in range(12)]
TREE = Hierarchy.of({str(i): [str((i - 1) // 3)] if i else [] for i in range(12)})
WEIGHT = np.random.default_rng(0).integers(0, 4, 40)

RANKING = {
    **{f"{m.__name__}": (m, {"k": 3}) for m in (evaluate.precision_at_k, evaluate.recall_at_k, evaluate.ndcg_at_k)},
    **{f"{m.__name__}": (m, {"k": 3, "propensity": P}) for m in (evaluate.psp_at_k, evaluate.psndcg_at_k)},
    "edit_distance_at_k": (evaluate.edit_distance_at_k, {"k": 3, "phrases": PHRASES}),
    "average_precision": (evaluate.average_precision, {}),
    "one_error": (evaluate.one_error, {}),
    "coverage_error": (evaluate.coverage_error, {}),
    "coverage": (evaluate.coverage, {}),
    "share_with_at_least": (
        lambda y_true, y_score, **options: evaluate.share_with_at_least(y_score, **options),
        {"n": 3},
    ),
}
SETS = {
    **{
        m.__name__: (m, {}) for m in (evaluate.exact_match, evaluate.micro_f1, evaluate.macro_f1, evaluate.hamming_loss)
    },
    **{m.__name__: (m, {}) for m in (evaluate.set_precision, evaluate.set_recall)},
    **{f"covering {c}": (evaluate.covering_error, {"covering": c}) for c in evaluate.COVERINGS},
}
REPORTS = {
    "ranking_report": (evaluate.ranking_report, {"propensity": P, "phrases": PHRASES}),
    "set_report": (evaluate.set_report, {}),
    "covering_report": (evaluate.covering_report, {}),
    "depth_reports": (lambda *both, **options: evaluate.depth_reports(*both, TREE, **options)[2], {}),
}


def as_ranking(scores):
    """The ranking of a matrix of scores, with room for more labels than any point has."""
    n = scores.n_rows
    labels, values = np.full((n, 9), 11, np.int32), np.full((n, 9), 7, np.float32)
    for i in range(n):
        found, of = scores.row(i)
        order = np.argsort(-of, kind="stable")
        labels[i, : len(of)], values[i, : len(of)] = found[order], of[order]
    return Ranking(labels, values, np.diff(scores.indptr), Names.of(map(str, range(scores.n_cols))))


def ragged():
    """Scores of which some rows are short or empty."""
    rng = np.random.default_rng(1)
    rows = [PREDICTED.row(i) for i in range(40)]
    lengths = rng.integers(0, 8, 40)
    kept = [sorted(rng.choice(7, n, replace=False)) for n in lengths]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    columns, values = ([row[side][k] for row, k in zip(rows, kept, strict=True)] for side in (0, 1))
    return CSR(indptr, np.concatenate(columns), np.concatenate(values), 12)


def metrics_of(report):
    return {name: estimate.value for name, estimate in report.metrics.items()}


@pytest.mark.parametrize(("metric", "options"), [*RANKING.values(), *SETS.values()], ids=[*RANKING, *SETS])
def test_a_weight_is_as_many_points(metric, options):
    rows = np.repeat(np.arange(40), WEIGHT)
    repeated = metric(TRUTH.take(rows), PREDICTED.take(rows), **options)
    assert metric(TRUTH, PREDICTED, sample_weight=WEIGHT, **options) == pytest.approx(repeated, rel=1e-12)
    assert metric(TRUTH, PREDICTED, sample_weight=np.ones(40), **options) == pytest.approx(
        metric(TRUTH, PREDICTED, **options), rel=1e-12
    )


@pytest.mark.parametrize(("report", "options"), REPORTS.values(), ids=REPORTS)
def test_reports_weigh_values_and_intervals(report, options):
    options = options | {"n_bootstrap": 200}
    rows = np.repeat(np.arange(40), WEIGHT)
    found = report(TRUTH, PREDICTED, sample_weight=WEIGHT, **options)
    assert metrics_of(found) == pytest.approx(metrics_of(report(TRUTH.take(rows), PREDICTED.take(rows), **options)))
    assert all(e.low <= e.value + 1e-12 and e.value <= e.high + 1e-12 for e in found.metrics.values())
    plain, ones = report(TRUTH, PREDICTED, **options), report(TRUTH, PREDICTED, sample_weight=np.ones(40), **options)
    for name, estimate in plain.metrics.items():
        assert (ones[name].low, ones[name].high) == pytest.approx((estimate.low, estimate.high))
    with pytest.raises(BadInput, match="weights differ"):
        evaluate.paired_difference(found, plain, next(iter(plain.metrics)))


def test_a_warm_start_report_weighs_points():
    def predict(X, k, *, revealed):
        return PREDICTED.take(np.asarray(X[:, 0], np.int64))

    # `reveal` depends on the row, so the same points are compared at a share that reveals nothing
    X, rows = np.arange(40)[:, None], np.repeat(np.arange(40), WEIGHT)
    options = {"shares": (0.0,), "seeds": (0,), "propensity": P, "n_bootstrap": 5}
    weighted = evaluate.warm_start_report(predict, X, TRUTH, sample_weight=WEIGHT, **options)
    repeated = evaluate.warm_start_report(predict, X[rows], TRUTH.take(rows), **options)
    assert metrics_of(weighted.by_share[0.0]) == pytest.approx(metrics_of(repeated.by_share[0.0]))


@pytest.mark.parametrize(("metric", "options"), [*RANKING.values(), *SETS.values()], ids=[*RANKING, *SETS])
def test_a_ranking_is_the_matrix_of_its_scores(metric, options):
    scores = ragged()
    assert metric(TRUTH, as_ranking(scores), **options) == metric(TRUTH, scores, **options)
    assert metric(TRUTH, as_ranking(scores).to_csr(), **options) == metric(TRUTH, scores, **options)


@pytest.mark.parametrize(("report", "options"), REPORTS.values(), ids=REPORTS)
def test_reports_take_a_ranking(report, options):
    options, scores = options | {"n_bootstrap": 20}, ragged()
    one, other = (report(TRUTH, given, **options) for given in (as_ranking(scores), scores))
    assert one.to_dict() == other.to_dict()
    assert one.points == other.points


def test_a_ranking_is_not_sorted_again():
    backwards = Ranking(
        np.array([[0, 1]], np.int32), np.array([[0.1, 0.9]], np.float32), np.array([2]), Names.of("abc")
    )
    truth = CSR.from_rows([[0]], 3)
    assert evaluate.precision_at_k(truth, backwards, k=1) == 1
    assert evaluate.precision_at_k(truth, backwards.to_csr(), k=1) == 0


def test_a_warm_start_model_may_return_a_ranking():
    scores = ragged()

    class Model:
        def __init__(self, answer):
            self.answer = answer

        def predict_topk(self, X, k, *, revealed=None):
            return self.answer

    options = {"shares": (0.3, 0.6), "propensity": P, "n_bootstrap": 20}
    one, other = (
        evaluate.warm_start_report(Model(answer), np.eye(40), TRUTH, **options)
        for answer in (as_ranking(scores), scores)
    )
    assert one.returned_revealed > 0
    assert one.to_dict() == other.to_dict()


def test_dense_tables_are_taken():
    table, true = PREDICTED.to_scipy().toarray(), TRUTH.to_scipy().toarray()
    everything = CSR(np.arange(41) * 12, np.tile(np.arange(12, dtype=np.int32), 40), table.ravel(), 12)
    for metric, options in RANKING.values():
        assert metric(true, table, **options) == metric(TRUTH, everything, **options)
    for metric, options in SETS.values():
        assert metric(true, table != 0, **options) == metric(TRUTH, PREDICTED, **options)
    assert evaluate.ndcg_at_k(true, sp.coo_array(table), k=3) == evaluate.ndcg_at_k(TRUTH, PREDICTED, k=3)


def test_weights_and_rankings_that_are_refused():
    for weight, message in (
        ([1.0], "sample_weight has 1 rows, but there are 40"),
        (np.zeros(40), "every sample_weight is 0"),
        (np.full(40, -1), "sample_weight: row 0 is -1"),
        (np.full(40, np.nan), "sample_weight: row 0 is nan"),
        (np.ones((40, 1)), "one column of numbers"),
        (["x"] * 40, "a column of numbers"),
    ):
        for call in (evaluate.one_error, evaluate.micro_f1, evaluate.ranking_report, evaluate.covering_error):
            with pytest.raises(BadInput, match=message):
                call(TRUTH, PREDICTED, sample_weight=weight)
    ranking = as_ranking(PREDICTED)
    for wrong, message in (
        (ranking.labels + 12, "not one of its 12 label names"),
        (ranking.labels - 12, "not one of its 12 label names"),
    ):
        with pytest.raises(BadInput, match=message):
            evaluate.one_error(TRUTH, Ranking(wrong, ranking.scores, ranking.lengths, ranking.label_names))
    with pytest.raises(BadInput, match="not a number"):
        evaluate.one_error(
            TRUTH, Ranking(ranking.labels, ranking.scores * np.nan, ranking.lengths, ranking.label_names)
        )
    with pytest.raises(BadInput, match="no points"):
        evaluate.one_error(TRUTH, Ranking(*(part[:0] for part in (ranking.labels, ranking.scores, ranking.lengths)),
                                          ranking.label_names))  # fmt: skip


def test_the_papers_coverage_counts_from_zero():
    true, found = CSR.from_rows([[1], [0, 3], []], 4), CSR.from_rows([[0, 1, 2], [0, 1], [2]], 4)
    assert evaluate.coverage_error(true, found) == pytest.approx((2 + 4 + 0) / 3)
    assert evaluate.coverage(true, found) == pytest.approx((1 + 3 + 0) / 3)
