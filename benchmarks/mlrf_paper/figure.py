"""Figure 1 of the paper: a page of each kind, and what both sides recommend for it."""

from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from benchmarks.mlrf_paper.measure import Judged
from benchmarks.mlrf_paper.systems import Pages
from broadmatch.simulate import Marketplace

KINDS = {
    "images": "(a) Geico",
    "animation": "(b) Domino's",
    "rivals": "(c) MetLife",
    "template": "(d) Vistaprint",
    "one-sided": "(e) KCS Flowers",
    "generic": "(f) Simone and Sylvia's",
    "boilerplate": "(g) Mr Electric",
    "among mislabelled": "(h) Wanta Thai",
}
SIDES = ("KEX+KSP", "MLRF+SSL")
SHOWN = 8


@dataclass(frozen=True)
class Example:
    """A test page of one kind: phrases of both sides, each with whether it is right in truth."""

    kind: str
    page: str
    about: str
    phrases: dict[str, list[tuple[str, bool]]]


def precision_by_kind(market: Marketplace, pages: Pages, judged: Judged) -> dict[str, dict[str, Any]]:
    """For each kind the number of test pages, and P@10 in truth of both sides; missing phrases count as wrong."""
    found: dict[str, dict[str, Any]] = {}
    for row, kind in _kinds(market, pages):
        kept = found.setdefault(kind, {"pages": 0} | dict.fromkeys(SIDES, 0.0))
        kept["pages"] += 1
        true = set((judged.true or judged.clicked)[row])
        for side in SIDES:
            kept[side] += sum(phrase in true for phrase, _ in judged.answers[side][row][:10]) / 10
    for kept in found.values():
        kept |= {side: kept[side] / kept["pages"] for side in SIDES}
    return found


def examples(market: Marketplace, pages: Pages, judged: Judged) -> list[Example]:
    """The first test page of each kind, by address: none is picked for what it shows."""
    about = {row["page"]: row for row in pq.read_table(market.truth / "pages.parquet").to_pylist()}
    names = pages.test.points or []
    shown: dict[str, Example] = {}
    for row, kind in sorted(_kinds(market, pages), key=lambda pair: names[pair[0]]):
        if kind not in KINDS or kind in shown:
            continue
        true = set((judged.true or judged.clicked)[row])
        phrases = {side: [(p, p in true) for p, _ in judged.answers[side][row][:SHOWN]] for side in SIDES}
        facts = about[names[row]]
        place = f", {facts['city']}" if facts["city"] else ""
        shown[kind] = Example(kind, names[row], f"{facts['brand']}, {facts['vertical']}{place}", phrases)
    return [shown[kind] for kind in KINDS if kind in shown]


def _kinds(market: Marketplace, pages: Pages) -> list[tuple[int, str]]:
    table = pq.read_table(market.truth / "pages.parquet", columns=["page", "kind"]).to_pydict()
    kind = dict(zip(table["page"], table["kind"], strict=True))
    return [(row, kind[name]) for row, name in enumerate(pages.test.points or ())]
