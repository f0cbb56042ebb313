"""Click metrics pair by pair, and sum by sum."""

import numpy as np


def ranking_losses(score, group, clicked, weight):
    """For each row, the share of the other class of its group, by weight, that stands on its wrong side; ties half."""
    losses = np.zeros(len(score))
    for i in range(len(score)):
        wrong = total = 0.0
        for j in range(len(score)):
            if group[i] == group[j] and clicked[i] != clicked[j]:
                above = score[j] > score[i] if clicked[i] else score[j] < score[i]
                wrong += weight[j] * (1.0 if above else 0.5 if score[j] == score[i] else 0.0)
                total += weight[j]
        losses[i] = wrong / total if total > 0 else 0.0
    return losses


def auc_loss(score, clicked, weight):
    """The share of pairs (clicked, not clicked), by weight, in the wrong order; ties count half."""
    wrong = total = 0.0
    for i in np.flatnonzero(clicked):
        for j in np.flatnonzero(~clicked):
            pair = weight[i] * weight[j]
            wrong += pair * (1.0 if score[j] > score[i] else 0.5 if score[j] == score[i] else 0.0)
            total += pair
    return wrong / total if total > 0 else np.nan


def paired_moments(cell, weight, a, b, n_cells):
    """n, Σw, Σw², Σwa, Σw²a, Σw²a², Σwd, Σw²d², Σw²db of each cell."""
    rows = []
    for c in range(n_cells):
        w, x, y = weight[cell == c], a[cell == c], b[cell == c]
        d = x - y
        terms = [np.ones_like(w), w, w**2, w * x, w**2 * x, w**2 * x**2, w * d, w**2 * d**2, w**2 * d * y]
        rows.append([t.sum() for t in terms])
    return np.array(rows)


def calibration_error(clicked, probability, weight, n_bins):
    """Σ_b W_b·|mean p − mean y| / W; a distinct p goes whole to the bin where the middle of its mass lies.

    At the edge of two bins, within what rounding may move it, that is the upper one.
    """
    total = weight.sum()
    sums = np.zeros((n_bins, 2))
    before = 0.0
    for p in np.unique(probability):
        here = probability == p
        mass = weight[here].sum()
        bin_of_p = min(int(n_bins * (before + mass / 2) / total + 1e-9), n_bins - 1)
        sums[bin_of_p] += p * mass, (weight * clicked)[here].sum()
        before += mass
    return np.abs(sums[:, 0] - sums[:, 1]).sum() / total


def delong(score_a, score_b, clicked):
    """(loss a, loss b, variance of a, covariance, variance of b) after DeLong et al. (1988), equal weights."""
    pos, neg = np.flatnonzero(clicked), np.flatnonzero(~clicked)
    v10, v01 = [], []
    for s in (score_a, score_b):
        psi = (s[pos][:, None] < s[neg][None, :]) + 0.5 * (s[pos][:, None] == s[neg][None, :])
        v10.append(psi.mean(axis=1))
        v01.append(psi.mean(axis=0))
    s = np.cov(np.array(v10)) / len(pos) + np.cov(np.array(v01)) / len(neg)
    return v10[0].mean(), v10[1].mean(), s[0, 0], s[0, 1], s[1, 1]
