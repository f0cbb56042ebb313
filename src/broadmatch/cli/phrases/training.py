"""What `broadmatch train` does for the models of phrases: extraction (kex) and expansion (ksp)."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from broadmatch.cli import options
from broadmatch.errors import BadInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from broadmatch.data import Dataset
    from broadmatch.harvest import Harvested


_SEEDS = 100
"""Phrases of each page that are expanded."""


def train_kex(learner: Any, data: Path, out: Path, pages: Sequence[Path] | None) -> dict[str, Any]:
    """Learn from the pages of a harvested folder what people choose of what stands on a page."""
    if not pages:
        raise typer.BadParameter("--model kex reads the pages themselves; name them, as in --pages pages/.")
    options.check_free(out)
    started, harvested = time.monotonic(), _harvested(data, "kex")
    from broadmatch.harvest.page_names import ByPage
    from broadmatch.io import PageSource

    points = harvested.train
    chosen: ByPage[dict[str, float]] = ByPage(zip(points.points or (), clicks_of(points), strict=True))
    found = [(page, chosen[page.name]) for page in PageSource(pages) if page.name in chosen]
    if not found:
        raise BadInput(f"None of the pages is a training page of {data}; give the pages that were harvested.")
    learner.fit([page for page, _ in found], [phrases for _, phrases in found], queries=harvested.queries)
    learner.save(out)
    return {"model": str(out), "kind": "kex", "pages": len(found), "seconds": round(time.monotonic() - started, 2)}


def train_ksp(
    learner: Any, data: Path, out: Path, clicks: Sequence[Path] | None, bids: Path | None, seeds: Path | None
) -> dict[str, Any]:
    """Learn from a log which phrases go together, and from every second test page how much each arm counts."""
    if not clicks:
        raise typer.BadParameter("--model ksp reads the log itself; name it, as in --clicks impressions.parquet.")
    options.check_free(out)
    started, harvested = time.monotonic(), _harvested(data, "ksp")
    import numpy as np

    import broadmatch
    from broadmatch.ads.expansion import WEIGHTS
    from broadmatch.labels import Recommender

    learner.fit(list(clicks), bids=bids, without=harvested.test.points or ())
    if seeds is not None:
        teaching = harvested.test.take(np.arange(0, len(harvested.test), 2))
        model = broadmatch.load(seeds, Recommender).model
        learner.fit_weights(model.predict_topk(teaching.X, _SEEDS), [list(row) for row in clicks_of(teaching)])
    weights = dict(zip(WEIGHTS, (round(weight, 4) for weight in learner.weights_.tolist()), strict=True))
    learner.save(out)
    facts = {"model": str(out), "kind": "ksp", "queries": len(learner.queries_), "weights": weights}
    return facts | {"seconds": round(time.monotonic() - started, 2)}


def judged_rows(n: int) -> "NDArray[np.int64]":
    """The test pages, of n, that did not teach the weights: every second one does."""
    import numpy as np

    return np.arange(1, n, 2)


def clicks_of(points: "Dataset") -> list[dict[str, float]]:
    """The labels of each point by name, with their weights."""
    rows = (points.Y.row(i) for i in range(len(points)))
    return [{points.labels[j]: w for j, w in zip(a.tolist(), b.tolist(), strict=True)} for a, b in rows]


def _harvested(data: Path, model: str) -> "Harvested":
    from broadmatch.harvest.harvested import is_harvested, open_harvested

    if not is_harvested(data):
        raise BadInput(
            f"--model {model} learns from a harvested folder, and {data} is none; `broadmatch harvest` makes one."
        )
    return open_harvested(data)
