"""Why an ad is among the candidates of a query, or what kept it out."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from broadmatch.ads.index.records import AdRecord
from broadmatch.ads.match_types import MATCH_TYPES, is_match


@dataclass(frozen=True)
class WhyMatched:
    """The answer to `AdIndex.why`: the phrase, its match type and bid by which an ad matches, and a sentence.

    `shown` says whether the ad is among the candidates, `place` (from 0) where. Without a match, phrase is None.
    `kept_out` names a negative, or "limit" where higher bids took all places.
    """

    ad: str
    shown: bool
    reason: str
    phrase: str | None = None
    match: str | None = None
    bid: float | None = None
    place: int | None = None
    kept_out: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain values."""
        return asdict(self)


def explain_match(
    query: Sequence[str],
    ad: str,
    record: AdRecord | None,
    campaign: AdRecord | None,
    whole: bool,
    place: int | None,
    limit: int,
) -> WhyMatched:
    """Explain by what is in the store, with the rules as they are written down; `place` is what the lookup found."""
    if record is None:
        return WhyMatched(ad, False, f"there is no ad {ad!r} in the index")
    if not query:
        return WhyMatched(ad, False, "the query has no words")
    bids = [(phrase.bid, phrase.match, phrase.number, phrase.text, phrase.text) for phrase in record.phrases]
    by_number = {phrase.number: phrase for phrase in record.phrases}
    for row in record.extended:
        phrase = by_number[row.phrase]
        bids.append((phrase.bid, len(MATCH_TYPES) - 1, phrase.number, row.query, phrase.text))
    found = [row for row in bids if _matches(row[3].split(), MATCH_TYPES[row[1]], query, whole)]
    if not found:
        return WhyMatched(ad, False, _nearest(record, query))
    bid, kind, _, text, phrase_text = min(found, key=lambda row: (-row[0], row[1], row[2]))
    match = MATCH_TYPES[kind]
    what = f"by the {match} match {text!r} at {bid:g}" + (f" (bid phrase {phrase_text!r})" if kind == 3 else "")
    for owner, whose in ((record, "ad"), (campaign, "campaign")):
        for negative, number in owner.negatives if owner is not None else ():
            if _matches(negative.split(), MATCH_TYPES[number], query, whole):
                sentence = (
                    f"matches {what}, but the {MATCH_TYPES[number]} negative {negative!r} of its {whose} blocks it"
                )
                return WhyMatched(ad, False, sentence, phrase_text, match, bid, kept_out=negative)
    if place is None:
        sentence = f"matches {what}, but {limit} others that bid as much or more took all places"
        return WhyMatched(ad, False, sentence, phrase_text, match, bid, kept_out="limit")
    return WhyMatched(ad, True, f"matches {what}, place {place + 1}", phrase_text, match, bid, place)


def _matches(phrase: Sequence[str], match: str, query: Sequence[str], whole: bool) -> bool:
    if match in ("exact", "extended"):
        return whole and is_match(phrase, "exact", query)
    return is_match(phrase, match, query)


def _nearest(record: AdRecord, query: Sequence[str]) -> str:
    """What the phrase that lacks the fewest words lacks."""
    if not record.phrases:
        return "the ad bids on no phrase"
    given = set(query)
    best = min(record.phrases, key=lambda phrase: (len(set(phrase.text.split()) - given), -phrase.bid))
    lacking = [word for word in best.text.split() if word not in given]
    kind = MATCH_TYPES[best.match]
    why = "its words are not next to each other in order"
    if lacking:
        why = f"the query lacks {', '.join(map(repr, lacking))}"
    elif kind == "exact":
        why = "the query has other words too, or another order"
    return f"none of its {len(record.phrases)} phrases matches; nearest is {best.text!r} ({kind}): {why}"
