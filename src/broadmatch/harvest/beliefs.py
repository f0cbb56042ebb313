"""Sparse beliefs: how strongly each label is believed of each page, missing labels inferred from co-clicked pages.

Agrawal, Gupta, Prabhu and Varma, "Multi-label learning with millions of labels" (MLRF), WWW 2013, §4, equation (7):

    F₀ = Y,   F ← TopL( 1/(1+β) · D^{-1/2} W D^{-1/2} F + β/(1+β) · Y ),   W = Y Yᵀ, D its row sums.

W is never formed: with S = D^{-1/2} Y the product is S(SᵀF), and SᵀF is as sparse as labels that occur together.

The paper counts every shared query alike, so pages become alike by the queries that every page has, and beliefs drift
to the most common labels. `similarity="walk"` counts a query that n pages share as 1/n: W = Y diag(1/n_k) Yᵀ, the walk
from a page to one of its queries to one of that query's pages. That W is positive and non-negative too, so Theorem 1
holds for it as well.
"""

from typing import Any

import numpy as np

from broadmatch import progress
from broadmatch.data import CSR, as_labels
from broadmatch.harvest.belief_stages import (
    MARGINS,
    best_rows,
    by_label,
    floor_of,
    gathered,
    label_sums,
    ordered_sums,
    row_scales,
    sample_of,
    sample_wants,
    shares,
    weighted,
)
from broadmatch.params import Number, OneOf, Whole

SIMILARITIES = ("clicks", "walk")


def check_settings(beta: float, budget: float, iterations: int, similarity: str) -> None:
    """Refuse what `sparse_beliefs` cannot be asked for."""
    Number(0, above=True).check("beta", beta)
    Number(1).check("budget", budget)
    Whole(0).check("iterations", iterations)
    OneOf(SIMILARITIES).check("similarity", similarity)


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
    check_settings(beta, budget, iterations, similarity)
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
    OneOf(SIMILARITIES).check("similarity", similarity)
    smoother = _Smoother(Y, beta, similarity, n_jobs)
    lengths, _, sums = (np.concatenate(part) for part in zip(*gathered(smoother.columns, F, n_jobs), strict=True))
    # The sums carry the label's share c_k once; tr(Fᵀ D^{-1/2} Y C Yᵀ D^{-1/2} F) has it once, their square twice.
    spread = float((np.square(sums) / np.repeat(smoother.share, lengths)).sum())
    square = float(np.square(F.data, dtype=np.float64).sum())
    apart = (F.to_scipy().astype(np.float64) - Y.to_scipy().astype(np.float64)).tocsr().data
    return 0.5 * (square - spread) + 0.5 * beta * float(np.square(apart).sum())


class _Smoother:
    """One label matrix and its iteration: the stages with one shard of pages and one range of labels."""

    def __init__(self, Y: CSR, beta: float, similarity: str, n_jobs: int | None) -> None:
        self.Y, self.beta, self.n_jobs = Y, float(beta), n_jobs
        sums = label_sums(Y)
        self.share, self.scale = shares(sums, similarity), row_scales(Y, sums, similarity)
        self.columns = weighted(by_label(Y), self.scale, self.share)

    def step(self, F: CSR, limit: int, task: progress.Task) -> CSR:
        """One iteration: the `limit` greatest entries of (S(SᵀF) + βY) / (1+β)."""
        G = ordered_sums(gathered(self.columns, F, self.n_jobs), self.n_jobs)
        n, how = self.Y.n_rows, dict[str, Any](beta=self.beta, n_jobs=self.n_jobs)
        every, sample = np.arange(n, dtype=np.int64), sample_of(0, n, n)
        for margin in MARGINS if len(sample) < n else (0.0,):
            floor = 0.0
            if margin:
                wanted = sample_wants(limit, n, margin)
                found = best_rows(self.Y, self.scale, G, sample, limit=wanted, floor=0.0, **how)
                floor = floor_of(found.values, wanted)
            found = best_rows(self.Y, self.scale, G, every, limit=limit, floor=floor, **how)
            # Fewer than the limit at or above the guess: the guess was too high, and something is missing.
            if len(found.values) == limit or not floor:
                break
        task.advance(n)
        return CSR.of_blocks([found], self.Y.n_cols)
