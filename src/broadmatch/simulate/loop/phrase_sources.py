"""What each source of phrases recommends for the ads, learned from the clicks so far: the work of the nights."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.ads import KSP, BidPhraseModel, Extended, Inventory, extended_matches
from broadmatch.ads.recommended import own_phrases
from broadmatch.data import CSR, Dataset, Names, Ranking
from broadmatch.features import PageVectorizer, phrase_label_features
from broadmatch.harvest import Harvest, build_datasets, harvest
from broadmatch.harvest.page_names import plain_page
from broadmatch.io import ClickLog, Page
from broadmatch.kernels import F32, I64, Flags
from broadmatch.labels import PfastreXML, SwiftXML

DEPTH = 100
"""Queries that are recommended for an ad before the threshold."""
AT_LEAST = 2
BETA = 0.5
"""Of F_β: a wrong match costs more than a missing one, so precision counts twice as much as recall."""
_HELD_BACK = 0.2


class HeldBack(NamedTuple):
    """Ads whose pages were held back: their numbers, what is recommended, and what was clicked beside own phrases."""

    ads: I64
    ranking: Ranking
    clicked: list[set[str]]


class PhraseSources:
    """Extended matches of all ads by each source; the threshold of a source is learned once, on pages held back."""

    def __init__(
        self, inventory: Inventory, pages: Sequence[Page], model: BidPhraseModel, *, n_trees: int, seed: int
    ) -> None:
        self.inventory, self.pages, self.model, self.n_trees, self.seed = inventory, pages, model, n_trees, seed
        self.thresholds: dict[str, float] = {}

    def extended(self, source: str, inventory: Inventory, known: Flags, logs: Sequence[Path]) -> Extended | None:
        """The matches of the known ads beyond their own phrases, by the logs so far; None for own phrases only.

        `inventory` has the ads of the one that was given first, by the same numbers.
        """
        if source == "own":
            return None
        if source not in self.thresholds:
            self.thresholds[source] = self.threshold(source, logs)
        ads = np.flatnonzero(known)
        ranking = _LEARNERS[source](self, _Log.of(logs, 0.0, self.seed), [self._ad_pages[ad] for ad in ads.tolist()])
        found = ranking.found
        return extended_matches(
            self.model,
            ranking.label_names.take(ranking.labels[found].astype(np.int64)),
            ads[ranking.rows],
            ranking.scores[found].astype(np.float64),
            inventory,
            threshold=self.thresholds[source],
            at_least=AT_LEAST,
        )

    def held_back(self, source: str, logs: Sequence[Path], seed: int) -> "HeldBack":
        """What a source recommends for ads whose pages it has not learned from."""
        log = _Log.of(logs, _HELD_BACK, seed)
        place = {page: row for row, page in enumerate(log.harvest.test_pages)}
        ads = [ad for ad, page in enumerate(self._ad_pages) if page in place]
        ranking = _LEARNERS[source](self, log, [self._ad_pages[ad] for ad in ads])
        return HeldBack(np.array(ads, np.int64), ranking, self._clicked(log, ads, place))

    def threshold(self, source: str, logs: Sequence[Path]) -> float:
        """The score that is best on pages held back, by F_β of the queries that were clicked on them."""
        _, ranking, clicked = self.held_back(source, logs, self.seed)
        right = np.array([name in row for names, row in zip(ranking.names(), clicked, strict=True) for name in names])
        free = np.nonzero(ranking.found)[1] >= AT_LEAST
        scores = ranking.scores[ranking.found]
        n_true, always = sum(map(len, clicked)), np.array([right[~free].sum(), (~free).sum()])
        return best_threshold(scores[free], right[free], n_true, *always.tolist())

    def _clicked(self, log: "_Log", ads: Sequence[int], place: Mapping[str, int]) -> list[set[str]]:
        """The queries that led to clicks on the pages of ads, without the ads' own phrases."""
        counts, names = log.harvest.test_counts, log.harvest.labels
        rows = (counts.row(place[self._ad_pages[ad]])[0].tolist() for ad in ads)
        return [{names[j] for j in row} - set(self._own[ad]) for ad, row in zip(ads, rows, strict=True)]

    def by_pages(self, log: "_Log", pages: Sequence[str]) -> Ranking:
        """PfastreXML: queries for what is on the page."""
        data = self._dataset(log)
        model = PfastreXML(n_trees=self.n_trees, seed=self.seed).fit(data.X, data.Y, label_names=data.labels)
        return model.predict_topk(self._rows_of(pages), DEPTH, revealed=self._revealed(pages, data.labels))

    def by_phrases(self, log: "_Log", pages: Sequence[str]) -> Ranking:
        """SwiftXML: queries for what is on the page, the phrases that its ad bids on, and what led to clicks on it.

        What led to clicks stays, before what is recommended (Prabhu et al., WSDM 2018, §5: given bid phrases and
        historically known relevant queries).
        """
        data = self._dataset(log)
        features = phrase_label_features(data.labels)
        model = SwiftXML(n_trees=self.n_trees, seed=self.seed)
        model.fit(data.X, data.Y, label_names=data.labels, label_features=features)
        own, clicked = self._revealed(pages, data.labels), log.clicked(pages)
        known = CSR.from_scipy((own.to_scipy() + clicked.to_scipy()).sign())
        ranking = model.predict_topk(self._rows_of(pages), DEPTH, revealed=known)
        return _before(CSR.from_scipy(clicked.to_scipy() > own.to_scipy()), ranking)

    def by_expansion(self, log: "_Log", pages: Sequence[str]) -> Ranking:
        """KSP: queries that are searched and clicked like the phrases that the ad bids on."""
        ksp = KSP().fit(ClickLog(list(log.files)), without=log.harvest.test_pages)
        lists = [self._own[self._ad_of[page]] for page in pages]
        ranking = ksp.expand_many(lists, DEPTH + max(map(len, lists), default=0)).ranking
        return _without(ranking, lists, DEPTH)

    def _dataset(self, log: "_Log") -> Dataset:
        train, _ = build_datasets(log.harvest, self.pages, self._vectorizer, weights="npmi")
        return train

    @cached_property
    def _vectorizer(self) -> PageVectorizer:
        return PageVectorizer().fit([page.html for page in self.pages])

    @cached_property
    def _matrix(self) -> CSR:
        return CSR.from_scipy(self._vectorizer.transform([page.html for page in self.pages]))

    @cached_property
    def _ad_pages(self) -> list[str]:
        return [plain_page(page) for page in self.inventory.pages]

    @cached_property
    def _ad_of(self) -> dict[str, int]:
        return {page: ad for ad, page in enumerate(self._ad_pages)}

    @cached_property
    def _own(self) -> list[list[str]]:
        return own_phrases(self.inventory)

    def _rows_of(self, pages: Sequence[str]) -> CSR:
        place = {plain_page(page.name): i for i, page in enumerate(self.pages)}
        return self._matrix.take(np.array([place[page] for page in pages], np.int64))

    def _revealed(self, pages: Sequence[str], labels: Names) -> CSR:
        number = {name: i for i, name in enumerate(labels)}
        lists = (self._own[self._ad_of[page]] for page in pages)
        return CSR.from_rows([sorted({number[p] for p in own if p in number}) for own in lists], len(labels))


class _Log(NamedTuple):
    """The clicks so far, split into pages to learn from and pages held back."""

    files: Sequence[Path]
    harvest: Harvest

    @classmethod
    def of(cls, logs: Sequence[Path], held_back: float, seed: int) -> "_Log":
        return cls(logs, harvest(ClickLog(list(logs)), min_test_queries=5, test_share=held_back, seed=seed))

    def clicked(self, pages: Sequence[str]) -> CSR:
        """The queries that led to clicks on each of these pages, as far as they are learned from."""
        place = {page: row for row, page in enumerate(self.harvest.train_pages)}
        counts = self.harvest.train_counts
        rows = [counts.row(place[page])[0].tolist() if page in place else [] for page in pages]
        return CSR.from_rows(rows, counts.n_cols)


_Learn = Callable[[PhraseSources, _Log, Sequence[str]], Ranking]
_LEARNERS: dict[str, _Learn] = {
    "pfastrexml": PhraseSources.by_pages,
    "swiftxml": PhraseSources.by_phrases,
    "ksp": PhraseSources.by_expansion,
}


def best_threshold(scores: F32, right: Flags, n_true: int, others_right: int = 0, others: int = 0) -> float:
    """The score from which on F_β is highest: (1 + β²)·R / (n + β²·n_true), with R right ones among n.

    `others_right` of `others` are taken in any case. Without anything right there is no such score: infinity.

    >>> best_threshold(np.float32([0.9, 0.2, 0.8]), np.array([True, False, True]), 3)
    0.800000011920929
    """
    order = np.argsort(-scores, kind="stable")
    hits = others_right + np.cumsum(right[order])
    value = hits / (others + np.arange(1, len(order) + 1) + BETA**2 * n_true)
    last = np.append(scores[order][1:] != scores[order][:-1], True)  # equal scores are not parted
    if not len(order) or not (hits > others_right).any():
        return math.inf
    return float(scores[order][np.argmax(np.where(last, value, -1.0))])


def _before(first: CSR, ranking: Ranking) -> Ranking:
    """Labels that are certain, of each point, and then those of a ranking."""
    certain = max(1.0, float(ranking.scores.max(initial=0.0)))
    counts = np.diff(first.indptr)
    labels, scores = [np.empty(0, np.int32)], [np.empty(0, np.float32)]
    for i, (ranked, scored) in enumerate(ranking):
        labels += [first.row(i)[0], ranked]
        scores += [np.full(counts[i], certain, np.float32), scored]
    return Ranking.of(counts + ranking.lengths, np.concatenate(labels), np.concatenate(scores), ranking.label_names)


def _without(ranking: Ranking, lists: Sequence[Sequence[str]], k: int) -> Ranking:
    """The k best labels of each point that are not on its list."""
    number = {name: i for i, name in enumerate(ranking.label_names)}
    kept: NDArray[np.bool_] = ranking.found.copy()
    for i, names in enumerate(lists):
        kept[i] &= ~np.isin(ranking.labels[i], [number[name] for name in names if name in number])
    left = ranking.where(kept)
    return left.first(np.minimum(left.lengths, k))
