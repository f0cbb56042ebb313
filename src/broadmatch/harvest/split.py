"""Which clicks train and which test: by page or by time, so that pages are left to test on."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from broadmatch.harvest.clicks import HarvestSettings
    from broadmatch.harvest.counts import LabelCounts

QUERIES = 5
"""A test page has more queries than this, if that leaves enough of them."""

ENOUGH = 100
"""Test pages that are enough; of a smaller log, half of those that there can be."""


class Split(NamedTuple):
    """Entries to train and to test on, all test labels among those of training; and what there is to say of it."""

    train: NDArray[np.bool_]
    test: NDArray[np.bool_]
    facts: dict[str, int]


class _Tried(NamedTuple):
    """A split with one limit."""

    limit: int
    train: NDArray[np.bool_]
    test: NDArray[np.bool_]
    outside: int
    too_small: int
    left: int

    def split(self, drawn: int, added: int = 0) -> Split:
        facts = {
            "min_test_queries": self.limit,
            "test_pages_drawn": drawn,
            "test_pages_added": added,
            "test_pages_too_small": self.too_small,
            "test_labels_outside": self.outside,
        }
        return Split(self.train, self.test, facts)


def split_counts(counts: "LabelCounts", settings: "HarvestSettings") -> Split:
    """Split by page or by time, see `harvest`.

    Without `min_test_queries` it is the highest, 5 at most, that leaves 100 test pages, or half of those that any
    leaves. Where a split by page leaves none, the page of the lowest hash that shares a label with another is tested.
    """
    by_time, given = settings.split == "time", settings.min_test_queries
    candidates = counts.late if by_time else counts.drawn(settings.test_share)[counts.page]
    n_queries = np.bincount(counts.page[candidates], minlength=len(counts.pages))
    drawn = int(np.count_nonzero(n_queries))
    tried: list[_Tried] = []
    for limit in range(QUERIES, -1, -1) if given is None else [given]:
        tried.append(_tried(counts, candidates, n_queries, limit, by_time))
        if tried[-1].left >= ENOUGH:
            break
    most = max(one.left for one in tried)
    best = next(one for one in tried if 2 * one.left >= min(most, 2 * ENOUGH))
    if most or by_time or given is not None or settings.test_share == 0:
        return best.split(drawn)
    page = _page_to_test(counts)
    if page is None:
        return best.split(drawn)
    one = np.bincount(counts.page[counts.page == page], minlength=len(counts.pages))
    return _tried(counts, counts.page == page, one, 0, False).split(drawn, added=1)


def _tried(
    counts: "LabelCounts", candidates: NDArray[np.bool_], n_queries: NDArray[np.int64], limit: int, by_time: bool
) -> _Tried:
    """Test the pages with more than `limit` candidates, in labels that training has."""
    enough = n_queries > limit
    test = candidates & enough[counts.page]
    train = ~(candidates if by_time else test)
    known = np.bincount(counts.label[train], minlength=counts.label.max(initial=-1) + 1) > 0
    inside = test & known[counts.label]
    left = np.count_nonzero(np.bincount(counts.page[inside]))
    too_small = np.count_nonzero((n_queries > 0) & ~enough)
    return _Tried(limit, train, inside, int(test.sum() - inside.sum()), int(too_small), int(left))


def _page_to_test(counts: "LabelCounts") -> int | None:
    """The page of the lowest hash that has a label of another page."""
    pages_of_label = np.bincount(counts.label)
    shared = np.unique(counts.page[pages_of_label[counts.label] > 1])
    return int(shared[np.argmin(counts.hashes[shared])]) if len(shared) else None


def none_left(counts: "LabelCounts", settings: "HarvestSettings") -> str:
    """Why a split has left no page for testing, and what to do."""
    if settings.min_test_queries is not None:
        return "lower min_test_queries" + ("" if settings.split == "time" else " or raise test_share")
    if settings.split == "time":
        return "no label was clicked at split_time or later; give an earlier one"
    if settings.test_share == 0:
        return "test_share is 0"
    if len(np.unique(counts.page)) < 2:
        return "only one page has labels, and it takes two that share a query"
    return "no query led to clicks on two pages; give split_time to test on later clicks"
