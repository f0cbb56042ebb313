"""One-vs-rest beside its goals and the peers: python -m benchmarks.one_vs_rest [PART …] [--small]

eurlex     EURLex-4K in its own split: P@k, PSP@k, training, one row at a time, size on disk; omikuji's Bonsai in the
           same run, taking turns, and the better time of each counts.
debian     the same on Debian dependencies.
logistic   EURLex-4K with the logistic loss.
agreement  EURLex-4K: some labels by scikit-learn's LinearSVC too, on the same unit rows: objectives, scores, the share
           of test points whose five best labels are the same, and the seconds it takes; with the default tolerance,
           and with one that settles ranks among labels that a point hardly has.

c and tail were chosen for each data set on a part of its training points; all else has its default. Figures of
scikit-learn's one-vs-rest are of another day (two processes).
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from benchmarks.common import need_data, tell
from benchmarks.mlrf import BONSAI, peer
from benchmarks.ranking_trees import data, latency, megabytes, rankings, timed_fit
from broadmatch.data import CSR, Dataset
from broadmatch.labels import OneVsRest

GOALS: dict[str, dict[str, Any]] = {
    "eurlex-4k": {
        "P": (83.7, 70.7, 59.0),
        "PSP@5": 50.7,
        "scikit-learn LinearSVC": {"P": (83.75, 70.71, 59.09), "PSP": (37.60, 46.20, 50.79), "fit_s": 476},
    },
    "debian-deps": {},
}


SETTINGS: dict[str, dict[str, float]] = {"eurlex-4k": {"tail": 0.03}, "debian-deps": {"c": 0.5, "tail": 0.015}}


def model_for(small: bool, **settings: Any) -> OneVsRest:
    return OneVsRest(n_jobs=1 if small else None, **settings)


def compile_kernels(train: Dataset, **settings: Any) -> None:
    """Fit a few points, so that no time measured later holds the compiler's."""
    few = train.take(np.arange(50))
    model = OneVsRest(n_jobs=1, **settings).fit(few.X, few.Y)
    model.predict_one(few.X.row(0))
    model.predict_topk(few.X)


def beside_bonsai(name: str, small: bool) -> None:
    """Ours and the peer's, in turns."""
    train, test = data(name, small)
    compile_kernels(train)
    ours, theirs, other = float("inf"), float("inf"), None
    model = model_for(small, **SETTINGS[name])
    for _ in range(1 if small else 2):
        ours = min(ours, timed_fit(model, train))
        other = peer(train, test, BONSAI)
        theirs = min(theirs, other["fit_s"]) if other else theirs
    tell(benchmark="one_vs_rest", data=name, small=small, **SETTINGS[name], fit_s=ours, **rankings(model, train, test),
         **latency(model, test), model_mb=megabytes(model), goals=GOALS[name])  # fmt: skip
    if other:
        tell(benchmark="one_vs_rest", data=name, small=small, peer="omikuji Bonsai", **other | {"fit_s": theirs},
             fit_to_peer=ours / theirs)  # fmt: skip


def logistic(small: bool) -> None:
    """The other loss."""
    train, test = data("eurlex-4k", small)
    compile_kernels(train, loss="logistic")
    model = model_for(small, loss="logistic")
    seconds = timed_fit(model, train)
    tell(benchmark="one_vs_rest logistic", data="eurlex-4k", small=small, fit_s=seconds,
         **rankings(model, train, test), **latency(model, test), model_mb=megabytes(model))  # fmt: skip


def agreement(small: bool) -> None:
    """The same labels by both, one thread each."""
    train, test = data("eurlex-4k", small)
    seen = np.flatnonzero(np.bincount(train.Y.indices, minlength=train.Y.n_cols))
    labels = np.sort(np.random.default_rng(0).permutation(seen)[: 20 if small else 200])
    some = CSR.from_scipy(train.Y.to_scipy()[:, labels])
    X, has = normalize(train.X.to_scipy()), some.to_scipy().toarray() > 0
    start = time.perf_counter()
    peers = [LinearSVC().fit(X, has[:, j]) for j in range(len(labels))]
    theirs = time.perf_counter() - start
    W = np.array([np.append(p.coef_[0], p.intercept_[0]) for p in peers])
    least = np.array([objective(X, has[:, j], W[j]) for j in range(len(labels))])
    scores = normalize(test.X.to_scipy()) @ W[:, :-1].T + W[:, -1]
    compile_kernels(train)
    for tolerance in (OneVsRest().tolerance, 0.0003):
        start = time.perf_counter()
        model = OneVsRest(damped=False, prune=0, tolerance=tolerance, n_jobs=1).fit(train.X, some)
        ours = time.perf_counter() - start
        own = np.column_stack([model.weights_.to_scipy().toarray().T, model.bias_]).astype(np.float64)
        over = np.array([objective(X, has[:, j], own[j]) for j in range(len(labels))]) / least - 1
        said = model.decision_function(test.X)
        tell(benchmark="one_vs_rest agreement", small=small, labels=len(labels), tolerance=tolerance,
             objective_over_linear_svc_worst=float(over.max()),
             objective_over_linear_svc_median=float(np.median(over)),
             score_difference_worst=float(np.abs(scores - said).max()), same_best_label=same(scores, said, 1),
             same_five_best=same(scores, said, 5), fit_s=ours, linear_svc_fit_s=theirs,
             times_as_fast=theirs / ours)  # fmt: skip


def objective(X: sp.csr_matrix, has: NDArray[np.bool_], w: NDArray[np.float64]) -> float:
    """½‖w‖² + Σ_i max(0, 1 − y_i w·x_i)², the bias being the last weight."""
    short = np.maximum(0, 1 - np.where(has, 1, -1) * (X @ w[:-1] + w[-1]))
    return float(w @ w / 2 + short @ short)


def same(first: NDArray[Any], second: NDArray[Any], k: int) -> float:
    """The share of the points whose k best labels are the same by both."""
    best = [np.sort(np.argsort(-scores, axis=1, kind="stable")[:, :k]) for scores in (first, second)]
    return float((best[0] == best[1]).all(axis=1).mean())


PARTS: dict[str, Callable[[bool], None]] = {
    "eurlex": lambda small: beside_bonsai("eurlex-4k", small),
    "debian": lambda small: beside_bonsai("debian-deps", small),
    "logistic": logistic,
    "agreement": agreement,
}


def main() -> None:
    """Run the parts that are asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of: {', '.join(PARTS)}")
    parser.add_argument("--small", action="store_true", help="a first look: few points and labels, one thread")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    need_data()
    for part in asked.parts or PARTS:
        PARTS[part](asked.small)


if __name__ == "__main__":
    main()
