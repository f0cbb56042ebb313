"""Scores to probabilities, in plain Python: the line through the knots, rising beyond them."""

import math

import numpy as np


def probability(score, x, y):
    width = x[-1] - x[0] if len(x) > 1 else 1.0
    if score < x[0]:
        return y[0] * math.exp((score - x[0]) / width)
    if score > x[-1]:
        return 1 - (1 - y[-1]) * math.exp(-(score - x[-1]) / width)
    return float(np.interp(score, x, y))


def pooled(x, right):
    """Isotonic regression: steps of (mean score, share that is right), pooled while a step is not above the last."""
    steps = [(value, right[x == value].mean(), float((x == value).sum())) for value in np.unique(x)]
    done = []
    for step in steps:
        done.append(step)
        while len(done) > 1 and done[-1][1] <= done[-2][1]:
            (a, p, n), (b, q, m) = done[-2:]
            done[-2:] = [((n * a + m * b) / (n + m), (n * p + m * q) / (n + m), n + m)]
    return done
