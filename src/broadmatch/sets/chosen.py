"""How much scores count and where sets end, chosen on points that the models have not seen."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Ranking
from broadmatch.labels import OneVsRest
from broadmatch.labels.base import LabelModel
from broadmatch.sets.base import Training
from broadmatch.sets.ranked import right_labels

FEW = 50
"""Points that are too few to choose by."""
_ENOUGH, _MOST = 4_000, 10_000  # points that are enough to choose by, and that it takes at most
_WEIGHTS = (0.5, 1.0, 2.0, 4.0, 8.0, 32.0)  # of scores, in the range where sets end
_COSTS, _TAILS = (1.0, 0.3), (0.0, 0.03, 0.06, 0.1)  # of a OneVsRest
_SHARES = tuple(0.4 * 1.15**i for i in range(18))
"""How many labels are to be above the thresholds that are tried, for each one that is true."""


class Weighing(NamedTuple):
    """How scores have their say in how many labels a set has: their weight w, and the bar for w·s_r."""

    score_weight: float
    bar: float


class Evidence(NamedTuple):
    """What speaks for each number of labels: points × numbers."""

    numbers: NDArray[np.int64]
    said: NDArray[np.float64]
    """c_n, the second model's score for 'n labels'."""
    scores: NDArray[np.float64]
    """Σ_{r≤n} s_r, where s_r is the score of the label at rank r."""

    def totals(self, how: Weighing) -> NDArray[np.float64]:
        """c_n + Σ_{r≤n} (w·s_r − bar) of each number n."""
        return self.said + how.score_weight * self.scores - how.bar * self.numbers


class Held(NamedTuple):
    """Points held out: what speaks for each number of their labels, and how many of so many are right."""

    evidence: Evidence
    sizes: NDArray[np.int64]
    right: NDArray[np.int64]
    n_true: NDArray[np.int64]
    thresholds: NDArray[np.float64]
    """Scores that a number of labels are above, from few to many."""

    @classmethod
    def of(cls, evidence: Evidence, best: Ranking, truth: CSR) -> "Held":
        """The points by their ranking and their true labels."""
        right, numbers = np.zeros((len(best), best.labels.shape[1] + 1), np.int64), evidence.numbers
        right[:, 1:][best.found] = right_labels(best, truth)
        at = np.minimum(numbers, best.labels.shape[1])
        scores = np.sort(best.scores[best.found])[::-1].astype(np.float64)
        places = np.unique((np.array(_SHARES) * truth.nnz).astype(np.int64).clip(0, max(len(scores) - 1, 0)))
        return cls(
            evidence, np.minimum(numbers, best.lengths[:, None]), np.cumsum(right, axis=1)[:, at],
            np.diff(truth.indptr), scores[places] if len(scores) else np.zeros(1),
        )  # fmt: skip

    def worth(self, how: Weighing) -> float:
        """The mean of exact match and micro-F1 of the sets that are decided so."""
        picked = np.argmax(self.evidence.totals(how), axis=1)[:, None]
        size, right = (np.take_along_axis(part, picked, 1)[:, 0] for part in (self.sizes, self.right))
        exact = float(((right == self.n_true) & (size == self.n_true)).mean())
        micro_f1 = 2 * float(right.sum()) / max(float(size.sum() + self.n_true.sum()), 1.0)
        return (exact + micro_f1) / 2

    def best(self, score_weight: float | None, bar: float | None) -> tuple[float, Weighing]:
        """The weight and the bar that are worth most, unless they are given, and what they are worth."""
        reach = float(self.thresholds[0] - self.thresholds[-1]) or 1.0
        weights = [w / reach for w in _WEIGHTS] if score_weight is None else [score_weight]
        bars = self.thresholds.tolist()
        tried = [Weighing(w, b) for w in weights for b in ([w * t for t in bars] if bar is None else [bar])]
        return max(((self.worth(how), how) for how in tried), key=lambda found: found[0])


def some(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """As many of the rows as it takes at most to choose by, spread over all."""
    return rows[:: -(-len(rows) // _MOST)]


def folds_to_choose_by(n_points: int, folds: int) -> int:
    """How many of the folds have enough points to choose by, if as many do: of few points it takes all.

    >>> [folds_to_choose_by(n, 5) for n in (100, 8_000, 100_000)]
    [5, 3, 1]
    """
    return min(folds, -(-_ENOUGH * folds // max(n_points, 1)))


Settings = dict[str, Any]


def rankings(
    training: Training, folds: Sequence[NDArray[np.int64]], k: int, search: bool
) -> Iterator[tuple[Settings, Ranking]]:
    """The k best labels of the points of some folds, by models that have not seen them, and the models' settings.

    If it is to `search`, a `OneVsRest` that is trained here comes with several tails and, where its c is the default's,
    with several costs; any other model comes once, and nothing where a fold has all labels that there are.
    """
    held = [training.X.take(some(rows)) for rows in folds]
    for settings, models in _models(training, folds, search):
        pieces = [model.predict_topk(X, k) for model, X in zip(models, held, strict=True)]
        yield settings, Ranking.stack(pieces, training.model.label_names_)


def _models(
    training: Training, folds: Sequence[NDArray[np.int64]], search: bool
) -> Iterator[tuple[Settings, list[LabelModel]]]:
    own = training.model if search and not training.unseen else None
    costs = costs_of(own) if isinstance(own, OneVsRest) else (None,)
    for c in costs:
        settings: Settings = {} if c is None or len(costs) == 1 else {"c": c}
        models = [training.without(rows, **settings) for rows in folds]
        known = [model for model in models if model is not None]
        if len(known) < len(models):
            return
        if not isinstance(own, OneVsRest):
            yield {}, known
            return
        for tail in tails_of(own):
            yield settings | {"tail": tail}, [m.lifted(tail) for m in known if isinstance(m, OneVsRest)]


def costs_of(model: OneVsRest) -> tuple[float | str, ...]:
    """What to choose its c from, if it is the default's."""
    return _COSTS if model.c == OneVsRest.c else (model.c,)


def tails_of(model: OneVsRest) -> tuple[float, ...]:
    """What to choose its tail from."""
    return tuple(dict.fromkeys((model.tail, *_TAILS)))


def settle(training: Training, settings: Settings) -> None:
    """Give the model the settings that were chosen: another c trains it anew, a tail alone scales its weights."""
    model = training.model
    if isinstance(model, OneVsRest) and settings:
        if settings.get("c", model.c) != model.c:
            training.again(**settings)
        elif settings["tail"] != model.tail:
            training.model = model.lifted(settings["tail"])
