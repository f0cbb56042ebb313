"""How everything here is measured: progressive figures after the tuning part, changes with paired intervals."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.clicks_tables.streams import TUNING, Stream
from broadmatch.clicks import FTRL
from broadmatch.data import Impressions
from broadmatch.evaluate import auc_loss, progressive_report

Figures = dict[str, Any]
ALPHAS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0)
"""Learning rates tried for every learner with rates of its own for each coordinate."""
_RECORD = {"float64": 24, "float32": 16, "q2.13": 12}


def learn(learner: Any, impressions: Impressions) -> tuple[NDArray[np.float64], float]:
    """The progressive predictions of a learner, and how many seconds they took."""
    started = time.perf_counter()
    p = learner.learn_many(impressions)
    return p, time.perf_counter() - started


def non_zeros(learner: Any) -> int:
    """How many coefficients are not 0."""
    return int(np.count_nonzero(learner.coefficients()[1]))


def tuned(
    make: Callable[[Any], Any], grid: Iterable[Any], stream: Stream, part: Impressions | None = None
) -> tuple[Any, list[Figures]]:
    """The value of the grid with the least AucLoss on the tuning part, and all that was tried."""
    tried = [tuning_figures(make(value), stream.tuning if part is None else part) | {"value": value} for value in grid]
    return min(tried, key=lambda figures: figures["auc_loss"])["value"], tried


def tuning_figures(learner: Any, part: Impressions) -> Figures:
    """Progressive AucLoss over the tuning part, without its first tenth, and the non-zeros at its end."""
    p, _ = learn(learner, part)
    first = part.n_rows // 10
    return {"auc_loss": auc_loss(part.clicked[first:], p[first:]), "non_zeros": non_zeros(learner)}


def base_alpha(stream: Stream) -> float:
    """The learning rate of FTRL on this stream: what all sections start from."""
    alpha, _ = tuned(lambda a: FTRL(alpha=a), ALPHAS, stream)
    return float(alpha)


def compared(
    stream: Stream, predictions: Mapping[str, NDArray[np.float64]], clicked: NDArray[np.float32] | None = None
) -> list[Figures]:
    """AucLoss, LogLoss and Bias of each model after the tuning part, as values and in % of the first model's.

    `change` has the paired 95 % interval of the relative change. `clicked` are the labels, if not all the stream's.
    """
    import pyarrow as pa

    clicked = stream.clicked if clicked is None else clicked
    start = int(TUNING * len(clicked))
    columns = {f"p_{name}": p[start:].astype(np.float32) for name, p in predictions.items()}
    report = progressive_report(pa.table({"clicked": clicked[start:], **columns}))
    found: dict[str, Figures] = {name: {"model": name} for name in predictions}
    for row in report.summary():
        found[row["model"]][row["metric"]] = {
            "value": row["value"],
            "change": [row["relative"], row["relative_low"], row["relative_high"]],
        }
    return list(found.values())


def bytes_by_features(learner: Any) -> int:
    """Bytes of the features that are held, and of the filters: what the table would take if it were just full."""
    record = _RECORD[learner.encoding] + (8 if learner.rates == "counts" else 0)
    return int(learner.n_features * record + learner.nbytes - learner.table_.nbytes)
