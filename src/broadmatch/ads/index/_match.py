"""Lookups in the ad index: from the words of a query to the ads that match it, highest bid first.

Units, phrases of one match type with all their bids, stand under their rarest word in order of their highest bid. The
list of each word of the query is read in turn, and the bids of units that match are kept, the highest one of an ad. A
histogram of the bids that are kept tells how high one must be to be among the first `limit`: below that, neither a list
nor a unit is read on. The words of the query are never combined. Two postings are read as one: those on disk and those
of the changes since.

Postings come as addresses (`kernels/intrinsics.py`): views[s, 2·f] is where field f of postings s is, and
views[s, 2·f + 1] how long it is.
"""

import numpy as np

from broadmatch.kernels import I32, I64, U64, Bytes, Flags, kernel
from broadmatch.kernels.hashing import mix
from broadmatch.kernels.intrinsics import prefetch, prefetch_at, to_int32, to_int64, to_uint64
from broadmatch.kernels.vocabulary import hash_word

EXACT, PHRASE, BROAD, EXTENDED = 0, 1, 2, 3
MOST_WORDS = 64
"""Words of a query that count."""

FIELDS = (
    "word_slots", "word_numbers",
    "list_ptr", "second", "most", "kind", "text_ptr", "text", "exact_slots", "exact_units",
    "entry_ptr", "bid", "ad", "phrase",
    "neg_list_ptr", "neg_second", "neg_kind", "neg_text_ptr", "neg_text", "neg_exact_slots", "neg_exact_units",
    "ad_number", "owner_ptr", "owner_negs",
)  # fmt: skip
"""The order of the fields in a view."""
(
    _WORD_SLOTS, _WORD_NUMBERS,
    _LIST_PTR, _SECOND, _MOST, _KIND, _TEXT_PTR, _TEXT, _EXACT_SLOTS, _EXACT_UNITS,
    _ENTRY_PTR, _BID, _AD, _PHRASE,
    _NEG_LIST_PTR, _NEG_SECOND, _NEG_KIND, _NEG_TEXT_PTR, _NEG_TEXT, _NEG_EXACT_SLOTS, _NEG_EXACT_UNITS,
    _AD_NUMBER, _OWNER_PTR, _OWNER_NEGS,
) = range(len(FIELDS))  # fmt: skip
_FILTER = 1024
_ROWS, _LOW, _TOP, _ABOVE, _LEAST = range(5)
"""What is counted: rows that are kept, the lowest bucket that matters, the highest, bids in these, and the lowest."""
_BITS, _WHOSE, _WHERE, _SLOT = range(4)
"""A row: the bits of a bid (as whole numbers in the order of positive floats), ad, 8·entry + 2·type + view, slot."""
_SHIFT, _FIRST, _BUCKETS = 47, 32 * (1023 - 20), 32 * 40
"""Buckets of bids, by the bits of a float: 32 for each doubling, from 2^−20 to 2^20."""


@kernel
def _i32(views: I64, s: int, field: int) -> I32:
    found: I32 = to_int32(views[s, 2 * field])
    return found


@kernel
def _i64(views: I64, s: int, field: int) -> I64:
    found: I64 = to_int64(views[s, 2 * field])
    return found


@kernel
def _u64(views: I64, s: int, field: int) -> U64:
    found: U64 = to_uint64(views[s, 2 * field])
    return found


@kernel
def _number(views: I64, s: int, slots: int, numbers: int, key: np.uint64) -> int:
    """The number of a key in one of the hash tables of a view, −1 if it is not there."""
    table, mask = _u64(views, s, slots), np.uint64(views[s, 2 * slots + 1] - 1)
    slot = mix(key) & mask
    while table[slot] != np.uint64(0):
        if table[slot] == key:
            return int(_i64(views, s, numbers)[slot])
        slot = (slot + np.uint64(1)) & mask
    return -1


@kernel
def sequence_key(words: I64, n: int, kind: int) -> np.uint64:
    """The key of a sequence of words by their numbers, and a match type; never 0."""
    h = np.uint64(kind + 1) << np.uint64(40)  # apart from the numbers of words
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
def _find_negatives(
    views: I64, s: int, words: I64, n: int, whole: bool, seen: Flags, hits: I64, n_hits: I64, marks: Flags
) -> I64:
    """The negative units that match the query, marked by their lowest bits: the first n_hits[s] of hits[s]."""
    n_hits[s] = 0
    starts, second, kinds = _i64(views, s, _NEG_LIST_PTR), _i32(views, s, _NEG_SECOND), _i32(views, s, _NEG_KIND)
    for i in range(-1, n):
        if i < 0:
            unit = _number(views, s, _NEG_EXACT_SLOTS, _NEG_EXACT_UNITS, sequence_key(words, n, EXACT)) if whole else -1
            stop = unit + 1 if unit >= 0 else unit
        elif words[i] < 0 or _stands_before(words, i):
            continue
        else:
            unit, stop = starts[words[i]], starts[words[i] + 1]
        while unit < stop:
            if (i < 0 or seen[second[unit] & (_FILTER - 1)]) and _fits(
                views, s, _NEG_TEXT_PTR, _NEG_TEXT, unit, kinds[unit], words, n
            ):
                if n_hits[s] == hits.shape[1]:
                    hits = _wider(hits)
                hits[s, n_hits[s]] = unit
                n_hits[s] += 1
                marks[s, unit & (_FILTER - 1)] = True
            unit += 1
    return hits


@kernel
def _wider(hits: I64) -> I64:
    """The same with room for twice as many."""
    wider = np.empty((2, 2 * hits.shape[1]), np.int64)
    for s in range(2):
        for i in range(hits.shape[1]):
            wider[s, i] = hits[s, i]
    return wider


@kernel
def _stands_before(words: I64, i: int) -> bool:
    j = 0
    while j < i and words[j] != words[i]:
        j += 1
    return j < i


@kernel
def _holds_any(views: I64, s: int, owner: int, hits: I64, n_hits: I64, marks: Flags) -> bool:
    """Whether an owner has one of the negatives that match."""
    ptr, negatives = _i64(views, s, _OWNER_PTR), _i32(views, s, _OWNER_NEGS)
    if ptr[owner + 1] - ptr[owner] <= 16 * n_hits[s]:  # quicker than to search, which goes astray at every step
        for k in range(ptr[owner], ptr[owner + 1]):
            if marks[s, negatives[k] & (_FILTER - 1)]:
                for h in range(n_hits[s]):
                    if hits[s, h] == negatives[k]:
                        return True
        return False
    for h in range(n_hits[s]):
        low, high = ptr[owner], ptr[owner + 1]
        while low < high:
            middle = (low + high) >> 1
            if negatives[middle] < hits[s, h]:
                low = middle + 1
            else:
                high = middle
        if low < ptr[owner + 1] and negatives[low] == hits[s, h]:
            return True
    return False


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
def _blocked(views: I64, ad: int, code: int, place: I64, hits: I64, n_hits: I64, marks: Flags) -> bool:
    """Whether a negative of an ad, or of its campaign, matches."""
    s = code & 1
    if code & 2 and _holds_any(views, s, _place_of(views, s, ad), hits, n_hits, marks):
        return True
    owner = place[code >> 2]
    return owner >= 0 and _holds_any(views, owner & 1, owner >> 1, hits, n_hits, marks)


@kernel
def _place_of(views: I64, s: int, ad: int) -> int:
    """The place of an ad, which is there, among those of the postings: its number, if none before it is missing."""
    numbers, low, high = _i64(views, s, _AD_NUMBER), 0, views[s, 2 * _AD_NUMBER + 1]
    if ad < high and numbers[ad] == ad:
        return ad
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < ad:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _bucket(bits: int) -> int:
    return min(max((bits >> _SHIFT) - _FIRST, 0), _BUCKETS - 1)


@kernel
def _count(counts: I64, histogram: I32, bits: int, limit: int) -> None:
    """Enter a bid into the histogram, and raise the bar while enough bids stay above it."""
    bucket = _bucket(bits)
    histogram[bucket] += 1
    counts[_TOP] = max(counts[_TOP], bucket)
    if bucket >= counts[_LOW]:
        counts[_ABOVE] += 1
        while counts[_ABOVE] - histogram[counts[_LOW]] >= limit:
            counts[_ABOVE] -= histogram[counts[_LOW]]
            counts[_LOW] += 1
            counts[_LEAST] = max(counts[_LEAST], (counts[_LOW] + _FIRST) << _SHIFT)


@kernel
def _enter(rows: I64, taken: I32, counts: I64, ad: int) -> int:
    """The row of an ad, a new one if it has none."""
    mask = len(taken) - 1
    slot = int((np.uint64(ad) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while taken[slot] != 0:
        if rows[taken[slot] - 1, _WHOSE] == ad:
            return int(taken[slot]) - 1
        slot = (slot + 1) & mask
    row = int(counts[_ROWS])
    counts[_ROWS] += 1
    taken[slot] = row + 1
    rows[row, _BITS], rows[row, _WHOSE], rows[row, _SLOT] = 0, ad, slot
    return row


@kernel
def _clear(rows: I64, taken: I32, histogram: I32, counts: I64) -> None:
    """Forget what is kept."""
    for row in range(counts[_ROWS]):
        histogram[_bucket(rows[row, _BITS])] = 0
        taken[rows[row, _SLOT]] = 0
    counts[_ROWS], counts[_LOW], counts[_TOP], counts[_ABOVE], counts[_LEAST] = 0, 0, -1, 0, 0


@kernel
def _goes_before(views: I64, where: int, other: int) -> bool:
    """Whether a bid goes before an equal one of the same ad: by match type, then by the number of the phrase."""
    if (where ^ other) & 6:
        return where & 6 < other & 6
    return bool(_i64(views, where & 1, _PHRASE)[where >> 3] < _i64(views, other & 1, _PHRASE)[other >> 3])


@kernel
def _sort_rows(rows: I64, counts: I64, histogram: I32, order: I32, starts: I32) -> int:
    """order = the rows that matter from the highest bid to the lowest, of equal bids the lower ad first; how many."""
    n = 0
    for bucket in range(counts[_TOP], counts[_LOW] - 1, -1):
        starts[bucket] = n
        n += histogram[bucket]
    for row in range(counts[_ROWS]):
        bucket = _bucket(rows[row, _BITS])
        if bucket >= counts[_LOW]:
            order[starts[bucket]] = row
            starts[bucket] += 1
    first = 0
    while first < n:
        stop = starts[_bucket(rows[order[first], _BITS])]
        gap = 1
        while 3 * gap + 1 < stop - first:
            gap = 3 * gap + 1
        while gap > 0:  # Shell's sort, for the few of a bucket
            for i in range(first + gap, stop):
                row, j = order[i], i
                bid, ad = rows[row, _BITS], rows[row, _WHOSE]
                while j - gap >= first:
                    other = order[j - gap]
                    if rows[other, _BITS] > bid or (rows[other, _BITS] == bid and rows[other, _WHOSE] < ad):
                        break
                    order[j] = other
                    j -= gap
                order[j] = row
            gap //= 3
        first = stop
    return n


@kernel
def _cut(rows: I64, spare: I64, taken: I32, histogram: I32, counts: I64, order: I32, starts: I32, limit: int) -> None:
    """Keep the first `limit` rows only."""
    _sort_rows(rows, counts, histogram, order, starts)
    for i in range(limit):
        for k in range(3):
            spare[i, k] = rows[order[i], k]
    _clear(rows, taken, histogram, counts)
    for i in range(limit):
        row = _enter(rows, taken, counts, spare[i, _WHOSE])
        rows[row, _BITS], rows[row, _WHERE] = spare[i, _BITS], spare[i, _WHERE]
        _count(counts, histogram, spare[i, _BITS], limit)
    counts[_LEAST] = max(counts[_LEAST], spare[limit - 1, _BITS])


@kernel
def _fetch_ahead(views: I64, s: int, at: int, stop: int, state: I32, place: I64, negatives: bool) -> None:
    """Ask for what the next bids of a unit will need, step by step, so that nothing is waited for."""
    whose = _i32(views, s, _AD)
    if at + 12 < stop:
        prefetch(state, np.int64(whose[at + 12]))
    if not negatives:
        return
    for ahead in (8, 4):
        if at + ahead < stop:
            owner = place[max(state[np.int64(whose[at + ahead])], 0) >> 2]
            if owner >= 0:
                start = views[owner & 1, 2 * _OWNER_PTR] + 8 * (owner >> 1)
                if ahead == 8:
                    prefetch_at(start)
                else:
                    prefetch_at(views[owner & 1, 2 * _OWNER_NEGS] + 4 * to_int64(start)[0])


@kernel
def _keep_unit(
    views: I64, s: int, unit: int, kind: int, state: I32, place: I64,
    hits: I64, n_hits: I64, marks: Flags, rows: I64, taken: I32, histogram: I32, counts: I64, limit: int,
) -> int:  # fmt: skip
    """Keep the bids of a unit that are high enough, of ads that are shown and have no better one; how many rows."""
    ptr, given, whose = _i64(views, s, _ENTRY_PTR), _i64(views, s, _BID), _i32(views, s, _AD)
    left, negatives = limit, n_hits[0] + n_hits[1] > 0
    for at in range(ptr[unit], ptr[unit + 1]):
        bid, ad = given[at], int(whose[at])
        if bid < counts[_LEAST] or left == 0:
            break
        _fetch_ahead(views, s, at, ptr[unit + 1], state, place, negatives)
        code = state[ad]
        if code < 0 or code & 1 != s:
            continue
        if negatives and _blocked(views, ad, code, place, hits, n_hits, marks):
            continue
        left -= 1
        row, where = _enter(rows, taken, counts, ad), 8 * at + 2 * kind + s
        old = rows[row, _BITS]
        if bid > old:
            if old > 0:
                bucket = _bucket(old)
                histogram[bucket] -= 1
                counts[_ABOVE] -= bucket >= counts[_LOW]
            rows[row, _BITS], rows[row, _WHERE] = bid, where
            _count(counts, histogram, bid, limit)
        elif bid == old and _goes_before(views, where, rows[row, _WHERE]):
            rows[row, _WHERE] = where
    return int(counts[_ROWS])


@kernel
def _go_through(
    views: I64, words: I64, n: int, seen: Flags, known0: bool, known1: bool, guess: bool, state: I32, place: I64,
    hits: I64, n_hits: I64, marks: Flags, rows: I64, taken: I32, histogram: I32, counts: I64, limit: int,
    spare: I64, order: I32, starts: I32, most: int,
) -> None:  # fmt: skip
    """Go through the units that match: keep their bids, or with `guess` only count them."""
    for s in range(2):
        second, highest, kind_of = _i32(views, s, _SECOND), _i64(views, s, _MOST), _i32(views, s, _KIND)
        ptr, bids, own = _i64(views, s, _ENTRY_PTR), _i64(views, s, _BID), words[s]
        for i in range(-2, n):
            at, stop = _units_of(views, s, own, n, i, known1 if s else known0)
            while at < stop and (i < 0 or highest[at] >= counts[_LEAST]):
                if (i < 0 or seen[s, second[at] & (_FILTER - 1)]) and _fits(
                    views, s, _TEXT_PTR, _TEXT, at, kind_of[at], own, n
                ):
                    if guess:
                        for k in range(ptr[at], min(ptr[at + 1], ptr[at] + limit)):
                            if bids[k] < counts[_LEAST]:
                                break
                            _count(counts, histogram, bids[k], limit)
                    else:
                        kept = _keep_unit(
                            views, s, at, kind_of[at], state, place, hits, n_hits, marks,
                            rows, taken, histogram, counts, limit,
                        )  # fmt: skip
                        if kept >= most:
                            _cut(rows, spare, taken, histogram, counts, order, starts, limit)
                at += 1
                if i >= 0 and at + 8 < stop and seen[s, second[at + 8] & (_FILTER - 1)]:
                    for field in (_TEXT_PTR, _ENTRY_PTR):
                        prefetch_at(views[s, 2 * field] + 8 * (at + 8))


@kernel
def match_queries(
    text: Bytes, ptr: I64, views: I64, state: I32, place: I64, limit: int,
    ads: I64, phrases: I64, bids: I64, kinds: Bytes, out: I64,
) -> None:  # fmt: skip
    """The candidates of queries text[ptr[q]:ptr[q+1]], normalised: out[q] to out[q+1] of ads, phrases, bids and kinds.

    state[ad] is −1 if there is no such ad; else 4·(c + 1), c its campaign (−1 without), plus 2 if it has negatives of
    its own, plus the number of the postings that have it as it is now. place[c + 1] is where the negatives of campaign
    c are: −1 if it has none, else 2·owner + postings. Bids are the bits of floats.
    """
    hashes, words = np.empty(MOST_WORDS, np.uint64), np.empty((2, MOST_WORDS), np.int64)
    seen, marks = np.zeros((2, _FILTER), np.bool_), np.zeros((2, _FILTER), np.bool_)
    counts, histogram = np.zeros(5, np.int64), np.zeros(_BUCKETS, np.int32)
    hits, n_hits, starts = np.empty((2, 64), np.int64), np.zeros(2, np.int64), np.empty(_BUCKETS, np.int32)
    most = 4 * limit  # rows before they are cut; a unit adds `limit` at most
    rows, spare = np.empty((most + limit, 4), np.int64), np.empty((limit, 4), np.int64)
    taken, order = np.zeros(_table_size(most + limit), np.int32), np.empty(most + limit, np.int32)
    guessed, guess = np.zeros(5, np.int64), np.zeros(_BUCKETS, np.int32)
    found, out[0], counts[_TOP], guessed[_TOP] = 0, 0, -1, -1
    for q in range(len(ptr) - 1):
        n = _read_words(text, ptr[q], ptr[q + 1], hashes)
        whole = n <= MOST_WORDS
        n = min(n, MOST_WORDS)
        known0 = _number_words(views, 0, hashes, n, words[0], seen[0]) and whole
        known1 = _number_words(views, 1, hashes, n, words[1], seen[1]) and whole
        hits = _find_negatives(views, 0, words[0], n, known0, seen[0], hits, n_hits, marks)
        hits = _find_negatives(views, 1, words[1], n, known1, seen[1], hits, n_hits, marks)
        # How high the bids are that matter is guessed from all that match, before ads are looked at one by one.
        _go_through(
            views, words, n, seen, known0, known1, True, state, place, hits, n_hits, marks,
            rows, taken, guess, guessed, limit + limit // 4, spare, order, starts, most,
        )  # fmt: skip
        floor = guessed[_LEAST]
        for bucket in range(guessed[_TOP] + 1):
            guess[bucket] = 0
        guessed[_LOW], guessed[_TOP], guessed[_ABOVE], guessed[_LEAST] = 0, -1, 0, 0
        while True:
            counts[_LEAST] = max(counts[_LEAST], floor)
            _go_through(
                views, words, n, seen, known0, known1, False, state, place, hits, n_hits, marks,
                rows, taken, histogram, counts, limit, spare, order, starts, most,
            )  # fmt: skip
            if floor == 0 or counts[_ROWS] >= limit:
                break
            floor, counts[_LEAST] = 0, 0  # too many had a better bid or a negative: once more, without the guess
        for i in range(min(limit, _sort_rows(rows, counts, histogram, order, starts))):
            row = order[i]
            where = rows[row, _WHERE]
            ads[found], bids[found], kinds[found] = rows[row, _WHOSE], rows[row, _BITS], (where >> 1) & 3
            phrases[found] = _i64(views, where & 1, _PHRASE)[where >> 3]
            found += 1
        out[q + 1] = found
        _clear(rows, taken, histogram, counts)
        for s in range(2):
            for h in range(n_hits[s]):
                marks[s, hits[s, h] & (_FILTER - 1)] = False
        for i in range(n):
            seen[0, words[0, i] & (_FILTER - 1)] = seen[1, words[1, i] & (_FILTER - 1)] = False


@kernel
def _number_words(views: I64, s: int, hashes: U64, n: int, words: I64, seen: Flags) -> bool:
    """Look up the words of a query, −1 where one is in no phrase, and note those that are; whether all are."""
    known = n > 0
    for i in range(n):
        words[i] = _number(views, s, _WORD_SLOTS, _WORD_NUMBERS, hashes[i])
        if words[i] >= 0:
            seen[words[i] & (_FILTER - 1)] = True
        else:
            known = False
    return known


@kernel
def _units_of(views: I64, s: int, words: I64, n: int, i: int, known: bool) -> tuple[int, int]:
    """From where to where the units under word i stand; for −2 and −1 the one that is equal to the query."""
    if i >= 0:
        starts, word = _i64(views, s, _LIST_PTR), words[i]
        return (0, 0) if word < 0 or _stands_before(words, i) else (starts[word], starts[word + 1])
    kind = EXACT if i == -2 else EXTENDED
    unit = _number(views, s, _EXACT_SLOTS, _EXACT_UNITS, sequence_key(words, n, kind)) if known else -1
    return unit, unit + 1 if unit >= 0 else unit


@kernel
def _table_size(n: int) -> int:
    size = 64
    while size < 2 * n:
        size *= 2
    return size
