"""Pages to TF-IDF rows: the bag of words that the label models of the MLRF paper are trained on."""

import os
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from broadmatch.data import CSR, Names
from broadmatch.errors import BadInput, NotFitted
from broadmatch.features._page_vectorizer import tf_idf_rows
from broadmatch.features.tokens import StopWords, as_stop_words
from broadmatch.features.word_counts import BlockCounts, Page, Rows, Vocabulary, count_pages
from broadmatch.io import artifacts
from broadmatch.params import Either, OneOf, Parameters, Rule, Whole
from broadmatch.progress import task
from broadmatch.state import State


class PageVectorizer(Parameters, TransformerMixin, BaseEstimator):
    """HTML or plain text to rows of TF-IDF, from streams of pages, in bounded memory (MLRF §3.1).

    x_w = count_w · idf_w, scaled to unit length, where a word in the title or in a link counts `boost` times, and
    idf_w = 1 + ln((1 + N) / (1 + n_w)) for a word on n_w of the N pages fitted on. Stop words and words on fewer
    than `min_pages` pages are dropped. Columns are in the order of the words.

    `stop_words` is "english", None, or a collection of one's own. Every `n_jobs` gives the same bits.

    >>> pages = [b"<title>Pizza</title> fresh pizza", "<p>fresh <a href=/>flowers</a>", "flowers and pizza"]
    >>> vectorizer = PageVectorizer(min_pages=2)
    >>> vectorizer.fit_transform(pages).toarray().round(2)
    array([[0.  , 0.09, 1.  ],
           [1.  , 0.1 , 0.  ],
           [0.71, 0.  , 0.71]], dtype=float32)
    >>> list(vectorizer.vocabulary)
    ['flowers', 'fresh', 'pizza']
    """

    _vocabulary: Names
    _idf: NDArray[np.float64]
    _n_pages: int

    rules: ClassVar[dict[str, Rule]] = {
        "min_pages": Whole(1),
        "boost": Whole(1, 1000),
        "stop_words": StopWords(),
        "n_jobs": Either((OneOf((-1, None)), Whole(1))),
    }

    def __init__(
        self,
        *,
        min_pages: int = 10,
        boost: int = 10,
        stop_words: Any = "english",
        n_jobs: int | None = 1,
    ) -> None:
        self.min_pages = min_pages
        self.boost = boost
        self.stop_words = stop_words
        self.n_jobs = n_jobs

    def fit(self, pages: Iterable[Page], y: Any = None) -> Self:
        """Learn the vocabulary and the page frequencies; holds one block of pages and the words seen so far."""
        self.check_params()
        seen, n_pages = Vocabulary(), 0
        for block in self._counted(pages):
            seen.add(block)
            n_pages += block.n_pages
        self._settle(seen, n_pages)
        return self

    def fit_transform(self, pages: Iterable[Page], /, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and give the rows of the same pages, reading them once; only their counts are held meanwhile."""
        self.check_params()
        seen, n_pages = Vocabulary(), 0
        kept: list[tuple[Rows, NDArray[np.int32]]] = []
        for block in self._counted(pages):
            kept.append((block.rows.copy(), seen.add(block)))
            n_pages += block.n_pages
        columns = self._settle(seen, n_pages)
        return self._stack(self._weigh(rows, columns[numbers]) for rows, numbers in kept)

    def transform(self, pages: Iterable[Page]) -> sp.csr_matrix:
        """The TF-IDF rows of `pages`; a page without a known word gives an empty row."""
        known = self._known()
        return self._stack(self._weigh(block.rows, known.numbers(block)) for block in self._counted(pages))

    @property
    def vocabulary(self) -> Names:
        """The words that are columns, in order."""
        self._check_fitted()
        return self._vocabulary

    @property
    def idf(self) -> NDArray[np.float64]:
        """The inverse page frequency of each column."""
        self._check_fitted()
        return self._idf

    @property
    def n_pages(self) -> int:
        """How many pages it was fitted on."""
        self._check_fitted()
        return self._n_pages

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The words that are columns, as scikit-learn wants them."""
        return np.array(list(self.vocabulary), dtype=object)

    def to_state(self) -> State:
        """Everything to save."""
        self._check_fitted()
        params = self.get_params()
        if params["stop_words"] is not None and not isinstance(params["stop_words"], str):
            params["stop_words"] = sorted(params["stop_words"])
        arrays: dict[str, NDArray[Any]] = {
            "words_text": self._vocabulary.text,
            "words_offsets": self._vocabulary.offsets,
            "idf": self._idf,
        }
        return State("page_vectorizer", params, arrays, {"n_pages": self._n_pages})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The vectorizer that was saved."""
        vectorizer = cls(**state.params)
        vectorizer._vocabulary = Names(state.arrays["words_text"], state.arrays["words_offsets"])
        vectorizer._idf = state.arrays["idf"]
        vectorizer._n_pages = state.facts["n_pages"]
        return vectorizer

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as the folder `path`; `broadmatch.load` opens it."""
        artifacts.save(self, path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_idf")

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFitted("This PageVectorizer has no vocabulary yet; fit it on pages, or load a saved one.")

    def _known(self) -> Vocabulary:
        """The table of the vocabulary, made when first needed."""
        self._check_fitted()
        table: Vocabulary | None = self.__dict__.get("_table")
        if table is None:
            table = self._table = Vocabulary.of(self._vocabulary)
        return table

    def _counted(self, pages: Iterable[Page]) -> Iterator[BlockCounts]:
        with task("Reading pages", unit="pages") as reading:
            for block in count_pages(pages, boost=self.boost, n_jobs=self.n_jobs):
                yield block
                reading.advance(block.n_pages)

    def _settle(self, seen: Vocabulary, n_pages: int) -> NDArray[np.int32]:
        """Choose the words that stay; gives the column of every word seen, -1 for those that do not."""
        if n_pages == 0:
            raise BadInput("There are no pages to fit on: the stream of pages is empty.")
        enough = np.flatnonzero(seen.pages[: seen.n_words] >= self.min_pages)
        stop_words = {word.encode() for word in as_stop_words(self.stop_words)}
        words = seen.words(enough)
        in_order = [k for k in sorted(range(len(words)), key=words.__getitem__) if words[k] not in stop_words]
        if not in_order:
            raise BadInput(
                f"No word is on at least {self.min_pages} of the {n_pages:,} pages; "
                "give more pages, or a lower min_pages."
            )
        numbers = enough[in_order]
        columns = np.full(seen.n_words, -1, np.int32)
        columns[numbers] = np.arange(len(numbers), dtype=np.int32)
        offsets = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum([len(words[k]) for k in in_order], out=offsets[1:])
        self._vocabulary = Names(np.frombuffer(b"".join([words[k] for k in in_order]), np.uint8), offsets)
        self._idf = 1.0 + np.log((1.0 + n_pages) / (1.0 + seen.pages[numbers]))
        self._n_pages = n_pages
        self.__dict__.pop("_table", None)
        return columns

    def _weigh(self, rows: Rows, columns: NDArray[np.int32]) -> CSR:
        indptr = np.zeros(len(rows.starts), np.int64)
        indices, data = np.empty(len(rows.words), np.int32), np.empty(len(rows.words), np.float32)
        in_order = np.argsort(columns, kind="stable")
        tf_idf_rows(rows.starts, rows.words, rows.counts, columns, in_order, self._idf, indptr, indices, data)
        used = int(indptr[-1])
        return CSR(indptr, indices[:used].copy(), data[:used].copy(), len(self._idf))

    def _stack(self, blocks: Iterable[CSR]) -> sp.csr_matrix:
        parts = list(blocks)
        ends = np.cumsum([0, *(part.nnz for part in parts)])
        indptr = np.concatenate([[0], *(part.indptr[1:] + end for part, end in zip(parts, ends, strict=False))])
        indices = np.concatenate([np.empty(0, np.int32), *(part.indices for part in parts)])
        data = np.concatenate([np.empty(0, np.float32), *(part.data for part in parts)])
        return CSR(indptr.astype(np.int64), indices, data, len(self._idf)).to_scipy()
