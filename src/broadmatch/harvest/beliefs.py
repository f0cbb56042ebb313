"""Sparse beliefs: how strongly each label is believed of each page, missing labels inferred from co-clicked pages.

Agrawal, Gupta, Prabhu and Varma, "Multi-label learning with millions of labels" (MLRF), WWW 2013, §4, equation (7):

    F₀ = Y,   F ← TopL( 1/(1+β) · D^{-1/2} W D^{-1/2} F + β/(1+β) · Y ),   W = Y Yᵀ, D its row sums.

W is never formed: with S = D^{-1/2} Y the product is S(SᵀF), and SᵀF is as sparse as labels that occur together.

The paper counts every shared query alike, so pages become alike by the queries that every page has, and beliefs drift
to the most common labels. `similarity="walk"` counts a query that n pages share as 1/n: W = Y diag(1/n_k) Yᵀ, the walk
from a page to one of its queries to one of that query's pages. That W is positive and non-negative too, so Theorem 1
holds for it as well.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from broadmatch import progress
from broadmatch.data import CSR, as_labels
from broadmatch.data.csr import offsets
from broadmatch.harvest._beliefs import Entries, LabelSums, belief_rows, falling_order, weighted_sums
from broadmatch.kernels import I64
from broadmatch.parallel import blocks, map_threads
from broadmatch.params import Number, OneOf, Whole

_SIMILARITIES = ("clicks", "walk")
_SAMPLE_ROWS = 2048
_BLOCK_ROWS = 16384
_SMALL_BLOCK = 128
_BLOCK_LABELS = 4096
# How many times the expected number of entries a guessed threshold should let through; 0 lets everything through.
_MARGINS = (1.3, 4.0, 0.0)


def sparse_beliefs(
    Y: CSR,
    *,
    beta: float = 0.6,
    budget: float = 2.0,
    iterations: int = 15,
    similarity: str = "clicks",
    n_jobs: int | None = None,
) -> CSR:
    """Infer beliefs F from labels Y: at most `budget` times as many non-zeros, known labels mostly near their weight.

    `beta` (β) holds beliefs to the given labels; `budget` is L / nnz(Y), at least 1 so that the start keeps the
    limit. TopL keeps exactly the L greatest entries of the whole matrix; of equal ones those in earlier rows stay,
    within a row those in earlier columns. `similarity` of pages is their number of shared queries ("clicks", the
    paper's) or the walk over them ("walk"). The result is the same bits for every `n_jobs`.

    >>> Y = CSR.from_rows([[0, 1], [0, 1], [0], [2]], n_cols=3)
    >>> F = sparse_beliefs(Y, budget=1.2)
    >>> F.to_scipy().toarray().round(2)[2]  # the third page is believed to have label 1 as well
    array([0.9 , 0.35, 0.  ], dtype=float32)
    """
    Number(0, above=True).check("beta", beta)
    Number(1).check("budget", budget)
    Whole(0).check("iterations", iterations)
    OneOf(_SIMILARITIES).check("similarity", similarity)
    labels, _ = as_labels(Y)
    limit = int(budget * labels.nnz)
    beliefs = labels
    if not limit:
        return beliefs
    smoother = _Smoother(labels, beta, similarity, n_jobs)
    with progress.task("Inferring beliefs", total=iterations * labels.n_rows, unit="pages") as task:
        for _ in range(iterations):
            beliefs = smoother.step(beliefs, limit, task)
    return beliefs


def objective(Y: CSR, F: CSR, beta: float = 0.6, *, similarity: str = "clicks", n_jobs: int | None = None) -> float:
    """½ tr(Fᵀ(I − D^{-1/2}WD^{-1/2})F) + β/2 ‖F − Y‖², which no iteration raises (MLRF, Theorem 1).

    >>> Y = CSR.from_rows([[0], [0, 1]], n_cols=2)
    >>> objective(Y, Y) > objective(Y, sparse_beliefs(Y))
    True
    """
    OneOf(_SIMILARITIES).check("similarity", similarity)
    smoother = _Smoother(Y, beta, similarity, n_jobs)
    lengths, _, sums = (np.concatenate(part) for part in zip(*smoother.sums(F), strict=True))
    # The sums carry the label's share c_k once; tr(Fᵀ D^{-1/2} Y C Yᵀ D^{-1/2} F) has it once, their square twice.
    spread = float((np.square(sums) / np.repeat(smoother.share, lengths)).sum())
    square = float(np.square(F.data, dtype=np.float64).sum())
    apart = (F.to_scipy().astype(np.float64) - Y.to_scipy().astype(np.float64)).tocsr().data
    return 0.5 * (square - spread) + 0.5 * beta * float(np.square(apart).sum())


class _Smoother:
    """One label matrix and its iteration."""

    def __init__(self, Y: CSR, beta: float, similarity: str, n_jobs: int | None) -> None:
        self.Y, self.beta, self.n_jobs = Y, float(beta), n_jobs
        by_row = Y.to_scipy()
        # W = Y C Yᵀ with C = diag(share). D = diag(W 1) = diag(Y C (Yᵀ 1)); a page without labels has no neighbours,
        # and its row of S stays empty.
        column_sums = np.bincount(Y.indices, Y.data, Y.n_cols)
        self.share = np.ones(Y.n_cols)
        if similarity == "walk":
            np.divide(1.0, column_sums, out=self.share, where=column_sums > 0)
        degree = by_row @ (self.share * column_sums)
        self.scale = np.zeros(Y.n_rows)
        np.divide(1.0, np.sqrt(degree), out=self.scale, where=degree > 0)
        by_column = by_row.tocsc()
        self.starts = by_column.indptr.astype(np.int64)
        self.rows = by_column.indices.astype(np.int32)
        self.weights = by_column.data * self.scale[self.rows] * np.repeat(self.share, np.diff(self.starts))

    def sums(self, F: CSR) -> Iterator[Entries]:
        """The rows of G = C Yᵀ D^{-1/2} F, a block of labels at a time."""

        def block(span: tuple[int, int]) -> Entries:
            return weighted_sums(*span, self.starts, self.rows, self.weights, F)

        return map_threads(block, blocks(F.n_cols, _BLOCK_LABELS), self.n_jobs)

    def step(self, F: CSR, limit: int, task: progress.Task) -> CSR:
        """One iteration: the `limit` greatest entries of (S(SᵀF) + βY) / (1+β)."""
        G = self._gather(F)
        n = self.Y.n_rows
        every = np.arange(n, dtype=np.int64)
        sample = every[:: -(-n // _SAMPLE_ROWS)]
        for margin in _MARGINS if len(sample) < n else (0.0,):
            floor = self._guess(G, sample, margin * limit * len(sample) / n)
            kept = self._top(G, every, limit, floor)
            # Fewer than the limit at or above the guess: the guess was too high, and something is missing.
            if len(kept.values) == limit or not floor:
                break
        task.advance(n)
        return CSR.of_blocks([kept], self.Y.n_cols)

    def _gather(self, F: CSR) -> LabelSums:
        lengths, columns, values = (np.concatenate(part) for part in zip(*self.sums(F), strict=True))
        G = LabelSums(offsets(lengths), columns, values, np.empty(len(columns), np.int32))

        def block(span: tuple[int, int]) -> None:
            falling_order(*span, G)

        for _ in map_threads(block, blocks(F.n_cols, _BLOCK_LABELS), self.n_jobs):
            pass
        return G

    def _guess(self, G: LabelSums, sample: I64, expected: float) -> float:
        """A value that about `expected` entries of the sampled rows reach; 0 where there are not so many."""
        if not expected:
            return 0.0
        wanted = int(expected) + _SMALL_BLOCK
        values = self._top(G, sample, wanted, 0.0).values
        return float(values.min()) if len(values) == wanted else 0.0

    def _top(self, G: LabelSums, rows: I64, limit: int, floor: float) -> Entries:
        """The `limit` greatest entries at or above `floor` of the given rows; the floor rises on the way.

        At most about three times `limit` entries are held: then all but the best `limit` go, and the least of these
        is the new floor. Later entries of that very value would lose the tie, so they may be dropped too.
        """
        # A block costs memory the size of a row, so many columns ask for many rows; without a floor rows may be full.
        size = min(_BLOCK_ROWS, max(_SMALL_BLOCK, self.Y.n_cols // 64)) if floor else _SMALL_BLOCK
        held: list[Entries] = []
        n_held = 0

        def spans() -> Iterator[tuple[I64, float]]:
            for start, stop in blocks(len(rows), size):
                yield rows[start:stop], floor

        def block(item: tuple[I64, float]) -> Entries:
            return belief_rows(item[0], self.Y, self.scale, G, self.beta, item[1])

        for piece in map_threads(block, spans(), self.n_jobs):
            held.append(piece)
            n_held += len(piece.values)
            if n_held > 3 * limit:
                held = [_best(held, limit)]
                n_held = limit
                floor = max(floor, float(held[0].values.min()))
        return _best(held, limit)


def top_mask(values: NDArray[np.float32], limit: int) -> NDArray[np.bool_]:
    """Mark the `limit` greatest of the `values`; of equal ones, the earlier.

    >>> top_mask(np.array([0.5, 2.0, 0.5, 1.0], np.float32), 3)
    array([ True,  True, False,  True])
    """
    if not 0 < limit < len(values):
        return np.full(len(values), limit > 0)
    least = np.partition(values, len(values) - limit)[len(values) - limit]
    mask: NDArray[np.bool_] = values > least
    mask[np.flatnonzero(values == least)[: limit - np.count_nonzero(mask)]] = True
    return mask


def _best(held: list[Entries], limit: int) -> Entries:
    """Exactly the `limit` greatest of the held entries, in their order."""
    lengths, columns, values = (np.concatenate(part) for part in zip(*held, strict=True))
    if len(values) <= limit:
        return Entries(lengths, columns, values)
    mask = top_mask(values, limit)
    return Entries(np.diff(offsets(mask)[offsets(lengths)]), columns[mask], values[mask])
