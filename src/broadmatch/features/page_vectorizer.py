"""Pages to TF-IDF rows: the bag of words that the label models of the MLRF paper are trained on."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Names
from broadmatch.data.csr import offsets
from broadmatch.errors import BadInput
from broadmatch.features._page_vectorizer import tf_idf_rows
from broadmatch.features.html_scan import Page, WordCounts, WordRows
from broadmatch.features.stop_words import StopWords, as_stop_words
from broadmatch.features.transformer import Transformer
from broadmatch.features.word_counts import CountedPages, Vocabulary, WordTotals, count_pages
from broadmatch.kernels import F32, I32, I64
from broadmatch.kernels.vocabulary import Words
from broadmatch.layout import Axes, Within
from broadmatch.params import Jobs, Whole, learned
from broadmatch.progress import task

if TYPE_CHECKING:
    import scipy.sparse as sp

_MIN_PAGES = 10  # as in the paper; of few pages 1 %, or their words would all be dropped
_MOST_WORDS = 1 << 24  # words and pairs seen that are held; above it, pairs on the fewest pages are dropped
Block = tuple[I64, I32, F32]
"""The length of each row, and the columns and values of all of them."""


class PageVectorizer(Transformer):
    """HTML or plain text to rows of TF-IDF, from streams of pages, in bounded memory (MLRF §3.1).

    x_w = count_w · idf_w, scaled to unit length, where a word in the title or in a link counts `boost` times, and
    idf_w = 1 + ln((1 + N) / (1 + n_w)) for a word on n_w of the N pages fitted on. Stop words and words on fewer
    than `min_pages` pages are dropped; if it is None, on fewer than 10, or than one in a hundred if that is less.
    Columns are in the order of the words. With `ngrams=2`, two words that follow each other in one stretch of text are
    a word too, with a blank between them, unless either is a stop word.

    >>> pages = [b"<title>Pizza</title> fresh pizza", "<p>fresh <a href=/>flowers</a>", "flowers and pizza"]
    >>> vectorizer = PageVectorizer(min_pages=2)
    >>> vectorizer.fit_transform(pages).toarray().round(2)
    array([[0.  , 0.09, 1.  ],
           [1.  , 0.1 , 0.  ],
           [0.71, 0.  , 0.71]], dtype=float32)
    >>> list(vectorizer.vocabulary_)
    ['flowers', 'fresh', 'pizza']
    """

    kind: ClassVar[str] = "page_vectorizer"

    min_pages: Annotated[
        int | None, Whole(1, none=True), "words on fewer pages are dropped; None is 10, or 1 % of the pages if less"
    ] = None
    boost: Annotated[int, Whole(1, 1000), "how often a word in the title or in a link counts"] = 10
    stop_words: Annotated[Any, StopWords(), "words to drop"] = "english"
    ngrams: Annotated[int, Whole(1, 2), "2 adds pairs of words that follow each other"] = 1
    n_jobs: Jobs = None

    vocabulary_: Annotated[Names, Axes("words")] = learned()
    """The words that are columns, in order."""
    idf_: Annotated[NDArray[np.float64], Axes("words"), Within()] = learned()
    """The inverse page frequency of each column."""
    n_pages_: int = learned()
    """How many pages it was fitted on."""

    def fit(self, pages: Iterable[Page], y: Any = None) -> Self:
        """Learn the vocabulary and the page frequencies; holds one block of pages and the words seen so far."""
        self.check_params()
        seen, n_pages = Vocabulary(), 0
        for block in self._counted(pages):
            seen.add(block)
            seen.drop_rare_pairs(_MOST_WORDS)
            n_pages += block.n_pages
        self._settle(seen, n_pages)
        return self

    def fit_transform(self, pages: Iterable[Page], y: Any = None) -> "sp.csr_matrix":
        """Fit, and give the rows of the same pages, reading them once; only their counts are held meanwhile."""
        self.check_params()
        seen = Vocabulary()
        kept, n_pages = self._kept(pages, seen)
        columns = np.append(self._settle(seen, n_pages), np.int32(-1))
        return CSR.of_blocks((self._weigh(rows, columns[at]) for rows, at in kept), len(self.idf_)).to_scipy()

    def transform(self, pages: Iterable[Page]) -> "sp.csr_matrix":
        """The TF-IDF rows of `pages`; a page without a known word gives an empty row."""
        known = self._known()
        rows = (self._weigh(block.rows, known.numbers(block.words, block.n_words)) for block in self._counted(pages))
        return CSR.of_blocks(rows, len(self.idf_)).to_scipy()

    def count(self, pages: Iterable[Page]) -> CountedPages:
        """Count the words of some of the pages to fit on: what `learn` and `weigh` make features of, part by part."""
        self.check_params()
        seen = Vocabulary()
        kept, n_pages = self._kept(pages, seen)
        return CountedPages(kept, seen.totals, n_pages)

    def least_pages(self, n_pages: int) -> int:
        """On how many of all pages a word must be."""
        return min(_MIN_PAGES, max(1, n_pages // 100)) if self.min_pages is None else self.min_pages

    def learn(self, words: Iterable[WordTotals], n_pages: int) -> Self:
        """Fit on words that were counted in parts; those on fewer than `least_pages(n_pages)` may be left out.

        >>> vectorizer = PageVectorizer(min_pages=1)
        >>> parts = [vectorizer.count(pages) for pages in (["fresh pizza"], ["pizza pasta"])]
        >>> vectorizer.learn([part.words for part in parts], n_pages=2).weigh(parts[1]).to_scipy().toarray().round(2)
        array([[0.  , 0.81, 0.58]], dtype=float32)
        """
        self.check_params()
        seen = Vocabulary()
        for part in words:
            seen.add_totals(part)
        self._settle(seen, n_pages)
        return self

    def weigh(self, counted: CountedPages) -> CSR:
        """The features of counted pages, those that they would have if all pages were fitted on at once."""
        words = Words(*map(np.array, counted.words[:3]))
        columns = np.append(self._known().numbers(words, len(words.hashes)), np.int32(-1))
        blocks = ((WordRows(*map(np.array, rows)), columns[at]) for rows, at in counted.blocks)
        return CSR.of_blocks((self._weigh(*block) for block in blocks), len(self.idf_))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The words that are columns, as scikit-learn wants them."""
        self._check_fitted()
        return np.array(list(self.vocabulary_), dtype=object)

    def __sklearn_tags__(self) -> Any:
        """A vectorizer takes strings, one for each row."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        return tags

    def _known(self) -> Vocabulary:
        """The table of the vocabulary, made when first needed."""
        self._check_fitted()
        table: Vocabulary | None = self.__dict__.get("_table")
        if table is None:
            table = self._table = Vocabulary.of(self.vocabulary_)
        return table

    def _counted(self, pages: Iterable[Page]) -> Iterator[WordCounts]:
        with task("Reading pages", unit="pages") as reading:
            for block in count_pages(pages, boost=self.boost, n_jobs=self.n_jobs, ngrams=self.ngrams):
                yield block
                reading.advance(block.n_pages)

    def _kept(self, pages: Iterable[Page], seen: Vocabulary) -> tuple[list[tuple[WordRows, I32]], int]:
        """Rows of counts, block by block, with the numbers in `seen` of their words; and how many pages there are."""
        kept: list[tuple[WordRows, I32]] = []
        n_pages = 0
        for block in self._counted(pages):
            kept.append((block.rows.copy(), seen.add(block)))
            n_pages += block.n_pages
            renumbered = seen.drop_rare_pairs(_MOST_WORDS)
            if renumbered is not None:
                now = np.append(renumbered, np.int32(-1))  # what was dropped before stays so
                kept = [(rows, now[at]) for rows, at in kept]
        return kept, n_pages

    def _settle(self, seen: Vocabulary, n_pages: int) -> NDArray[np.int32]:
        """Choose the words that stay; gives the column of every word seen, -1 for those that do not."""
        if n_pages == 0:
            raise BadInput("There are no pages to fit on: the stream of pages is empty.")
        least = self.least_pages(n_pages)
        enough = np.flatnonzero(seen.pages[: seen.n_words] >= least)
        stop_words = {word.encode() for word in as_stop_words(self.stop_words)}
        words = seen.words(enough)
        # A pair is dropped with either of its words.
        in_order = [
            k for k in sorted(range(len(words)), key=words.__getitem__) if stop_words.isdisjoint(words[k].split(b" "))
        ]
        if not in_order:
            raise BadInput(
                f"No word is on at least {least} of the {n_pages:,} pages; give more pages, or a lower min_pages."
                if least > 1
                else f"The {n_pages:,} pages hold no words, or stop words only; are these the right pages?"
            )
        numbers = enough[in_order]
        columns = np.full(seen.n_words, -1, np.int32)
        columns[numbers] = np.arange(len(numbers), dtype=np.int32)
        chosen = [words[k] for k in in_order]
        self.vocabulary_ = Names(np.frombuffer(b"".join(chosen), np.uint8), offsets([len(word) for word in chosen]))
        self.n_pages_ = n_pages
        self._learn_weights(seen.pages[numbers], seen.occurrences[numbers])
        self.__dict__.pop("_table", None)
        return columns

    def _learn_weights(self, pages: NDArray[np.int64], occurrences: NDArray[np.int64]) -> None:
        """Learn what a word counts from the number of pages that each column is on, and how often it is there."""
        self.idf_ = 1.0 + np.log((1.0 + self.n_pages_) / (1.0 + pages))

    def _weigh(self, rows: WordRows, columns: NDArray[np.int32]) -> Block:
        indptr = np.zeros(len(rows.starts), np.int64)
        indices, data = np.empty(len(rows.words), np.int32), np.empty(len(rows.words), np.float32)
        self._fill(rows, columns, indptr, indices, data)
        used = int(indptr[-1])
        return np.diff(indptr), indices[:used].copy(), data[:used].copy()

    def _fill(self, rows: WordRows, columns: I32, indptr: I64, indices: I32, data: F32) -> None:
        """Write the features of a block of rows; word w of theirs is column columns[w], or dropped if that is -1."""
        in_order = np.argsort(columns, kind="stable")
        tf_idf_rows(*rows, columns, in_order, self.idf_, indptr, indices, data)
