"""Recommenders that know interactions alone: WRMF and BPR of `implicit`, nearest neighbours, and what is popular.

Each is a function of the revealed labels, called as `predict_topk` of a label model is. WRMF and BPR have to have seen
a point to recommend anything for it, so they are fitted anew on the labels of the training points and the revealed
labels of the test points: the protocol of the SwiftXML paper.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks.common import tell
from benchmarks.warm_start import neighbours
from benchmarks.warm_start.data import WarmStart
from benchmarks.warm_start.measure import Predict, figures
from broadmatch.data import CSR

GRID: dict[str, list[dict[str, Any]]] = {
    **neighbours.GRID,
    "WRMF": [
        {"factors": factors, "regularization": regularization, "alpha": alpha}
        for factors in (64, 256)
        for regularization in (0.1, 10.0)
        for alpha in (10.0, 40.0)
    ],
    "BPR": [
        {"factors": factors, "regularization": regularization, "learning_rate": 0.1, "iterations": iterations}
        for factors in (64, 256)
        for regularization in (0.001, 0.01, 0.05)
        for iterations in (100, 300)
    ],
}


def recommender(name: str, data: WarmStart, settings: dict[str, Any], *, seed: int = 0) -> Predict:
    """WRMF (Hu, Koren and Volinsky, ICDM 2008) or BPR (Rendle et al., UAI 2009), fitted at each call; or neighbours."""
    if name in neighbours.KINDS:
        return neighbours.KINDS[name](data, **settings)
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    kind = {"WRMF": AlternatingLeastSquares, "BPR": BayesianPersonalizedRanking}[name]
    before = data.train.Y.to_scipy() + data.known_train.to_scipy()

    def predict(X: Any, k: int, *, revealed: CSR) -> sp.csr_matrix:
        seen = revealed.to_scipy() + data.known_test.to_scipy()
        interactions = sp.vstack([before, seen], format="csr", dtype=np.float32)
        points = np.arange(before.shape[0], interactions.shape[0])
        with threadpool_limits(1, "blas"):  # implicit is slow with more
            # One thread: BPR with several gives other figures in each run.
            model = kind(**settings, num_threads=1, random_state=seed)
            model.fit(interactions, show_progress=False)
            best, _ = model.recommend(points, interactions[points], N=k, filter_already_liked_items=True)
        return _ranked(best, interactions.shape[1])

    return predict


def popularity(data: WarmStart) -> Predict:
    """The labels of the most training points, for every point alike."""
    counts = np.bincount(data.train.Y.indices, minlength=data.train.Y.n_cols)

    def predict(X: Any, k: int, *, revealed: CSR) -> sp.csr_matrix:
        seen = CSR.from_scipy(revealed.to_scipy() + data.known_test.to_scipy())
        most = int(np.diff(seen.indptr).max(initial=0))
        best = np.argsort(-counts, kind="stable")[: k + most]
        return _ranked(np.array([best[~np.isin(best, seen.row(i)[0])][:k] for i in range(seen.n_rows)]), len(counts))

    return predict


def tune(data: WarmStart, names: Sequence[str], *, shares: tuple[float, ...] = (0.2, 0.8)) -> dict[str, dict[str, Any]]:
    """The settings that do best on a fifth of the training points, by P@5 and PSP@5 relative to the best of each."""
    part, chosen = data.held_out(), {}
    for name in names:
        grid, found = GRID[name], []
        for settings in grid:
            measured = figures(recommender(name, part, settings), part, shares=shares, seeds=(0,))
            found.append([100 * measured.by_share[share][m].value for share in shares for m in ("P@5", "PSP@5")])
            tell(
                benchmark="warm_start tune",
                data=data.name,
                system=name,
                **settings,
                found=np.round(found[-1], 2).tolist(),
            )
        chosen[name] = grid[int(np.argmax((np.array(found) / np.max(found, axis=0)).mean(axis=1)))]
        tell(benchmark="warm_start tuned", data=data.name, system=name, **chosen[name])
    return chosen


def _ranked(best: Any, n_labels: int) -> sp.csr_matrix:
    """Rows of labels, best first, as scores k … 1: points × labels."""
    n, k = best.shape
    rows, scores = np.repeat(np.arange(n), k), np.tile(np.arange(k, 0, -1, dtype=np.float32), n)
    return sp.csr_matrix((scores, (rows, best.ravel())), shape=(n, n_labels))
