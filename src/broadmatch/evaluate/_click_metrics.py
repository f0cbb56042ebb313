"""Click metrics over many groups of impressions at once: pairs that stand in the wrong order, and paired moments.

A `cell` is a class of a group: 2·group for what was not clicked, 2·group + 1 for what was.
"""

import numpy as np

from broadmatch.kernels import F64, I64, U64, Flags, kernel

MOMENTS = 9
"""Columns of `paired_moments`: n, Σw, Σw², Σwa, Σw²a, Σw²a², Σwd, Σw²d², Σw²db."""


@kernel
def ranking_losses(ranked: U64, group: I64, n_groups: int, clicked: Flags, weight: F64) -> F64:
    """How much of the other class, by weight and within its group, stands on the wrong side of each row.

    For a clicked row i: c_i = (Σ_{j: not clicked, s_j > s_i} w_j + ½ Σ_{j: not clicked, s_j = s_i} w_j) / Σ_{j: not
    clicked} w_j, and for one that is not, the same over the clicked rows with s_j < s_i: one minus DeLong's placement
    values. `ranked` holds 2³²·score + row, sorted. 0 where the other class is empty.
    """
    n = len(ranked)
    starts = np.zeros(n_groups + 1, np.int64)
    for i in range(n):
        starts[group[i] + 1] += 1
    for g in range(n_groups):
        starts[g + 1] += starts[g]
    # One stable counting sort brings the rows of a group together, and keeps them in the order of their scores.
    place = starts[:-1].copy()
    within = np.empty(n, np.uint64)
    signed = np.empty(n, np.float64)
    for i in range(n):
        row = np.int64(ranked[i] & np.uint64(0xFFFFFFFF))
        at = place[group[row]]
        place[group[row]] += 1
        within[at] = ranked[i]
        signed[at] = weight[row] if clicked[row] else -weight[row]
    losses = np.zeros(n, np.float64)
    for g in range(n_groups):
        _losses_of_a_group(within[starts[g] : starts[g + 1]], signed[starts[g] : starts[g + 1]], losses)
    return losses


@kernel
def _losses_of_a_group(ranked: U64, signed: F64, losses: F64) -> None:
    """`ranking_losses` of one group: upwards with the clicked weight below, downwards with the other above."""
    n = len(ranked)
    clicked_below = 0.0
    not_clicked = 0.0
    i = 0
    while i < n:
        j, tied = i, 0.0
        while j < n and ranked[j] >> np.uint64(32) == ranked[i] >> np.uint64(32):
            if signed[j] > 0:
                tied += signed[j]
            else:
                not_clicked -= signed[j]
            j += 1
        for k in range(i, j):
            if signed[k] < 0:
                losses[np.int64(ranked[k] & np.uint64(0xFFFFFFFF))] = clicked_below + tied / 2
        clicked_below += tied
        i = j
    above = 0.0
    i = n - 1
    while i >= 0:
        j, tied = i, 0.0
        while j >= 0 and ranked[j] >> np.uint64(32) == ranked[i] >> np.uint64(32):
            if signed[j] < 0:
                tied -= signed[j]
            j -= 1
        for k in range(j + 1, i + 1):
            row = np.int64(ranked[k] & np.uint64(0xFFFFFFFF))
            if signed[k] > 0 and not_clicked > 0:
                losses[row] = (above + tied / 2) / not_clicked
            elif signed[k] < 0 and clicked_below > 0:
                losses[row] /= clicked_below
        above += tied
        i = j


@kernel
def paired_moments(cell: I64, weight: F64, a: F64, b: F64, moments: F64) -> None:
    """Add n, Σw, Σw², Σwa, Σw²a, Σw²a², Σwd, Σw²d² and Σw²db of each cell to `moments`, with d = a − b.

    The moments of d, not those of a and b side by side: two models that hardly differ would cancel to noise.
    """
    for i in range(len(cell)):
        w, x, y = weight[i], a[i], b[i]
        d = x - y
        m = moments[cell[i]]
        m[0] += 1
        m[1] += w
        m[2] += w * w
        m[3] += w * x
        m[4] += w * w * x
        m[5] += w * w * x * x
        m[6] += w * d
        m[7] += w * w * d * d
        m[8] += w * w * d * y


@kernel
def pair_moments(cell: I64, weight: F64, values: F64, first: I64, second: I64, moments: F64) -> None:
    """Add Σwd, Σw²d and Σw²d² of each cell to moments[cell, pair], with d = values[first] − values[second] of a row.

    Each pair by its own d, for the reason of `paired_moments`.
    """
    for i in range(len(cell)):
        w, m = weight[i], moments[cell[i]]
        for k in range(len(first)):
            d = values[first[k], i] - values[second[k], i]
            wd = w * d
            m[k, 0] += wd
            m[k, 1] += w * wd
            m[k, 2] += wd * wd


@kernel
def reliability_sums(ranked: U64, group: I64, n_groups: int, clicked: Flags, weight: F64, p: F64, n_bins: int) -> F64:
    """Σw, Σwp and Σwy of each group and bin: groups × bins × 3, bins of equal mass as `equal_mass_bins` makes them.

    `ranked` holds 2³²·score + row, sorted. Rows of one score of a group go together to where the middle of their mass
    falls.
    """
    total = np.zeros(n_groups, np.float64)
    for i in range(len(group)):
        total[group[i]] += weight[i]
    below = np.zeros(n_groups, np.float64)
    tied = np.zeros(n_groups, np.float64)
    sums = np.zeros((n_groups, n_bins, 3), np.float64)
    i = 0
    while i < len(ranked):
        j = i
        while j < len(ranked) and ranked[j] >> np.uint64(32) == ranked[i] >> np.uint64(32):
            row = np.int64(ranked[j] & np.uint64(0xFFFFFFFF))
            tied[group[row]] += weight[row]
            j += 1
        for k in range(i, j):
            row = np.int64(ranked[k] & np.uint64(0xFFFFFFFF))
            g = group[row]
            place = int(n_bins * (below[g] + tied[g] / 2) / total[g] + 1e-9)
            into = sums[g, place if place < n_bins else n_bins - 1]
            into[0] += weight[row]
            into[1] += weight[row] * p[row]
            into[2] += weight[row] * clicked[row]
        for k in range(i, j):
            g = group[np.int64(ranked[k] & np.uint64(0xFFFFFFFF))]
            below[g] += tied[g]
            tied[g] = 0.0
        i = j
    return sums


@kernel
def add_to_histogram(cell: I64, score_bin: I64, weight: F64, histogram: F64) -> None:
    """Add the weight of each row to histogram[cell, bin]."""
    for i in range(len(cell)):
        histogram[cell[i], score_bin[i]] += weight[i]


@kernel
def histogram_losses(histogram: F64) -> tuple[F64, F64]:
    """`ranking_losses` of each (cell, bin), rows of a bin as tied, and the most that the ties can hide, for each group.

    With q_b and p_b the weight in bin b that was clicked and that was not: error ≤ Σ_b p_b·q_b / (2·Σp·Σq).
    """
    n_groups, n_bins = len(histogram) // 2, histogram.shape[1]
    losses = np.zeros_like(histogram)
    errors = np.zeros(n_groups, np.float64)
    for g in range(n_groups):
        not_clicked, clicked = histogram[2 * g], histogram[2 * g + 1]
        below = 0.0
        for b in range(n_bins):
            losses[2 * g, b] = below + clicked[b] / 2
            below += clicked[b]
        above = 0.0
        for b in range(n_bins - 1, -1, -1):
            losses[2 * g + 1, b] = above + not_clicked[b] / 2
            above += not_clicked[b]
        if below > 0 and above > 0:
            tied = 0.0
            for b in range(n_bins):
                losses[2 * g, b] /= below
                losses[2 * g + 1, b] /= above
                tied += clicked[b] * not_clicked[b]
            errors[g] = tied / (2 * below * above)
    return losses, errors
