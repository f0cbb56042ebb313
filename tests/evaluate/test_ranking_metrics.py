"""Every metric against its slow twin, against scikit-learn, against figures worked out by hand, and its invariances."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import coverage_error as sk_coverage
from sklearn.metrics import label_ranking_average_precision_score as sk_lrap
from sklearn.metrics import ndcg_score as sk_ndcg

from broadmatch import evaluate
from broadmatch.data import CSR, PROPENSITY_PRESETS, propensity
from broadmatch.errors import BadInput, BadParameter
from tests.reference import metrics as slow

N_LABELS = 6
PHRASES = ["pizza", "cheap pizza", "Cheap  Pizza near me", "taxi", "", "red taxi near me now"]
P = np.array([0.1, 0.5, 0.5, 0.9, 0.25, 1.0])

scores_of_a_point = st.dictionaries(
    st.integers(0, N_LABELS - 1),
    st.one_of(
        st.sampled_from([-1.0, -0.0, 0.0, 0.5, 1.0, 3e38, -3e38, math.inf, -math.inf]),
        st.floats(width=32, allow_nan=False),
    ),
)
points = st.lists(st.tuples(scores_of_a_point, st.sets(st.integers(0, N_LABELS - 1))), min_size=1, max_size=6)


def matrix(rows, n_cols=N_LABELS):
    """CSR from one {column: value} a row; zeros stay stored."""
    indptr = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)
    indices = np.array([c for row in rows for c in sorted(row)], np.int32)
    data = np.array([row[c] for row in rows for c in sorted(row)], np.float32)
    return CSR(indptr, indices, data, n_cols)


def both(sample, n_cols=N_LABELS):
    predicted = matrix([scores for scores, _ in sample], n_cols)
    return predicted, matrix([dict.fromkeys(truth, 1.0) for _, truth in sample], n_cols)


def random_pair(seed=0, n_points=40, n_labels=30, n_scored=12, n_true=4):
    rng = np.random.default_rng(seed)

    def rows(n):
        return [
            dict(zip(rng.choice(n_labels, n, replace=False).tolist(), rng.random(n) + 0.1, strict=True))
            for _ in range(n_points)
        ]

    return matrix(rows(n_scored), n_labels), matrix(rows(n_true), n_labels)


def all_values(predicted, truth, p, phrases, k=3):
    return {
        "P": evaluate.precision_at_k(truth, predicted, k=k),
        "recall": evaluate.recall_at_k(truth, predicted, k=k),
        "nDCG": evaluate.ndcg_at_k(truth, predicted, k=k),
        "PSP": evaluate.psp_at_k(truth, predicted, propensity=p, k=k),
        "PSnDCG": evaluate.psndcg_at_k(truth, predicted, propensity=p, k=k),
        "edit": evaluate.edit_distance_at_k(truth, predicted, phrases=phrases, k=k),
        "AP": evaluate.average_precision(truth, predicted),
        "one-error": evaluate.one_error(truth, predicted),
        "coverage": evaluate.coverage_error(truth, predicted),
    }


# --- the slow twin


@settings(max_examples=150, deadline=None)
@given(points, st.integers(1, 8))
def test_equal_to_the_reference(sample, k):
    predicted, truth = both(sample)
    # float32, as the matrix holds them
    sample = [({label: np.float32(s) for label, s in scores.items()}, true) for scores, true in sample]

    def mean(metric, *more):
        return pytest.approx(np.mean([metric(s, t, *more) for s, t in sample]), abs=1e-12)

    def of_sums(parts):
        earned, best = np.sum([parts(s, t, P, k) for s, t in sample], axis=0)
        return pytest.approx(earned / best if best else 0.0, abs=1e-12)

    assert evaluate.precision_at_k(truth, predicted, k=k) == mean(slow.precision, k)
    assert evaluate.recall_at_k(truth, predicted, k=k) == mean(slow.recall, k)
    assert evaluate.ndcg_at_k(truth, predicted, k=k) == mean(slow.ndcg, k)
    assert evaluate.average_precision(truth, predicted) == mean(slow.average_precision)
    assert evaluate.coverage_error(truth, predicted) == mean(slow.coverage_depth, N_LABELS)
    assert evaluate.one_error(truth, predicted) == pytest.approx(1 - evaluate.precision_at_k(truth, predicted, k=1))
    assert evaluate.psp_at_k(truth, predicted, propensity=P, k=k) == of_sums(slow.psp_parts)
    assert evaluate.psndcg_at_k(truth, predicted, propensity=P, k=k) == of_sums(slow.psndcg_parts)
    assert evaluate.edit_distance_at_k(truth, predicted, phrases=PHRASES, k=k) == mean(slow.edit_distance, PHRASES, k)


words = st.lists(st.sampled_from("abc"), max_size=6)


@settings(max_examples=150, deadline=None)
@given(words, words)
def test_phrase_distance_equals_the_recursion_and_is_symmetric(a, b):
    distance = evaluate.phrase_distance(" ".join(a), " ".join(b))
    assert distance == pytest.approx(slow.word_distance(tuple(a), tuple(b)))
    assert distance == pytest.approx(evaluate.phrase_distance(" ".join(b), " ".join(a)))
    assert (distance == 0) == (a == b)
    assert 0 <= distance <= 1


# --- scikit-learn, where it defines the same


def test_equal_to_scikit_learn_where_every_label_has_a_score():
    predicted, truth = random_pair(n_labels=20, n_scored=20, n_true=3)
    scores, true = predicted.to_scipy().toarray(), (truth.to_scipy().toarray() > 0).astype(int)
    assert evaluate.average_precision(truth, predicted) == pytest.approx(sk_lrap(true, scores))
    assert evaluate.coverage_error(truth, predicted) == pytest.approx(sk_coverage(true, scores))
    for k in (1, 3, 5, 20):
        assert evaluate.ndcg_at_k(truth, predicted, k=k) == pytest.approx(sk_ndcg(true, scores, k=k))


def test_coverage_equal_to_scikit_learn_where_true_labels_are_missing():
    predicted, truth = random_pair()
    scores, true = predicted.to_scipy().toarray(), (truth.to_scipy().toarray() > 0).astype(int)
    assert evaluate.coverage_error(truth, predicted) == pytest.approx(sk_coverage(true, scores))


# --- by hand


def test_two_points_by_hand():
    # point 0: ranking 2, 0, 1 and truth {0, 3}; point 1: ranking 1 and truth {1}
    predicted, truth = both([({0: 0.5, 1: 0.1, 2: 0.9}, {0, 3}), ({1: 0.2}, {1})], n_cols=4)
    assert evaluate.precision_at_k(truth, predicted, k=1) == (0 + 1) / 2
    assert evaluate.precision_at_k(truth, predicted, k=3) == pytest.approx((1 / 3 + 1 / 3) / 2)
    assert evaluate.recall_at_k(truth, predicted, k=3) == (1 / 2 + 1) / 2
    half = 1 / math.log2(3)
    assert evaluate.ndcg_at_k(truth, predicted, k=3) == pytest.approx((half / (1 + half) + 1) / 2)
    assert evaluate.average_precision(truth, predicted) == (1 / 2 / 2 + 1) / 2
    assert evaluate.coverage_error(truth, predicted) == (4 + 1) / 2
    assert evaluate.one_error(truth, predicted) == 1 / 2
    # p = 1/2, 1/4, 1, 1/8: the weights are 2, 4, 1, 8
    p = [0.5, 0.25, 1.0, 0.125]
    assert evaluate.psp_at_k(truth, predicted, propensity=p, k=1) == (0 + 4) / (8 + 4)
    assert evaluate.psp_at_k(truth, predicted, propensity=p, k=3) == (2 + 4) / (8 + 2 + 4)
    ideal = 1 + half
    earned, best = 2 * half / ideal + 4, (8 + 2 * half) / ideal + 4
    assert evaluate.psndcg_at_k(truth, predicted, propensity=p, k=3) == pytest.approx(earned / best)


def test_propensity_by_hand():
    c = (math.log(1000) - 1) * 2.5**0.55
    expected = [1 / (1 + c * (n + 1.5) ** -0.55) for n in (0, 1, 100)]
    assert propensity([0, 1, 100], 1000) == pytest.approx(expected)
    # a label seen once has (N_l + B)^-A (B + 1)^A = 1, whatever A and B: p = 1 / ln N
    for preset in PROPENSITY_PRESETS.values():
        assert propensity([1], 1000, **preset) == pytest.approx([1 / math.log(1000)])
    assert (np.diff(propensity(np.arange(50), 1000)) > 0).all()


def test_edit_distance_by_hand():
    assert evaluate.phrase_distance("Cheap Car insurance", "car insurance online") == pytest.approx(2 / 3)
    assert evaluate.phrase_distance("", "") == 0
    assert evaluate.phrase_distance("pizza", "") == 1
    phrases = ["car insurance", "cheap car insurance", "pizza", "car hire"]
    predicted, truth = both([({0: 3, 1: 2, 2: 1}, {1, 3})], n_cols=4)
    # "car insurance" is 1/3 from "cheap car insurance" (and 1/2 from "car hire"); the second is true; "pizza": 1
    assert evaluate.edit_distance_at_k(truth, predicted, phrases=phrases, k=3) == pytest.approx((1 / 3 + 0 + 1) / 3)
    assert evaluate.edit_distance_at_k(truth, predicted, phrases=phrases, k=4) == pytest.approx((1 / 3 + 0 + 1 + 1) / 4)


# --- invariances


def test_a_perfect_prediction_is_best_possible():
    _, truth = random_pair(n_true=5)
    p = propensity(np.bincount(truth.indices, minlength=30), 40)
    # the best order for PSP is the rarest label first
    best = truth._replace(data=(1 / p[truth.indices]).astype(np.float32))
    values = all_values(best, truth, p, [f"phrase {i}" for i in range(30)], k=5)
    assert values.pop("edit") == values.pop("one-error") == 0
    assert values.pop("coverage") == 5
    assert values == pytest.approx(dict.fromkeys(values, 1.0))


@pytest.mark.parametrize("seed", range(3))
def test_permuting_labels_or_points_changes_nothing(seed):
    predicted, truth = random_pair(seed)
    rng = np.random.default_rng(seed)
    p, phrases = rng.uniform(0.1, 1, 30), [f"{i % 4} {i % 3} x" for i in range(30)]
    expected = pytest.approx(all_values(predicted, truth, p, phrases))
    rows = rng.permutation(40)
    assert all_values(predicted.take(rows), truth.take(rows), p, phrases) == expected
    columns = rng.permutation(30)  # scores are all distinct, so that no tie is decided by the label number
    moved = [CSR.from_scipy(m.to_scipy().tocsc()[:, columns].tocsr()) for m in (predicted, truth)]
    assert all_values(*moved, p[columns], [phrases[c] for c in columns]) == expected


def test_only_the_order_of_the_scores_counts():
    predicted, truth = random_pair()
    p, phrases = np.full(30, 0.5), ["x"] * 30
    expected = all_values(predicted, truth, p, phrases)
    for data in (predicted.data * 1e30, predicted.data - 2, np.log(predicted.data)):
        assert all_values(predicted._replace(data=data.astype(np.float32)), truth, p, phrases) == expected


def test_a_worse_ranked_label_changes_nothing_above_it():
    predicted, truth = random_pair()
    rows = [dict(zip(*predicted.row(i), strict=True)) for i in range(40)]
    longer = matrix([row | {next(c for c in range(30) if c not in row): -1.0} for row in rows], 30)
    for k in (1, 5, 12):
        assert evaluate.precision_at_k(truth, longer, k=k) == evaluate.precision_at_k(truth, predicted, k=k)
        assert evaluate.ndcg_at_k(truth, longer, k=k) == evaluate.ndcg_at_k(truth, predicted, k=k)
    assert evaluate.recall_at_k(truth, longer, k=13) > evaluate.recall_at_k(truth, predicted, k=13)


def test_equal_scores_go_by_the_lower_label():
    predicted, truth = both([({1: 0.0, 3: -0.0}, {1}), ({3: 0.5, 2: 0.5}, {2})])
    assert evaluate.precision_at_k(truth, predicted, k=1) == 1


def test_beliefs_count_as_labels():
    predicted, truth = random_pair()
    assert evaluate.ndcg_at_k(truth._replace(data=np.ones_like(truth.data)), predicted, k=5) == evaluate.ndcg_at_k(
        truth, predicted, k=5
    )


def test_missing_predictions_and_missing_truth_count_as_misses():
    predicted, truth = both([({0: 1.0}, {0}), ({}, {1}), ({2: 1.0}, set())])
    assert evaluate.precision_at_k(truth, predicted, k=2) == pytest.approx((1 / 2 + 0 + 0) / 3)
    assert evaluate.recall_at_k(truth, predicted, k=2) == pytest.approx(1 / 3)
    assert evaluate.one_error(truth, predicted) == pytest.approx(2 / 3)
    assert evaluate.edit_distance_at_k(truth, predicted, phrases=PHRASES, k=1) == pytest.approx(2 / 3)
    assert evaluate.coverage_error(truth, predicted) == pytest.approx((1 + N_LABELS + 0) / 3)


def test_share_with_at_least():
    predicted = matrix([{0: 1.0}, {}, {2: 1.0, 4: 0.0}])
    assert [evaluate.share_with_at_least(predicted, n=n) for n in (1, 2, 3)] == pytest.approx([2 / 3, 1 / 3, 0])
    assert evaluate.share_with_at_least(predicted) == 0


def test_nothing_true_at_all_is_zero_not_nan():
    predicted, truth = both([({0: 1.0}, set())])
    assert (
        evaluate.psp_at_k(truth, predicted, propensity=P, k=1)
        == evaluate.psndcg_at_k(truth, predicted, propensity=P, k=1)
        == 0
    )


# --- what comes in


def test_scipy_of_any_format_and_order_gives_the_same():
    predicted, truth = random_pair()
    expected = evaluate.ndcg_at_k(truth, predicted, k=5)
    shuffled = predicted.to_scipy()
    for i in range(40):
        part = slice(shuffled.indptr[i], shuffled.indptr[i + 1])
        shuffled.indices[part], shuffled.data[part] = shuffled.indices[part][::-1], shuffled.data[part][::-1]
    shuffled.has_sorted_indices = False
    shuffled.has_canonical_format = False
    for given_scores in (predicted.to_scipy(), shuffled, sp.coo_array(predicted.to_scipy())):
        assert evaluate.ndcg_at_k(truth.to_scipy().tocsc(), given_scores, k=5) == expected


def test_a_stored_zero_is_a_recommendation():
    predicted = sp.csr_matrix((np.zeros(1), np.array([1]), np.array([0, 1])), shape=(1, 2))
    assert evaluate.precision_at_k(CSR.from_rows([[1]], 2), predicted, k=1) == 1


def test_what_is_refused():
    predicted, truth = random_pair()
    with pytest.raises(BadInput, match=r"row 3, column .*not a number"):
        data = predicted.data.copy()
        data[3 * 12 + 2] = np.nan
        evaluate.precision_at_k(truth, predicted._replace(data=data), k=1)
    with pytest.raises(BadInput, match=r"predictions: row 0, column 30: .* not one of the 30"):
        evaluate.precision_at_k(truth.take(np.arange(1)), matrix([{30: 1.0}], 30), k=1)
    with pytest.raises(BadInput, match=r"row 0, column .*negative"):
        evaluate.precision_at_k(truth._replace(data=-truth.data), predicted, k=1)
    with pytest.raises(BadInput, match="40 × 30 and y_true is 39 × 30"):
        evaluate.precision_at_k(truth.take(np.arange(39)), predicted, k=1)
    with pytest.raises(BadInput, match="no points"):
        evaluate.precision_at_k(truth.take(np.arange(0)), predicted.take(np.arange(0)), k=1)
    for wrong in ("scores", [[1], [1, 2]], np.zeros(30), np.full((40, 30), "x")):
        with pytest.raises(BadInput, match=r"Predictions must be a Ranking, or a sparse or dense matrix"):
            evaluate.precision_at_k(truth, wrong, k=1)
    with pytest.raises(BadInput, match=r"y_true must be .* lists of names"):
        evaluate.precision_at_k([["a"]], predicted, k=1)
    with pytest.raises(BadParameter, match="k must be a whole number of at least 1, but it is 0"):
        evaluate.precision_at_k(truth, predicted, k=0)
    with pytest.raises(BadParameter, match="n must be"):
        evaluate.share_with_at_least(predicted, n=0)
    with pytest.raises(BadInput, match="each of the 30 labels"):
        evaluate.psp_at_k(truth, predicted, propensity=[0.5], k=1)
    with pytest.raises(BadInput, match=r"label 7 has 0\.0"):
        evaluate.psp_at_k(truth, predicted, propensity=np.where(np.arange(30) == 7, 0.0, 0.5), k=1)
    with pytest.raises(BadInput, match="2 phrases for 30 labels"):
        evaluate.edit_distance_at_k(truth, predicted, phrases=["a", "b"], k=1)


def test_what_propensity_refuses():
    with pytest.raises(BadInput, match=r"label 1 has the count -1\.0"):
        propensity([1, -1], 100)
    with pytest.raises(BadInput, match="2 dimensions"):
        propensity([[1]], 100)
    with pytest.raises(BadParameter, match="n_points"):
        propensity([1], 2)
    with pytest.raises(BadParameter, match="a must be"):
        propensity([1], 100, a=0)
