"""§6 and figure 3: u(x) of the serving model against the error in log-odds, beside a bootstrap of 32 models."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from benchmarks.clicks_tables.measures import Figures
from benchmarks.clicks_tables.streams import TUNING, Stream
from broadmatch.clicks import FTRL
from broadmatch.data import Impressions

N_MODELS = 32
N_PARTS = 10
"""The serving model is refreshed after each tenth of the stream."""
EVERY = 5
"""Every fifth row after the tuning part is measured."""
N_QUANTILES = 25
TRUTH = {
    "reddit": (("hour",), ("weekday", "subreddit_is_self")),
    "log": (("f19", "f12"), ("f2_f3", "f1_f5")),
}
"""Signals that the true model lacks, and those that it has beyond the usual ones."""


def relabelled(stream: Stream, alpha: float) -> tuple[Impressions, NDArray[np.float64]]:
    """The stream with clicks drawn from a model of it that has slightly different signals, and the true log-odds."""
    without, beyond = TRUTH[stream.name]
    features = stream.only([*(n for n in stream.usual_signals if n not in without), *beyond])
    model = FTRL(alpha=alpha)
    model.learn_many(features)
    true = np.clip(model.predict_many(features), 1e-6, 1 - 1e-6)
    clicked = np.random.default_rng(0).random(len(true)) < true
    return stream.usual._replace(clicked=clicked.astype(np.float32)), log_odds(true)


def log_odds(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """log p / (1 − p), of probabilities kept off 0 and 1."""
    p = np.clip(p, 1e-9, 1 - 1e-9)
    return np.log(p / (1 - p))


def uncertainty(stream: Stream, alpha: float, tell: Callable[..., None]) -> Figures:
    """The stream relabelled as in §6 and, where its truth is known, as it is."""
    found = {"relabelled": correlations(*relabelled(stream, alpha), alpha, tell)}
    if stream.truth is not None:
        found["own truth"] = correlations(stream.usual, log_odds(stream.truth), alpha, tell)
    return found


def correlations(data: Impressions, true: NDArray[np.float64], alpha: float, tell: Callable[..., None]) -> Figures:
    """Rank correlation of |log-odds error| with u(x), and with the spread of a bootstrap, on the same rows."""
    from scipy.stats import spearmanr

    edges = np.linspace(0, data.n_rows, N_PARTS + 1).astype(int)
    first = int(np.ceil(TUNING * N_PARTS))
    asked = [data.take(np.arange(a, b, EVERY)) for a, b in pairwise(edges)]
    truth = np.concatenate([true[a:b:EVERY] for a, b in pairwise(edges[first:])])

    model = FTRL(alpha=alpha)
    u, guesses = [], []
    for part in range(N_PARTS):
        if part >= first:
            served = model.to_serving()
            u.append(served.uncertainty_many(asked[part]))
            guesses.append(log_odds(served.predict_many(asked[part])))
        model.learn_many(data.between(int(edges[part]), int(edges[part + 1])))
    score = np.concatenate(u)
    error = np.abs(np.concatenate(guesses) - truth)
    spread = bootstrap_spread(data, asked, edges, first, alpha, tell)
    own, theirs = (float(spearmanr(x, error).statistic) for x in (score, spread))
    tell(u=own, bootstrap=theirs, ratio=own / theirs)
    return {
        "u": own,
        "bootstrap": theirs,
        "ratio": own / theirs,
        "rows": len(error),
        "figure": {"u": percentiles(score, error), "bootstrap": percentiles(spread, error)},
    }


def bootstrap_spread(
    data: Impressions,
    asked: list[Impressions],
    edges: NDArray[np.int64],
    first: int,
    alpha: float,
    tell: Callable[..., None],
) -> NDArray[np.float64]:
    """The deviation of the log-odds of 32 models, each trained with Poisson(1) weights of its own."""
    n = sum(part.n_rows for part in asked[first:])
    total, squares = np.zeros(n), np.zeros(n)
    for seed in range(N_MODELS):
        weight = np.random.default_rng(1 + seed).poisson(1.0, data.n_rows).astype(np.float32)
        given, model, guesses = data._replace(weight=weight), FTRL(alpha=alpha), []
        for part in range(N_PARTS):
            if part >= first:
                guesses.append(log_odds(model.predict_many(asked[part])))
            if part < N_PARTS - 1:  # nothing is asked after the last part
                model.learn_many(given.between(int(edges[part]), int(edges[part + 1])))
        guess = np.concatenate(guesses)
        total += guess
        squares += guess**2
    tell(bootstrap_models=N_MODELS)
    mean = total / N_MODELS
    return np.sqrt(np.maximum(squares / N_MODELS - mean**2, 0.0))


def percentiles(score: NDArray[np.float64], error: NDArray[np.float64]) -> list[list[float]]:
    """The 25 %, 50 % and 75 % percentiles of the error by quantile of the score."""
    parts = np.array_split(error[np.argsort(score, kind="stable")], N_QUANTILES)
    return [np.percentile(part, [25, 50, 75]).tolist() for part in parts]
