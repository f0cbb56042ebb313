"""What `broadmatch train` does for the models of phrases: extraction (kex) and expansion (ksp)."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from broadmatch.cli import options, output
from broadmatch.errors import BadInput
from broadmatch.io.columns import ColumnsMissing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from broadmatch.data import Dataset
    from broadmatch.harvest import Harvested
    from broadmatch.io import ClickLog


KexPages = Annotated[
    list[Path] | None, typer.Option("--pages", metavar="PAGES", help="kex: the pages that were harvested.")
]
KspClicks = Annotated[
    list[Path] | None, typer.Option("--clicks", metavar="LOG", help="ksp: the log, with sessions if it has them.")
]
KspBids = Annotated[
    Path | None, typer.Option("--bids", metavar="FILE", help="ksp: a table of ads and their bid phrases.")
]
KspSeeds = Annotated[Path | None, typer.Option("--seeds", metavar="MODEL", help="ksp: whose phrases will be expanded.")]
_SEEDS = 100
"""Phrases of each page that are expanded."""


class Sources(NamedTuple):
    """The files that models of phrases learn from, beside a harvested folder."""

    pages: list[Path] | None
    clicks: list[Path] | None
    bids: Path | None
    seeds: Path | None

    def check_unused(self, model: str) -> None:
        """Refuse files that a model does not read."""
        for name, given in self._asdict().items():
            if given is not None:
                raise typer.BadParameter(f"--{name} is for {'kex' if name == 'pages' else 'ksp'}, not for {model}.")


def train_phrases(model: str, learner: Any, data: Path, out: Path, sources: Sources, json: bool) -> None:
    """Train what extracts phrases (kex), or what expands them (ksp), and print what came of it."""
    learner.check_params()
    options.check_free(out)
    started = time.monotonic()
    facts = _train_kex(learner, data, sources) if model == "kex" else _train_ksp(learner, data, sources)
    learner.save(out)
    facts = {"model": str(out), "kind": model, **facts, "seconds": round(time.monotonic() - started, 2)}
    if json:
        output.print_json(facts)
    elif model == "kex":
        output.print_text(f"{out}: kex from {facts['pages']:,} pages, in {facts['seconds']:.1f} s.")
    else:
        weights = ", ".join(f"{name} {weight:g}" for name, weight in facts["weights"].items())
        output.print_text(
            f"{out}: ksp of {facts['queries']:,} queries, in {facts['seconds']:.1f} s. Weights: {weights}."
        )


def _train_kex(learner: Any, data: Path, sources: Sources) -> dict[str, Any]:
    """Learn from the pages of a harvested folder what people choose of what stands on a page."""
    Sources(None, *sources[1:]).check_unused("kex")
    if not sources.pages:
        raise typer.BadParameter("--model kex reads the pages themselves; name them, as in --pages pages/.")
    harvested = _harvested(data, "kex")
    from broadmatch.harvest.page_names import ByPage
    from broadmatch.io import PageSource

    points = harvested.train
    chosen: ByPage[dict[str, float]] = ByPage(zip(points.points or (), clicks_of(points), strict=True))
    found = [(page, chosen[page.name]) for page in PageSource(sources.pages) if page.name in chosen]
    if not found:
        raise BadInput(f"None of the pages is a training page of {data}; give the pages that were harvested.")
    learner.fit([page for page, _ in found], [phrases for _, phrases in found], queries=harvested.queries)
    return {"pages": len(found)}


def _train_ksp(learner: Any, data: Path, sources: Sources) -> dict[str, Any]:
    """Learn from a log which phrases go together, and from every second test page how much each arm counts."""
    sources._replace(clicks=None, bids=None, seeds=None).check_unused("ksp")
    if not sources.clicks:
        raise typer.BadParameter("--model ksp reads the log itself; name it, as in --clicks impressions.parquet.")
    harvested = _harvested(data, "ksp")
    import numpy as np

    import broadmatch
    from broadmatch.ads import BidTable
    from broadmatch.ads.expansion.ksp import WEIGHTS
    from broadmatch.io import ClickLog
    from broadmatch.labels import Recommender

    log = _log_of(ClickLog, sources.clicks, harvested.log_reading)
    bids = None if sources.bids is None else _log_of(BidTable, [sources.bids], {})
    learner.fit(log, bids=bids, without=harvested.test.points or ())
    if sources.seeds is not None:
        teaching = harvested.test.take(np.arange(0, len(harvested.test), 2))
        model = broadmatch.load(sources.seeds, Recommender).model
        learner.fit_weights(model.predict_topk(teaching.X, _SEEDS), [list(row) for row in clicks_of(teaching)])
    weights = dict(zip(WEIGHTS, (round(weight, 4) for weight in learner.weights_.tolist()), strict=True))
    return {"queries": len(learner.queries_), "weights": weights}


def _log_of(kind: "type[ClickLog]", files: list[Path], harvested: Mapping[str, Any]) -> "ClickLog":
    """The log, read as the one of the harvest where it has the columns of that, or else by the usual names."""
    ways = [{}, harvested] if harvested.get("names") else [harvested, {}]
    for way in ways:
        try:
            return kind(list(files), **way)
        except ColumnsMissing as error:
            wrong = error
    raise ColumnsMissing(wrong.what, "rename them; of a log, those that were mapped for `harvest` are taken too")


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
