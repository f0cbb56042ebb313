"""Two-step walks: from a query to a page that was clicked for it, and on to another query of that page.

The same walk over ads and the phrases they bid on is the co-bid arm.
"""

from broadmatch import progress
from broadmatch.ads.expansion.rewrites import stochastic
from broadmatch.ads.expansion.simrank import as_rows, best_similar, nothing_similar
from broadmatch.data import CSR


def walk_arm(weights: CSR, *, keep: int | None = 50, n_jobs: int | None = None) -> CSR:
    """P(q' | q) = Σ_i P(i | q) P(q' | i), q' ≠ q, from weights of queries × pages: the `keep` largest of each query.

    >>> weights = CSR.from_rows([[0, 1], [0], [1]], n_cols=2)
    >>> walk_arm(weights).to_scipy().toarray()
    array([[0. , 0.5, 0.5],
           [1. , 0. , 0. ],
           [1. , 0. , 0. ]], dtype=float32)
    """
    ahead, back = stochastic(weights), stochastic(weights.transposed())
    with progress.task("Walking", total=weights.n_rows, unit="queries") as task:
        found = best_similar(ahead, back, nothing_similar(weights.n_cols), keep, n_jobs, task)
    return stochastic(as_rows(found))
