"""The kernel of the ad index finds what going through all ads finds, in postings joined with those of changes."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.ads import MATCH_TYPES, AdIndex, Inventory
from broadmatch.ads.index._match import match_queries
from broadmatch.ads.index.ad_index import _delta
from broadmatch.ads.index.postings import JoinedPostings
from broadmatch.ads.index.records import AdRecord, BidPhrase, ExtendedMatch
from broadmatch.errors import BadArtifact
from tests.reference.ads_index import candidates

N_ADS, N_CAMPAIGNS = 8, 2
phrases = st.lists(st.sampled_from("abcde"), min_size=1, max_size=6).map(" ".join)
negatives = st.lists(st.tuples(phrases, st.integers(0, 2)), max_size=3)


@st.composite
def records(draw):
    """Ads, some of them missing, and campaigns."""
    ads = {}
    for number in draw(st.sets(st.integers(0, N_ADS - 1))):
        rows = draw(st.lists(st.tuples(phrases, st.integers(0, 2), st.sampled_from([0.5, 0.75, 2.0])), max_size=4))
        own = [BidPhrase(10 * number + i, *row) for i, row in enumerate(rows)]
        wider = draw(st.lists(phrases, max_size=1)) if own else []
        extended = [ExtendedMatch(text, own[-1].number, 0.25) for text in wider]
        ads[number] = AdRecord(
            f"ad{number}", draw(st.integers(-1, N_CAMPAIGNS - 1)), own, draw(negatives), extended
        )  # fmt: skip
    return ads, {
        c: AdRecord(f"c{c}", negatives=draw(negatives)) for c in draw(st.sets(st.integers(0, N_CAMPAIGNS - 1)))
    }


def as_reference(ads, campaigns):
    return {
        number: (
            record.campaign,
            [(p.number, p.text.split(), MATCH_TYPES[p.match], p.bid) for p in record.phrases],
            [(text.split(), MATCH_TYPES[match]) for text, match in record.negatives],
            [(match.query.split(), match.phrase) for match in record.extended],
        )
        for number, record in ads.items()
    }, {c: [(t.split(), MATCH_TYPES[m]) for t, m in record.negatives] for c, record in campaigns.items()}


def look_up(joined, queries, limit):
    text = np.frombuffer(bytearray("".join(queries).encode() or b" "), np.uint8)
    ptr, n = np.cumsum([0, *map(len, queries)]), limit * len(queries)
    columns, kinds, out = np.empty((4, n), np.int64), np.empty(n, np.uint8), np.empty(len(ptr), np.int64)
    match_queries(text, ptr, joined.views, limit, columns, kinds, out)
    bids, scores = columns[2:].view(np.float64).tolist()
    rows = list(zip(columns[0].tolist(), columns[1].tolist(), bids, kinds.tolist(), strict=True))
    for i in range(out[-1]):
        assert scores[i] == (0.25 if kinds[i] == 3 else 1)
    return [rows[out[q] : out[q + 1]] for q in range(len(queries))]


def join(base, changes, gone):
    """Postings of `base`, and of `changes` to it, of which those in `gone` were removed."""
    was, now = ({n: r.to_bytes() for n, r in part.items()} for part in base), (
        {n: b"" if n in gone else r.to_bytes() for n, r in part.items()} for part in changes
    )  # fmt: skip
    now = [*now]
    changed = tuple(np.array(list(part), np.int64) for part in now)
    return JoinedPostings.of(_delta(*was), _delta(*now), changed, N_ADS, N_CAMPAIGNS)


@settings(max_examples=150, deadline=None)
@given(
    records(), records(), st.sets(st.integers(0, N_ADS - 1), max_size=2),
    st.lists(st.lists(st.sampled_from("abcdez"), max_size=8).map(" ".join), min_size=1, max_size=6), st.integers(1, 6),
)  # fmt: skip
def test_the_kernel_equals_going_through_all_ads(base, changes, gone, queries, limit):
    ads = {n: r for n, r in {**base[0], **changes[0]}.items() if n not in gone or n not in changes[0]}
    campaigns = {c: r for c, r in {**base[1], **changes[1]}.items() if c not in gone or c not in changes[1]}
    truth = as_reference(ads, campaigns)
    found = look_up(join(base, changes, gone), queries, limit)
    assert found == [candidates(*truth, query.split(), limit) for query in queries]


def test_owners_of_many_negatives():
    """So many that they are searched, whose words differ or are the same, and long ones."""
    rows = [(f"n{i}", 2) for i in range(300)] + [(f"free x{i}", 1) for i in range(300)] + [("a b c d e", 2)]
    ads = {
        0: AdRecord("a", 0, [BidPhrase(0, "shoes", 2, 1.0)]),
        1: AdRecord("b", -1, [BidPhrase(1, "shoes", 2, 2.0)], rows[::2]),
    }
    campaigns = {0: AdRecord("c", negatives=rows)}
    truth = as_reference(ads, campaigns)
    words = [
        "",
        "n17",
        "n18",
        "free x3",
        "x3 free",
        "free x4",
        "e d c b a",
        "e d c b",
        "free",
        "n18 n17",
        "free free x5",
    ]
    queries = [f"shoes {word}".strip() for word in words]
    expected = [candidates(*truth, query.split(), 9) for query in queries]
    assert look_up(join((ads, campaigns), ({}, {}), ()), queries, 9) == expected
    assert look_up(join(({}, {}), (ads, campaigns), ()), queries, 9) == expected
    assert {len(one) for one in expected} == {0, 1, 2}


def test_many_lists_and_stretches():
    """Sixty lists of bids in every order, more than are read at once, and limits from one to all."""
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(60)]
    ads = {
        n: AdRecord(
            f"ad{n}",
            phrases=[
                BidPhrase(20 * n + i, " ".join(rng.choice(words, rng.integers(1, 3))), int(rng.integers(3)),
                          float(rng.integers(1, 50) if i % 2 else rng.random()))
                for i in range(20)
            ],
        )
        for n in range(N_ADS)
    }  # fmt: skip
    many = {n: r for n, r in ads.items() if n % 2}
    for query in (" ".join(words), " ".join(words[:5] * 3), words[3]):
        truth = as_reference(ads, {})
        for limit in (1, 3, 20):
            expected = [candidates(*truth, query.split(), limit)]
            assert look_up(join((ads, {}), ({}, {}), ()), [query], limit) == expected
            assert look_up(join((ads, {}), (many, {}), ()), [query], limit) == expected


def test_forged_postings_are_refused_or_harmless(tmp_path):
    """Whatever one number of the arrays becomes, lookups end, and find ads that there are."""
    rng = np.random.default_rng(0)
    words = list("abcdef")
    rows = [
        {"ad": f"ad{i}", "page": "p", "phrase": " ".join(rng.choice(words, rng.integers(1, 6))),
         "match": MATCH_TYPES[rng.integers(3)], "bid": 1 + i % 7, "campaign": f"c{i % 3}"}
        for i in range(60)
    ]  # fmt: skip
    index = AdIndex.create(tmp_path / "index", Inventory.from_rows(rows))
    with index.change() as change:
        change.set_negatives("ad5", [("a b c d", "broad"), ("a", "exact")])
        change.set_campaign_negatives("c1", [("b c d e", "phrase"), ("f e", "broad")])
    index.compact()
    folder, refused = sorted(index.path.glob("postings-*"))[-1], 0
    queries = ["a b c d e f", "a", "f e d c b a", "c c c b a", "b a"]
    for file in sorted(folder.glob("*.npy")):
        true = np.load(file)
        if not true.size:
            continue
        for number in (-1, 1, 7, 1 << 20, 2**31 - 1, -(2**31), 2**62, -(2**62)):
            forged = true.copy()
            bounds = np.iinfo(forged.dtype if forged.dtype.kind in "iu" else np.int64)
            if forged.dtype != np.uint64 and not bounds.min <= number <= bounds.max:
                continue
            forged.reshape(-1)[rng.integers(forged.size)] = number % 2**64 if forged.dtype == np.uint64 else number
            np.save(file, forged)
            try:
                found = AdIndex(index.path).match_many(queries)
            except BadArtifact:
                refused += 1
            else:
                assert found.ad.size == 0 or 0 <= found.ad.min() <= found.ad.max() < 60
        np.save(file, true)
    assert refused > 20
    assert AdIndex(index.path).match("a b c d e f").ad.size > 0
