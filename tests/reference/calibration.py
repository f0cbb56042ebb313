"""Calibration, slow and by the book (McMahan et al., KDD 2013, §7)."""

import math

import numpy as np

FLOOR = 1e-9


def bin_of(p, low, per_unit, n_bins):
    """The bin of p: equal widths in the log-odds, the outer bins open."""
    if p == 0:
        return 0
    if p == 1:
        return n_bins - 1
    return int(np.clip(math.floor((math.log(p) - math.log1p(-p) - low) * per_unit), 0, n_bins - 1))


def sums(scale, probability, clicked, weight, slots, n_slots, half_life=None):
    """Σω, Σω·y, Σω·p by slice and bin; at the end, an impression counts half if half_life others came after it."""
    out = np.zeros((n_slots, scale.n_bins, 3))
    for i, (p, y, w) in enumerate(zip(probability, clicked, weight, strict=True)):
        fade = 0.5 ** ((len(probability) - i) / half_life) if half_life else 1.0
        for slot in slots[i]:
            out[slot, bin_of(p, *scale)] += fade * w * np.array([1, y, p])
    return out


def power(weight, clicks, p):
    """(log γ, κ) that minimise the Poisson deviance of clicks ~ weight·γ·p^κ, by SciPy, κ from 0 to 10."""
    from scipy.optimize import minimize

    x = np.log(np.maximum(p, FLOOR))

    def loss(theta):
        rate = np.exp(theta[0] + theta[1] * x)
        left = weight * rate - clicks
        return (weight * rate - clicks * np.log(rate)).sum(), np.array([left.sum(), (left * x).sum()])

    start = [math.log(clicks.sum() / weight.sum()), 0.5]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(None, None), (0, 10)], tol=1e-15)
    return found.x


def pooled(rate, weight):
    """Isotonic regression from its min-max formula: y_i = max over a ≤ i of min over b ≥ i of the mean of a … b."""
    n = len(rate)

    def mean(a, b):
        return np.average(rate[a : b + 1], weights=weight[a : b + 1])

    return np.array([max(min(mean(a, b) for b in range(i, n)) for a in range(i + 1)) for i in range(n)])


def groups(weight, clicks, predicted, expected, least):
    """Neighbouring bins joined until each group expects `least` clicks, the rest with the last group."""
    found, current = [], []
    for b in range(len(weight)):
        if weight[b] > 0:
            current.append(b)
        if current and sum(expected[c] for c in current) >= least:
            found.append(current)
            current = []
    if current and found:
        found[-1] += current
    elif current:
        found.append(current)
    return [(weight[g].sum(), clicks[g].sum(), predicted[g].sum()) for g in found]


def slice_factor(clicks, expected, strength):
    """(C + s)/(E + s): the mean of a Gamma(s + C, s + E), the posterior of a Gamma(s, s) after C clicks of E."""
    return (strength + clicks) / (strength + expected)
