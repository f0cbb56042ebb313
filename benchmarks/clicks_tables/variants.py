"""§4.3 and §4.4: 32 variants of the signals in one pass, exactly and with a single value for all."""

import time
from collections.abc import Callable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from benchmarks.clicks_tables.measures import ALPHAS, Figures, tuned
from benchmarks.clicks_tables.streams import Stream
from broadmatch.ctr import FTRL, ManyModels, SingleValue, Variant
from broadmatch.data import Impressions
from broadmatch.evaluate.click_metrics import log_losses

N_VARIANTS = 32
_BLOCK = 100_000


def left_out(stream: Stream) -> list[tuple[str, ...]]:
    """Nothing, each signal, and pairs of signals, spread evenly over all pairs: 32 in all."""
    names = stream.signals[:-1] if stream.name == "reddit" else tuple(stream.usual_signals[:-1])
    pairs = list(combinations(names, 2))
    wanted = N_VARIANTS - 1 - len(names)
    spread = [pairs[i * len(pairs) // wanted] for i in range(wanted)]
    return [(), *((name,) for name in names), *spread]


def variants(stream: Stream, alpha: float, tell: Callable[..., None]) -> Figures:
    """Progressive log loss of each variant both ways, their order, memory and CPU time; α tuned for all signals."""
    impressions = stream.batch.impressions if stream.name == "reddit" else stream.usual
    signals = stream.signals if stream.name == "reddit" else tuple(stream.usual_signals)
    part = impressions.between(0, stream.first)
    alpha, _ = tuned(lambda a: FTRL(alpha=a, rates="counts"), ALPHAS, stream, part)
    number = {name: stream.signals.index(name) for name in signals}
    sets = left_out(stream)
    fields = {" and ".join(s) or "nothing": [number[n] for n in signals if n not in s] for s in sets}
    given = {name: Variant(alpha=alpha, fields=some) for name, some in fields.items()}
    results: Figures = {"names": list(given), "alpha": alpha}
    single_losses = np.zeros(len(given))
    for what, make in (("single", SingleValue), ("many", ManyModels)):
        models = make(given)
        started = time.process_time()
        sums, products = learned(models, impressions, stream.first)
        seconds = time.process_time() - started
        n = stream.n_rows - stream.first
        losses = sums / n
        results[what] = {"losses": losses.tolist(), "nbytes": models.nbytes, "seconds": seconds}
        results[what]["bytes_a_feature"] = models.nbytes // models.table.capacity
        tell(structure=what, seconds=seconds, nbytes=models.nbytes, losses=losses.round(5).tolist())
        if what == "single":
            single_losses = losses
            continue
        covariance = products / n - np.outer(losses, losses)
        results |= orders(losses, single_losses, covariance / n)
    results["separate_seconds"], results["separate_nbytes"] = separate(impressions, alpha)
    tell(**{k: results[k] for k in ("rank_correlation", "sure_pairs", "sure_in_order", "separate_seconds")})
    return results


def learned(models: ManyModels | SingleValue, impressions: Impressions, first: int) -> tuple[NDArray[np.float64], ...]:
    """Σ loss and Σ loss·lossᵀ of the variants over the rows from `first` on."""
    k = len(models.names)
    sums, products = np.zeros(k), np.zeros((k, k))
    for start in range(0, impressions.n_rows, _BLOCK):
        block = impressions.between(start, min(start + _BLOCK, impressions.n_rows))
        p = models.learn_many(block)
        kept = slice(max(0, first - start), None)
        losses = log_losses(block.clicked[kept, None] > 0.5, p[kept])
        sums += losses.sum(0)
        products += losses.T @ losses
    return sums, products


def orders(exact: NDArray[np.float64], single: NDArray[np.float64], covariance: NDArray[np.float64]) -> Figures:
    """How far two structures put the variants in the same order: all, and those whose difference is beyond chance.

    The paired difference of two variants is beyond chance if it is more than 1.96 of its deviations from 0.
    """
    from scipy.stats import spearmanr

    i, j = np.triu_indices(len(exact), 1)
    difference = exact[i] - exact[j]
    deviation = np.sqrt(np.maximum(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j], 1e-300))
    sure = np.abs(difference) > 1.96 * deviation
    same = difference * (single[i] - single[j]) > 0
    return {
        "rank_correlation": float(spearmanr(exact, single).statistic),
        "change_correlation": float(np.corrcoef(exact[1:] / exact[0], single[1:] / single[0])[0, 1]),
        "pairs": len(i),
        "in_order": int(same.sum()),
        "sure_pairs": int(sure.sum()),
        "sure_in_order": int((same & sure).sum()),
        "least_wrong": float(np.max(np.abs(difference / exact[0])[sure & ~same], initial=0.0)),
    }


def separate(impressions: Impressions, alpha: float) -> tuple[float, int]:
    """CPU seconds and bytes of 32 learners that each read the stream, from the time of one with all the signals."""
    learner = FTRL(alpha=alpha, rates="counts")
    started = time.process_time()
    learner.learn_many(impressions)
    return N_VARIANTS * (time.process_time() - started), N_VARIANTS * learner.nbytes
