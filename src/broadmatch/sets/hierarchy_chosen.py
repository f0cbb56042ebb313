"""How much scores count in a hierarchy, how high the bar is, and what learns the ways: chosen on points held out."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR
from broadmatch.evaluate import micro_f1
from broadmatch.parallel import blocks
from broadmatch.sets._hierarchy import Nodes, every_score, walk_rows
from broadmatch.sets.chosen import Weighing

_CELLS = 1 << 22  # scores held at a time
_WEIGHTS = (8.0, 4.0, 16.0)
_BARS = tuple(-0.6 - 0.15 * i for i in range(19))  # log-chances of ways
_EVERY = 3  # of the bars that are tried roughly


class HeldFold(NamedTuple):
    """Points that the nodes of a fold have not seen."""

    nodes: Nodes
    X: CSR
    value: NDArray[np.float32]
    """The values of X as the nodes take them."""


def tried(score_weight: float | None, bar: float | None, counted: bool, *, roughly: bool) -> list[Weighing]:
    """What to choose from; without numbers of ways (`counted`) there is only the bar.

    Roughly: one weight and some bars, to tell what learns the ways best.
    """
    usual, bars = (_WEIGHTS[:1], _BARS[::_EVERY]) if roughly else (_WEIGHTS, _BARS)
    weights = (0.0,) if not counted else usual if score_weight is None else (score_weight,)
    return [Weighing(w, b) for w in weights for b in ([(w or 1.0) * t for t in bars] if bar is None else [bar])]


def best_weighing(folds: Sequence[HeldFold], truth: CSR, tried: Sequence[Weighing]) -> tuple[float, Weighing]:
    """The decision whose sets have the highest micro-F1, and that micro-F1."""
    pieces: dict[Weighing, list[tuple[NDArray[np.int64], NDArray[np.int32]]]] = {how: [] for how in tried}
    for nodes, X, value in folds:
        for start, stop in blocks(X.n_rows, max(1, _CELLS // len(nodes.bias))):
            part, own = X.between(start, stop), value[X.indptr[start] : X.indptr[stop]]
            known = every_score(nodes, part.indptr, part.indices, own)
            for how, found in pieces.items():
                asked = nodes._replace(**how._asdict())
                lengths, categories, _ = walk_rows(
                    0, len(known), part.indptr, part.indices, own, known, asked, truth.n_cols
                )
                found.append((lengths, categories))

    def worth(how: Weighing) -> float:
        lengths, categories = (np.concatenate(part) for part in zip(*pieces[how], strict=True))
        sets = CSR(np.append(0, np.cumsum(lengths)), categories, np.ones(len(categories), np.float32), truth.n_cols)
        return micro_f1(truth, sets)

    return max(((worth(how), how) for how in tried), key=lambda found: found[0])
