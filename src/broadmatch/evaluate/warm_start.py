"""Warm start: some labels of each test point are revealed to the model, the others are what it has to find."""

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, as_features, reveal
from broadmatch.data.csr import offsets
from broadmatch.data.reveal import label_matrix
from broadmatch.errors import BadInput, BadParameter
from broadmatch.evaluate.bootstrap import Bootstrap
from broadmatch.evaluate.checks import weights
from broadmatch.evaluate.ranking import EvaluatedPoints, PerPoint, RankedTruth, at_cuts
from broadmatch.evaluate.report import Report, aligned, cut_offs
from broadmatch.params import Number, OneOf, Whole, clone

log = logging.getLogger("broadmatch")


@dataclass(frozen=True)
class WarmStartReport:
    """A `Report` for each share of revealed labels: `report.by_share[0.2]["PSP@5"].value`; `print(report)` is a table.

    `nothing_hidden` says for each share how many points had no hidden label, one number a seed: they do not count.
    `returned_revealed` is how often the model recommended a revealed label; these are taken out.
    """

    by_share: Mapping[float, Report]
    nothing_hidden: Mapping[float, tuple[int, ...]]
    returned_revealed: int
    n_points: int
    n_labels: int
    seeds: tuple[int, ...]
    protocol: str = "inductive"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the bootstrap samples, ready for JSON; the shares are in a list."""
        return {
            "shares": [
                {"share": share, "nothing_hidden": list(self.nothing_hidden[share]), **report.to_dict()}
                for share, report in self.by_share.items()
            ],
            "returned_revealed": self.returned_revealed,
            "n_points": self.n_points,
            "n_labels": self.n_labels,
            "seeds": list(self.seeds),
            "protocol": self.protocol,
        }

    def __str__(self) -> str:
        reports = list(self.by_share.values())
        rows = [["% with interval", *(f"{100 * share:g}% revealed" for share in self.by_share)]]
        for name in reports[0].metrics:
            found = [report[name] for report in reports]
            cells = [f"{100 * e.value:.2f} [{100 * e.low:.2f}, {100 * e.high:.2f}]" for e in found]
            rows.append([name, *cells])
        counted = [self.n_points - np.mean(self.nothing_hidden[share]) for share in self.by_share]
        rows.append(["points that count", *(f"{n:,.0f}" for n in counted)])
        lines = aligned(rows)
        lines.append(
            f"{self.n_points:,} points, {self.n_labels:,} labels, revealed with {_number(len(self.seeds), 'seed')}; "
            "points with nothing hidden do not count; "
            f"{reports[0].level:.0%} intervals from {reports[0].n_bootstrap:,} bootstrap samples of the points"
        )
        if self.protocol == "transductive":
            lines.append("transductive: a model was fitted for each share and seed, with the revealed labels added")
        if self.returned_revealed:
            lines.append(f"the model recommended {_number(self.returned_revealed, 'revealed label')}, taken out")
        return "\n".join(lines)


def warm_start_report(
    model: Any,
    X: Any,
    Y: Any,
    *,
    protocol: str = "inductive",
    training: tuple[Any, Any] | None = None,
    fit_params: Mapping[str, Any] | None = None,
    shares: Sequence[float] = (0.2, 0.4, 0.6, 0.8),
    seeds: Sequence[int] = (0, 1, 2),
    ks: Sequence[int] = (1, 3, 5),
    propensity: Any = None,
    sample_weight: Any = None,
    n_bootstrap: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> WarmStartReport:
    """How well a model finds the hidden labels of test points when a share of their labels is revealed to it.

    For each share and each of `seeds`, `reveal` splits Y, and what `predict_topk(X, k, revealed=…)` ranks is compared
    with the hidden labels alone: a revealed label that comes back is not a hit and takes no place. There are two
    protocols:

    - "inductive": `model` is fitted already, or a function that is called as `predict_topk` is. The revealed labels are
      given at prediction alone, as for points that arrive after training.
    - "transductive", as in the SwiftXML paper (Prabhu et al., WSDM 2018, §5): the test points are trained on with their
      revealed labels. For each share and seed a clone of the estimator `model` is fitted on `training`, a pair of X and
      Y, and the test points that have a revealed label; `fit_params` go to its `fit`.

    A point counts with each seed that leaves it a hidden label. Points are drawn for the intervals (by `seed`), with
    all seeds of a point together: more seeds make the value steadier, but do not pass for more points.

    >>> Y = CSR.from_rows([[0, 1], [1, 2], [0, 2], [3]], n_cols=4)
    >>> cheat = lambda X, k, revealed: Y
    >>> report = warm_start_report(cheat, np.eye(4), Y, shares=(0.5,), seeds=(0, 1), ks=(1,), n_bootstrap=50)
    >>> print(report.by_share[0.5]["P@1"])
    1.0000 [1.0000, 1.0000]
    """
    cuts, bootstrap = cut_offs(ks), Bootstrap(n_bootstrap, seed, level)
    _check_several("shares", shares, Number(0, 1))
    _check_several("seeds", seeds, Whole(0))
    labels = label_matrix(Y)
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if n_rows != labels.n_rows:
        raise BadInput(f"X has {n_rows:,} rows and Y has {labels.n_rows:,}; they must be the same points.")
    if not labels.nnz:
        raise BadInput("Y has no label at all; there is nothing to reveal and nothing to find.")
    weight = None if sample_weight is None else weights(sample_weight, n_rows)
    fitted = _fitting(model, protocol, training, fit_params or {}, X, labels)
    reports, nothing_hidden, returned = {}, {}, 0
    for share in shares:
        by_seed = []
        for s in seeds:
            revealed, hidden = reveal(labels, share, seed=s)
            found = fitted(revealed)(X, cuts[-1], revealed=revealed)
            ranked, again = _without(RankedTruth.of(hidden, found, weight), revealed)
            by_seed.append(ranked)
            returned += again
        reports[float(share)], nothing_hidden[float(share)] = _pooled(by_seed, cuts, propensity, bootstrap)
    if returned:
        log.warning("The model recommended revealed labels %d times; they were taken out.", returned)
    return WarmStartReport(reports, nothing_hidden, returned, labels.n_rows, labels.n_cols, tuple(seeds), protocol)


def _fitting(
    model: Any, protocol: str, training: tuple[Any, Any] | None, fit_params: Mapping[str, Any], X: Any, labels: CSR
) -> Callable[[CSR], Callable[..., Any]]:
    """A function of the revealed labels that gives `predict_topk`: of the model, or of a clone fitted with them."""
    OneOf(("inductive", "transductive")).check("protocol", protocol)
    if protocol == "inductive":
        if training is not None:
            raise BadParameter("training is for protocol='transductive'; an inductive model is fitted before.")
        return lambda revealed: getattr(model, "predict_topk", model)
    if training is None or not hasattr(model, "fit"):
        raise BadParameter("protocol='transductive' needs an estimator, and the points to fit it on: training=(X, Y).")
    X_train, Y_train, X_test = as_features(training[0]), label_matrix(training[1]), as_features(X)
    for name, ours, theirs in (("X", X_train, X_test), ("Y", Y_train, labels)):
        if ours.n_cols != theirs.n_cols:
            raise BadInput(f"{name} has {theirs.n_cols:,} columns, but {ours.n_cols:,} in training; give the same.")

    def fit(revealed: CSR) -> Callable[..., Any]:
        import scipy.sparse as sp

        some = np.flatnonzero(np.diff(revealed.indptr))
        pairs = (X_train, X_test.take(some)), (Y_train, revealed.take(some))
        both = (CSR.from_scipy(sp.vstack([above.to_scipy(), below.to_scipy()])) for above, below in pairs)
        predict: Callable[..., Any] = clone(model).fit(*both, **fit_params).predict_topk
        return predict

    return fit


def _pooled(
    by_seed: Sequence[RankedTruth], ks: Sequence[int], propensity: Any, bootstrap: Bootstrap
) -> tuple[Report, tuple[int, ...]]:
    """The metrics over all seeds, and how many points each seed left nothing to find.

    What a point contributes is added up: it counts as often as it has a hidden label. A mean over the seeds of each
    point would give a point that rarely has one the weight of a point that always has, and more so with more seeds.
    """
    first, hidden = by_seed[0], [ranked.n_true > 0 for ranked in by_seed]
    some = np.any(hidden, axis=0)
    if not some.any():
        raise BadInput("Every label is revealed, so that nothing is left to find; reveal a smaller share.")
    parts = [at_cuts(ranked, ks, propensity) for ranked in by_seed]
    weight = None if first.weight is None else first.weight[some]
    kept = {}
    for name in parts[0]:
        of_seeds = [part[name] for part in parts]
        most = [hidden[i][:, None] if one.denominator is None else one.denominator for i, one in enumerate(of_seeds)]
        sides = [one.numerator for one in of_seeds], most
        kept[name] = PerPoint(*(np.add.reduce(side, dtype=np.float64)[some] for side in sides)).weighted(weight)
    silent = [h & (ranked.n_predicted == 0) for ranked, h in zip(by_seed, hidden, strict=True)]
    truth = hashlib.sha256("".join(ranked.fingerprint() for ranked in by_seed).encode())
    points = EvaluatedPoints(int(some.sum()), first.n_labels, 0, int(np.any(silent, axis=0).sum()), truth.hexdigest())
    return Report.of(points, kept, bootstrap), tuple(int((~h).sum()) for h in hidden)


def _check_several(name: str, given: Sequence[float], rule: Number | Whole) -> None:
    for value in given:
        rule.check(name, value)
    if not given or len(set(given)) < len(given):
        raise BadParameter(f"{name} must be one or more different numbers, but it is {tuple(given)}.")


def _without(ranked: RankedTruth, revealed: CSR) -> tuple[RankedTruth, int]:
    """The ranking without the revealed labels, and how many of these there were."""
    taken = _places(revealed.indptr, revealed.indices, revealed.n_cols)
    kept = ~np.isin(_places(ranked.indptr, ranked.labels, revealed.n_cols), taken, assume_unique=True)
    return replace(ranked, indptr=offsets(kept)[ranked.indptr], labels=ranked.labels[kept]), int((~kept).sum())


def _places(indptr: NDArray[np.int64], labels: NDArray[np.int32], n_labels: int) -> NDArray[np.int64]:
    """One number for each entry: its row and its label."""
    rows = np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), np.diff(indptr))
    return rows * n_labels + labels


def _number(n: int, of_what: str) -> str:
    return f"{n:,} {of_what}{'' if n == 1 else 's'}"
