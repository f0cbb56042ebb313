"""How good predicted sets are, as functions of two sparse matrices, points by labels: the sets, and the truth.

`predicted`: a stored entry is a label of the set, whatever its score, as `predict` of `broadmatch.sets` gives it.
`truth`: a label is true where its weight is above 0. L. Tang, S. Rajan and V. Narayanan, "Large scale multi-label
classification via MetaLabeler", WWW 2009, equations 5 to 7.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.evaluate import _ranking as metrics
from broadmatch.evaluate import _set_metrics as set_metrics
from broadmatch.evaluate.bootstrap import drawn_counts, interval, resample
from broadmatch.evaluate.per_point import PerPoint
from broadmatch.evaluate.ranking import Ranking
from broadmatch.evaluate.report import Estimate, Report, check_settings, estimates, fingerprint


def exact_match(predicted: Any, truth: Any) -> float:
    """The share of points whose set is exactly the true one; two empty sets match.

    >>> from broadmatch.data import CSR
    >>> exact_match(CSR.from_rows([[0], [1, 2]], n_cols=3), CSR.from_rows([[0], [1]], n_cols=3))
    0.5
    """
    return _value(predicted, truth, "exact match")


def micro_f1(predicted: Any, truth: Any) -> float:
    """2·Σ hits / (Σ predicted + Σ true), over all points and labels; 0 where nothing is predicted nor true.

    >>> from broadmatch.data import CSR
    >>> micro_f1(CSR.from_rows([[0], [1, 2]], n_cols=3), CSR.from_rows([[0], [1]], n_cols=3))
    0.8
    """
    return _value(predicted, truth, "micro-F1")


def macro_f1(predicted: Any, truth: Any) -> float:
    """The mean over labels of 2·hits_l / (predicted_l + true_l), over the labels that are true or predicted anywhere.

    A label that occurs in neither matrix is left out: nothing was asked of it. A label that is predicted but never
    true, or true but never predicted, counts 0. This is scikit-learn's `f1_score(average="macro", zero_division=0)`
    with `labels` those that occur.

    >>> from broadmatch.data import CSR
    >>> macro_f1(CSR.from_rows([[0], [1, 2]], n_cols=4), CSR.from_rows([[0], [1]], n_cols=4))
    0.6666666666666666
    """
    ranking = Ranking.of(predicted, truth)
    return float(_macro_f1(ranking, np.ones((1, ranking.n_points)))[0])


def hamming_loss(predicted: Any, truth: Any) -> float:
    """The share of all pairs of a point and a label where prediction and truth differ.

    >>> from broadmatch.data import CSR
    >>> hamming_loss(CSR.from_rows([[0], [1, 2]], n_cols=4), CSR.from_rows([[0], [1]], n_cols=4))
    0.125
    """
    return _value(predicted, truth, "Hamming loss")


def set_precision(predicted: Any, truth: Any) -> float:
    """The share of the predicted labels that are true, over all points; 0 where nothing is predicted.

    >>> from broadmatch.data import CSR
    >>> set_precision(CSR.from_rows([[0], [1, 2]], n_cols=4), CSR.from_rows([[0], [1]], n_cols=4))
    0.6666666666666666
    """
    return _value(predicted, truth, "precision")


def set_recall(predicted: Any, truth: Any) -> float:
    """The share of the true labels that are predicted, over all points; 0 where nothing is true.

    >>> from broadmatch.data import CSR
    >>> set_recall(CSR.from_rows([[0], [1]], n_cols=4), CSR.from_rows([[0], [1, 2]], n_cols=4))
    0.6666666666666666
    """
    return _value(predicted, truth, "recall")


def set_report(predicted: Any, truth: Any, *, n_bootstrap: int = 1000, seed: int = 0, level: float = 0.95) -> Report:
    """All metrics of sets at once, with percentile bootstrap intervals over points; `paired_difference` compares two.

    In each bootstrap sample macro-F1 is the mean over the labels that occur in that sample. Rare labels, which are
    often missed, are in fewer of them, so samples score too high; they are moved until their mean is the value.

    >>> from broadmatch.data import CSR
    >>> truth = CSR.from_rows([[0], [1, 2]], n_cols=3)
    >>> print(set_report(truth, truth)["micro-F1"])
    1.0000 [1.0000, 1.0000]
    """
    check_settings((1,), n_bootstrap, seed, level)
    ranking = Ranking.of(predicted, truth)
    contributions = _contributions(ranking)
    draws = resample(contributions, n_bootstrap, seed)
    found = estimates(contributions, draws, level)
    drawn = drawn_counts(ranking.n_points, n_bootstrap, seed)
    value = float(_macro_f1(ranking, np.ones((1, ranking.n_points)))[0])
    sampled = np.concatenate([_macro_f1(ranking, counts) for counts in drawn])
    draws["macro-F1"] = np.clip(sampled + (value - sampled.mean()), 0, 1)
    found["macro-F1"] = Estimate(value, *interval(draws["macro-F1"], level))
    order = ("exact match", "micro-F1", "macro-F1", "precision", "recall", "Hamming loss")
    return Report(
        metrics={name: found[name] for name in order},
        n_points=ranking.n_points,
        n_labels=ranking.n_labels,
        n_without_truth=int((ranking.n_true == 0).sum()),
        n_without_predictions=int((ranking.n_recommended == 0).sum()),
        level=level,
        n_bootstrap=n_bootstrap,
        seed=seed,
        draws=draws,
        points=fingerprint(ranking),
    )


def _value(predicted: Any, truth: Any, name: str) -> float:
    return float(_contributions(Ranking.of(predicted, truth))[name].values()[0])


def _contributions(ranking: Ranking) -> dict[str, PerPoint]:
    """What each point adds to every metric that is a ratio of sums over points."""
    whole = np.array([ranking.n_labels], np.int64)
    right = metrics.gain_at(ranking.indptr, ranking.hits, whole)
    chosen, true = (n.astype(np.float64)[:, None] for n in (ranking.n_recommended, ranking.n_true))
    return {
        "exact match": PerPoint(((right == chosen) & (right == true)).astype(np.float64)),
        "micro-F1": PerPoint(2 * right, chosen + true),
        "precision": PerPoint(right, chosen),
        "recall": PerPoint(right, true),
        "Hamming loss": PerPoint((chosen + true - 2 * right) / max(ranking.n_labels, 1)),
    }


def _macro_f1(ranking: Ranking, drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    true = ranking.truth
    return set_metrics.macro_f1(
        drawn, ranking.indptr, ranking.labels, ranking.hits, true.indptr, true.indices, ranking.n_labels
    )
