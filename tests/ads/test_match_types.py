"""The rules of match types as Google Ads and Microsoft Advertising document them, case by case.

Google Ads help 7302926 (exact, phrase, broad) and 2453972 (negatives), with their example "running shoes"; Microsoft's
bulk reference of negative keywords (phrase and exact). Close variants are left out by design: an ad matches by the
words themselves.
"""

import pytest

from broadmatch.ads import AdIndex, is_match
from broadmatch.harvest import normalise_query

POSITIVE = [
    # phrase, query, exact, phrase match, broad
    ("running shoes", "running shoes", 1, 1, 1),
    ("running shoes", "Running Shoes", 1, 1, 1),  # case does not matter
    ("Running SHOES", "running shoes", 1, 1, 1),
    ("running shoes", " running   shoes ", 1, 1, 1),  # nor blanks
    ("running-shoes", "running shoes", 1, 1, 1),  # nor punctuation
    ("running shoes!", "running, shoes?", 1, 1, 1),
    ("running shoes", "shoes running", 0, 0, 1),  # order matters to exact and phrase
    ("running shoes", "blue running shoes", 0, 1, 1),  # words before
    ("running shoes", "running shoes sale", 0, 1, 1),  # words behind
    ("running shoes", "buy blue running shoes online", 0, 1, 1),
    ("running shoes", "running blue shoes", 0, 0, 1),  # a word between
    ("running shoes", "shoes for running", 0, 0, 1),
    ("running shoes", "running", 0, 0, 0),  # not all words
    ("running shoes", "shoes", 0, 0, 0),
    ("running shoes", "running gear", 0, 0, 0),
    ("running shoes", "blue tennis shoes", 0, 0, 0),
    ("running shoes", "running shoe", 0, 0, 0),  # no close variants: singular
    ("running shoes", "runing shoes", 0, 0, 0),  # misspelling
    ("running shoes", "jogging shoes", 0, 0, 0),  # synonym
    ("running shoes", "runningshoes", 0, 0, 0),
    ("shoes", "shoes", 1, 1, 1),
    ("shoes", "running shoes", 0, 1, 1),
    ("shoes", "shoestring", 0, 0, 0),  # words, not letters
    ("new york", "new york new york", 0, 1, 1),
    ("new york new york", "new york", 0, 0, 1),  # broad asks for the words, not for how often
    ("new york new york", "new york new york", 1, 1, 1),
    ("tennis lessons in london", "london tennis lessons in summer", 0, 0, 1),
    ("women's hats", "womens hats", 0, 0, 0),
    ("women's hats", "women s hats", 1, 1, 1),  # an apostrophe parts words
    ("café", "CAFÉ", 1, 1, 1),
    ("café", "cafe", 0, 0, 0),  # letters with accents are other letters
    ("ｔａｘｉ", "taxi", 1, 1, 1),  # widths are not
    ("наушники", "купить Наушники", 0, 1, 1),
    ("a b c", "c b a", 0, 0, 1),
    ("a b c", "a b x c", 0, 0, 1),
    ("a b", "a a b", 0, 1, 1),
    ("a b", "b a b", 0, 1, 1),
    ("4k tv", "tv 4k", 0, 0, 1),
]
NEGATIVE = [
    # negative, query, blocked as exact, as phrase, as broad; the ad bids on every word of the query
    ("running shoes", "blue tennis shoes", 0, 0, 0),
    ("running shoes", "running gear", 0, 0, 0),
    ("running shoes", "blue running shoes", 0, 1, 1),
    ("running shoes", "shoes running", 0, 0, 1),
    ("running shoes", "running shoes", 1, 1, 1),
    ("running shoes", "running shoes sale", 0, 1, 1),
    ("running shoes", "running red shoes", 0, 0, 1),
    ("running shoes", "running shoe", 0, 0, 0),  # negatives have no close variants
    ("running shoes", "runing shoes", 0, 0, 0),
    ("free", "free shoes", 0, 1, 1),
    ("free", "shoes for free", 0, 1, 1),
    ("free", "free", 1, 1, 1),
    ("free", "freedom shoes", 0, 0, 0),
    ("FREE", "free shoes", 0, 1, 1),
    ("free shipping", "shipping free", 0, 0, 1),
    ("free shipping", "free", 0, 0, 0),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """One ad for each case, type and level, in its own campaign."""
    rows = []
    for i, (phrase, *_) in enumerate(POSITIVE):
        own = {"page": "p", "phrase": phrase, "bid": 1}
        rows += [{"ad": f"p{i}{match}", "match": match, **own} for match in ("exact", "phrase", "broad")]
    for i, (negative, query, *_) in enumerate(NEGATIVE):
        for match in ("exact", "phrase", "broad"):
            for level in ("negative", "campaign negative"):
                name = f"n{i}{match}{level}"
                rows.append({"campaign": name, "ad": name, "page": "p", "phrase": query, "match": "exact", "bid": 1})
                own = {} if level == "campaign negative" else {"ad": name}
                rows.append({"campaign": name, **own, "phrase": negative, "match": f"{level} {match}"})
    from broadmatch.ads.inventory_rows import InventoryBuilder

    builder = InventoryBuilder()
    for number, row in enumerate(rows, 1):
        builder.add("", number, {"campaign": "all", **row})
    return AdIndex.create(tmp_path_factory.mktemp("ads") / "index", builder.report().inventory)


@pytest.mark.parametrize("case", range(len(POSITIVE)), ids=lambda i: "-".join(POSITIVE[i][:2]))
def test_a_phrase_matches(index, case):
    phrase, query, *expected = POSITIVE[case]
    found = set(index.names(index.match(query, 100_000).ad))
    words = [normalise_query(text).split() for text in (phrase, query)]
    for match, wanted in zip(("exact", "phrase", "broad"), expected, strict=True):
        assert (f"p{case}{match}" in found) == bool(wanted), match
        assert is_match(words[0], match, words[1]) == bool(wanted)
        assert index.why(query, f"p{case}{match}", 100_000).shown == bool(wanted)


@pytest.mark.parametrize("level", ["negative", "campaign negative"])
@pytest.mark.parametrize("case", range(len(NEGATIVE)), ids=lambda i: "-".join(NEGATIVE[i][:2]))
def test_a_negative_blocks(index, case, level):
    _, query, *expected = NEGATIVE[case]
    found = set(index.names(index.match(query, 100_000).ad))
    for match, wanted in zip(("exact", "phrase", "broad"), expected, strict=True):
        assert (f"n{case}{match}{level}" not in found) == bool(wanted), match


def test_there_are_enough_cases():
    assert 3 * len(POSITIVE) + 6 * len(NEGATIVE) > 200
    assert len(POSITIVE) + len(NEGATIVE) + len(NEGATIVE) >= 60
