"""Lookups in the ad index: from the words of a query to the ads that match it, highest bid first.

All bids are rows in one order: highest bid first, then by ad, match type and phrase. Lists hold the rows that stand
under a word, the rarest of their phrase, or under the whole of an exact phrase, in this order, and beside each what
tells whether it matches. All lists of a query are read in step, a stretch of the order at a time: what matches is
merged, and the ads come out in the order wanted, so little is read behind the last of them. Whether a negative blocks
an ad is asked of its own negatives and of those of its campaign. Two postings are read as one: those on disk and those
of the changes since.

Postings come as addresses (`kernels/intrinsics.py`): views[s, 2·f] is where field f of postings s is, and
views[s, 2·f + 1] how long it is.
"""

import numpy as np

from broadmatch.kernels import I32, I64, U64, Bytes, kernel
from broadmatch.kernels.hashing import mix
from broadmatch.kernels.intrinsics import prefetch_at, to_int32, to_int64, to_uint64
from broadmatch.kernels.vocabulary import hash_word

EXACT, PHRASE, BROAD, EXTENDED = 0, 1, 2, 3
MOST_WORDS = 64
"""Words of a query that count."""
NOTHING = -2
"""In place of a word, where a phrase or a query has none; a word of the query that is in no phrase is −1."""
FIELDS = ("slots", "list_ptr", "postings", "text", "rows", "neg_word", "neg_rest", "place", "state")
"""The order of the fields in a view."""
_SLOTS, _LIST_PTR, _POSTINGS, _TEXT, _ROWS, _NEG_WORD, _NEG_REST, _PLACE, _STATE = range(0, 2 * len(FIELDS), 2)
_CHAIN, _HEADS, _BUCKETS = MOST_WORDS + 2, 2 * MOST_WORDS + 4, 1024
_N, _WHOLE, _HITS, _FEW = _HEADS + _BUCKETS, _HEADS + _BUCKETS + 1, _HEADS + _BUCKETS + 3, 100
_SIZE = _HITS + _FEW + 1
"""A query: its words by their numbers, from 1 on; at _CHAIN where the next word of the same bucket is, at _HEADS where
the first is; the number of words; the halves of its key as a whole, 0 if it is longer; room for negatives."""
_LOW = 0xFFFFFFFF
_S, _WORD, _AT, _STOP, _HOW = range(5)
"""A list: the postings and the word that it is of, where it is read on, where it ends, and the place of the word if
there is one and no other word is in the way; 0 if not, −1 if all of the list matches."""
_ROOM, _AHEAD = 1024, 8
"""Postings of a stretch, at least, and by how many candidates memory is asked for ahead, thrice."""


@kernel
def sequence_key(hashes: U64, start: int, stop: int) -> np.uint64:
    """The key of a sequence of words, never 0; as with words, what has the same 64 bits is taken for the same."""
    h = np.uint64(stop - start)
    for i in range(start, stop):
        h = mix(h ^ hashes[i]) + np.uint64(i - start + 1)
    return np.uint64(1) if h == np.uint64(0) else h


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
def _slot(views: I64, s: int, key: np.uint64) -> int:
    """The number of a word, or of a whole text, by its key: its slot in the hash table; −1 if it is not there."""
    table, mask = to_uint64(views[s, _SLOTS]), np.uint64(views[s, _SLOTS + 1] - 1)
    slot = mix(key) & mask
    while table[slot] != np.uint64(0):
        if table[slot] == key:
            return int(np.int64(slot))
        slot = (slot + np.uint64(1)) & mask
    return -1


@kernel
def _place_of(query: I32, word: int) -> int:
    """The first place of a word in a query, from 1 on; 0 if it is not there."""
    at = int(query[_HEADS + (word & (_BUCKETS - 1))])
    while at != 0 and query[at] != word:
        at = int(query[_CHAIN + at])
    return at


@kernel
def _fits(query: I32, word: int, beside: I32, at: int, texts: I32, size: int) -> bool:
    """Whether a phrase that has this word matches the query, by the three numbers from beside[at] on."""
    a, b, info = beside[at], beside[at + 1], beside[at + 2]
    kind = info & 3
    if kind == BROAD:
        if _place_of(query, a) == 0 or _place_of(query, b) == 0:
            return False
    elif kind == PHRASE:
        j = _place_of(query, word)
        while j != 0 and not (
            query[j] == word and (a == NOTHING or query[j - 1] == a) and (b == NOTHING or query[j + 1] == b)
        ):
            j = int(query[_CHAIN + j])
        if j == 0:
            return False
    else:
        return bool(query[_WHOLE] == a and query[_WHOLE + 1] == b)
    return info <= 3 or _fits_whole(query, kind, texts, info >> 2, size)


@kernel
def _fits_whole(query: I32, kind: int, texts: I32, first: int, size: int) -> bool:
    """Whether a phrase, whose words stand at texts[first + 1] behind their number, matches the query."""
    length = int(texts[first]) if first < size else 0
    if not 0 < length < size - first:  # in a damaged folder
        return False
    if kind == BROAD:
        k = 1
        while k <= length and _place_of(query, texts[first + k]) != 0:
            k += 1
        return k > length
    for begin in range(1, query[_N] - length + 2):
        k = 0
        while k < length and texts[first + 1 + k] == query[begin + k]:
            k += 1
        if k == length:
            return True
    return False


@kernel
def _blocks(views: I64, owner: int, queries: int) -> bool:
    """Whether one of the negatives of an owner, which is as in `match_queries`, matches the query."""
    s, first = owner & 1, owner >> 32
    stop, query = first + ((owner & _LOW) >> 1), to_int32(queries + 4 * s * _SIZE)
    negatives, rest = to_int32(views[s, _NEG_WORD]), to_int32(views[s, _NEG_REST])
    texts, size, n = to_int32(views[s, _TEXT]), views[s, _TEXT + 1], query[_N]
    if stop - first <= _FEW:  # note those that may match without a branch, then look at them
        hits = 0
        for k in range(first, stop):
            query[_HITS + hits] = k
            hits += query[_HEADS + (negatives[k] & (_BUCKETS - 1))] != 0
        for h in range(hits):
            k = query[_HITS + h]
            if _place_of(query, negatives[k]) != 0 and _fits(query, negatives[k], rest, 3 * k, texts, size):
                return True
        return False
    for i in range(1, n + 1):
        word, low, high = query[i], first, stop
        while low < high:
            middle = (low + high) >> 1
            if negatives[middle] < word:
                low = middle + 1
            else:
                high = middle
        while low < stop and negatives[low] == word:
            if _fits(query, word, rest, 3 * low, texts, size):
                return True
            low += 1
    return False


@kernel
def _key(views: I64, s: int, row: int) -> int:
    """Where a row stands in the order of both postings; those of the changes before the row whose place they have."""
    if s == 0:
        return row << 32 | _LOW
    return int(to_int32(views[s, _PLACE])[row]) << 32 | row


@kernel
def _open_lists(views: I64, hashes: U64, n: int, whole: np.uint64, queries: int, lists: I64) -> int:
    """Look up the words of a query, and note the lists that are to be read; how many."""
    found = 0
    for s in range(2):
        query, starts = to_int32(queries + 4 * s * _SIZE), to_int64(views[s, _LIST_PTR])
        for i in range(1, query[_N] + 1):
            query[_HEADS + (query[i] & (_BUCKETS - 1))] = 0
        query[_N], query[0], query[n + 1] = n, NOTHING, NOTHING
        query[_WHOLE], query[_WHOLE + 1] = np.int64(whole) & _LOW, np.int64(whole) >> 32
        mixed, first = False, found
        for i in range(n, -1, -1):
            word = _slot(views, s, hashes[i - 1] if i > 0 else whole)
            bucket = _HEADS + (word & (_BUCKETS - 1))
            new = i == 0 or query[bucket] == 0 or _place_of(query, word) == 0
            if i > 0:
                query[i], query[_CHAIN + i] = word, 0
            if word < 0:
                continue
            if i > 0:
                mixed |= new and query[bucket] != 0
                query[_CHAIN + i], query[bucket] = query[bucket], i
            if new:
                lists[found, _S], lists[found, _WORD] = s, word
                lists[found, _AT], lists[found, _STOP], lists[found, _HOW] = starts[word], starts[word + 1], -(i == 0)
                found += starts[word] < starts[word + 1]
        for i in range(first, found):
            place = _place_of(query, lists[i, _WORD])
            if not mixed and lists[i, _HOW] == 0 and query[_CHAIN + place] == 0:
                lists[i, _HOW] = place
    return found


@kernel
def _read_on(views: I64, lists: I64, n_lists: int, step: int, queries: int, keys: I64, runs: I64) -> int:
    """Read all lists to the same row, none by more than `step`: the keys of what matches, a run a list; how many."""
    end = 1 << 62
    for i in range(n_lists):
        s, at = lists[i, _S], lists[i, _AT] + step
        for line in range(0, 384, 64):
            prefetch_at(views[s, _POSTINGS] + 16 * lists[i, _AT] + line)
        if at < lists[i, _STOP]:
            end = min(end, _key(views, s, to_int32(views[s, _POSTINGS])[4 * at]))
    n_runs, m, into = 0, 0, to_int64(keys.ctypes.data)
    for i in range(n_lists):
        s, word, at, place = lists[i, _S], lists[i, _WORD], lists[i, _AT], lists[i, _HOW]
        query, address = to_int32(queries + 4 * s * _SIZE), views[s, _POSTINGS]
        posting, texts, size = to_int32(address), to_int32(views[s, _TEXT]), views[s, _TEXT + 1]
        before, behind = query[max(place, 1) - 1], query[place + 1]
        stop, first = min(at + step, lists[i, _STOP]), m
        while at < stop:
            prefetch_at(address + 16 * at + 384)
            key = _key(views, s, posting[4 * at])
            if key >= end:
                break
            if place > 0:  # as `_fits`, without a branch that would be guessed wrong
                a, b, info = posting[4 * at + 1], posting[4 * at + 2], posting[4 * at + 3]
                at_a, at_b = query[_HEADS + (a & (_BUCKETS - 1))], query[_HEADS + (b & (_BUCKETS - 1))]
                both = (query[at_a] == a) & (query[at_b] == b)
                beside = ((a == NOTHING) | (a == before)) & ((b == NOTHING) | (b == behind))
                fits = both if info & 3 == BROAD else beside
                if info > 3 and fits:
                    fits = _fits_whole(query, info & 3, texts, info >> 2, size)
            else:
                fits = place < 0 or _fits(query, word, posting, 4 * at + 1, texts, size)
            into[m] = key
            m += fits
            at += 1
        lists[i, _AT] = at
        if m > first:
            n_runs += 1
            runs[n_runs] = m
    return n_runs


@kernel
def _drop_ended(lists: I64, n_lists: int) -> int:
    """Leave out lists that are read to their end; how many are left."""
    left = 0
    for i in range(n_lists):
        if lists[i, _AT] < lists[i, _STOP]:
            for k in range(5):
                lists[left, k] = lists[i, k]
            left += 1
    return left


@kernel
def _merge(at: int, other: int, runs: I64, n_runs: int) -> int:
    """Merge runs of keys that rise, from runs[r] to runs[r + 1], by way of another place; gives where they are then."""
    keys, spare = to_int64(at), to_int64(other)
    while n_runs > 1:
        for r in range(0, n_runs, 2):
            i, middle, stop = runs[r], runs[r + 1], runs[min(r + 2, n_runs)]
            j, k = middle, i
            while i < middle and j < stop:
                left, right = keys[i], keys[j]
                first = left < right  # a choice without a branch, which would be guessed wrong half of the time
                spare[k] = left if first else right
                i += first
                j += not first
                k += 1
            for rest in range(i, middle):
                spare[k + rest - i] = keys[rest]
            for rest in range(j, stop):
                spare[rest] = keys[rest]
            runs[r // 2 + 1] = stop
        n_runs = (n_runs + 1) // 2
        keys, spare, at, other = spare, keys, other, at
    return at


@kernel
def match_queries(text: Bytes, ptr: I64, views: I64, limit: int, columns: I64, kinds: Bytes, out: I64) -> None:
    """The candidates of queries text[ptr[q]:ptr[q+1]], normalised: out[q] to out[q+1] of kinds and of each column.

    The columns are ad, phrase, and the bits of bid and score. The field `state` has for each ad −1 if there is no such
    ad, else where its negatives are: first·2^32 + 2·number + which postings has the ad as it is now. Then comes a 0,
    and the same for each campaign. The length of the field is the number of ads.
    """
    hashes, query = np.empty(MOST_WORDS, np.uint64), np.zeros(2 * _SIZE, np.int32)  # one for each of the postings
    queries = query.ctypes.data
    lists, runs = np.empty((2 * MOST_WORDS + 2, 5), np.int64), np.zeros(2 * MOST_WORDS + 3, np.int64)
    room = max(_ROOM, 2 * limit)
    keys, spare = np.empty(room + 1, np.int64), np.empty(room, np.int64)  # one more, written before it is known to fit
    taken = np.zeros(_table_size(limit), np.int64)
    found, out[0] = 0, 0
    for q in range(len(ptr) - 1):
        n = _read_words(text, ptr[q], ptr[q + 1], hashes)
        whole = sequence_key(hashes, 0, n) if 0 < n <= MOST_WORDS else np.uint64(0)
        n = min(n, MOST_WORDS)
        n_lists = _open_lists(views, hashes, n, whole, queries, lists)
        stop = found + limit
        step = 16 + 2 * limit // max(n_lists, 1)
        while n_lists > 0 and found < stop:
            step = min(step, room // n_lists)
            n_runs = _read_on(views, lists, n_lists, step, queries, keys, runs)
            m, merged = runs[n_runs], _merge(keys.ctypes.data, spare.ctypes.data, runs, n_runs)
            before = found
            found = _keep(merged, m, views, queries, q + 1, taken, found, stop, columns, kinds)
            n_lists = _drop_ended(lists, n_lists)
            step = 16 + min(4 * step, step * (stop - found) // max(found - before, 1))
        out[q + 1] = found
    query[0] = keys[0] = spare[0] = 0  # they live until here


@kernel
def _row_of(views: I64, key: int) -> tuple[int, int]:
    """Which postings a key is of, and where its row begins."""
    s = int(key & _LOW != _LOW)
    return s, 4 * (key & _LOW if s else key >> 32)


@kernel
def _keep(
    at: int, m: int, views: I64, queries: int, mark: int, taken: I64, found: int, stop: int, columns: I64, kinds: Bytes
) -> int:  # fmt: skip
    """Enter the ads of merged rows that are shown, have no better bid and are not blocked; how many there are then."""
    mask, merged, states, n_ads = len(taken) - 1, to_int64(at), views[0, _STATE], views[0, _STATE + 1]
    state = to_int64(states)
    for k in range(-3 * _AHEAD, m):
        if k + 3 * _AHEAD < m:
            s, row = _row_of(views, merged[k + 3 * _AHEAD])
            prefetch_at(views[s, _ROWS] + 8 * row)
        if 0 <= k + 2 * _AHEAD < m:
            s, row = _row_of(views, merged[k + 2 * _AHEAD])
            whose = to_int64(views[s, _ROWS])[row + 2]
            prefetch_at(states + 8 * (whose >> 32))
            prefetch_at(states + 8 * (n_ads + (whose & _LOW)))
        if 0 <= k + _AHEAD < m:
            s, row = _row_of(views, merged[k + _AHEAD])
            whose = to_int64(views[s, _ROWS])[row + 2]
            owner = state[n_ads + (whose & _LOW)]
            prefetch_at(views[owner & 1, _NEG_WORD] + 4 * (owner >> 32))
        if k < 0:
            continue
        s, row = _row_of(views, merged[k])
        column = to_int64(views[s, _ROWS])
        ad, campaign = column[row + 2] >> 32, column[row + 2] & _LOW
        own, owner = state[ad], state[n_ads + campaign]
        if own < 0 or own & 1 != s:
            continue
        slot = np.int64(np.uint64(ad) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)) & mask
        wanted = mark << 32 | ad
        while taken[slot] >> 32 == mark and taken[slot] != wanted:
            slot = (slot + 1) & mask
        if taken[slot] == wanted:
            continue
        if own & _LOW > 1 and _blocks(views, own, queries):
            continue
        if owner > 0 and _blocks(views, owner, queries):
            continue
        taken[slot] = wanted
        columns[0, found], columns[1, found], kinds[found] = ad, column[row + 1] >> 2, column[row + 1] & 3
        columns[2, found], columns[3, found] = column[row], column[row + 3]
        found += 1
        if found == stop:
            break
    return found


@kernel
def _table_size(n: int) -> int:
    size = 64
    while size < 2 * n:
        size *= 2
    return size
