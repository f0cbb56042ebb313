"""Ads and phrases as they stand in events and answers: encoded once, kept while the index stays as it is."""

from typing import NamedTuple

import msgspec

from broadmatch.ads.engine.tables import AdTables
from broadmatch.ads.match_types import MATCH_TYPES
from broadmatch.serve.impression_ids import campaign_key

_MOST_BYTES = 1 << 26
_ANSWERED = ("ad", "page", "title", "text")


class AdText(NamedTuple):
    """An ad in the payload of an event, in an answer, and its campaign as ids name it."""

    event: str
    answer: str
    campaign: int


class AdTexts:
    """The texts of the ads of one moment of the index."""

    def __init__(self, tables: AdTables) -> None:
        self.tables = tables
        self.version = f"{tables.view.postings}.{tables.view.change}"
        self.ads: dict[int, AdText] = {}
        self.phrases: dict[tuple[int, int], str] = {}
        self._size = 0

    def ad(self, number: int) -> AdText:
        """An ad by its number."""
        found = self.ads.get(number)
        if found is None:
            columns = self.tables.columns(number)
            event = _members({name: text for name, text in columns.items() if text})
            answer = _members({name: columns[name] for name in _ANSWERED})
            found = AdText(event, answer, campaign_key(columns["campaign"]))
            self._make_room(len(event) + len(answer))
            self.ads[number] = found
        return found

    def phrase(self, number: int, match: int) -> str:
        """A phrase by its number, with the match type."""
        found = self.phrases.get((number, match))
        if found is None:
            found = _members({"phrase": self.tables.phrase(number), "match": MATCH_TYPES[match]})
            self._make_room(len(found))
            self.phrases[number, match] = found
        return found

    def _make_room(self, size: int) -> None:
        self._size += size + 200
        if self._size > _MOST_BYTES:
            self.ads.clear()
            self.phrases.clear()
            self._size = size


def _members(columns: dict[str, str]) -> str:
    """What stands between the braces of a JSON object."""
    return msgspec.json.encode(columns)[1:-1].decode()
