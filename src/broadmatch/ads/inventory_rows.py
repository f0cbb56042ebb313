"""Rows of tables and bulk files put together as an inventory, and checked as a whole."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from broadmatch.ads.index._match import MOST_WORDS
from broadmatch.ads.index.changes import MOST_BID
from broadmatch.ads.inventory import Inventory, InventoryProblem, InventoryReport
from broadmatch.ads.match_types import MATCH_TYPES, is_match
from broadmatch.data import Names
from broadmatch.features.stop_words import ENGLISH
from broadmatch.harvest.queries import normalise_query
from broadmatch.io.values import number_of

INVENTORY_COLUMNS = {
    "advertiser": ("advertiser", "account", "account name"),
    "campaign": ("campaign", "campaign name"),
    "budget": ("budget", "campaign daily budget", "daily budget", "campaign budget"),
    "group": ("group", "ad group", "ad group name"),
    "group_bid": ("group bid", "cpc bid", "default max cpc"),
    "ad": ("ad", "ad name"),
    "page": ("page", "final url", "landing page", "destination url", "url"),
    "title": ("title", "headline 1", "title part 1", "headline"),
    "text": ("text", "description 1", "description line 1", "description"),
    "phrase": ("phrase", "keyword", "bid phrase"),
    "match": ("match", "criterion type", "match type"),
    "bid": ("bid", "max cpc"),
    "status": ("status",),
    "record": ("type",),
    "id": ("id",),
    "parent": ("parent id",),
}
"""Our columns with their usual names: ours, those of Google Ads Editor (help 57747) and of Microsoft's bulk file."""
_OFF = {"paused", "removed", "deleted", "disabled"}
_RECORDS = {"campaign", "ad group", "keyword", "ad group negative keyword", "campaign negative keyword", "account"}
"""Those of Microsoft's records that are part of an inventory, beside those of ads."""
_LONG_WORDS, _LONG_LETTERS = 10, 80


@dataclass(frozen=True)
class _Place:
    """Where a row stands, and where to note what is wrong with it."""

    source: str
    row: int
    problems: list[InventoryProblem] = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.source}, line {self.row}" if self.source else f"row {self.row}"

    def wrong(self, column: str, what: str, remedy: str, error: bool = True) -> None:
        """Note a problem."""
        self.problems.append(InventoryProblem(self.source, self.row, column, what, remedy, error))

    def amount(self, column: str, text: str, most: float) -> float | None:
        """A sum of money above 0 and up to `most`; None, and a problem, if it is none."""
        try:
            value = number_of(text)
        except ValueError:
            value = math.nan
        if math.isnan(value):
            self.wrong(column, f"{text[:30]!r} is not a number", "give a number above 0, without a currency")
        elif value <= 0:
            self.wrong(column, f"{text} is not above 0", f"give a {column} above 0, or pause what must not be shown")
        elif value > most:
            self.wrong(column, f"{text} is above {most:,.0f}", "check the unit: it may be in millionths")
        else:
            return value
        return None


class _Bid(NamedTuple):
    """A phrase or negative, where it stood, and its words; group −1 is the campaign's."""

    campaign: int
    group: int
    text: str
    match: int
    bid: float
    words: tuple[str, ...]
    here: _Place


class _Owner:
    """A campaign or a group, with where it was named first."""

    def __init__(self, name: str, above: int, source: str, row: int) -> None:
        self.name, self.above, self.source, self.row = name, above, source, row
        self.value = math.nan
        """The budget, or the bid of phrases that have none."""


class InventoryBuilder:
    """Takes rows one by one, and gives the inventory with everything that is wrong."""

    def __init__(self) -> None:
        self.problems: list[InventoryProblem] = []
        self.paused = 0
        self._advertisers: dict[str, int] = {}
        self._campaigns: dict[tuple[int, str], int] = {}
        self._groups: dict[tuple[int, str], int] = {}
        self._owners: dict[str, list[_Owner]] = {"campaign": [], "group": []}
        self._ads: dict[str, tuple[int, str, str, str]] = {}
        self._phrases: list[_Bid] = []
        self._negatives: list[_Bid] = []
        self._ids: dict[str, tuple[str, str]] = {}
        self._alike: dict[str, set[tuple[int, str, str, str]]] = {}
        self._pageless: dict[str, _Place] = {}
        self._landing: dict[int, dict[str, tuple[dict[str, str], _Place]]] = {}
        self._paused_ads: set[tuple[str, str, str]] = set()
        self._bidding: set[int] = set()

    def add(self, source: str, number: int, given: Mapping[str, Any]) -> None:
        """Take a row; what is wrong with it is noted."""
        row = {name: _plain(value) for name, value in given.items()}
        record = row.get("record", "").lower()
        if record and record not in _RECORDS and not record.endswith(" ad"):
            return
        if row.get("status", "").lower() in _OFF:
            self.paused += 1
            self._note_paused(row, record)
            return
        here = _Place(source, number, self.problems)
        self._resolve(row, record)
        if not any(row.get(name) for name in ("campaign", "group", "ad", "page", "phrase")):
            return
        negative, at_campaign, match = self._match(row, record, here)
        if "campaign" in row and not row["campaign"]:
            here.wrong("campaign", "it is empty", "name the campaign")
            return
        advertiser = self._advertisers.setdefault(row.get("advertiser", ""), len(self._advertisers))
        campaign = self._owner("campaign", self._campaigns, advertiser, row.get("campaign", "all"), here)
        self._set(self._owners["campaign"][campaign], row.get("budget", ""), "budget", here)
        if at_campaign:
            self._phrase(row, campaign, -1, match, True, here)
            return
        name = row.get("group") or row.get("ad") or ("" if "group" in row else row.get("page", ""))
        if not name:
            if row.get("phrase") or row.get("page"):
                here.wrong("group", "it is empty", "name the ad group")
            return
        group = self._owner("group", self._groups, campaign, name, here)
        default = row.get("group_bid") or ("" if row.get("phrase") or row.get("page") else row.get("bid", ""))
        self._set(self._owners["group"][group], default, "bid", here)
        is_ad = any(row.get(part) for part in ("page", "title", "text")) and not ("group" in row and row.get("phrase"))
        if is_ad or row.get("ad"):
            self._ad(row, group, name, here)
        elif row.get("page") and not negative:
            self._landing.setdefault(group, {}).setdefault(row["page"], (row, here))
        if row.get("phrase"):
            self._phrase(row, campaign, group, match, negative, here)

    def report(self) -> InventoryReport:
        """What came of the rows, with what is wrong with them together."""
        phrases = self._with_bids()
        self._show_pages_of_phrases()
        self._check_groups(phrases)
        self._check_blocked(phrases)
        problems = sorted(self.problems, key=lambda one: (one.source, one.row, one.column))
        return InventoryReport(self._inventory(phrases), problems, self.paused)

    def _resolve(self, row: dict[str, str], record: str) -> None:
        """Fill in the names that a record of Microsoft's has by the number of its parent."""
        if record == "campaign negative keyword" and not row.get("campaign"):
            row["campaign"] = self._ids.get(row.get("parent", ""), ("", ""))[0]
        elif record and record != "campaign" and not row.get("campaign"):
            above = self._ids.get(row.get("parent", ""), ("", ""))
            row["campaign"], row["group"] = above[0], row.get("group") or above[1]
        if record in ("campaign", "ad group") and row.get("id"):
            self._ids[row["id"]] = (row.get("campaign", ""), row.get("group", "") if record == "ad group" else "")
        for part in ("title", "text"):
            if record.endswith(" ad") and row.get(part, "").startswith("["):
                row[part] = _first_asset(row[part])

    def _match(self, row: dict[str, str], record: str, here: "_Place") -> tuple[bool, bool, int | None]:
        """Whether the phrase of a row is a negative, whether of the campaign, and its match type."""
        words = row.get("match", "").lower().replace("-", " ").split()
        at_campaign = "campaign" in words or record == "campaign negative keyword"
        negative = "negative" in words or record.endswith("negative keyword")
        name = next(iter([word for word in words if word not in ("campaign", "negative", "match")]), "")
        phrase = row.get("phrase", "")
        for mark, ends in (("exact", "[]"), ("phrase", '""')):
            if len(phrase) > 2 and phrase[0] == ends[0] and phrase[-1] == ends[1]:
                row["phrase"], name = phrase[1:-1], name or mark
        if not name and row.get("phrase"):
            name = "broad"
        if row.get("phrase") and name not in MATCH_TYPES[:3]:
            here.wrong("match", f"{row['match']!r} is no match type", "use exact, phrase or broad, negative before it")
            return negative, at_campaign, None
        return negative, at_campaign, MATCH_TYPES.index(name) if name in MATCH_TYPES[:3] else None

    def _owner(self, what: str, known: dict[tuple[int, str], int], above: int, name: str, here: "_Place") -> int:
        number = known.setdefault((above, name), len(known))
        if number == len(self._owners[what]):
            self._owners[what].append(_Owner(name, above, here.source, here.row))
        return number

    def _set(self, owner: "_Owner", text: str, column: str, here: "_Place") -> None:
        """Note the budget of a campaign, or the bid of a group."""
        if not text:
            return
        value = here.amount(column, text, math.inf if column == "budget" else MOST_BID)
        if value is None:
            return
        if not math.isnan(owner.value) and owner.value != value:
            here.wrong(column, f"{owner.name!r} has {owner.value:g} already, and here {value:g}", "keep one of them")
            return
        owner.value = value

    def _ad(self, row: dict[str, str], group: int, name: str, here: "_Place") -> None:
        own = (group, row.get("page", ""), row.get("title", ""), row.get("text", ""))
        label = row.get("ad") or name
        old = self._ads.get(label)
        if old is not None and row.get("ad") and old[0] == group:
            merged = (group, *(new or before for new, before in zip(own[1:], old[1:], strict=True)))
            if any(new and before and new != before for new, before in zip(own[1:], old[1:], strict=True)):
                here.wrong("ad", f"{label!r} stands here with another page, title or text", "give each ad its own name")
                return
            self._ads[label] = merged  # type: ignore[assignment]  # four parts again
            return
        alike = self._alike.setdefault(label, set())
        if old == own or own in alike:
            return
        alike.add(own)
        name, n = label, max(1, len(alike) - 1)
        while label in self._ads:  # ads of bulk files have no names
            n += 1
            label = f"{name} #{n}"
        if not own[1]:
            self._pageless.setdefault(label, here)
        self._ads[label] = own

    def _phrase(
        self, row: dict[str, str], campaign: int, group: int, match: int | None, negative: bool, here: "_Place"
    ) -> None:
        if not negative:
            self._bidding.add(group)
        if match is None:
            return
        text, words = row["phrase"], tuple(normalise_query(row["phrase"]).split())
        fine = 0 < len(words) <= MOST_WORDS
        if not fine:
            here.wrong("phrase", f"{text[:60]!r} has {len(words)} words", f"use 1 to {MOST_WORDS} words")
        elif len(words) > _LONG_WORDS or len(text) > _LONG_LETTERS:
            here.wrong("phrase", f"{text[:60]!r} is long", "Google takes up to 10 words and 80 letters", False)
        if fine and not negative and match != 0 and ENGLISH.issuperset(words):
            here.wrong("phrase", f"{text!r} has stop words only", "add a word, or bid on it by exact match")
            fine = False
        bid = None if negative or not row.get("bid") else here.amount("bid", row["bid"], MOST_BID)
        if fine and (negative or bid is not None or not row.get("bid")):
            into = self._negatives if negative else self._phrases
            into.append(_Bid(campaign, group, text, match, math.nan if bid is None else bid, words, here))

    def _with_bids(self) -> "list[_Bid]":
        """The phrases, with the bid of the group where they have none; each once."""
        found: dict[tuple[int, str, int], _Bid] = {}
        for one in self._phrases:
            default = self._owners["group"][one.group].value
            bid = default if math.isnan(one.bid) else one.bid
            if math.isnan(bid):
                one.here.wrong("bid", f"{one.text!r} has no bid, and neither has its group", "give a bid")
                continue
            key = (one.group, " ".join(one.words), one.match)
            if key in found and found[key].bid != bid:
                what = f"{one.text!r} stands in {found[key].here} already, at {found[key].bid:g}"
                one.here.wrong("phrase", what, "remove one of them; the first counts", False)
            found.setdefault(key, one._replace(bid=bid))
        return list(found.values())

    def _note_paused(self, row: dict[str, str], record: str) -> None:
        """Remember which group an ad that is paused belongs to: that group is not without ads."""
        if record.endswith(" ad"):
            self._resolve(row, record)
        if row.get("ad") or not row.get("phrase"):
            self._paused_ads.add((row.get("advertiser", ""), row.get("campaign", "all"), row.get("group", "")))

    def _show_pages_of_phrases(self) -> None:
        """Groups without any ad have the pages of their phrases as ads."""
        shown, advertisers = {ad[0] for ad in self._ads.values()}, list(self._advertisers)
        for group, pages in self._landing.items():
            owner = self._owners["group"][group]
            campaign = self._owners["campaign"][owner.above]
            if group not in shown and (advertisers[campaign.above], campaign.name, owner.name) not in self._paused_ads:
                for row, here in pages.values():
                    self._ad(row, group, owner.name, here)

    def _check_groups(self, phrases: "list[_Bid]") -> None:
        for label, here in self._pageless.items():
            if not self._ads[label][1]:
                here.wrong("page", f"the ad {label!r} has no landing page", "give its address")
        shown, bidding = {ad[0] for ad in self._ads.values()}, {one.group for one in phrases}
        for number, group in enumerate(self._owners["group"]):
            here = _Place(group.source, group.row, self.problems)
            if number in bidding - shown:
                here.wrong("ad", f"the group {group.name!r} has phrases but no ad", "add an ad with a page")
            elif number in shown - bidding - self._bidding:
                here.wrong("phrase", f"the group {group.name!r} bids on no phrase", "add phrases", False)

    def _check_blocked(self, phrases: "list[_Bid]") -> None:
        """Find the negatives that no query of a phrase can pass."""
        under: dict[tuple[int, int, str], list[_Bid]] = {}
        for negative in self._negatives:
            under.setdefault((negative.campaign, negative.group, negative.words[0]), []).append(negative)
        blocked: dict[_Bid, dict[int, int]] = {}
        sizes: dict[int, int] = {}
        for one in phrases:
            sizes[one.group] = sizes.get(one.group, 0) + 1
            for word in dict.fromkeys(one.words):
                for group in (one.group, -1):
                    for negative in under.get((one.campaign, group, word), ()):
                        if _always(negative, one):
                            groups = blocked.setdefault(negative, {})
                            groups[one.group] = groups.get(one.group, 0) + 1
        for negative, groups in blocked.items():
            for group, n in groups.items():
                name, whole = self._owners["group"][group].name, n == sizes[group]
                what = f"{negative.text!r} blocks {'all' if whole else n} phrases of the group {name!r}"
                negative.here.wrong("phrase", what, "narrow the negative or remove the phrases", whole)

    def _inventory(self, phrases: "list[_Bid]") -> Inventory:
        campaigns, groups, ads = self._owners["campaign"], self._owners["group"], list(self._ads.values())

        def whole(values: Any) -> Any:
            return np.array(list(values), np.int64)

        return Inventory(
            advertisers=Names.of(self._advertisers),
            campaigns=Names.of([one.name for one in campaigns]),
            campaign_advertiser=whole(one.above for one in campaigns),
            budgets=np.array([one.value for one in campaigns], np.float64),
            groups=Names.of([one.name for one in groups]),
            group_campaign=whole(one.above for one in groups),
            ads=Names.of(self._ads),
            ad_group=whole(ad[0] for ad in ads),
            pages=Names.of([ad[1] for ad in ads]),
            titles=Names.of([ad[2] for ad in ads]),
            texts=Names.of([ad[3] for ad in ads]),
            phrases=Names.of([one.text for one in phrases]),
            phrase_group=whole(one.group for one in phrases),
            phrase_match=whole(one.match for one in phrases).astype(np.uint8),
            bids=np.array([one.bid for one in phrases], np.float64),
            negatives=Names.of([one.text for one in self._negatives]),
            negative_campaign=whole(one.campaign for one in self._negatives),
            negative_group=whole(one.group for one in self._negatives),
            negative_match=whole(one.match for one in self._negatives).astype(np.uint8),
        )


def _always(negative: _Bid, phrase: _Bid) -> bool:
    """Whether every query that matches the phrase matches the negative: as the phrase may be reordered and added to."""
    if negative.match < phrase.match:
        return False
    return is_match(negative.words, MATCH_TYPES[negative.match], phrase.words)


def _plain(value: Any) -> str:
    """A cell as text."""
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)
    return str(value).strip()


def _first_asset(text: str) -> str:
    """The first of the texts that a responsive ad of Microsoft's has, as JSON."""
    try:
        return str(json.loads(text)[0]["text"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return text
