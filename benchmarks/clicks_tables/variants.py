"""§4.3 and §4.4: 32 variants of the signals in one pass, exactly and with a single value for all."""

import time
from collections.abc import Callable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from benchmarks.clicks_tables.measures import ALPHAS, Figures, tuned
from benchmarks.clicks_tables.streams import Stream
from broadmatch.clicks import FTRL, ManyModels, SingleValue, Variant
from broadmatch.data import Impressions
from broadmatch.evaluate.click_metrics import log_losses

N_VARIANTS = 32
_BLOCK = 100_000


def variants(stream: Stream, alpha: float, tell: Callable[..., None]) -> Figures:
    """Variants that leave out signals and pairs of them; on reddit also such that leave out small groups of words."""
    used = list(stream.signals) if stream.name == "reddit" else stream.usual_signals
    impressions = stream.only(used)
    alpha, _ = tuned(lambda a: FTRL(alpha=a, rates="counts"), ALPHAS, stream, impressions.between(0, stream.first))
    numbers = [stream.signals.index(name) for name in used]
    found = {"signals and pairs": both_ways(stream, impressions, left_out(numbers), alpha, tell)}
    if stream.name == "reddit":
        grouped, groups = with_groups(impressions, stream.signals.index("title"), stream.signals.index("domain"))
        found["small groups"] = both_ways(stream, grouped, groups, alpha, tell)
    return found


def left_out(numbers: list[int]) -> list[list[int]]:
    """The fields of each variant: without nothing, each signal, and pairs spread evenly over all pairs; 32 in all."""
    names = numbers[:-1]  # the last is the constant
    pairs = list(combinations(names, 2))
    wanted = N_VARIANTS - 1 - len(names)
    spread = [pairs[i * len(pairs) // wanted] for i in range(wanted)]
    missing: list[tuple[int, ...]] = [(), *((name,) for name in names), *spread]
    return [[n for n in numbers if n not in some] for some in missing]


def with_groups(impressions: Impressions, *split: int) -> tuple[Impressions, list[list[int]]]:
    """Two signals cut into 31 groups of their values, and 32 variants: without nothing, and without each group."""
    fields = impressions.fields.copy()
    first = int(fields.max()) + 1
    some = np.isin(fields, split)
    fields[some] = first + (impressions.keys[some] % np.uint64(N_VARIANTS - 1)).astype(np.int16)
    there = np.unique(fields).tolist()
    return impressions._replace(fields=fields), [there, *([n for n in there if n != g] for g in there if g >= first)]


def both_ways(
    stream: Stream, impressions: Impressions, fields: list[list[int]], alpha: float, tell: Callable[..., None]
) -> Figures:
    """Progressive log loss of each variant, exactly and with a single value; their order, memory and CPU time."""
    given = {str(v): Variant(alpha=alpha, fields=some) for v, some in enumerate(fields)}
    n = stream.n_rows - stream.first
    results: Figures = {"alpha": alpha}
    losses, covariance = {}, np.zeros((len(given), len(given)))
    for what, make in (("single", SingleValue), ("many", ManyModels)):
        models = make(given)
        started = time.process_time()
        sums, products = learned(models, impressions, stream.first)
        seconds = time.process_time() - started
        losses[what] = sums / n
        covariance = products / n - np.outer(losses[what], losses[what])
        results[what] = {"losses": losses[what].tolist(), "nbytes": models.nbytes, "seconds": seconds}
        tell(structure=what, variants=len(given), seconds=seconds, nbytes=models.nbytes)
    results |= orders(losses["many"], losses["single"], covariance / n)
    results["separate_seconds"], results["separate_nbytes"] = separate(impressions, alpha)
    tell(**{name: value for name, value in results.items() if name not in ("single", "many")})
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
