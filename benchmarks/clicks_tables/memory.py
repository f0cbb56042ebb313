"""Table 2 (§4.1), numbers of 16 bits (§4.2) and rates from counts (§4.5)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.clicks_tables.measures import ALPHAS, Figures, bytes_by_features, compared, learn, tuned
from benchmarks.clicks_tables.streams import Stream
from broadmatch.clicks import FTRL, Bloom, Poisson
from broadmatch.data import Impressions

IN_RANGE = 3.0
ENCODED = (
    ("64 bits", "float64", 0),
    ("32 bits", "float32", 0),
    ("q2.13", "q2.13", 0),
    ("q2.13, second seed", "q2.13", 1),
    ("q2.13, third seed", "q2.13", 2),
)
_BYTES = {"float64": 8, "float32": 4, "q2.13": 2}


def inclusion(stream: Stream, alpha: float, tell: Callable[..., None]) -> Figures:
    """Bloom filters and Poisson inclusion against a model that takes in every feature."""
    span = max(1024, 1 << (stream.n_rows // 8 - 1).bit_length())
    rules: dict[str, Any] = {
        "all features": None,
        "Bloom (n = 2)": Bloom(2, span=span),
        "Bloom (n = 1)": Bloom(1, span=span),
        "Poisson (p = 0.03)": Poisson(0.03),
        "Poisson (p = 0.1)": Poisson(0.1),
    }
    predictions, sizes = {}, {}
    for name, rule in rules.items():
        learner = FTRL(alpha=alpha, inclusion=rule)
        predictions[name], seconds = learn(learner, stream.usual)
        sizes[name] = {
            "features": learner.n_features,
            "bytes_by_features": bytes_by_features(learner),
            "nbytes": learner.nbytes,
            "filter_bytes": learner.nbytes - learner.table_.nbytes,
        }
        tell(rule=name, seconds=seconds, **sizes[name])
    return {"rows": [row | sizes[row["model"]] for row in compared(stream, predictions)], "span": span}


def encodings(stream: Stream, alpha: float, tell: Callable[..., None]) -> Figures:
    """q2.13 and 32 bits against 64 bits, with three seeds of the randomised rounding.

    Then again without the impressions of features whose coefficients q2.13 cannot hold: they end near ±4 or beyond.
    """
    widest = FTRL(alpha=alpha)
    widest.learn_many(stream.usual)
    keys, weights, _ = widest.coefficients()
    beyond = np.isin(stream.usual.keys, keys[np.abs(weights) > IN_RANGE])
    rows = np.flatnonzero(np.diff(np.concatenate([np.zeros(1, np.int64), np.cumsum(beyond)])[stream.usual.indptr]) == 0)
    facts: Figures = {
        "beyond_2": float((np.abs(weights) > 2).mean()),
        "beyond_4": int((np.abs(weights) >= 4).sum()),
        "rows_in_range": len(rows) / stream.n_rows,
        "rows": encoded(stream, stream.usual, alpha, tell),
    }
    if len(rows) < stream.n_rows:
        facts["in_range"] = encoded(stream, stream.usual.take(rows), alpha, tell)
    return facts


def encoded(stream: Stream, impressions: Impressions, alpha: float, tell: Callable[..., None]) -> list[Figures]:
    """The encodings, on some impressions of a stream."""
    predictions, sizes = {}, {}
    for name, encoding, seed in ENCODED:
        learner = FTRL(alpha=alpha, encoding=encoding, seed=seed)
        predictions[name], seconds = learn(learner, impressions)
        sizes[name] = {"coefficient_bytes": _BYTES[encoding] * learner.n_features, "nbytes": learner.nbytes}
        tell(encoding=name, rows=impressions.n_rows, seconds=seconds, **sizes[name])
    return [row | sizes[row["model"]] for row in compared(stream, predictions, clicked=impressions.clicked)]


def counts(stream: Stream, alpha: float, tell: Callable[..., None]) -> Figures:
    """Learning rates from counts against rates from squared gradients; α tuned for both."""
    own, tried = tuned(lambda a: FTRL(alpha=a, rates="counts"), ALPHAS, stream)
    tell(counts_alpha=own, tried=[[t["value"], round(t["auc_loss"], 5)] for t in tried])
    predictions = {
        "squared gradients": learn(FTRL(alpha=alpha), stream.usual)[0],
        "counts": learn(FTRL(alpha=own, rates="counts"), stream.usual)[0],
    }
    rows = compared(stream, predictions)
    rows[0]["alpha"], rows[1]["alpha"] = alpha, own
    return {"rows": rows}
