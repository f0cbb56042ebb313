"""The best candidates of each page."""

from broadmatch.features.html_scan._tokens import JOINT
from broadmatch.kernels import F32, I32, I64, Bytes, kernel
from broadmatch.kernels.top_k import keep_best, order_best
from broadmatch.kernels.vocabulary import Words


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


@kernel
def write_phrases(
    first: I32, length: I32, word: I32, bits: I32, words: Words, joints: Bytes, text: Bytes, ends: I64
) -> int:
    """Write the words of each phrase, joined as on the page, while `text` has room; gives the bytes that all need."""
    starts, arena, size = words.starts, words.arena, 0
    for p in range(len(first)):
        for i in range(first[p], first[p] + length[p]):
            if i > first[p]:
                if size < len(text):
                    text[size] = joints[bits[i] >> JOINT & 15]
                size += 1
            for k in range(starts[word[i]], starts[word[i] + 1]):
                if size < len(text):
                    text[size] = arena[k]
                size += 1
        ends[p] = size
    return size
