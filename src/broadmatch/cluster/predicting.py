"""Batches of predictions by a cluster: nodes open the saved model once and answer for blocks of rows or pages."""

import functools
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import broadmatch
from broadmatch.cluster.engine import Engine, Item, Ref
from broadmatch.cluster.mlrf import BASE
from broadmatch.data import CSR, Ranking
from broadmatch.io import buckets
from broadmatch.io.artifacts import MANIFEST
from broadmatch.labels import KEX, Recommendation, Recommender
from broadmatch.labels.base import Best
from broadmatch.labels.predictor import LabelPredictor
from broadmatch.labels.recommender import Answered, named_pages, one_by_one, warn_of_unknown
from broadmatch.parallel import blocks

_ROWS, _PAGES = 16_384, 256
_AHEAD = 64  # blocks under way: pages are read from a stream


class ClusterModel:
    """A fitted model, saved at `place`, which all hosts see; rankings and sets of many rows are made by the nodes.

    All else is the model's own, so that it stands where a model stands: in `ranking_reports`, `set_reports`.
    """

    def __init__(self, engine: Engine, place: str | os.PathLike[str], model: LabelPredictor) -> None:
        self._engine, self._model = engine, model
        self._place = Path(place).resolve()
        self._memory = BASE + folder_bytes(self._place)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def predict_topk(self, X: CSR, k: int = 10, *, revealed: CSR | None = None) -> Ranking:
        """See `LabelModel.predict_topk`."""
        return self._blocks(X, k, revealed)

    def predict_sets(self, X: CSR, *, revealed: CSR | None = None) -> Ranking:
        """See `LabelPredictor.predict_sets`; sets that depend on all rows together are made here."""
        if not self._model.pointwise:
            return self._model.predict_sets(X, revealed=revealed)
        return self._blocks(X, None, revealed)

    def _blocks(self, X: CSR, k: int | None, revealed: CSR | None) -> Ranking:
        items = (
            (self._place, X.between(a, b), k, None if revealed is None else revealed.between(a, b))
            for a, b in blocks(X.n_rows, _ROWS)
        )
        names = self._model.label_names_
        found = in_order(self._engine, ranked_block, items, self._memory, "Ranking labels")
        return Ranking.stack([Ranking(labels, scores, lengths, names) for labels, scores, lengths in found], names)


class ClusterRecommender:
    """A recommender, saved at `place`, whose answers for pages are made by the nodes; all else is its own."""

    def __init__(self, engine: Engine, place: str | os.PathLike[str], recommender: Recommender | KEX) -> None:
        self._engine, self._recommender = engine, recommender
        self._place = Path(place).resolve()
        self._memory = BASE + folder_bytes(self._place)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recommender, name)

    def recommend(self, pages: Any, k: int | None = 10, *, revealed: Any = None) -> Iterator[Recommendation]:
        """See `Recommender.recommend`."""
        n_empty, n_unknown = 0, 0
        for answer in in_order(self._engine, answered_block, self._items(pages, k, revealed), self._memory, "Pages"):
            n_empty, n_unknown = n_empty + answer.n_empty, n_unknown + answer.n_unknown
            yield from answer.found
        warn_of_unknown(n_empty, n_unknown)

    def _items(self, pages: Any, k: int | None, revealed: Any) -> Iterator[Item]:
        given, n = iter(one_by_one(pages)), 0
        lists = None if revealed is None or isinstance(revealed, Mapping) else iter(revealed)
        while batch := list(itertools.islice(given, _PAGES)):
            named = named_pages(batch, n)
            n += len(batch)
            known = None if lists is None else [list(one) for one in itertools.islice(lists, len(batch))]
            if isinstance(revealed, Mapping):
                known = [list(revealed.get(name, ())) for name, _ in named]
            yield self._place, named, k, known


def in_order(engine: Engine, task: Callable[..., Any], items: Iterable[Item], memory: int, title: str) -> Iterator[Any]:
    """task(*item) for each item of a stream, in its order, a few ahead of who takes them."""
    waiting: deque[Ref] = deque()
    for item in items:
        waiting += engine.map(task, [item], memory=memory, title=title)
        if len(waiting) >= _AHEAD:
            yield from engine.get([waiting.popleft()])
    while waiting:
        yield from engine.get([waiting.popleft()])


def ranked_block(place: Path, X: CSR, k: int | None, revealed: CSR | None) -> Best:
    """The ranking of some rows, or their sets without a `k`, by the model at a place; the names stay there."""
    found = saved_model(place)
    model = found.model if isinstance(found, Recommender) else found
    X, known = writable(X), None if revealed is None else writable(revealed)
    given = {} if known is None else {"revealed": known}
    best = model.predict_sets(X, **given) if k is None else model.predict_topk(X, k, **given)
    return best.labels, best.scores, best.lengths


def answered_block(place: Path, named: list[tuple[str, Any]], k: int | None, revealed: Any) -> Answered:
    """The phrases of some pages by the recommender at a place."""
    found = saved_model(place)
    if isinstance(found, KEX):
        return Answered(list(found.recommend(named, k)), 0, 0)
    answer: Answered = found.answered(named, k, None if revealed is None else iter(revealed))
    return answer


def saved_model(place: Path) -> Any:
    """The model at a place; a process opens it, and checks it, once."""
    buckets.fetch(place)
    return _loaded_model(place, (place / MANIFEST).stat().st_mtime_ns if (place / MANIFEST).is_file() else 0)


def writable(rows: CSR) -> CSR:
    """The rows in arrays that are not read-only, which are another type to kernels."""
    indptr, indices, data, n_cols = rows
    return CSR(np.require(indptr, None, "W"), np.require(indices, None, "W"), np.require(data, None, "W"), n_cols)


def folder_bytes(folder: Path) -> int:
    """The size of all files of a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@functools.lru_cache(maxsize=1)
def _loaded_model(place: Path, changed: int) -> Any:
    return broadmatch.load(place)
