"""§4.6: every clicked query and a share r of the others, against the whole data."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.clicks_tables.measures import ALPHAS, Figures, compared, learn
from benchmarks.clicks_tables.streams import Stream
from broadmatch.clicks import FTRL, Subsampler
from broadmatch.data import Batch, Impressions
from broadmatch.evaluate import log_loss

SHARES = (0.1, 0.01)
BETAS = (1.0, 10.0, 30.0)


def sampled_weights(impressions: Impressions, rate: float) -> NDArray[np.float32]:
    """The importance weight of each row, 0 of those that are left out; each row is its own query.

    A row of weight 0 is predicted and not learned: so every row of the stream is predicted with what the subsample
    before it has taught.
    """
    numbers = np.arange(impressions.n_rows).view(np.uint64)
    sampler = Subsampler(rate=rate)
    kept = Batch.concatenate([sampler.take(Batch(impressions, id=numbers)), sampler.finish()])
    weight = np.zeros(impressions.n_rows, np.float32)
    weight[kept.id.view(np.int64)] = kept.impressions.weight
    return weight


def subsampling(stream: Stream, alpha: float, tell: Callable[..., None]) -> Figures:
    """The same stream, less of it learned, in four ways; α (and β where told) of each tuned on the tuning part.

    With importance weights, as in the paper; the same with a larger β; with weight 1, and the log-odds moved by log r
    afterwards, for of the odds in the subsample those in the stream are the r-th part; and as many rows at random.
    """
    whole = stream.usual
    predictions = {"all rows": learn(FTRL(alpha=alpha), whole)[0]}
    facts: dict[str, Figures] = {"all rows": {"alpha": alpha, "beta": 1.0, "learned": 1.0}}
    for rate in SHARES:
        weights = sampled_weights(whole, rate)
        share = float((weights > 0).mean())
        thinned = (np.random.default_rng(0).random(whole.n_rows) < share).astype(np.float32)
        for name, weight, betas, moved in (
            (f"r = {rate}", weights, (1.0,), 1.0),
            (f"r = {rate}, β tuned", weights, BETAS, 1.0),
            (f"r = {rate}, log-odds moved", (weights > 0).astype(np.float32), (1.0,), rate),
            (f"at random, as many as r = {rate}", thinned, (1.0,), 1.0),
        ):
            chosen = min(
                (tried(stream, a, b, weight, moved) for a in ALPHAS for b in betas), key=lambda t: t["log_loss"]
            )
            learner = FTRL(alpha=chosen["alpha"], beta=chosen["beta"])
            p, seconds = learn(learner, whole._replace(weight=weight))
            predictions[name] = with_odds_times(p, moved)
            facts[name] = {"alpha": chosen["alpha"], "beta": chosen["beta"], "learned": share}
            tell(model=name, seconds=seconds, tuned=chosen)
    return {"rows": [row | facts[row["model"]] for row in compared(stream, predictions)]}


def tried(stream: Stream, alpha: float, beta: float, weight: NDArray[np.float32], moved: float) -> Figures:
    """The log loss of all rows of the tuning part but its first tenth, when learned with these weights."""
    part = stream.tuning
    p, _ = learn(FTRL(alpha=alpha, beta=beta), part._replace(weight=weight[: stream.first]))
    first = part.n_rows // 10
    loss = log_loss(part.clicked[first:], with_odds_times(p[first:], moved))
    return {"alpha": alpha, "beta": beta, "log_loss": loss}


def with_odds_times(p: NDArray[np.float64], factor: float) -> NDArray[np.float64]:
    """The probability whose odds are `factor` times those of p."""
    return p * factor / (p * factor + 1 - p)
