"""The cells of a grid one by one: each slice's rows alone, each pair of models by the linear part of its difference."""

import numpy as np

from tests.reference.click_metrics import auc_loss, ranking_losses

METRICS = ("AucLoss", "LogLoss", "SquaredError", "Bias")


def value(metric, y, p, w):
    """One metric of one model on some rows."""
    if metric == "AucLoss":
        return auc_loss(p, y, w)
    if metric == "Bias":
        return (w * p).sum() / (w * y).sum() - 1 if y.any() else np.nan
    return (w * parts(metric, y, p, w)).sum() / w.sum()


def parts(metric, y, p, w):
    """What each row adds to the metric."""
    if metric == "AucLoss":
        return ranking_losses(p, np.zeros(len(p), int), y, w)
    if metric == "LogLoss":
        return -np.log(np.clip(np.where(y, p, 1 - p), 2.0**-24, 1 - 2.0**-24))
    return (p - y) ** 2 if metric == "SquaredError" else p


def paired_error(metric, y, p, q, w):
    """The standard error of value(p) − value(q): the root of Σ (a row's share of the difference)², times n/(n − 1)."""
    d = parts(metric, y, p, w) - parts(metric, y, q, w)
    if metric == "AucLoss":
        if not y.any() or y.all():
            return np.nan
        D = (w * d)[y].sum() / w[y].sum()
        return np.sqrt(sum(_square(w[k] * (d[k] - D) / w[k].sum()) for k in (y, ~y)))
    below = w * y if metric == "Bias" else w
    if not below.sum():
        return np.nan
    D = (w * d).sum() / below.sum()
    return np.sqrt(_square((w * d - D * below) / below.sum()))


def _square(shares):
    n = len(shares)
    return (shares**2).sum() * n / (n - 1) if n > 1 else np.nan


def reliability(y, p, w, n_bins):
    """(mean prediction, click rate, share of the weight) by bin; a score goes to where its mass has its middle."""
    found = np.full((3, n_bins), np.nan)
    bin_of = np.empty(len(p), int)
    before = 0.0
    for score in np.unique(p):
        mass = w[p == score].sum()
        bin_of[p == score] = min(int(n_bins * (before + mass / 2) / w.sum() + 1e-9), n_bins - 1)
        before += mass
    for b in set(bin_of.tolist()):
        here = bin_of == b
        mass = w[here].sum()
        found[:, b] = (w * p)[here].sum() / mass, (w * y)[here].sum() / mass, mass / w.sum()
    return found


def discoveries(p, q):
    """Benjamini and Hochberg, by trying every bound."""
    known = sorted(x for x in p if not np.isnan(x))
    bound = max((x for i, x in enumerate(known, 1) if x <= q * i / len(known)), default=-1)
    return [bool(x <= bound) for x in p]
