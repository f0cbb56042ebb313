"""Pages to TF-IDF rows with pivoted length normalisation (Singhal, Buckley and Mitra, SIGIR 1996)."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR
from broadmatch.errors import NotFitted
from broadmatch.features._pivoted import pivoted_rows
from broadmatch.features.page_vectorizer import PageVectorizer
from broadmatch.features.word_counts import Rows, Vocabulary
from broadmatch.params import Number, Rule
from broadmatch.state import State


class PivotedVectorizer(PageVectorizer):
    """HTML or plain text to rows of TF-IDF whose length is pivoted: long pages gain less than their length.

    x_w = idf_w · (1 + ln d_w) / (1 + ln mean d) / (1 - slope + slope · n / mean n), where word w counts d_w times on a
    page of n different words, mean d is over these words, mean n over the pages fitted on, and idf_w = ln(N / n_w)
    for a word on n_w of the N pages. Only words of the vocabulary are counted. These are the features of AdaBoost.LC
    (AISTATS 2007, §4), where however n_w is how often a word occurs in all pages together, so that common words would
    have negative weights. Parameters are those of `PageVectorizer`, and `slope`.

    >>> vectorizer = PivotedVectorizer(min_pages=1)
    >>> vectorizer.fit_transform(["pizza pizza pasta", "pasta", "taxi taxi"]).toarray().round(2)
    array([[0.25, 1.15, 0.  ],
           [0.44, 0.  , 0.  ],
           [0.  , 0.  , 1.19]], dtype=float32)
    """

    _mean_terms: float

    rules: ClassVar[dict[str, Rule]] = PageVectorizer.rules | {"slope": Number(0, 1)}

    def __init__(
        self,
        *,
        min_pages: int = 10,
        boost: int = 1,
        stop_words: Any = "english",
        slope: float = 0.3,
        n_jobs: int | None = 1,
    ) -> None:
        super().__init__(min_pages=min_pages, boost=boost, stop_words=stop_words, n_jobs=n_jobs)
        self.slope = slope

    def to_state(self) -> State:
        """Everything to save."""
        state = super().to_state()
        facts = dict(state.facts) | {"mean_terms": self._mean_terms}
        return State("pivoted_vectorizer", state.params, state.arrays, facts)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The vectorizer that was saved."""
        vectorizer = super().from_state(state)
        vectorizer._mean_terms = state.facts["mean_terms"]
        return vectorizer

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFitted("This PivotedVectorizer has no vocabulary yet; fit it on pages, or load a saved one.")

    def _settle(self, seen: Vocabulary, n_pages: int) -> NDArray[np.int32]:
        columns = super()._settle(seen, n_pages)
        kept = columns >= 0
        pages = np.empty(len(self._idf))
        pages[columns[kept]] = seen.pages[: seen.n_words][kept]
        self._idf = np.log(n_pages / pages)
        self._mean_terms = float(pages.sum() / n_pages)
        return columns

    def _weigh(self, rows: Rows, columns: NDArray[np.int32]) -> CSR:
        indptr = np.zeros(len(rows.starts), np.int64)
        indices, data = np.empty(len(rows.words), np.int32), np.empty(len(rows.words), np.float32)
        pivoted_rows(*rows, columns, self._idf, float(self.slope), self._mean_terms, indptr, indices, data)
        used = int(indptr[-1])
        return CSR(indptr, indices[:used].copy(), data[:used].copy(), len(self._idf))
