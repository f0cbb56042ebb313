"""How much scores count in a hierarchy, how high the bar is, and what learns the ways: chosen on points held out."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Hierarchy
from broadmatch.data.hierarchy import add_ancestors
from broadmatch.evaluate import micro_f1
from broadmatch.parallel import blocks
from broadmatch.sets._hierarchy import Nodes, every_score, walk_rows
from broadmatch.sets.chosen import Weighing

_CELLS = 1 << 22  # scores held at a time
_WEIGHTS = (4.0, 8.0)
_BARS = tuple(-0.6 - 0.25 * i for i in range(11))  # log-chances of ways


class HeldFold(NamedTuple):
    """Points that the nodes of a fold have not seen."""

    nodes: Nodes
    X: CSR
    value: NDArray[np.float32]
    """The values of X as the nodes take them."""


def tried(score_weight: float | None, bar: float | None, counted: bool) -> list[Weighing]:
    """What to choose from; without numbers of ways (`counted`) there is only the bar."""
    weights = (0.0,) if not counted else _WEIGHTS if score_weight is None else (score_weight,)
    return [Weighing(w, b) for w in weights for b in ([(w or 1.0) * t for t in _BARS] if bar is None else [bar])]


def best_weighing(
    folds: Sequence[HeldFold], truth: CSR, hierarchy: Hierarchy, tried: Sequence[Weighing]
) -> tuple[float, Weighing]:
    """The decision whose sets have the highest product of micro-F1 with ancestors and without, and that product."""
    pieces: dict[Weighing, list[tuple[NDArray[np.int64], NDArray[np.int32]]]] = {how: [] for how in tried}
    for nodes, X, value in folds:
        for start, stop in blocks(X.n_rows, max(1, _CELLS // len(nodes.bias))):
            part, own = X.between(start, stop), value[X.indptr[start] : X.indptr[stop]]
            known = every_score(nodes, part.indptr, part.indices, own)
            for how, found in pieces.items():
                asked = nodes._replace(**how._asdict())
                lengths, categories, _ = walk_rows(
                    0, len(known), part.indptr, part.indices, own, known, asked, hierarchy.n_categories
                )
                found.append((lengths, categories))
    whole = add_ancestors(truth, hierarchy)

    def worth(how: Weighing) -> float:
        lengths, categories = (np.concatenate(part) for part in zip(*pieces[how], strict=True))
        sets = CSR(np.append(0, np.cumsum(lengths)), categories, np.ones(len(categories), np.float32), truth.n_cols)
        return micro_f1(truth, sets) * micro_f1(whole, add_ancestors(sets, hierarchy))

    return max(((worth(how), how) for how in tried), key=lambda found: found[0])
