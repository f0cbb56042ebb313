"""What is known of ads beside their bids, as columns by number: what click models and people ask for."""

import math
from typing import Annotated, NamedTuple

import numpy as np

from broadmatch.ads.index._ad_columns import ABOUT, copy_spans, phrase_spans, text_spans
from broadmatch.ads.index._postings import HEAD
from broadmatch.data import Names
from broadmatch.data.csr import offsets
from broadmatch.kernels import F64, I32, I64, Bytes
from broadmatch.layout import Axes, Index, Within

COLUMNS = "columns"
"""The name under which they stand among the arrays of the postings."""


class AdColumns(NamedTuple):
    """Columns by the number of the ad, of the campaign and of the phrase; texts of numbers that are free are empty.

    `advertiser` is a number of `advertisers`, that of the campaign where the ad has none of its own; −1 for none.
    `budget` is that of a campaign for a day, infinite for none.
    """

    name: Annotated[Names, Axes("ads")]
    campaign: Annotated[I32, Axes("ads"), Index("campaigns", -1)]
    advertiser: Annotated[I32, Axes("ads"), Index("advertisers", -1)]
    page: Annotated[Names, Axes("ads")]
    title: Annotated[Names, Axes("ads")]
    text: Annotated[Names, Axes("ads")]
    campaigns: Annotated[Names, Axes("campaigns")]
    campaign_advertiser: Annotated[I32, Axes("campaigns"), Index("advertisers", -1)]
    budget: Annotated[F64, Axes("campaigns"), Within(0, math.inf)]
    advertisers: Annotated[Names, Axes("advertisers")]
    phrase: Annotated[Names, Axes("phrases")]

    @classmethod
    def of_records(
        cls, ads: I64, campaigns: I64, records: bytearray, starts: I64, n_ads: int, n_campaigns: int, n_phrases: int
    ) -> "AdColumns":
        """The columns of records as `build_postings` takes them: those of ads, then those of campaigns."""
        words = np.frombuffer(records or bytearray(8), np.int64)
        text = np.frombuffer(records or bytearray(8), np.uint8)
        n = len(ads)
        of_ad = _texts(words, text, starts[:n], ads, n_ads)
        of_campaign = _texts(words, text, starts[n:], campaigns, n_campaigns)
        begin, end = np.zeros(n_phrases, np.int64), np.zeros(n_phrases, np.int64)
        phrase_spans(words, starts[:n], begin, end)
        campaign = np.full(n_ads, -1, np.int32)
        campaign[ads] = words[starts[:n]]
        numbers: dict[str, int] = {}
        owner = _numbered(of_campaign[1], numbers)
        own = _numbered(of_ad[1], numbers)
        inherited = np.append(owner, np.int32(-1))[campaign]
        advertiser = np.where(own >= 0, own, inherited)
        name, _, page, title, body = of_ad
        advertisers, phrase = Names.of(numbers), _names(text, begin, end)
        budget = np.full(n_campaigns, np.inf)
        budget[campaigns] = words[starts[n:] + HEAD - 1].view(np.float64)
        about = name, campaign, advertiser, page, title, body
        return cls(*about, of_campaign[0], owner, budget, advertisers, phrase)


def _texts(words: I64, text: Bytes, starts: I64, numbers: I64, n: int) -> list[Names]:
    """The names, and the texts at the end of records, by number."""
    begin, end = np.zeros((1 + ABOUT, n), np.int64), np.zeros((1 + ABOUT, n), np.int64)
    text_spans(words, starts, numbers, begin, end)
    return [_names(text, begin[t], end[t]) for t in range(1 + ABOUT)]


def _names(text: Bytes, begin: I64, end: I64) -> Names:
    at = offsets(end - begin)
    out = np.empty(at[-1], np.uint8)
    copy_spans(text, begin, at, out)
    return Names(out, at)


def _numbered(names: Names, numbers: dict[str, int]) -> I32:
    """The number of each name, new ones from the next on; −1 for those that are empty."""
    found, filled = np.full(len(names), -1, np.int32), np.flatnonzero(np.diff(names.offsets))
    texts = names if len(filled) == len(names) else names.take(filled)
    found[filled] = [numbers.setdefault(name, len(numbers)) for name in texts]
    return found
