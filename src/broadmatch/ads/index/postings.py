"""The arrays of the ad index: all bids in one order, lists of them under words, and the negatives of each owner.

The number of a word is its slot in the hash table, and so is that of a text that is found as a whole.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from broadmatch.ads.index._match import FIELDS
from broadmatch.ads.index._postings import (
    are_sound,
    copy_texts,
    count_words,
    find_most,
    hash_texts,
    key_texts,
    parse_records,
    place_rows,
    stand,
)  # fmt: skip
from broadmatch.ads.match_types import MATCH_TYPES
from broadmatch.data.csr import offsets
from broadmatch.errors import BadInput
from broadmatch.kernels import I32, I64, U64, Bytes
from broadmatch.kernels.hash_table import number_keys
from broadmatch.layout import Axes, Offsets, require

_MOST_TEXT = 1 << 29


class Postings(NamedTuple):
    """Rows are bits of the bid, 4·phrase + match type, 2^32·ad + campaign + 1 (0 without), and bits of the score.

    They are in the order of their bids, the highest first, then of ad, match type and phrase. A posting is a row, and
    the numbers that `_postings.stand` puts beside its word, of which the last is 4·place in `text` + match type; of a
    negative they are in `neg_rest`. Owners of negatives are the ads and then the campaigns, by their places in
    `ad_number` and `campaign_number`; their negatives are in the order of their words.
    """

    slots: Annotated[U64, Axes("slots")]
    list_ptr: Annotated[I64, Offsets("slots", "postings")]
    postings: Annotated[I32, Axes("postings", 4)]
    text: Annotated[I32, Axes("text")]
    rows: Annotated[I64, Axes("rows", 4)]
    neg_word: Annotated[I32, Axes("owned")]
    neg_rest: Annotated[I32, Axes("owned", 3)]
    ad_number: Annotated[I64, Axes("ads")]
    campaign_number: Annotated[I64, Axes("campaigns")]
    owner_ptr: Annotated[I64, Offsets("owners", "owned")]

    def _check_whole(self) -> None:
        """Refuse what the kernel would run out of; it looks itself where a text ends."""
        size = len(self.slots)
        require(size > 0 and size & (size - 1) == 0 and bool((self.slots == 0).any()), "the hash table is full")
        require(len(self.owner_ptr) - 1 == len(self.ad_number) + len(self.campaign_number), "owners are missing")
        require(len(self.neg_word) < 1 << 31, "there are too many negatives")
        require(are_sound(self.postings, self.list_ptr, len(self.rows)), "a list has rows that are missing or fall")
        for numbers in (self.neg_rest[:, 2], self.ad_number, self.campaign_number):
            require(not numbers.size or numbers.min() >= 0, "a number is below 0")

    @property
    def most(self) -> tuple[int, int]:
        """The highest numbers of an ad and of a campaign, −1 if there are none."""
        most = np.empty(2, np.int64)
        find_most(self.rows, most)
        ad, campaign = most.tolist()
        return max(ad, self.ad_number.max(initial=-1)), max(campaign, self.campaign_number.max(initial=-1))

    @property
    def n_bids(self) -> int:
        """How many bids there are, extended ones included."""
        return len(self.rows)


class _Texts(NamedTuple):
    """What texts stand under: the word (`under`; of a text found as a whole, itself), the rarest word, and `beside`."""

    slots: U64
    under: I64
    rarest: I32
    beside: I32
    text: I32


def build_postings(numbers: I64, campaigns: I64, records: bytearray, starts: I64) -> Postings:
    """The postings of ads and campaigns, by their numbers, rising.

    `records` are those of the ads, then those of the campaigns, each from the word of 64 bits that `starts` has
    (`records.py`).
    """
    whole = np.frombuffer(records or bytearray(8), np.int64)
    phrase_ptr = offsets(whole[starts + 1] + whole[starts + 3])
    negative_ptr = offsets(whole[starts + 2])
    campaign = np.empty(len(starts), np.int64)
    phrases, negatives = np.empty((phrase_ptr[-1], 7), np.int64), np.empty((negative_ptr[-1], 4), np.int64)
    parse_records(whole, starts, campaign, phrase_ptr, negative_ptr, phrases, negatives)
    begin, end = (np.concatenate([phrases[:, 4 + i], negatives[:, 2 + i]]) for i in range(2))
    kinds = np.concatenate([phrases[:, 3], negatives[:, 1]])
    # Ads rise in the records: a record is as good as its number. Bits of bids are in the order of bids.
    order = np.lexsort((phrases[:, 1], phrases[:, 3], phrases[:, 0], -phrases[:, 2]))
    n, rows = len(phrases), np.empty((len(phrases), 4), np.int64)
    rows[:, 0], rows[:, 3] = phrases[order, 2], phrases[order, 6]
    rows[:, 1] = phrases[order, 1] << 2 | phrases[order, 3]
    rows[:, 2] = numbers[phrases[order, 0]] << 32 | campaign[phrases[order, 0]] + 1
    del phrases
    texts = _stand(np.frombuffer(records or bytearray(8), np.uint8), begin, end, kinds, n)
    under = texts.under[order]
    listed = np.argsort(under, kind="stable")
    list_ptr = offsets(np.bincount(under, minlength=len(texts.slots)))
    postings = np.empty((n, 4), np.int32)
    postings[:, 0], postings[:, 1:] = listed, texts.beside[order[listed]]
    of = np.lexsort((texts.rarest[n:], negatives[:, 0]))
    owner_ptr = np.searchsorted(negatives[of, 0], np.arange(len(starts) + 1))
    negs = texts.rarest[n + of], texts.beside[n + of]
    return Postings(texts.slots, list_ptr, postings, texts.text, rows, *negs, numbers, campaigns, owner_ptr)


def _stand(text: Bytes, begin: I64, end: I64, kinds: I64, n: int) -> _Texts:
    """Make the table of words and of texts that are found as a whole, which are among the first n."""
    sizes = np.empty(len(begin), np.int64)
    count_words(text, begin, end, sizes)
    ptr = offsets(sizes)
    hashes, keys = np.empty(ptr[-1], np.uint64), np.empty(len(begin), np.uint64)
    hash_texts(text, begin, end, ptr, hashes)
    key_texts(hashes, ptr, keys)
    distinct, word, times = np.unique(hashes, return_inverse=True, return_counts=True)
    del hashes
    by_whole = np.flatnonzero(np.isin(kinds[:n], (MATCH_TYPES.index("exact"), MATCH_TYPES.index("extended"))))
    texts, number = np.unique(keys[by_whole], return_inverse=True)
    slots, slot = _table(np.concatenate([distinct, texts]))
    often = np.zeros(len(slots), np.int64)
    often[slot[: len(times)]] = times
    words = slot[word].astype(np.int32)
    del word
    rarest, beside = np.empty(len(begin), np.int32), np.empty((len(begin), 3), np.int32)
    stand(words, ptr, kinds, keys, often, rarest, beside, sizes)
    if sizes.sum() >= _MOST_TEXT:
        raise BadInput("The phrases have more than half a billion words in all; make several indices of them.")
    rest = np.zeros(sizes.sum() + 1, np.int32)
    copy_texts(words, ptr, sizes, beside, rest)
    under = rarest[:n].astype(np.int64)
    under[by_whole] = slot[len(times) + number]
    return _Texts(slots, under, rarest, beside, rest)


def _table(keys: U64) -> tuple[U64, I64]:
    """A hash table of distinct keys, and the slot of each."""
    size = 1 << int(2 * len(keys) + 1).bit_length()
    slots, numbers, slot = np.zeros(size, np.uint64), np.full(size, -1, np.int64), np.empty(len(keys), np.int64)
    number_keys(keys, slots, numbers, 0, np.empty(len(keys), np.int64))
    there = np.flatnonzero(numbers >= 0)
    slot[numbers[there]] = there
    return slots, slot


class JoinedPostings(NamedTuple):
    """Postings, and those of what changed since, as the kernel takes them: `views` are addresses in the others."""

    base: Postings
    delta: Postings
    views: I64
    place: I32
    state: I64

    @classmethod
    def of(
        cls, base: Postings, delta: Postings, changed: tuple[I64, I64], n_ads: int, n_campaigns: int
    ) -> "JoinedPostings":
        """Join them, of so many ads and campaigns; `changed` are those that base has no more as they are now."""
        state = np.full(n_ads + 1 + n_campaigns, -1)
        state[n_ads] = 0
        for s, postings in enumerate((base, delta)):
            owner = np.append(postings.ad_number, n_ads + 1 + postings.campaign_number)
            state[owner] = postings.owner_ptr[:-1] << 32 | np.diff(postings.owner_ptr) << 1 | s
            if s == 0:
                state[np.append(changed[0], n_ads + 1 + changed[1])] = -1
        place = np.empty(len(delta.rows), np.int32)
        place_rows(np.asarray(base.rows), delta.rows, place)
        views = []
        for postings in (base, delta):
            fields: dict[str, Any] = {**postings._asdict(), "place": place, "state": state[:n_ads]}
            views.append([part for name in FIELDS for part in (fields[name].ctypes.data, len(fields[name]))])
        return cls(base, delta, np.array(views, np.int64), place, state)
