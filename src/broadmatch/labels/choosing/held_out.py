"""Training points that are held out of the training, and how good a model is on them."""

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Names, propensity, reveal
from broadmatch.errors import BadInput, BadParameter
from broadmatch.evaluate import Report, ranking_report, set_report

SHARE, MOST = 0.2, 20_000
"""The part of the points that is held out, and how many at most."""
_K = 5  # of "P" without a number
_AT_K = ("P", "nDCG", "PSP", "PSnDCG", "recall")
_OF_SETS = ("exact match", "micro-F1", "macro-F1")
_RANKED = "average precision"
_DRAWS = 200  # of a bootstrap of sets, where macro-F1 goes through all labels in each
_DEPTH = 100


class Metric(NamedTuple):
    """What is to be as high as possible: its name in reports, and how many labels are looked at; 0 for sets."""

    name: str
    k: int

    @classmethod
    def of(cls, text: str) -> "Metric":
        """The metric that a text means; without a number, "P" and its like look at five labels.

        >>> Metric.of("psp@3").name, Metric.of("P").name, Metric.of("micro-f1").name, Metric.of("exact-match").name
        ('PSP@3', 'P@5', 'micro-F1', 'exact match')
        """
        plain = text.strip().lower().replace("_", " ")
        names = {one.lower().replace("-", " "): one for one in (*_AT_K, *_OF_SETS, _RANKED)}
        found = re.fullmatch(r"([a-z0-9 -]+?)(?:@([1-9]\d{0,3}))?", plain)
        name = names.get(found[1].replace("-", " ").strip()) if found else None
        if found is None or name is None or (found[2] and name not in _AT_K):
            at_k = ", ".join(f"{one}@k" for one in _AT_K)
            raise BadParameter(f"There is no metric {text!r} to tune; there are {at_k}, {_RANKED}, of sets "
                               f"{', '.join(_OF_SETS)}.")  # fmt: skip
        if name in _OF_SETS:
            return cls(name, 0)
        return cls(f"{name}@{found[2] or _K}", int(found[2] or _K)) if name in _AT_K else cls(name, _DEPTH)


@dataclass(frozen=True)
class HeldOut:
    """Points to train on, and points to measure on; labels that are shown to the model stand apart from the truth."""

    train: NDArray[np.int64]
    X: CSR
    truth: CSR
    shown: CSR | None
    propensity: NDArray[np.float64]
    metric: Metric
    names: Names | None

    @classmethod
    def of(
        cls, X: CSR, Y: CSR, metric: Metric, names: Names | None = None, *, seed: int = 0, shown: float = 0.0
    ) -> "HeldOut":
        """Hold out a fifth of the points by chance.

        Of labels with weights, those that weigh at least half of the point's heaviest are true: the others are beliefs
        that nobody saw. `shown` is the share of its labels that a point shows to models that learn from these.
        """
        n = Y.n_rows
        n_held = min(int(SHARE * n), MOST)
        if n_held < 2:
            raise BadInput(f"There are {n:,} points, too few to hold a fifth of them out; leave the tuning out.")
        order = np.random.default_rng(seed).permutation(n)
        held, train = np.sort(order[:n_held]), np.sort(order[n_held:])
        truth, revealed = true_labels(Y.take(held)), None
        if not truth.nnz or not Y.take(train).nnz:
            raise BadInput("The points that are held out, or the others, have no label; leave the tuning out.")
        if shown:
            revealed, truth = reveal(truth, shown, seed=seed)
        counts = np.bincount(Y.take(train).indices, minlength=Y.n_cols)
        return cls(train, X.take(held), truth, revealed, propensity(counts, max(3, len(train))), metric, names)

    def measured(self, model: Any) -> Report:
        """All metrics of the kind that is asked for, of a model that was trained without the held-out points."""
        if self.metric.k:
            found = model.predict_topk(self.X, self.metric.k, revealed=self.shown)
            return ranking_report(self.truth, found, ks=(self.metric.k,), propensity=self.propensity)
        truth = self.truth
        if self.names is not None and model.label_names_ != self.names:  # a hierarchy numbers its categories itself
            truth = truth.renumbered(model.label_names_.places(self.names), len(model.label_names_))
        return set_report(truth, model.predict_sets(self.X), n_bootstrap=_DRAWS)


def true_labels(Y: CSR) -> CSR:
    """The labels that weigh at least half of the heaviest of their point.

    >>> true_labels(CSR(np.array([0, 2]), np.array([0, 1], np.int32), np.array([0.9, 0.3], np.float32), 2)).indices
    array([0], dtype=int32)
    """
    most = np.zeros(Y.n_rows, np.float32)
    np.maximum.at(most, Y.rows, Y.data)
    kept = Y.where(Y.data >= 0.5 * most[Y.rows])
    return kept._replace(data=np.ones_like(kept.data))
