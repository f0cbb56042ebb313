"""The columns of ads are what their records say, read one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.ads.index._ad_columns import copy_spans, phrase_spans, text_spans
from broadmatch.ads.index.ad_columns import AdColumns
from broadmatch.ads.index.records import AdRecord, BidPhrase, ExtendedMatch
from tests.reference.ads_columns import columns_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
WORDS = st.text("abü ", min_size=1, max_size=5)


@st.composite
def ad_records(draw, n_campaigns):
    """An ad whose phrases have numbers that no other's have."""
    first = draw(st.integers(0, 3))
    phrases = [BidPhrase(first + i, draw(WORDS), draw(st.integers(0, 2)), 0.5) for i in range(draw(st.integers(0, 3)))]
    extended = [ExtendedMatch(draw(WORDS), phrases[0].number, 0.9)] if phrases and draw(st.booleans()) else []
    negatives = draw(st.lists(st.tuples(WORDS, st.integers(0, 2)), max_size=2))
    campaign = draw(st.integers(-1, n_campaigns - 1))
    about = [draw(st.sampled_from(["", "v", "w"])), *(draw(TEXT) for _ in range(3))]
    return AdRecord(draw(TEXT), campaign, phrases, negatives, extended, *about)


@st.composite
def stores(draw):
    """Ads and campaigns by number, with gaps; the phrases of an ad are numbered after those of the one before."""
    campaigns = {
        i: AdRecord(draw(TEXT), advertiser=draw(st.sampled_from(["", "v", "x"])), budget=draw(st.floats(0)))
        for i in range(2)
    }
    ads, phrase = {}, 0
    for number in sorted(draw(st.sets(st.integers(0, 6), max_size=4))):
        record = draw(ad_records(len(campaigns)))
        moved = {old.number: old.number + phrase for old in record.phrases}
        record.phrases = [old._replace(number=moved[old.number]) for old in record.phrases]
        record.extended = [match._replace(phrase=moved[match.phrase]) for match in record.extended]
        phrase = max([phrase, *moved.values()]) + 1
        ads[number] = record
    return ads, campaigns, phrase


def packed(records):
    pieces = [record.to_bytes() for record in records.values()]
    starts = np.cumsum([0, *map(len, pieces)])[:-1] >> 3
    return bytearray(b"".join(pieces)), starts


@given(stores())
def test_columns_agree_with_the_twin(store):
    ads, campaigns, n_phrases = store
    blob, starts = packed({**{("ad", n): r for n, r in ads.items()}, **{("c", n): r for n, r in campaigns.items()}})
    numbers = [np.array(list(part), np.int64) for part in (ads, campaigns)]
    found = AdColumns.of_records(*numbers, blob, starts, 8, 3, n_phrases)
    wanted = columns_of(ads, campaigns, 8, 3, n_phrases)
    for name, column in found._asdict().items():
        if name in ("advertiser", "campaign_advertiser"):
            column = [found.advertisers[i] if i >= 0 else "" for i in column.tolist()]
        elif name != "advertisers":
            column = list(column)
        else:
            continue
        assert column == wanted[name], name


@given(stores())
def test_a_record_comes_back(store):
    ads, campaigns, _ = store
    for record in [*ads.values(), *campaigns.values()]:
        data = record.to_bytes()
        assert len(data) % 8 == 0 and AdRecord.from_bytes(data) == record


@given(stores())
def test_spans_agree_with_the_twin(store):
    ads, _, n_phrases = store
    blob, starts = packed(ads)
    words, raw = np.frombuffer(blob or bytearray(8), np.int64), bytes(blob)
    begin, end = np.zeros((5, 7), np.int64), np.zeros((5, 7), np.int64)
    text_spans(words, starts, np.array(list(ads), np.int64), begin, end)
    first, last = np.zeros(n_phrases, np.int64), np.zeros(n_phrases, np.int64)
    phrase_spans(words, starts, first, last)
    for number, record in ads.items():
        texts = [raw[a:b].decode() for a, b in zip(begin[:, number], end[:, number], strict=True)]
        assert texts == [record.name, record.advertiser, record.page, record.title, record.text]
        for phrase in record.phrases:
            assert raw[first[phrase.number] : last[phrase.number]].decode() == phrase.text
    sizes = np.cumsum([0, *(last - first)])
    out = np.empty(sizes[-1], np.uint8)
    copy_spans(np.frombuffer(blob or bytearray(8), np.uint8), first, sizes, out)
    assert out.tobytes() == b"".join(raw[a:b] for a, b in zip(first, last, strict=True))
