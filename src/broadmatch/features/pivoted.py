"""Pages to TF-IDF rows with pivoted length normalisation (Singhal, Buckley and Mitra, SIGIR 1996)."""

from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from broadmatch.features._pivoted import pivoted_rows
from broadmatch.features.html_scan import WordRows
from broadmatch.features.page_vectorizer import PageVectorizer
from broadmatch.kernels import F32, I32, I64
from broadmatch.layout import POSITIVE, Within
from broadmatch.params import Number, OneOf, Whole, learned


class PivotedVectorizer(PageVectorizer):
    """HTML or plain text to rows of TF-IDF whose length is pivoted: long pages gain less than their length.

    x_w = idf_w · (1 + ln d_w) / (1 + ln mean d) / (1 - slope + slope · n / mean n), where word w counts d_w times on a
    page of n different words, mean d is over these words, mean n over the pages fitted on, and idf_w = ln(N / n_w)
    for a word on n_w of the N pages. Only words of the vocabulary are counted. These are the features of AdaBoost.LC
    (AISTATS 2007, §4); there n_w is how often a word occurs in all pages together, `idf="occurrences"`, so that common
    words have negative weights.

    >>> vectorizer = PivotedVectorizer(min_pages=1)
    >>> vectorizer.fit_transform(["pizza pizza pasta", "pasta", "taxi taxi"]).toarray().round(2)
    array([[0.25, 1.15, 0.  ],
           [0.44, 0.  , 0.  ],
           [0.  , 0.  , 1.19]], dtype=float32)
    """

    kind: ClassVar[str] = "pivoted_vectorizer"

    boost: Annotated[int, Whole(1, 1000), "how often a word in the title or in a link counts"] = 1
    slope: Annotated[float, Number(0, 1), "how much a page with more words than the mean loses"] = 0.3

    idf: Annotated[
        str, OneOf(("pages", "occurrences")), "what n_w counts: pages that have the word, or how often it is there"
    ] = "pages"

    mean_terms_: Annotated[float, Within(POSITIVE)] = learned()
    """How many words of the vocabulary a page has on average."""

    def _learn_weights(self, pages: NDArray[np.int64], occurrences: NDArray[np.int64]) -> None:
        self.idf_ = np.log(self.n_pages_ / (pages if self.idf == "pages" else occurrences))
        self.mean_terms_ = float(pages.sum() / self.n_pages_)

    def _fill(self, rows: WordRows, columns: I32, indptr: I64, indices: I32, data: F32) -> None:
        pivoted_rows(*rows, columns, self.idf_, float(self.slope), self.mean_terms_, indptr, indices, data)
