"""How much each arm of an expansion counts, learned from lists whose true phrases are known."""

import numpy as np
import scipy.sparse as sp

from broadmatch.ads.expansion._expand import true_among_best
from broadmatch.data.csr import CSR, offsets
from broadmatch.kernels import F64, I32, I64, Flags

_STEPS = (0.0, 1 / 8, 1 / 4, 1 / 2, 1 / 2**0.5, 2**0.5, 2.0, 4.0, 8.0)
_SWEEPS = 20


class ArmCandidates:
    """The phrases that any arm gives for each list, with what each arm says of them (seeds first), and which are true.

    `seeds` and `known` are scores of lists × phrases, by the seed's own number and by that of the query it stands for;
    `true` are pairs of a list and a phrase.
    """

    def __init__(self, seeds: CSR, known: CSR, arms: tuple[CSR, ...], true: tuple[I64, I64]) -> None:
        n = seeds.n_cols
        rows = known.to_scipy().astype(np.float64)
        found = [seeds.to_scipy().tocoo()]
        for arm in arms:
            wide = sp.csr_matrix((arm.data, arm.indices, arm.indptr), shape=(arm.n_rows, n))
            found.append((rows[:, : arm.n_rows] @ wide).tocoo())
        keys = [part.row.astype(np.int64) * n + part.col for part in found]
        union = np.unique(np.concatenate(keys))
        self.says = np.zeros((len(union), len(found)))
        for column, (key, part) in enumerate(zip(keys, found, strict=True)):
            self.says[np.searchsorted(union, key), column] = part.data
        self.lists = offsets(np.bincount(union // n, minlength=seeds.n_rows))
        self.true: Flags = np.isin(union, true[0] * n + true[1])

    def worth(self, weights: F64, k: int) -> tuple[int, float]:
        """True phrases among the k best of each list, over all lists; where these are equal, those in better places."""
        return true_among_best(self.lists, self.says @ weights, self.true, k)


def learn_weights(candidates: ArmCandidates, usable: Flags, k: int) -> F64:
    """Weights of at least 0, the largest of them 1, that bring the most true phrases among the k best.

    A search along one weight after the other, from the best of equal weights and of each arm alone, with and without
    the seeds; so these are never better on the same lists.
    """
    n = len(usable)
    starts = [usable.astype(float), *(np.eye(n)[a] for a in np.flatnonzero(usable))]
    starts += [np.eye(n)[0] + np.eye(n)[a] for a in np.flatnonzero(usable) if a]
    best: F64 = max(starts, key=lambda weights: candidates.worth(weights, k))
    most = candidates.worth(best, k)
    for _ in range(_SWEEPS):
        before = most
        for a in np.flatnonzero(usable):
            for step in _STEPS:
                tried = best.copy()
                tried[a] = step * (best[a] or best.max())
                if tried.any() and (worth := candidates.worth(tried, k)) > most:
                    best, most = tried, worth
        if most == before:
            break
    return np.asarray(best / best.max())


def lists_matrix(lists: I64, phrases: I32, scores: F64, n: int) -> CSR:
    """Scores of lists × phrases; −1 is no phrase, and phrases that meet are added up."""
    kept = phrases >= 0
    row = np.repeat(np.arange(len(lists) - 1), np.diff(lists))[kept]
    return CSR.from_scipy(sp.csr_matrix((scores[kept], (row, phrases[kept])), shape=(len(lists) - 1, n)))
