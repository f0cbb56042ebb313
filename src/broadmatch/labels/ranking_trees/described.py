"""Revealed phrases that are no labels: they enter the item set of a point by their words (SwiftXML §5)."""

import logging
from dataclasses import dataclass

import numpy as np

from broadmatch.data import CSR, Names
from broadmatch.errors import BadInput
from broadmatch.features import PageVectorizer, join_label_features, text_label_features
from broadmatch.kernels import I64
from broadmatch.labels.ranking_trees.item_sets import ItemSets
from broadmatch.labels.ranking_trees.update import stacked

log = logging.getLogger("broadmatch")
_ROUNDING = 1e-4


@dataclass(frozen=True)
class PhraseDescriber:
    """Describes any phrase as a model's labels are described, where that is by the words of their names.

    `gain` is that of the rarest label, 1/p_l.
    """

    vectorizer: PageVectorizer
    gain: float

    @classmethod
    def of(cls, names: Names, sets: ItemSets, gain: float) -> "PhraseDescriber | None":
        """None if the labels of a model have no features, or others than the words of their names."""
        known = sets.label_features
        width = known.n_cols - (known.n_rows if sets.weighed else 0)
        if width <= 0:
            return None
        try:
            words, vectorizer = text_label_features(names)
        except BadInput:  # no word is in two names
            return None
        given = join_label_features(_first(known, width))
        alike = words.n_cols == width and np.array_equal(words.indptr, given.indptr)
        alike = alike and np.array_equal(words.indices, given.indices)
        if not alike or not np.allclose(words.data, given.data, atol=_ROUNDING):
            return None
        return cls(vectorizer, gain if sets.weighed else 1.0)

    def describe(self, phrases: Names) -> CSR:
        """Label features of phrases; a phrase without a word of two labels has none."""
        return CSR.from_scipy(self.vectorizer.transform(list(phrases)))

    def outside(self, revealed: CSR, names: Names, place: I64) -> tuple[CSR, CSR]:
        """Of the names that are no labels (place −1) those that have features: points × these, and the features."""
        others = np.flatnonzero(place < 0)
        described = self.describe(names.take(others))
        some = np.flatnonzero(np.diff(described.indptr) > 0)
        if len(some) < len(others):
            log.warning("Revealed phrases without a word that the labels have: %d.", len(others) - len(some))
        numbers = np.full(len(names), -1, np.int64)
        numbers[others[some]] = np.arange(len(some))
        return revealed.renumbered(numbers, len(some)), described.take(some)

    def item_sets(self, sets: ItemSets, known: CSR, others: CSR, described: CSR, n_jobs: int | None) -> CSR:
        """The item sets of points with labels `known` and phrases `others` beside, which are `described`."""
        width, n_labels = sets.label_features.n_cols, sets.label_features.n_rows
        rows = described._replace(data=(described.data * np.float32(self.gain)), n_cols=width)
        both = stacked(known._replace(n_cols=n_labels).transposed(), others.transposed()).transposed()
        return ItemSets(stacked(sets.label_features, rows), sets.weighed).of_rows(both, n_jobs)


def _first(rows: CSR, width: int) -> CSR:
    """The first columns of a matrix."""
    return rows.where(rows.indices < width)._replace(n_cols=width)
