"""The harvest of a click log on a list of rows, step by step as `broadmatch.harvest.harvest` describes it."""

import hashlib
from collections import Counter, defaultdict
from typing import NamedTuple

from broadmatch.harvest.queries import normalise_query


class Click(NamedTuple):
    query: str
    page: str
    time: int
    clicks: int


Labels = dict[str, dict[str, int]]
"""Clicks by page and label."""


def hashed(page: str, seed: int) -> int:
    """32 bits of a page."""
    return int(hashlib.md5(f"{seed}:{page}".encode(), usedforsecurity=False).hexdigest()[:8], 16)


def drawn(page: str, share: float, seed: int) -> bool:
    """Whether the hash draws the page for testing."""
    return hashed(page, seed) < round(share * 2**32)


def gather(rows: list[Click]) -> Labels:
    """Clicks of every normalised query on every page."""
    found: Labels = defaultdict(Counter)
    for row in rows:
        label = normalise_query(row.query)
        if label and row.clicks:
            found[row.page][label] += row.clicks
    return found


def frequent(found: Labels, min_clicks: int) -> set[str]:
    """The labels with enough clicks in all."""
    totals: Counter[str] = Counter()
    for labels in found.values():
        totals.update(labels)
    return {label for label, n in totals.items() if n >= min_clicks}


def keep(found: Labels, labels: set[str]) -> Labels:
    """Only these labels, and the pages that have any."""
    kept = {page: {label: n for label, n in of.items() if label in labels} for page, of in found.items()}
    return {page: of for page, of in kept.items() if of}


def by_page(
    rows: list[Click], min_clicks: int, min_queries: int | None, share: float, seed: int
) -> tuple[Labels, Labels]:
    """Training and test pages."""
    found = gather(rows)
    found = keep(found, frequent(found, min_clicks))

    def tested(pages: set[str]) -> tuple[Labels, Labels]:
        train = {page: of for page, of in found.items() if page not in pages}
        test = {page: of for page, of in found.items() if page in pages}
        return train, keep(test, {label for of in train.values() for label in of})

    def limited(limit: int) -> tuple[Labels, Labels]:
        return tested({page for page, of in found.items() if drawn(page, share, seed) and len(of) > limit})

    chosen = limited(best_limit([limited(limit)[1] for limit in range(6)]) if min_queries is None else min_queries)
    pages_of = Counter(label for of in found.values() for label in of)
    shared = [page for page, of in found.items() if any(pages_of[label] > 1 for label in of)]
    if min_queries is None and share > 0 and not chosen[1] and shared:
        return tested({min(shared, key=lambda page: (hashed(page, seed), page.encode()))})
    return chosen


def best_limit(tests: list[Labels]) -> int:
    """The highest of the limits 0, 1, … that leaves 100 test pages, or half of the most that one leaves."""
    most = max(map(len, tests))
    return max(limit for limit, test in enumerate(tests) if len(test) >= min(100, most / 2))


def by_time(rows: list[Click], min_clicks: int, min_queries: int | None, split_time: int) -> tuple[Labels, Labels]:
    """Labels before and from `split_time` on."""
    early = gather([row for row in rows if row.time < split_time])
    labels = frequent(early, min_clicks)
    late = keep(gather([row for row in rows if row.time >= split_time]), labels)
    if min_queries is None:
        min_queries = best_limit([{p: of for p, of in late.items() if len(of) > limit} for limit in range(6)])
    return keep(early, labels), {page: of for page, of in late.items() if len(of) > min_queries}


class Shown(NamedTuple):
    """A row of an impression log."""

    query: str
    page: str
    time: int
    session: str
    bid: float | None
    price: float | None
    clicked: int


def percentile(amounts: list[float], p: int) -> float:
    """The nearest-rank percentile."""
    ranked = sorted(amounts)
    return ranked[max(0, -(-p * len(ranked) // 100) - 1)]


def query_table(rows: list[Shown]) -> dict[str, dict[str, float]]:
    """What a log says of each query."""
    by_label: dict[str, list[Shown]] = defaultdict(list)
    for row in rows:
        if label := normalise_query(row.query):
            by_label[label].append(row)
    found = {}
    for label, own in by_label.items():
        bids = [row.bid for row in own if row.bid is not None]
        prices = [row.price for row in own if row.price is not None and row.clicked]
        found[label] = {
            "searches": len({(row.query, row.session, row.time) for row in own}),
            "clicks": sum(row.clicked for row in own),
            "revenue": sum(prices),
        }
        for name, amounts in (("bid", bids), ("price", prices)):
            if amounts:
                found[label][name] = sum(amounts) / len(amounts)
                found[label] |= {f"{name}_p{p}": percentile(amounts, p) for p in (20, 50, 80)}
    return found
