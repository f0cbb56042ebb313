"""Lookups in the ad index: from the words of a query to the ads that match it, highest bid first.

All bids are rows in one order: highest bid first, then by ad, match type and phrase. Lists hold the rows that stand
under a word, the rarest of their phrase, or under the whole of an exact phrase, in this order, and beside each what
tells whether it matches. All lists of a query are read in step, a stretch of the order at a time: what matches is
merged, and the ads come out in the order wanted, so nothing behind the last of them is read. Whether a negative blocks
an ad is asked of its own negatives and those of its campaign. Two postings are read as one: those on disk and those of
the changes since.

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
FIELDS = ("slots", "list_ptr", "postings", "text", "rows", "neg_word", "neg_rest", "place")
"""The order of the fields in a view."""
_SLOTS, _LIST_PTR, _POSTINGS, _TEXT, _ROWS, _NEG_WORD, _NEG_REST, _PLACE = range(0, 2 * len(FIELDS), 2)
_BUCKETS, _LOW = 256, 0xFFFFFFFF
_S, _WORD, _AT, _STOP = range(4)
"""A list: the postings and the word that it is of, where it is read on, and where it ends."""
_KEPT, _AHEAD = 4096, 64
"""Matches of a stretch for which there is room, and candidates for which memory is asked ahead."""


@kernel
def sequence_key(hashes: U64, start: int, stop: int) -> np.uint64:
    """The key of a sequence of words; never 0, nor that of a word."""
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
            return np.int64(slot)
        slot = (slot + np.uint64(1)) & mask
    return -1


@kernel
def _place_of(words: I32, chain: Bytes, word: int) -> int:
    """The first place of a word in a query, 0 if it is not there; chain[place] leads to others of its bucket."""
    at = chain[MOST_WORDS + 1 + (word & (_BUCKETS - 1))]
    while at != 0 and words[at] != word:
        at = chain[at]
    return np.int64(at)


@kernel
def _fits(words: I32, chain: Bytes, n: int, key: int, word: int, posting: I32, at: int, texts: I32, size: int) -> bool:
    """Whether a phrase that has this word matches the query, by the three numbers from posting[at] on."""
    a, b, info = posting[at], posting[at + 1], posting[at + 2]
    kind = info & 3
    if kind == EXACT:
        return key != 0 and np.int64(b) << 32 | np.int64(a) & _LOW == key
    if kind == BROAD:
        if _place_of(words, chain, a) == 0 or _place_of(words, chain, b) == 0:
            return False
    else:
        j = _place_of(words, chain, word)
        while j != 0 and not (
            words[j] == word and (a == NOTHING or words[j - 1] == a) and (b == NOTHING or words[j + 1] == b)
        ):
            j = np.int64(chain[j])
        if j == 0:
            return False
    return info <= 3 or _fits_whole(words, chain, n, kind, texts, info >> 2, size)


@kernel
def _fits_whole(words: I32, chain: Bytes, n: int, kind: int, texts: I32, first: int, size: int) -> bool:
    """Whether a phrase, whose words stand at texts[first + 1] behind their number, matches the query."""
    length = np.int64(texts[first]) if first < size else size
    if length > size - first - 1:  # in a damaged folder
        return False
    if kind == BROAD:
        for k in range(first + 1, first + 1 + length):
            if _place_of(words, chain, texts[k]) == 0:
                return False
        return True
    for begin in range(1, n - length + 2):
        k = 0
        while k < length and texts[first + 1 + k] == words[begin + k]:
            k += 1
        if k == length:
            return True
    return False


@kernel
def _blocks(views: I64, owner: int, words: I32, chain: Bytes, n: int, key: int) -> bool:
    """Whether one of the negatives of an owner, which is as in `match_queries`, matches the query."""
    s, first = owner & 1, owner >> 32
    stop = first + ((owner & _LOW) >> 1)
    own, links = words[s], chain[s]
    negatives, rest = to_int32(views[s, _NEG_WORD]), to_int32(views[s, _NEG_REST])
    texts, size = to_int32(views[s, _TEXT]), views[s, _TEXT + 1]
    if stop - first <= 16 * n:
        for k in range(first, stop):
            word = negatives[k]
            if links[MOST_WORDS + 1 + (word & (_BUCKETS - 1))] != 0 and _place_of(own, links, word) != 0:
                if _fits(own, links, n, key, word, rest, 3 * k, texts, size):
                    return True
        return False
    for i in range(1, n + 1):
        word, low, high = own[i], first, stop
        while low < high:
            middle = (low + high) >> 1
            if negatives[middle] < word:
                low = middle + 1
            else:
                high = middle
        while low < stop and negatives[low] == word:
            if _fits(own, links, n, key, word, rest, 3 * low, texts, size):
                return True
            low += 1
    return False


@kernel
def _key(views: I64, s: int, row: int) -> int:
    """Where a row stands in the order of both postings; those of the changes before the row whose place they have."""
    if s == 0:
        return row << 32 | _LOW
    return np.int64(to_int32(views[s, _PLACE])[row]) << 32 | row


@kernel
def _open_lists(views: I64, hashes: U64, n: int, whole: np.uint64, words: I32, chain: Bytes, lists: I64) -> int:
    """Look up the words of a query, and note the lists that are to be read; how many."""
    found = 0
    for s in range(2):
        own, links, starts = words[s], chain[s], to_int64(views[s, _LIST_PTR])
        own[0] = own[n + 1] = NOTHING
        for i in range(n, -1, -1):
            word = _slot(views, s, hashes[i - 1] if i > 0 else whole) if i > 0 or whole != np.uint64(0) else -1
            if i > 0:
                own[i], links[i] = word, 0
            if word < 0:
                continue
            if i == 0 or _place_of(own, links, word) == 0:
                lists[found, _S], lists[found, _WORD] = s, word
                lists[found, _AT], lists[found, _STOP] = starts[word], starts[word + 1]
                prefetch_at(views[s, _POSTINGS] + 16 * starts[word])
                found += starts[word] < starts[word + 1]
            if i > 0:
                bucket = MOST_WORDS + 1 + (word & (_BUCKETS - 1))
                links[i], links[bucket] = links[bucket], i
    return found


@kernel
def _read_on(
    views: I64, lists: I64, n_lists: int, step: int, words: I32, chain: Bytes, n: int, whole: int, keys: I64, runs: I64
) -> int:
    """Read all lists to the same row, none by more than `step`: the keys of what matches, a run a list; how many."""
    end = np.int64(1) << 62
    for i in range(n_lists):
        at = lists[i, _AT] + step
        if at < lists[i, _STOP]:
            s = lists[i, _S]
            end = min(end, _key(views, s, to_int32(views[s, _POSTINGS])[4 * at]))
    n_runs, m = 0, 0
    for i in range(n_lists):
        s, word, at = lists[i, _S], lists[i, _WORD], lists[i, _AT]
        own, links, posting = words[s], chain[s], to_int32(views[s, _POSTINGS])
        texts, size, rows = to_int32(views[s, _TEXT]), views[s, _TEXT + 1], views[s, _ROWS]
        stop, first = min(at + step, lists[i, _STOP]), m
        while at < stop:
            key = _key(views, s, posting[4 * at])
            if key >= end:
                break
            if _fits(own, links, n, whole, word, posting, 4 * at + 1, texts, size):
                prefetch_at(rows + 32 * posting[4 * at])
                keys[m] = key
                m += 1
            at += 1
        lists[i, _AT] = at
        if m > first:
            n_runs += 1
            runs[n_runs] = m
    return n_runs


@kernel
def _merge(keys: I64, spare: I64, runs: I64, n_runs: int) -> I64:
    """The keys of runs that rise, from runs[r] to runs[r + 1], in one run."""
    while n_runs > 1:
        for r in range(0, n_runs, 2):
            i, middle, stop = runs[r], runs[r + 1], runs[min(r + 2, n_runs)]
            j = middle
            for k in range(i, stop):
                left = i < middle and (j >= stop or keys[i] < keys[j])
                spare[k] = keys[i] if left else keys[j]
                i += left
                j += not left
            runs[r // 2 + 1] = stop
        n_runs = (n_runs + 1) // 2
        keys, spare = spare, keys
    return keys


@kernel
def match_queries(
    text: Bytes, ptr: I64, views: I64, state: I64, n_ads: int, limit: int,
    ads: I64, phrases: I64, bids: I64, kinds: Bytes, scores: I64, out: I64,
) -> None:  # fmt: skip
    """The candidates of queries text[ptr[q]:ptr[q+1]], normalised: out[q] to out[q+1] of the columns before.

    state[ad] is −1 if there is no such ad, else where its negatives are: first·2^32 + 2·number + which postings has it
    as it is now; state[n_ads] is 0, and state[n_ads + 1 + c] the same of campaign c. Bids and scores are the bits of
    floats.
    """
    hashes, words = np.empty(MOST_WORDS, np.uint64), np.empty((2, MOST_WORDS + 2), np.int32)
    chain = np.zeros((2, MOST_WORDS + 1 + _BUCKETS), np.uint8)
    lists, runs = np.empty((2 * MOST_WORDS + 2, 4), np.int64), np.zeros(2 * MOST_WORDS + 3, np.int64)
    room = max(_KEPT, 2 * limit)
    keys, spare = np.empty(room, np.int64), np.empty(room, np.int64)
    taken = np.zeros(_table_size(limit), np.int64)
    found, out[0] = 0, 0
    for q in range(len(ptr) - 1):
        n = _read_words(text, ptr[q], ptr[q + 1], hashes)
        whole = sequence_key(hashes, 0, n) if 0 < n <= MOST_WORDS else np.uint64(0)
        n = min(n, MOST_WORDS)
        n_lists = _open_lists(views, hashes, n, whole, words, chain, lists)
        stop = found + limit
        step = 16 + 2 * limit // max(n_lists, 1)
        while n_lists > 0 and found < stop:
            step = min(step, room // n_lists)
            n_runs = _read_on(views, lists, n_lists, step, words, chain, n, np.int64(whole), keys, runs)
            merged, m = _merge(keys, spare, runs, n_runs), runs[n_runs]
            m = m if n_runs else 0
            found = _keep(
                merged, m, views, state, n_ads, words, chain, n, np.int64(whole), q + 1, taken, found, stop,
                ads, phrases, bids, kinds, scores,
            )  # fmt: skip
            left = 0
            for i in range(n_lists):
                if lists[i, _AT] < lists[i, _STOP]:
                    for k in range(4):
                        lists[left, k] = lists[i, k]
                    left += 1
            n_lists, step = left, 2 * step
        out[q + 1] = found
        for s in range(2):
            for i in range(1, n + 1):
                chain[s, MOST_WORDS + 1 + (words[s, i] & (_BUCKETS - 1))] = 0


@kernel
def _keep(
    merged: I64, m: int, views: I64, state: I64, n_ads: int, words: I32, chain: Bytes, n: int, whole: int,
    mark: int, taken: I64, found: int, stop: int,
    ads: I64, phrases: I64, bids: I64, kinds: Bytes, scores: I64,
) -> int:  # fmt: skip
    """Enter the ads of merged rows that are shown, have no better bid, and that no negative blocks; how many then."""
    mask = len(taken) - 1
    for k in range(m):
        s = np.int64(merged[k] & _LOW != _LOW)
        row = 4 * (merged[k] & _LOW if s else merged[k] >> 32)
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
        if own > 1 and _blocks(views, own, words, chain, n, whole):
            continue
        if owner > 1 and _blocks(views, owner, words, chain, n, whole):
            continue
        taken[slot] = wanted
        ads[found], phrases[found], kinds[found] = ad, column[row + 1] >> 2, column[row + 1] & 3
        bids[found], scores[found] = column[row], column[row + 3]
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
