"""Inner loops of expansion: the best phrases of each list of seeds, and how many of the first are true."""

import numpy as np

from broadmatch.data.csr import CSR
from broadmatch.kernels import F32, F64, I32, I64, Flags, kernel
from broadmatch.kernels.top_k import keep_best, order_best


@kernel
def expand_lists(
    start: int,
    stop: int,
    lists: I64,
    seeds: I32,
    known: I32,
    scores: F64,
    arms: tuple[CSR, CSR, CSR, CSR],
    weights: F64,
    barred: Flags,
    labels: I32,
    values: F32,
    lengths: I64,
) -> None:
    """v(q') = w_0 s(q') + Σ_q s(q) Σ_a w_a P_a(q' | q) for the lists start..stop: the largest, best first.

    List i has the seeds from lists[i] to lists[i + 1]: their numbers, those of the query of which they have the rows of
    the arms (−1: of none), and scores. What is `barred` is left out; there are len(barred) numbers in all.
    """
    sums, touched = np.full(len(barred), -1.0), np.empty(len(barred), np.int32)
    best, worth = np.empty(labels.shape[1], np.int32), np.empty(labels.shape[1], np.float32)
    for i in range(start, stop):
        n = 0
        for at in range(lists[i], lists[i + 1]):
            n = _add(seeds[at], weights[0] * scores[at], sums, touched, n)
            row = known[at]
            if row < 0:
                continue
            for a in range(len(arms)):
                arm, weight = arms[a], weights[a + 1] * scores[at]
                for p in range(arm.indptr[row], arm.indptr[row + 1]):
                    n = _add(arm.indices[p], weight * arm.data[p], sums, touched, n)
        n_best = 0
        for t in range(n):
            value = np.float32(sums[touched[t]])
            sums[touched[t]] = -1.0
            if value > 0 and not barred[touched[t]]:
                n_best = keep_best(touched[t], float(value), best, worth, n_best)
        order_best(best, worth, n_best)
        labels[i, :n_best], values[i, :n_best], lengths[i] = best[:n_best], worth[:n_best], n_best


@kernel
def _add(label: int, value: float, sums: F64, touched: I32, n: int) -> int:
    if sums[label] < 0:
        sums[label], touched[n] = 0.0, label
        n += 1
    sums[label] += value
    return n


@kernel
def true_among_best(lists: I64, values: F64, true: Flags, k: int) -> tuple[int, float]:
    """How many of the k largest values of each list are true, over all lists, and Σ 1/log2(1 + place) over these."""
    hits, gain = 0, 0.0
    best, worth = np.empty(k, np.int32), np.empty(k, np.float64)
    for i in range(len(lists) - 1):
        n = 0
        for at in range(lists[i], lists[i + 1]):
            if values[at] > 0:
                n = keep_best(at, values[at], best, worth, n)
        order_best(best, worth, n)
        for place in range(n):
            if true[best[place]]:
                hits += 1
                gain += 1.0 / np.log2(place + 2.0)
    return hits, gain
