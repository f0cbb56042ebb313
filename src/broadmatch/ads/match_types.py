"""What a match type means, in words that are normalised already: one definition for checks, explanations and tests.

As Google Ads (help 7302926, 2453972) and Microsoft Advertising document them, without close variants: exact is the
query itself, phrase its words in the query, next to each other and in order, broad all its words in the query in any
order. Negatives follow the same three rules.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from broadmatch.errors import BadParameter

MatchType: TypeAlias = Literal["exact", "phrase", "broad"]
MATCH_TYPES = (*get_args(MatchType), "extended")
"""By their numbers in arrays; an extended match is a query that was recommended for the ad."""


def match_number(name: str) -> int:
    """The number of a match type."""
    if name not in MATCH_TYPES[:3]:
        raise BadParameter(f"match must be one of 'exact', 'phrase', 'broad', but it is {name!r}.")
    return MATCH_TYPES.index(name)


def is_match(phrase: Sequence[str], match: str, query: Sequence[str]) -> bool:
    """Whether the words of a query match those of a phrase.

    >>> query = "buy red shoes".split()
    >>> [is_match("shoes red".split(), match, query) for match in ("exact", "phrase", "broad")]
    [False, False, True]
    """
    if match == "broad":
        return set(phrase) <= set(query)
    if match == "phrase":
        n = len(phrase)
        return any(list(query[i : i + n]) == list(phrase) for i in range(len(query) - n + 1))
    return list(phrase) == list(query)
