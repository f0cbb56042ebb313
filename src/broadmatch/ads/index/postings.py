"""The arrays of the ad index: units under their rarest word in order of bid, negatives, and whose they are.

A unit is a phrase with its match type, and all bids on it. Words are numbered from the most frequent to the rarest.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from broadmatch.ads.index._match import BROAD, EXACT, EXTENDED, FIELDS, PHRASE
from broadmatch.ads.index._postings import count_words, hash_texts, parse_records, stand
from broadmatch.data.csr import gathered, offsets
from broadmatch.kernels import F64, I32, I64, U64, Bytes
from broadmatch.kernels.hash_table import number_keys
from broadmatch.layout import Axes, Index, Offsets, Within, require


class Postings(NamedTuple):
    """Units 0 to `listed` stand under words, the others are found by equality; `neg_` is the same for negatives.

    Owners of negatives are the ads and then the campaigns, by their places in `ad_number` and `campaign_number`.
    The campaign of an ad is its number, −1 without one.
    """

    word_slots: Annotated[U64, Axes("word_slots")]
    word_numbers: Annotated[I64, Axes("word_slots"), Index("words", -1)]
    list_ptr: Annotated[I64, Offsets("words", "listed")]
    second: Annotated[I32, Axes("listed"), Index("words")]
    most: Annotated[F64, Axes("listed"), Within(0)]
    kind: Annotated[I32, Axes("units"), Within(EXACT, EXTENDED)]
    text_ptr: Annotated[I64, Offsets("units", "unit_words")]
    text: Annotated[I32, Axes("unit_words"), Index("words")]
    exact_slots: Annotated[U64, Axes("exact_slots")]
    exact_units: Annotated[I64, Axes("exact_slots"), Index("units", -1)]
    entry_ptr: Annotated[I64, Offsets("units", "entries")]
    bid: Annotated[F64, Axes("entries"), Within(0)]
    ad: Annotated[I32, Axes("entries"), Within(0)]
    phrase: Annotated[I64, Axes("entries")]
    neg_list_ptr: Annotated[I64, Offsets("words", "neg_listed")]
    neg_second: Annotated[I32, Axes("neg_listed"), Index("words")]
    neg_kind: Annotated[I32, Axes("neg_units"), Within(EXACT, BROAD)]
    neg_text_ptr: Annotated[I64, Offsets("neg_units", "neg_words")]
    neg_text: Annotated[I32, Axes("neg_words"), Index("words")]
    neg_exact_slots: Annotated[U64, Axes("neg_exact_slots")]
    neg_exact_units: Annotated[I64, Axes("neg_exact_slots"), Index("neg_units", -1)]
    ad_number: Annotated[I64, Axes("ads")]
    ad_campaign: Annotated[I32, Axes("ads"), Within(-1)]
    campaign_number: Annotated[I64, Axes("campaigns")]
    owner_ptr: Annotated[I64, Offsets("owners", "owned")]
    owner_negs: Annotated[I32, Axes("owned"), Index("neg_units")]

    def _check_whole(self) -> None:
        """Refuse what the kernel would run out of."""
        for slots in (self.word_slots, self.exact_slots, self.neg_exact_slots):
            size = len(slots)
            require(size > 0 and size & (size - 1) == 0 and bool((slots == 0).any()), "a hash table is full")
        require(len(self.owner_ptr) - 1 == len(self.ad_number) + len(self.campaign_number), "owners are missing")
        require(bool((np.diff(self.entry_ptr) > 0).all()), "a unit has no bid")
        require(len(self.second) <= len(self.kind) and len(self.neg_second) <= len(self.neg_kind), "units are missing")

    def view(self) -> I64:
        """Addresses and lengths of the fields, as the kernel takes them; whoever has them keeps these arrays."""
        arrays = [getattr(self, name) for name in FIELDS]
        return np.array([part for array in arrays for part in (array.ctypes.data, len(array))], np.int64)

    @property
    def n_bids(self) -> int:
        """How many bids there are, extended ones included."""
        return len(self.bid)


class _Texts(NamedTuple):
    """Texts as words, which are words[ptr[i]:ptr[i + 1]] of text i, and what each of them stands under."""

    kinds: I64
    words: I32
    ptr: I64
    rarest: I32
    second: I32
    keys: U64


def build_postings(numbers: I64, campaigns: I64, records: bytearray, starts: I64) -> Postings:
    """The postings of ads and campaigns, by their numbers, rising.

    `records` are those of the ads, then those of the campaigns, each from the word of 64 bits that `starts` has
    (`records.py`).
    """
    whole = np.frombuffer(records or bytearray(8), np.int64)
    phrase_ptr = offsets(whole[starts + 1] + whole[starts + 3])
    negative_ptr = offsets(whole[starts + 2])
    campaign = np.empty(len(starts), np.int64)
    phrases, negatives = np.empty((phrase_ptr[-1], 6), np.int64), np.empty((negative_ptr[-1], 4), np.int64)
    parse_records(whole, starts, campaign, phrase_ptr, negative_ptr, phrases, negatives)
    begin, end = (np.concatenate([phrases[:, 4 + i], negatives[:, 2 + i]]) for i in range(2))
    kinds = np.concatenate([phrases[:, 3], negatives[:, 1]])
    ad, phrase = numbers[phrases[:, 0]].astype(np.int32), phrases[:, 1].copy()
    bid, n = np.append(phrases[:, 2].view(np.float64), np.zeros(len(negatives))), len(phrases)
    del phrases
    slots, slot_numbers, n_words, texts = _stand(np.frombuffer(records or bytearray(8), np.uint8), begin, end, kinds)
    # Ads rise in the records, and phrases within an ad: equal bids stay in this order.
    units, entry_ptr, rows = _units(texts, np.lexsort((-bid[:n], texts.keys[:n])), bid, n_words)
    negs, neg_ptr, neg_rows = _units(texts, n + np.argsort(texts.keys[n:]), bid, n_words)
    owner = negatives[neg_rows - n, 0]
    owned = np.unique(owner << 32 | np.repeat(np.arange(len(neg_ptr) - 1), np.diff(neg_ptr)))
    owner_ptr = np.searchsorted(owned, np.arange(len(starts) + 1) << 32)
    fields = (
        slots, slot_numbers,
        *units[:2], bid[rows[entry_ptr[: len(units[1])]]], *units[2:],
        entry_ptr, bid[rows], ad[rows], phrase[rows],
        *negs,
        numbers, campaign[: len(numbers)].astype(np.int32), campaigns, owner_ptr, (owned & 0xFFFFFFFF).astype(np.int32),
    )  # fmt: skip
    return Postings._make(fields)


def _stand(text: Bytes, begin: I64, end: I64, kinds: I64) -> tuple[U64, I64, int, _Texts]:
    """The table of words and how many there are, and the texts as their numbers: the rarer a word, the higher."""
    counts = np.empty(len(begin), np.int64)
    count_words(text, begin, end, counts)
    ptr = offsets(counts)
    hashes = np.empty(ptr[-1], np.uint64)
    hash_texts(text, begin, end, ptr, hashes)
    distinct, place, times = np.unique(hashes, return_inverse=True, return_counts=True)
    del hashes
    order = np.argsort(-times, kind="stable")
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order))
    words = number[place]
    del place
    rarest, second, keys = (
        np.empty_like(counts, np.int32),
        np.empty_like(counts, np.int32),
        np.empty_like(counts, np.uint64),
    )
    stand(words, ptr, kinds, rarest, second, keys)
    slots, numbers = _table(distinct[order], 0)
    return slots, numbers, len(order), _Texts(kinds, words, ptr, rarest, second, keys)


def _units(texts: _Texts, order: I64, bid: F64, n_words: int) -> tuple[tuple[Any, ...], I64, I64]:
    """Make units of texts in order of their keys: the arrays of the units, where the rows of each begin, and the rows.

    The arrays are list_ptr, second, kind, text_ptr, text, and the table of those that are found by equality. Units that
    stand under words come first, of each word those with the highest bids.
    """
    keys = texts.keys[order]
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(order)])
    heads = order[starts]
    listed = (texts.kinds[heads] == PHRASE) | (texts.kinds[heads] == BROAD)
    under = np.where(listed, texts.rarest[heads], n_words)
    placed = np.lexsort((-bid[heads], under))
    ptr, where = gathered(np.append(starts, len(order)), placed)
    heads, n_listed = heads[placed], int(listed.sum())
    list_ptr = np.searchsorted(under[placed[:n_listed]], np.arange(n_words + 1))
    text_ptr, at = gathered(texts.ptr, heads)
    table = _table(texts.keys[heads[n_listed:]], n_listed)
    kind = texts.kinds[heads].astype(np.int32)
    return (list_ptr, texts.second[heads[:n_listed]], kind, text_ptr, texts.words[at], *table), ptr, order[where]


def _table(keys: U64, first: int) -> tuple[U64, I64]:
    """A hash table that numbers distinct keys from `first` on."""
    size = 1 << int(2 * len(keys) + 1).bit_length()
    slots, numbers = np.zeros(size, np.uint64), np.full(size, -1, np.int64)
    number_keys(keys, slots, numbers, first, np.empty(len(keys), np.int64))
    return slots, numbers
