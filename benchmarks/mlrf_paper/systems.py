"""The five systems of the MLRF paper, each trained on what it may see.

Pages for testing have their clicks and bids taken out of all that a system learns from: a new ad has none. A fifth of
the training pages teach how much each arm of the expansion counts; neither the arms nor the seeds then saw them.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.common import held_out
from broadmatch.ads import KSP
from broadmatch.ads.expansion.ksp import ARMS, WEIGHTS
from broadmatch.data import Dataset, Names, Ranking
from broadmatch.harvest import QueryTable, sparse_beliefs
from broadmatch.labels import KEX, MLRF

SYSTEMS = ("KEX", "KEX+KSP", "MLRF", "MLRF+SSL", "MLRF+SSL+KSP")
N_PHRASES = 100
"""Phrases asked of every system: §5.4 counts the pages that have so many."""
N_TREES = 100
"""§5.2."""
Answers = list[list[tuple[str, float]]]
"""For each page its phrases with their scores, best first."""


@dataclass(frozen=True)
class Pages:
    """Pages to train and to test on with the phrases that they have, their contents, and the logs beside them."""

    train: Dataset
    test: Dataset
    html: dict[str, bytes]
    queries: QueryTable | None
    expansion: Callable[[Iterable[str]], KSP]
    """An expansion that has not seen the clicks and bids of the pages named."""


@dataclass(frozen=True)
class Answered:
    """What each system, and each other way to weigh the arms, recommends for the test pages."""

    answers: dict[str, Answers]
    others: dict[str, Answers]
    weights: dict[str, dict[str, float]]
    seconds: dict[str, float]


def answer(pages: Pages, seed: int) -> Answered:
    """Train all five, and ask them for phrases of the test pages."""
    clock = _Clock()
    teach, check = held_out(pages.train, seed=seed)
    names = pages.test.points or Names.of([])
    held_back = [*names, *(check.points or ())]
    taught = _seeds(pages, teach, check, seed, clock)
    learning = pages.expansion(held_back)
    clock.tick("KSP")
    seeds = _seeds(pages, pages.train, pages.test, seed, clock)
    final = pages.expansion(names)
    answers, others, weights = dict(seeds), {}, {}
    for name in ("KEX", "MLRF+SSL"):
        clock.tick("")
        learning.fit_weights(taught[name], phrases_of(check))
        weights[name] = learned = dict(zip(WEIGHTS, learning.weights_.tolist(), strict=True))
        clock.tick("weights")
        answers[f"{name}+KSP"] = expanded(final, seeds[name], learned)
        arms = [arm for arm in ARMS if getattr(final, f"{arm}_") is not None]
        for label, share in _other_weights(arms, learned["seeds"]).items():
            others[f"{name}+KSP, {label}"] = expanded(final, seeds[name], share)
    return Answered({name: answers[name] for name in SYSTEMS}, others, weights, clock.seconds)


def _other_weights(arms: list[str], seeds: float) -> dict[str, dict[str, float]]:
    """All arms alike, and each alone; the seeds count as learned."""
    alike = {"equal weights": {arm: 1.0 / len(arms) for arm in arms}}
    alone = {f"{arm} alone": {arm: 1.0} for arm in arms}
    return {name: {"seeds": seeds} | share for name, share in (alike | alone).items()}


def _seeds(pages: Pages, train: Dataset, asked: Dataset, seed: int, clock: "_Clock") -> dict[str, Answers]:
    """Phrases by extraction and by forests, trained on `train`, for the pages `asked`."""
    clock.tick("")
    kex = KEX(seed=seed).fit(_shown(pages, train), clicks_of(train), queries=pages.queries)
    found = {"KEX": [list(answer.phrases) for answer in kex.recommend(_shown(pages, asked), N_PHRASES)]}
    clock.tick("KEX")
    for name, labels in (("MLRF", train.Y), ("MLRF+SSL", sparse_beliefs(train.Y))):
        model = MLRF(n_trees=N_TREES, seed=seed).fit(train.X, labels, label_names=train.labels)
        found[name] = listed(model.predict_topk(asked.X, N_PHRASES))
        clock.tick(name)
    return found


def expanded(model: KSP, seeds: Answers, weights: dict[str, float]) -> Answers:
    """Lists of phrases expanded, the weights of the arms as given."""
    return listed(model.expand_many(seeds, N_PHRASES, weights=weights).ranking)


def listed(ranking: Ranking) -> Answers:
    """The phrases and scores of each page of a ranking."""
    scores = (scores.tolist() for _, scores in ranking)
    return [list(zip(*pair, strict=True)) for pair in zip(ranking.names(), scores, strict=True)]


def phrases_of(points: Dataset) -> list[list[str]]:
    """The names of the labels of each point."""
    return [[points.labels[j] for j in points.Y.row(i)[0].tolist()] for i in range(len(points))]


def clicks_of(points: Dataset) -> list[dict[str, float]]:
    """The labels of each point with their weights."""
    rows = (points.Y.row(i) for i in range(len(points)))
    return [{points.labels[j]: w for j, w in zip(a.tolist(), b.tolist(), strict=True)} for a, b in rows]


def _shown(pages: Pages, points: Dataset) -> list[tuple[str, bytes]]:
    return [(name, pages.html[name]) for name in points.points or ()]


class _Clock:
    """CPU seconds by what they were spent on."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.process_time()

    def tick(self, name: str) -> None:
        """Since the last tick, it was this; an empty name is not counted."""
        now = time.process_time()
        if name:
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self.last
        self.last = now
