"""Embeddings of queries, words and pages, learned from who clicked what: a truncated SVD of queries × pages."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Names, as_labels
from broadmatch.data.csr import offsets
from broadmatch.errors import BadInput
from broadmatch.io.artifacts import Artifact
from broadmatch.kernels import F32, F64
from broadmatch.kernels.words import tokenize
from broadmatch.layout import Axes, Within
from broadmatch.params import Number, Seed, Whole, learned
from broadmatch.state import Saved

if TYPE_CHECKING:
    import scipy.sparse as sp

_ROUNDS = 4
"""Power iterations of the randomised SVD."""
_LEAST = 1e-6
"""The weight of a pair at chance: that of the only pair of a log would be 0."""


class ClickEmbeddings(Artifact, Saved):
    """Vectors of queries and pages in which what is clicked alike is near: any text has one, by its words.

    The clicks of queries × pages are weighed by their pointwise mutual information, where it is above 0 (Levy and
    Goldberg, NIPS 2014), and U S Vᵀ is the truncated SVD of that (Halko, Martinsson and Tropp, SIAM Review 2011). A
    query is the unit row of U √S, a page that of V √S. A word is the mean of the queries that have it, so that a word
    that is clicked everywhere is short. A text is the sum of its words, at unit length; a query with n clicks is n
    parts itself and `prior` parts its words.

    >>> clicks = CSR.from_rows([[0, 1], [0, 1], [2], [2]], n_cols=3)
    >>> model = ClickEmbeddings(size=2).fit(["red shoes", "trainers", "taxi", "airport cab"], clicks)
    >>> vectors = model.embed(["shoes", "trainers", "cheap taxi", "zebra"])
    >>> abs(vectors @ vectors[0]).round(2).tolist()
    [1.0, 1.0, 0.0, 0.0]
    """

    kind: ClassVar[str] = "click_embeddings"

    size: Annotated[int, Whole(1, 1024), "numbers of a vector, at most"] = 128
    prior: Annotated[float, Number(0), "clicks that the words of a query count for, beside its own"] = 10.0
    seed: Seed = 0

    queries_: Annotated[Names, Axes("queries")] = learned()
    vectors_: Annotated[NDArray[np.float32], Axes("queries", "numbers"), Within(-1.001, 1.001)] = learned()
    words_: Annotated[Names, Axes("words")] = learned()
    word_vectors_: Annotated[NDArray[np.float32], Axes("words", "numbers"), Within(-1.001, 1.001)] = learned()
    pages_: Annotated[Names, Axes("pages")] = learned()
    page_vectors_: Annotated[NDArray[np.float32], Axes("pages", "numbers"), Within(-1.001, 1.001)] = learned()

    def fit(self, queries: Iterable[str], clicks: CSR, *, pages: Iterable[str] | None = None) -> Self:
        """Learn from clicks of queries × pages; `pages` are the names of the columns.

        Queries are looked up as they are written here: spell them alike first (`broadmatch.harvest.normalise_query`).
        """
        self.check_params()
        names, (counts, _) = Names.of(queries), as_labels(clicks)
        columns = Names.numbers(counts.n_cols) if pages is None else Names.of(pages)
        if counts.shape != (len(names), len(columns)):
            raise BadInput(
                f"There are {len(names):,} queries and {len(columns):,} pages, but the clicks are {counts.n_rows:,} × "
                f"{counts.n_cols:,}; give a row for each query and a column for each page."
            )
        if not counts.nnz:
            raise BadInput("There are no clicks, so there is nothing to learn; check the time window of the log.")
        import scipy.sparse as sp

        left, right = self._factors(_weighed(counts))
        total = np.bincount(counts.rows, counts.data, counts.n_rows)
        words, rows = _bag(names)
        mean = (sp.diags_array(np.log1p(total)) @ rows).T.tocsr()
        sums = np.asarray(mean.sum(axis=1)).ravel()
        self.word_vectors_ = (mean @ left / np.maximum(sums, 1e-12)[:, None]).astype(np.float32)
        own, by_words = total[:, None] * left, self.prior * _unit(rows @ self.word_vectors_.astype(np.float64))
        self.queries_, self.words_, self.pages_ = names, words, columns
        self.vectors_, self.page_vectors_ = _unit(own + by_words).astype(np.float32), right.astype(np.float32)
        return self

    def embed(self, texts: Iterable[str]) -> F32:
        """The vector of each text, unit rows; zeros for a text without a word that was clicked.

        A query of the log has its own vector, any other text that of its words.
        """
        self._check_fitted()
        known = list(texts)
        found: F32 = np.zeros((len(known), self.vectors_.shape[1]), np.float32)
        at = self.queries_.places(known)
        found[at >= 0] = self.vectors_[at[at >= 0]]
        rest = np.flatnonzero(at < 0)
        _, rows = _bag([known[i] for i in rest.tolist()], self.words_)
        found[rest] = _unit(rows @ self.word_vectors_.astype(np.float64)).astype(np.float32)
        return found

    def label_features(self, texts: Iterable[str]) -> CSR:
        """The vectors of labels' texts (phrases, queries) as label features, such as `SwiftXML` takes."""
        import scipy.sparse as sp

        return CSR.from_scipy(sp.csr_matrix(self.embed(texts)))

    def _factors(self, weights: "sp.csr_matrix") -> tuple[F64, F64]:
        """Unit rows of U √S and of V √S."""
        from sklearn.utils.extmath import randomized_svd

        size = min(self.size, *weights.shape)
        left, values, right = randomized_svd(weights, size, n_iter=_ROUNDS, random_state=self.seed)
        return _unit(left * np.sqrt(values)), _unit(right.T * np.sqrt(values))


def _weighed(counts: CSR) -> "sp.csr_matrix":
    """ln(c_ij Σc / (c_i c_j)), or 0 where that is below 0."""
    c, total = counts.data.astype(np.float64), float(counts.data.sum(dtype=np.float64))
    of_query = np.bincount(counts.rows, c, counts.n_rows)[counts.rows]
    of_page = np.bincount(counts.indices, c, counts.n_cols)[counts.indices]
    weights = counts.to_scipy().astype(np.float64)
    weights.data = np.maximum(np.log(c * total / of_query / of_page), _LEAST)
    return weights


def _bag(texts: Iterable[str], words: Names | None = None) -> "tuple[Names, sp.csr_matrix]":
    """Texts × words, 1 where a text has a word; the words, sorted, unless they are given."""
    import scipy.sparse as sp

    split = [list(dict.fromkeys(tokenize(text, 1))) for text in texts]
    known = Names.of(sorted({word for some in split for word in some})) if words is None else words
    column = known.places(word for some in split for word in some)
    row = np.repeat(np.arange(len(split)), [len(some) for some in split])
    kept = column >= 0
    starts = offsets(np.bincount(row[kept], minlength=len(split)))
    shape = (len(split), len(known))
    return known, sp.csr_matrix((np.ones(int(kept.sum())), column[kept], starts), shape=shape)


def _unit(rows: Any) -> F64:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: F64 = np.where(length > 1e-12, rows / np.maximum(length, 1e-12), 0.0)
    return unit
