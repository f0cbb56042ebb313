"""Where to cut lists of scores: thresholds for F1, and the interval of precision and recall along a list."""

import math

import numpy as np

from broadmatch.kernels import F32, F64, I32, I64, Flags, kernel
from broadmatch.kernels.isotonic import probability_of


@kernel
def best_cut(
    scores: F32, right: Flags, start: int, stop: int, n_true: int, others_right: int, others_size: int
) -> tuple[int, int]:
    """The number c of first entries that maximises 2·(R + r_c) / (S + n_true + c), and r_c, the right ones among them.

    The entries start to stop fall by score, and equal scores are not parted. R right ones among the predictions of
    the other labels, and S their predicted and true ones together, stand beside: 0 and 0 for the F1 of this label
    alone. Of cuts that are equally good it is the shortest.
    """
    best, best_right, r = 0, 0, 0
    above, below = 2 * others_right, max(others_size + n_true, 1)
    for j in range(start, stop):
        if right[j]:
            r += 1
        if j + 1 < stop and scores[j + 1] == scores[j]:
            continue
        c = j + 1 - start
        f_above, f_below = 2 * (others_right + r), others_size + n_true + c
        if f_above * below > above * f_below:  # whole numbers: no rounding decides
            best, best_right, above, below = c, r, f_above, f_below
    return best, best_right


@kernel
def separate_cuts(ptr: I64, scores: F32, right: Flags, n_true: I64) -> tuple[I64, I64]:
    """The best cut of each label by its own F1, and the right ones in it: what maximises macro-F1.

    The entries of label l are ptr[l] to ptr[l+1].
    """
    n_labels = len(n_true)
    cuts, found = np.zeros(n_labels, np.int64), np.zeros(n_labels, np.int64)
    for label in range(n_labels):
        cuts[label], found[label] = best_cut(scores, right, ptr[label], ptr[label + 1], n_true[label], 0, 0)
    return cuts, found


@kernel
def cycled_cuts(ptr: I64, scores: F32, right: Flags, n_true: I64) -> tuple[I64, I64]:
    """Cuts for micro-F1: each label in turn gets its best cut beside those of the others, until none moves.

    It starts from the separate cuts. Micro-F1 never falls; where it stays, the predictions become fewer: so it ends.
    """
    cuts, found = separate_cuts(ptr, scores, right, n_true)
    all_right, size = found.sum(), cuts.sum() + n_true.sum()
    moved = True
    while moved:
        moved = False
        for label in range(len(n_true)):
            r, s = all_right - found[label], size - cuts[label] - n_true[label]
            cut, r_cut = best_cut(scores, right, ptr[label], ptr[label + 1], n_true[label], r, s)
            if cut != cuts[label]:
                moved = True
                cuts[label], found[label] = cut, r_cut
                all_right, size = r + r_cut, s + cut + n_true[label]
    return cuts, found


@kernel
def wilson_low(p: float, n: float, z: float) -> float:
    """The lower end of Wilson's interval: (p + z²/2n − z·√(p(1−p)/n + z²/4n²)) / (1 + z²/n)."""
    if n <= 0:
        return 0.0
    spread = z * math.sqrt(max(p * (1 - p), 0.0) / n + z * z / (4 * n * n))
    return (p + z * z / (2 * n) - spread) / (1 + z * z / n)


@kernel
def lower_ends(points: I64, scores: F32, right: Flags, n_true: I64, recall: bool, z: float) -> tuple[F64, F64]:
    """Precision (or recall) of the first j+1 entries, and the lower end of its interval; NaN between equal scores.

    p = Σh / Σd over points, h the right entries of a point so far, d its entries so far (for recall: its true labels).
    Entries of one point are not independent, so the interval is Wilson's with n = p(1−p)/v, at most Σd, where
    v = N/(N−1)·Σ(h − p·d)² / (Σd)² is the variance of a ratio over N points. Where v is 0, n is the number of points
    with d > 0.
    """
    n_points, n = len(n_true), len(points)
    values, lows = np.full(n, np.nan), np.full(n, np.nan)
    h, d = np.zeros(n_points), np.zeros(n_points)
    sum_hh, sum_hd, sum_dd, sum_h, sum_d, involved = 0.0, 0.0, 0.0, 0.0, 0.0, 0
    if recall:
        for i in range(n_points):
            d[i] = n_true[i]
            sum_d += d[i]
            sum_dd += d[i] * d[i]
            involved += n_true[i] > 0
    for j in range(n):
        i = points[j]
        if not recall:
            involved += d[i] == 0
            sum_dd += 2 * d[i] + 1
            sum_hd += h[i]
            sum_d += 1
            d[i] += 1
        if right[j]:
            sum_hh += 2 * h[i] + 1
            sum_hd += d[i]
            sum_h += 1
            h[i] += 1
        if (j + 1 < n and scores[j + 1] == scores[j]) or sum_d == 0:
            continue
        p = sum_h / sum_d
        spread = max(sum_hh - 2 * p * sum_hd + p * p * sum_dd, 0.0) * n_points / max(n_points - 1, 1)
        variance = spread / (sum_d * sum_d)
        # Sums of whole numbers are exact, but p is rounded: a spread below that rounding is none.
        size = min(p * (1 - p) / variance, sum_d) if spread > 1e-9 * sum_dd else float(involved)
        values[j], lows[j] = p, wilson_low(p, size, z)
    return values, lows


@kernel
def calibrate_labels(labels: I32, scores: F32, ptr: I64, x: F64, y: F64) -> F32:
    """The probability of each score by its label's line through the knots ptr[l] to ptr[l+1] of (x, y)."""
    out = np.empty(len(labels), np.float32)
    for j in range(len(labels)):
        start, stop = ptr[labels[j]], ptr[labels[j] + 1]
        out[j] = probability_of(float(scores[j]), x[start:stop], y[start:stop])
    return out
