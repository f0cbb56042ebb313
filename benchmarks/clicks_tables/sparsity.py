"""Table 1 (§3): non-zeros and AucLoss of FTRL, RDA, FOBOS and OGD-Count; and §3.1, rates for each coordinate."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.clicks_tables.measures import ALPHAS, Figures, compared, learn, non_zeros, tuned, tuning_figures
from benchmarks.clicks_tables.streams import Stream
from broadmatch.clicks import FOBOS, FTRL, OGD, RDA
from broadmatch.evaluate import auc_loss

TOLERANCE = 0.002
"""The AucLoss that FTRL may lose to its l1, as a share."""
GLOBAL_ALPHAS = (0.3, 1.0, 3.0, 6.0, 10.0, 20.0, 30.0, 60.0)
GRIDS: dict[str, tuple[float, ...]] = {
    "FTRL": (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6),
    "RDA": (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6),
    "FOBOS": (0.0, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03),
    "OGD-Count": (0, 1, 2, 3, 5, 10, 20),
}
"""l1 of each learner, and k of OGD-Count."""


def made(name: str, alpha: float, strength: float) -> Any:
    """A learner of table 1; `strength` is its l1 or k."""
    if name == "OGD-Count":
        return OGD(alpha=alpha, min_count=int(strength))
    return {"FTRL": FTRL, "RDA": RDA, "FOBOS": FOBOS}[name](alpha=alpha, l1=strength)


def nearby(alpha: float) -> tuple[float, ...]:
    """The next smaller learning rate of the grid, the given one and the next two larger ones."""
    at = ALPHAS.index(alpha)
    return ALPHAS[max(0, at - 1) : at + 3]


def tried_on(stream: Stream, name: str, alpha: float) -> list[Figures]:
    """Of each l1 or k of a learner the best learning rate near `alpha`, on the tuning part."""
    found = []
    for strength in GRIDS[name]:
        tried = [tuning_figures(made(name, a, strength), stream.tuning) | {"alpha": a} for a in nearby(alpha)]
        found.append(min(tried, key=lambda t: t["auc_loss"]) | {"strength": strength})
    return found


def chosen(name: str, tried: list[Figures], ftrl: Figures | None) -> Figures:
    """FTRL: the largest l1 that costs at most 0.2 % AucLoss. RDA: FTRL's non-zeros. The others: FTRL's AucLoss."""
    if ftrl is not None and name == "RDA":
        aim = np.log(ftrl["non_zeros"] + 1)
        return min(tried[1:], key=lambda t: abs(np.log(t["non_zeros"] + 1) - aim))
    bound = ftrl["auc_loss"] if ftrl else min(t["auc_loss"] for t in tried) * (1 + TOLERANCE)
    return max((t for t in tried if t["auc_loss"] <= bound), key=lambda t: t["strength"], default=tried[0])


def table_1(stream: Stream, alpha: float, tell: Callable[..., None]) -> Figures:
    """Everything is chosen on the tuning part; then each learner over the whole stream, for all its l1 or k."""
    rda_alpha, _ = tuned(lambda a: RDA(alpha=a), ALPHAS, stream)
    picked: dict[str, Figures] = {}
    target: Figures | None = None  # FTRL, as it did on the tuning part
    predictions: dict[str, NDArray[np.float64]] = {}
    curves: dict[str, list[list[float]]] = {}
    for name in GRIDS:
        tried = tried_on(stream, name, rda_alpha if name == "RDA" else alpha)
        picked[name] = chosen(name, tried, target)
        target = target or picked[name]
        tell(learner=name, tuned=picked[name])
        curves[name] = []
        for setting in tried[1:] if picked[name]["strength"] else tried:
            learner = made(name, setting["alpha"], setting["strength"])
            p, _ = learn(learner, stream.usual)
            loss = auc_loss(stream.clicked[stream.first :], p[stream.first :])
            curves[name].append([setting["strength"], non_zeros(learner), loss])
            tell(learner=name, alpha=setting["alpha"], strength=setting["strength"], non_zeros=curves[name][-1][1],
                 auc_loss=loss)  # fmt: skip
            if setting["strength"] == picked[name]["strength"]:
                predictions[name] = p
                picked[name] = setting | {"non_zeros": curves[name][-1][1], "auc_loss": loss}
    rows = compared(stream, predictions)
    for row in rows:
        name = row["model"]
        row |= {key: picked[name][key] for key in ("alpha", "strength", "non_zeros")}
        row["at_equal_loss"] = non_zeros_at(curves[name], picked["FTRL"]["auc_loss"])
    return {"rows": rows, "curves": curves}


def non_zeros_at(points: list[list[float]], loss: float) -> float | None:
    """The fewest non-zeros with which a learner reaches a loss, between the points of its curve, or None."""
    found = [n for _, n, u in points if u <= loss]
    for (_, n, u), (_, m, v) in pairwise(points):
        if (u - loss) * (v - loss) < 0:
            t = (loss - u) / (v - u)
            found.append(float(np.exp((1 - t) * np.log(max(n, 1)) + t * np.log(max(m, 1)))))
    return min(found, default=None)


def rates(stream: Stream, alpha: float, tell: Callable[..., None]) -> Figures:
    """One learning rate for all coordinates against one for each; α tuned for both."""
    shared, tried = tuned(lambda a: FTRL(alpha=a, rates="global"), GLOBAL_ALPHAS, stream)
    tell(global_alpha=shared, tried=[[t["value"], round(t["auc_loss"], 5)] for t in tried])
    predictions = {
        "global": learn(FTRL(alpha=shared, rates="global"), stream.usual)[0],
        "per coordinate": learn(FTRL(alpha=alpha), stream.usual)[0],
    }
    rows = compared(stream, predictions)
    rows[0]["alpha"], rows[1]["alpha"] = shared, alpha
    return {"rows": rows}
