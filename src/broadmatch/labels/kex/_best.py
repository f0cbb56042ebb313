"""The best candidates of each page."""

from broadmatch.kernels import F32, I32, I64, kernel
from broadmatch.kernels.top_k import keep_best, order_best


@kernel
def best_of_pages(starts: I64, scores: F32, cut: float, best: I32, best_scores: F32, found: I64) -> None:
    """The candidates of each page with the highest scores of at least `cut`, best first; equal ones as on the page."""
    for page in range(len(starts) - 1):
        n = 0
        for c in range(starts[page], starts[page + 1]):
            if scores[c] >= cut:
                n = keep_best(c, scores[c], best[page], best_scores[page], n)
        order_best(best[page], best_scores[page], n)
        found[page] = n
