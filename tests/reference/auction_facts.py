"""What an auction log says of queries, search by search, as docs/studio.md defines it."""

import math
from collections import defaultdict


def slow_facts(rows, effects, prior=20):
    """Facts by query from rows of (query, search, position, bid, price, clicked); bid and price None if unknown."""
    places = max(row[2] for row in rows)
    by_query = defaultdict(list)
    for row in rows:
        by_query[row[0]].append(row)
    rate = sum(row[5] for row in rows) / sum(effects[row[2] - 1] for row in rows)
    found = {}
    for query, mine in by_query.items():
        searches = defaultdict(list)
        for row in mine:
            searches[row[1]].append(row)
        looks, clicks = sum(effects[row[2] - 1] for row in mine), sum(row[5] for row in mine)
        paid = [row[4] for row in mine if row[5] and row[4] is not None]
        found[query] = {
            "searches": len(searches),
            "competition": min(100.0, 100 * len(mine) / (places * len(searches))),
            "click_rate": (clicks + prior * rate) / (looks + prior),
            "price": sum(paid) / len(paid) if paid else None,
            "first": sorted(row[3] for row in mine if row[2] == 1 and row[3] is not None),
            "at": lambda bid, searches=searches: slow_at_bid(searches, effects, bid),
        }
    return found


def slow_at_bid(searches, effects, bid):
    """Looks and cost of a search, on average, for an ad that bids so much: the first place whose rung is below."""
    looks = cost = 0.0
    for rows in searches.values():
        rung = math.inf
        for _, _, position, other, _, _ in sorted(rows, key=lambda row: (row[2], -(row[3] or 0))):
            if other is None:
                continue
            rung = min(rung, other)
            if rung < bid:
                looks += effects[position - 1]
                cost += effects[position - 1] * rung
                break
    return looks / len(searches), cost / len(searches)
