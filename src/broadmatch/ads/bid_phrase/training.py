"""How the model learns which phrase of a clicked ad a query goes with, though a click does not tell."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch import progress
from broadmatch.ads.bid_phrase._features import GUESS, N_FEATURES, RISING, PairTexts, pair_features
from broadmatch.ads.bid_phrase._trees import BoostedTrees, sum_of_leaves
from broadmatch.ads.bid_phrase.reading import ClickGraph
from broadmatch.ads.bid_phrase.texts import encode, log_facts
from broadmatch.ads.bid_phrase.trees import boost
from broadmatch.data import CSR
from broadmatch.data.csr import gathered
from broadmatch.errors import BadInput
from broadmatch.kernels import F32, F64, I32, I64
from broadmatch.labels.calibration import Calibration, fit_calibration
from broadmatch.parallel import each_block

FOLDS = 4
"""Parts of the ads: the features of each come from the clicks on the others, and trees taught by those calibrate."""
_START: F64 = np.array(GUESS, np.float64)
_OTHERS = 0.5
"""Weight of a phrase of the same ad that is not the guess: it may well fit too."""
_BLOCK = 2048


@dataclass(frozen=True)
class Learner:
    """The settings of boosting."""

    n_trees: int
    n_leaves: int
    learning_rate: float
    size: int
    max_pairs: int
    seed: int
    n_jobs: int | None

    def boosted(self, rows: F32, target: F64, weight: F64 | None = None) -> BoostedTrees:
        """Trees whose sum is the log-odds of the target."""
        return boost(rows, target, weight, start=_START, rising=RISING, n_trees=self.n_trees, n_leaves=self.n_leaves,
                     learning_rate=self.learning_rate, seed=self.seed, n_jobs=self.n_jobs)[0]  # fmt: skip


class Bags(NamedTuple):
    """Queries with all phrases of an ad each: those of bag b are the pairs ptr[b] to ptr[b + 1], texts by number."""

    ptr: I64
    query: I32
    phrase: I32

    @property
    def rows(self) -> I64:
        """The bag of each pair."""
        return np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))

    def best(self, scores: F64) -> I64:
        """The pair of each bag that scores highest, the first of those that are equal; no bag is empty."""
        order = np.lexsort((np.arange(len(scores)), -scores, self.rows))
        found: I64 = order[self.ptr[:-1]]
        return found


def features_of(texts: PairTexts, query: I32, phrase: I32, n_jobs: int | None) -> F32:
    """The features of pairs of texts."""
    rows: F32 = np.empty((len(query), N_FEATURES), np.float32)

    def block(start: int, stop: int) -> None:
        pair_features(texts, query, phrase, start, stop, rows[start:stop])

    each_block(block, len(query), _BLOCK, n_jobs)
    return rows


def scores_of(trees: BoostedTrees, rows: F32, n_jobs: int | None) -> F64:
    """The log-odds of rows of features."""
    scores: F64 = np.empty(len(rows))
    each_block(
        lambda start, stop: sum_of_leaves(trees, _START, rows[start:stop], scores[start:stop]),
        len(rows),
        _BLOCK,
        n_jobs,
    )
    return scores


class CrossFeatures:
    """Features of pairs, from clicks on ads of other folds than the pair's own.

    A query and the phrases of an ad would be near each other by the very click that is to be learned from.
    """

    def __init__(self, graph: ClickGraph, fold: I64, learner: Learner) -> None:
        self._graph, self._fold, self._learner = graph, fold, learner
        self._texts = [*graph.queries, *graph.phrases]

    def of(self, query: I32, phrase: I32, fold: I64) -> F32:
        """The features of pairs, whose ads are in these folds; phrases are numbered behind the queries."""
        rows: F32 = np.empty((len(query), N_FEATURES), np.float32)
        used, place = np.unique(np.concatenate([query, phrase]), return_inverse=True)
        names = [self._texts[i] for i in used.tolist()]
        query, phrase = np.split(place.astype(np.int32), 2)
        with progress.task("Learning what is clicked alike", total=FOLDS, unit="folds") as task:
            for number in range(FOLDS):
                here = np.flatnonzero(fold == number)
                clicks = self._graph.clicks.where(self._fold[self._graph.clicks.indices] != number)
                some = np.flatnonzero(np.diff(clicks.indptr))
                if len(here):
                    kept = clicks.take(some) if len(some) else self._graph.clicks
                    asked = self._graph.queries.take(some) if len(some) else self._graph.queries
                    facts = log_facts(asked, kept, self._learner.size, self._learner.seed)
                    encoded = encode(names, facts)
                    rows[here] = features_of(encoded, query[here], phrase[here], self._learner.n_jobs)
                task.advance(1)
        return rows


def learn(graph: ClickGraph, learner: Learner) -> tuple[BoostedTrees, Calibration]:
    """Trees and calibration from clicked pairs of query and ad.

    A click says that one of the ad's phrases fits, not which (multiple-instance learning; Andrews, Tsochantaridis and
    Hofmann, NIPS 2002). It is taken to be the one that shares most by the first guess (`GUESS`); trees that go on from
    there tell it from phrases of other ads, and from the others of its own. More rounds, in which trees choose the
    phrases that the next ones learn from, made them worse.
    """
    rng = np.random.default_rng(learner.seed)
    fold: I64 = rng.permutation(graph.clicks.n_cols) % FOLDS
    clicked = _drawn(graph, graph.clicks, learner.max_pairs, rng)
    seen = _asked_again(graph, 4 * learner.max_pairs, rng)
    own, again = bags_of(graph, clicked.query, clicked.ad), bags_of(graph, seen.query, seen.ad)
    query = np.concatenate([own.query, own.query, again.query])
    phrase = np.concatenate([own.phrase, rng.permutation(own.phrase), again.phrase])
    of_own, of_again = fold[clicked.ad][own.rows], fold[seen.ad][again.rows]
    rows = CrossFeatures(graph, fold, learner).of(query, phrase, np.concatenate([of_own, of_own, of_again]))
    n = len(of_own)
    taught = _Taught(rows[: 2 * n], _weak_labels(own, rows[:n], rng), learner)
    trees, scores = taught.on(np.ones(n, np.bool_)), np.empty(len(of_again))
    for number in range(FOLDS):  # each ad is scored by trees that were not taught by its clicks
        here = of_again == number
        others = taught.on(of_own != number) if (of_own != number).any() else trees
        scores[here] = scores_of(others, rows[2 * n :][here], learner.n_jobs)
    best = scores[again.best(scores)].astype(np.float32)
    right = np.repeat(np.tile([True, False], len(best)), np.stack([seen.clicks, seen.shown - seen.clicks], 1).ravel())
    return trees, fit_calibration(np.repeat(best, seen.shown), right)


def learn_judged(
    graph: ClickGraph, query: I32, text: I32, good: NDArray[np.bool_], learner: Learner
) -> tuple[BoostedTrees, Calibration]:
    """Trees and calibration from judged pairs; the graph has the good ones as clicks of queries × texts."""
    fold: I64 = np.random.default_rng(learner.seed).permutation(graph.clicks.n_cols)[text] % FOLDS
    of_text: I64 = np.zeros(graph.clicks.n_cols, np.int64)
    of_text[text] = fold
    rows = CrossFeatures(graph, of_text, learner).of(query, text + np.int32(len(graph.queries)), fold)
    target = good.astype(np.float64)
    trees, scores = learner.boosted(rows, target), np.empty(len(rows))
    for number in range(FOLDS):
        others = fold != number
        some = learner.boosted(rows[others], target[others]) if others.any() else trees
        scores[~others] = scores_of(some, rows[~others], learner.n_jobs)
    return trees, fit_calibration(scores.astype(np.float32), good)


class _Taught(NamedTuple):
    """What trees learn from: features of pairs of ads' own phrases, then of others' phrases; and how each counts."""

    rows: F32
    labels: "_WeakLabels"
    learner: Learner

    def on(self, pairs: NDArray[np.bool_]) -> BoostedTrees:
        """Trees taught by some of the ads' pairs, and by the others' beside them."""
        kept = np.flatnonzero(np.tile(pairs, 2) & (self.labels.weight > 0))
        target, weight = self.labels.target[kept], self.labels.weight[kept].copy()
        weight[target > 0] *= pairs.sum() / (target > 0).sum()
        return self.learner.boosted(self.rows[kept], target, weight)


class _WeakLabels(NamedTuple):
    """Of each pair whether it is right (1 or 0), and what that counts; 0 is left out."""

    target: F64
    weight: F64


def _weak_labels(bags: Bags, own: F32, rng: np.random.Generator) -> _WeakLabels:
    """The guess of each bag is right; phrases of other ads are wrong, and half of the others of its own, by less."""
    n = len(own)
    best = bags.best(own @ _START)
    weight = np.concatenate([np.where(rng.random(n) < 0.5, _OTHERS, 0.0), np.ones(n)])
    target = np.zeros(2 * n)
    target[best], weight[best] = 1.0, 1.0
    return _WeakLabels(target, weight)


class _Shown(NamedTuple):
    """Pairs of query and ad: how often shown and clicked."""

    query: I64
    ad: I64
    shown: I64
    clicks: I64


def _drawn(graph: ClickGraph, counts: CSR, most: int, rng: np.random.Generator) -> _Shown:
    """Entries of a matrix of queries × ads that have phrases, as many as make `most` pairs of query and phrase."""
    sizes = np.diff(graph.bids.indptr)[counts.indices]
    usable = np.flatnonzero(sizes > 0)
    if not len(usable):
        raise BadInput("No ad that was clicked has a bid phrase; there is nothing to learn.")
    drawn = rng.permutation(usable)
    drawn = np.sort(drawn[: max(1, int(np.searchsorted(np.cumsum(sizes[drawn]), most, side="right")))])
    times = counts.data[drawn].astype(np.int64)
    return _Shown(counts.rows[drawn], counts.indices[drawn].astype(np.int64), times, times)


def _asked_again(graph: ClickGraph, most: int, rng: np.random.Generator) -> _Shown:
    """What to calibrate on: pairs that were shown, or if only clicks are known, as many pairs of a query and any ad."""
    if graph.shown is not None:
        found = _drawn(graph, graph.shown, most, rng)
        clicks = graph.clicks.to_scipy()[found.query, found.ad]
        return found._replace(clicks=np.asarray(clicks).ravel().astype(np.int64))
    found = _drawn(graph, graph.clicks, most // 2, rng)
    once, never = np.ones(len(found.ad), np.int64), np.zeros(len(found.ad), np.int64)
    return _Shown(
        np.tile(found.query, 2), np.concatenate([found.ad, rng.permutation(found.ad)]), np.tile(once, 2),
        np.concatenate([once, never]),
    )  # fmt: skip


def bags_of(graph: ClickGraph, query: I64, ad: I64) -> Bags:
    """Queries with the phrases of ads, which are numbered behind the queries."""
    ptr, where = gathered(graph.bids.indptr, ad)
    phrase = graph.bids.indices[where] + np.int32(len(graph.queries))
    return Bags(ptr, np.repeat(query, np.diff(ptr)).astype(np.int32), phrase.astype(np.int32))
