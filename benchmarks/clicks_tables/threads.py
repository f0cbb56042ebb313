"""Two threads that learn into one table without locks, against one (not in the paper; Recht et al., Hogwild, 2011)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from benchmarks.clicks_tables.measures import Figures, compared, learn
from benchmarks.clicks_tables.streams import Stream
from broadmatch.clicks import FTRL
from broadmatch.data import Impressions

_BATCH = 65_536


def threads(stream: Stream, alpha: float, tell: Callable[..., None]) -> Figures:
    """Each batch in two halves, one for each thread; three runs, for no two are alike."""
    predictions = {"one thread": learn(FTRL(alpha=alpha), stream.usual)[0]}
    for run in ("first", "second", "third"):
        name = f"two threads, {run} run"
        predictions[name] = shared(FTRL(alpha=alpha), stream.usual)
        tell(model=name)
    return {"rows": compared(stream, predictions)}


def shared(learner: FTRL, impressions: Impressions) -> NDArray[np.float64]:
    """The predictions that two threads make before they learn."""
    parts: list[NDArray[np.float64]] = []
    with ThreadPoolExecutor(2) as pool:
        for start in range(0, impressions.n_rows, _BATCH):
            stop = min(start + _BATCH, impressions.n_rows)
            half = (start + stop) // 2
            halves = [impressions.between(start, half), impressions.between(half, stop)]
            parts += pool.map(learner.learn_shared, halves)
    return np.concatenate(parts)
