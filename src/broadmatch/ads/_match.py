"""Lookups in the ad index: from the words of a query to the ads that match it, highest bid first.

Units, phrases of one match type with all their bids, stand under their rarest word in order of their highest bid. A
heap holds one cursor into the list of each word of the query, and one into the bids of each unit that was found to
match. Whatever is ahead is looked at next: so bids come out in order, and lists are read no further than needed. The
words of the query are never combined. Several postings are read as one: those on disk and the changes since.

Postings come as addresses (`kernels/intrinsics.py`): views[s, 2·f] is where field f of postings s is, and
views[s, 2·f + 1] how long it is.
"""

import numpy as np

from broadmatch.kernels import F64, I32, I64, U64, Bytes, Flags, kernel
from broadmatch.kernels.hash_table import slot_of
from broadmatch.kernels.hashing import mix
from broadmatch.kernels.intrinsics import carray, to_float64, to_int32, to_int64, to_uint64
from broadmatch.kernels.vocabulary import hash_word

EXACT, PHRASE, BROAD, EXTENDED = 0, 1, 2, 3
MOST_WORDS = 64
"""Words of a query that count."""

FIELDS = (
    "word_slots", "word_numbers",
    "list_ptr", "second", "most", "kind", "text_ptr", "text", "exact_slots", "exact_units",
    "entry_ptr", "bid", "ad", "phrase",
    "neg_list_ptr", "neg_second", "neg_kind", "neg_text_ptr", "neg_text", "neg_exact_slots", "neg_exact_units",
    "ad_number", "ad_campaign", "owner_ptr", "owner_negs",
)  # fmt: skip
"""The order of the fields in a view."""
(
    _WORD_SLOTS, _WORD_NUMBERS,
    _LIST_PTR, _SECOND, _MOST, _KIND, _TEXT_PTR, _TEXT, _EXACT_SLOTS, _EXACT_UNITS,
    _ENTRY_PTR, _BID, _AD, _PHRASE,
    _NEG_LIST_PTR, _NEG_SECOND, _NEG_KIND, _NEG_TEXT_PTR, _NEG_TEXT, _NEG_EXACT_SLOTS, _NEG_EXACT_UNITS,
    _AD_NUMBER, _AD_CAMPAIGN, _OWNER_PTR, _OWNER_NEGS,
) = range(len(FIELDS))  # fmt: skip
_FILTER = 4096
_AT_AD, _AT_KIND, _AT_PHRASE, _AT_VIEW, _AT, _STOP = range(6)
"""What an item of the heap is: ad (−1 of a list), match type (−1 of a list), phrase, postings, and what is left."""


@kernel
def _i32(views: I64, s: int, field: int) -> I32:
    found: I32 = carray(to_int32(views[s, 2 * field]), views[s, 2 * field + 1])
    return found


@kernel
def _i64(views: I64, s: int, field: int) -> I64:
    found: I64 = carray(to_int64(views[s, 2 * field]), views[s, 2 * field + 1])
    return found


@kernel
def _u64(views: I64, s: int, field: int) -> U64:
    found: U64 = carray(to_uint64(views[s, 2 * field]), views[s, 2 * field + 1])
    return found


@kernel
def _f64(views: I64, s: int, field: int) -> F64:
    found: F64 = carray(to_float64(views[s, 2 * field]), views[s, 2 * field + 1])
    return found


@kernel
def _number(views: I64, s: int, slots: int, numbers: int, key: np.uint64) -> int:
    """The number of a key in one of the hash tables of a view, −1 if it is not there."""
    table = _u64(views, s, slots)
    slot = slot_of(table, key)
    return -1 if table[slot] == np.uint64(0) else _i64(views, s, numbers)[slot]


@kernel
def sequence_key(words: I64, n: int, kind: int) -> np.uint64:
    """The key of a sequence of words by their numbers, and a match type; never 0."""
    h = np.uint64(kind + 1)
    for i in range(n):
        h = mix(h ^ np.uint64(words[i] + 1)) + np.uint64(i)
    return np.uint64(1) if h == np.uint64(0) else h


@kernel
def _fits(views: I64, s: int, ptr: int, text: int, unit: int, kind: int, words: I64, n: int) -> bool:
    """Whether the words of a unit match the query by their type."""
    starts, phrase = _i64(views, s, ptr), _i32(views, s, text)
    first, stop = starts[unit], starts[unit + 1]
    if kind == BROAD:
        for k in range(first, stop):
            i = 0
            while i < n and words[i] != phrase[k]:
                i += 1
            if i == n:
                return False
        return True
    size = stop - first
    last = n - size if kind == PHRASE else (0 if size == n else -1)
    for begin in range(last + 1):
        k = 0
        while k < size and phrase[first + k] == words[begin + k]:
            k += 1
        if k == size:
            return True
    return False


@kernel
def _find_negatives(views: I64, s: int, words: I64, n: int, whole: bool, seen: Flags, hits: I64) -> tuple[I64, int]:
    """The negative units that match the query."""
    count = 0
    starts, second, kinds = _i64(views, s, _NEG_LIST_PTR), _i32(views, s, _NEG_SECOND), _i32(views, s, _NEG_KIND)
    for i in range(n):
        word = words[i]
        if word < 0 or _stands_before(words, i):
            continue
        for unit in range(starts[word], starts[word + 1]):
            if seen[second[unit] & (_FILTER - 1)] and _fits(
                views, s, _NEG_TEXT_PTR, _NEG_TEXT, unit, kinds[unit], words, n
            ):
                hits, count = _append(hits, count, unit), count + 1
    if whole:
        unit = _number(views, s, _NEG_EXACT_SLOTS, _NEG_EXACT_UNITS, sequence_key(words, n, EXACT))
        if unit >= 0 and _fits(views, s, _NEG_TEXT_PTR, _NEG_TEXT, unit, EXACT, words, n):
            hits, count = _append(hits, count, unit), count + 1
    return hits, count


@kernel
def _append(values: I64, n: int, value: int) -> I64:
    if n == len(values):
        longer = np.empty(2 * n, np.int64)
        longer[:n] = values
        values = longer
    values[n] = value
    return values


@kernel
def _stands_before(words: I64, i: int) -> bool:
    for j in range(i):
        if words[j] == words[i]:
            return True
    return False


@kernel
def _holds_any(views: I64, s: int, owner: int, hits: I64, n_hits: int) -> bool:
    """Whether an owner has one of the negatives that match."""
    ptr, negatives = _i64(views, s, _OWNER_PTR), _i32(views, s, _OWNER_NEGS)
    for h in range(n_hits):
        low, high = ptr[owner], ptr[owner + 1]
        while low < high:
            middle = (low + high) >> 1
            if negatives[middle] < hits[h]:
                low = middle + 1
            else:
                high = middle
        if low < ptr[owner + 1] and negatives[low] == hits[h]:
            return True
    return False


@kernel
def _ahead(bids: F64, items: I64, i: int, j: int) -> bool:
    """The higher bid is ahead; of equal ones a list, which may hold more of them; then ad, match type and phrase."""
    if bids[i] != bids[j]:
        return bids[i] > bids[j]
    for k in range(3):
        if items[i, k] != items[j, k]:
            return items[i, k] < items[j, k]
    return False


@kernel
def _sink(bids: F64, items: I64, heap: I64, n: int) -> None:
    """Restore the heap after its top changed."""
    i, top = 0, heap[0]
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and _ahead(bids, items, heap[child + 1], heap[child]):
            child += 1
        if not _ahead(bids, items, heap[child], top):
            break
        heap[i] = heap[child]
        i = child
    heap[i] = top


@kernel
def _rise(bids: F64, items: I64, heap: I64, i: int) -> None:
    """Restore the heap after something was put at place i."""
    new = heap[i]
    while i > 0 and _ahead(bids, items, new, heap[(i - 1) >> 1]):
        heap[i] = heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    heap[i] = new


@kernel
def _set_entry(views: I64, bids: F64, items: I64, item: int, at: int) -> None:
    """Let an item stand at a bid of its unit."""
    s = items[item, _AT_VIEW]
    bids[item] = _f64(views, s, _BID)[at]
    items[item, _AT_AD] = _i64(views, s, _AD_NUMBER)[_i32(views, s, _AD)[at]]
    items[item, _AT_PHRASE] = _i64(views, s, _PHRASE)[at]
    items[item, _AT] = at


@kernel
def _set_unit(views: I64, s: int, unit: int, kind: int, bids: F64, items: I64, item: int) -> None:
    """Let an item stand at the highest bid of a unit."""
    ptr = _i64(views, s, _ENTRY_PTR)
    items[item, _AT_VIEW], items[item, _AT_KIND], items[item, _STOP] = s, kind, ptr[unit + 1]
    _set_entry(views, bids, items, item, ptr[unit])


@kernel
def _next_unit(views: I64, items: I64, item: int, bound: float, words: I64, n: int, seen: Flags) -> int:
    """Read on in a list to the next unit that matches, while its bids may be ahead of `bound`; −1 if there is none."""
    s, at, stop = items[item, _AT_VIEW], items[item, _AT], items[item, _STOP]
    second, most = _i32(views, s, _SECOND), _f64(views, s, _MOST)
    found = -1
    while at < stop and most[at] >= bound:
        if seen[second[at] & (_FILTER - 1)] and _fits(
            views, s, _TEXT_PTR, _TEXT, at, _i32(views, s, _KIND)[at], words, n
        ):
            found = at
            at += 1
            break
        at += 1
    items[item, _AT] = at
    return found


@kernel
def _read_words(text: Bytes, start: int, stop: int, hashes: U64) -> int:
    """Hash the words between blanks; gives how many there are, one more than fit if not all are read."""
    n, i = 0, start
    while i < stop:
        end = i
        while end < stop and text[end] != 32:
            end += 1
        if n == len(hashes):
            return n + 1
        hashes[n] = hash_word(text, i, end)
        n += 1
        i = end + 1
    return n


@kernel
def _start(views: I64, s: int, words: I64, n: int, whole: bool, bids: F64, items: I64, heap: I64, size: int) -> int:
    """Put the lists of the words of a query on the heap, and the units that are equal to it; gives its size."""
    starts = _i64(views, s, _LIST_PTR)
    for i in range(n):
        word = words[i]
        if word >= 0 and starts[word] < starts[word + 1] and not _stands_before(words, i):
            bids[size] = _f64(views, s, _MOST)[starts[word]]
            items[size, _AT_AD], items[size, _AT_KIND], items[size, _AT_PHRASE] = -1, -1, size
            items[size, _AT_VIEW], items[size, _AT], items[size, _STOP] = s, starts[word], starts[word + 1]
            heap[size] = size
            _rise(bids, items, heap, size)
            size += 1
    for kind in (EXACT, EXTENDED):
        unit = _number(views, s, _EXACT_SLOTS, _EXACT_UNITS, sequence_key(words, n, kind)) if whole else -1
        if unit >= 0 and _fits(views, s, _TEXT_PTR, _TEXT, unit, EXACT, words, n):
            _set_unit(views, s, unit, kind, bids, items, size)
            heap[size] = size
            _rise(bids, items, heap, size)
            size += 1
    return size


@kernel
def _shown(views: I64, s: int, at: int, place: I64, hits0: I64, n_hits0: int, hits1: I64, n_hits1: int) -> bool:
    """Whether the ad of a bid is still as it was, and neither its negatives nor its campaign's match."""
    ad = _i32(views, s, _AD)[at]
    code = _i32(views, s, _AD_CAMPAIGN)[ad]
    if code < 0:
        return False
    if n_hits0 + n_hits1 == 0:
        return True
    if code & 1 and (_holds_any(views, s, ad, hits0, n_hits0) if s == 0 else _holds_any(views, s, ad, hits1, n_hits1)):
        return False
    owner = place[code >> 1]
    if owner < 0:
        return True
    if owner & 1:
        return not _holds_any(views, 1, owner >> 1, hits1, n_hits1)
    return not _holds_any(views, 0, owner >> 1, hits0, n_hits0)


@kernel
def _is_new(taken: I64, ad: int) -> bool:
    """Enter an ad into the table of those that were found; False if it is there already."""
    mask = len(taken) - 1
    slot = np.int64(mix(np.uint64(ad))) & mask
    while taken[slot] != 0:
        if taken[slot] == ad + 1:
            return False
        slot = (slot + 1) & mask
    taken[slot] = ad + 1
    return True


@kernel
def match_queries(
    text: Bytes, ptr: I64, views: I64, place: I64, limit: int, ads: I64, phrases: I64, bids: F64, kinds: Bytes, out: I64
) -> None:
    """The candidates of queries text[ptr[q]:ptr[q+1]], normalised: out[q] to out[q+1] of ads, phrases, bids and kinds.

    place[c + 1] is where the negatives of campaign c are: −1 if it has none, else 2·owner + postings. The campaign of
    an ad is 2·(c + 1), plus one if it has negatives of its own; −1 if the ad was changed or removed since.
    """
    n_views, size = len(views), 512
    hashes, words = np.empty(MOST_WORDS, np.uint64), np.empty((2, MOST_WORDS), np.int64)
    key, items, heap = np.empty(size), np.empty((size, 6), np.int64), np.empty(size, np.int64)
    seen, taken = np.zeros((2, _FILTER), np.bool_), np.zeros(_table_size(limit), np.int64)
    hits0, hits1 = np.empty(256, np.int64), np.empty(256, np.int64)
    found, out[0] = 0, 0
    for q in range(len(ptr) - 1):
        n = _read_words(text, ptr[q], ptr[q + 1], hashes)
        whole = n <= MOST_WORDS
        n = min(n, MOST_WORDS)
        n_heap, n_hits0, n_hits1, first = 0, 0, 0, found
        for s in range(n_views if n > 0 else 0):
            known = whole
            for i in range(n):
                words[s, i] = _number(views, s, _WORD_SLOTS, _WORD_NUMBERS, hashes[i])
                known = known and words[s, i] >= 0
                if words[s, i] >= 0:
                    seen[s, words[s, i] & (_FILTER - 1)] = True
            n_heap = _start(views, s, words[s], n, known, key, items, heap, n_heap)
            if s == 0:
                hits0, n_hits0 = _find_negatives(views, 0, words[0], n, known, seen[0], hits0)
            else:
                hits1, n_hits1 = _find_negatives(views, 1, words[1], n, known, seen[1], hits1)
        n_items = n_heap
        while n_heap > 0 and found - first < limit:
            top = heap[0]
            s = items[top, _AT_VIEW]
            if items[top, _AT_KIND] < 0:
                bound = max(key[heap[1]] if n_heap > 1 else -np.inf, key[heap[2]] if n_heap > 2 else -np.inf)
                unit = _next_unit(views, items, top, bound, words[s], n, seen[s])
                if unit >= 0:
                    if n_items == size:
                        key, items, heap = _longer(key, items, heap)
                        size *= 2
                    _set_unit(views, s, unit, _i32(views, s, _KIND)[unit], key, items, n_items)
                    heap[n_heap] = n_items
                    _rise(key, items, heap, n_heap)
                    n_items += 1
                    n_heap += 1
                at = items[top, _AT]
                if at < items[top, _STOP]:
                    key[top] = _f64(views, s, _MOST)[at]
            else:
                at = items[top, _AT]
                if _shown(views, s, at, place, hits0, n_hits0, hits1, n_hits1) and _is_new(taken, items[top, _AT_AD]):
                    ads[found], phrases[found], bids[found] = items[top, _AT_AD], items[top, _AT_PHRASE], key[top]
                    kinds[found] = items[top, _AT_KIND]
                    found += 1
                at += 1
                if at < items[top, _STOP]:
                    _set_entry(views, key, items, top, at)
            if at == items[top, _STOP]:
                n_heap -= 1
                heap[0] = heap[n_heap]
            _sink(key, items, heap, n_heap)
        out[q + 1] = found
        _forget(taken, ads, first, found)
        for s in range(n_views):
            for i in range(n):
                seen[s, words[s, i] & (_FILTER - 1)] = False


@kernel
def _table_size(limit: int) -> int:
    size = 64
    while size < 2 * limit:
        size *= 2
    return size


@kernel
def _forget(taken: I64, ads: I64, first: int, stop: int) -> None:
    """Empty the table of the ads that were found; what stands behind an empty slot is gone after all are."""
    mask = len(taken) - 1
    for i in range(first, stop):
        slot = np.int64(mix(np.uint64(ads[i]))) & mask
        while taken[slot] != 0:
            taken[slot] = 0
            slot = (slot + 1) & mask


@kernel
def _longer(key: F64, items: I64, heap: I64) -> tuple[F64, I64, I64]:
    """The same with twice the room."""
    n = len(key)
    more_key, more_items, more_heap = np.empty(2 * n), np.empty((2 * n, 6), np.int64), np.empty(2 * n, np.int64)
    more_key[:n], more_items[:n], more_heap[:n] = key, items, heap
    return more_key, more_items, more_heap
