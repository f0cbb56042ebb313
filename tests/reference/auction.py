"""Auctions the slow, obvious way: one candidate after the other, prices by the formulas of docs/ads.md."""

import math

BITS = 2**64 - 1


def mix(z):
    """The finaliser of splitmix64."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & BITS
    return z ^ (z >> 31)


def unit(stream, number):
    return (mix((stream + 0x9E3779B97F4A7C15 * number) & BITS) >> 11) * 2.0**-53


def normal(stream, candidate):
    """Box and Muller, from the two numbers of a candidate."""
    first, second = unit(stream, 2 * candidate + 1), unit(stream, 2 * candidate + 2)
    return math.sqrt(-2 * math.log(1 - first)) * math.cos(2 * math.pi * second)


def explored(q, step):
    if q in (0, 1):
        return q
    odds = math.log(q) - math.log1p(-q) + step
    return 1 / (1 + math.exp(-odds)) if odds > 0 else math.exp(odds) / (1 + math.exp(odds))


def score(bid, q, u, in_budget, number, *, key, seed, squashing, floor, explore, scale):
    """r of one candidate, and what keeps it out by itself ("" if nothing)."""
    if not (0 <= bid < math.inf and 0 <= q <= 1) or (explore and not 0 <= u < math.inf):
        return 0.0, "invalid"
    if not in_budget:
        return 0.0, "budget"
    if q < floor:
        return 0.0, "floor"
    if explore == "ucb":
        q = explored(q, min(scale * u, 1000))
    elif explore == "thompson":
        q = explored(q, min(scale * u, 1000) * normal(mix(mix(key) ^ seed), number))
    return bid * q**squashing, ""


def reserved(score, reason, reserve):
    return reason or ("" if score > 0 and score >= reserve else "reserve")


def ranked(scores, kept_out, advertiser):
    """The rows that may be shown, best first: one of each advertiser, of equal scores the first."""
    order = sorted((i for i, reason in enumerate(kept_out) if not reason), key=lambda i: (-scores[i], i))
    return [i for at, i in enumerate(order) if advertiser[i] not in [advertiser[j] for j in order[:at]]]


def outcomes(rows, places, kept_out, advertiser):
    shown = rows[:places]
    return [
        reason or ("shown" if i in shown else "sibling" if advertiser[i] in [advertiser[j] for j in shown] else "rank")
        for i, reason in enumerate(kept_out)
    ]


def prices(rows, scores, bids, rule, effects, reserve):
    """price_i of each place that is taken; q_i^s = r_i / bid_i."""
    places = len(effects)
    x = [*effects, 0.0]
    r = [max(reserve, scores[rows[t]]) if t < len(rows) else reserve for t in range(places + 1)]
    found = []
    for t in range(min(places, len(rows))):
        weight = scores[rows[t]] / bids[rows[t]]
        if rule == "gsp":
            found.append(r[t + 1] / weight)
        elif rule == "vcg":
            found.append(sum((x[k] - x[k + 1]) * r[k + 1] for k in range(t, places)) / (x[t] * weight))
        else:
            found.append(bids[rows[t]])
    return found


def participation(budget, spent, hour, traffic, window):
    """The chance to take part of one campaign."""

    def until(hour):
        step = 24 / len(traffic)
        return sum(n * min(max(hour - i * step, 0), step) / step for i, n in enumerate(traffic)) / sum(traffic)

    if budget == math.inf:
        return 1.0
    room = budget * until(min(hour + window, 24)) - spent
    width = budget * (until(min(hour + window, 24)) - until(hour))
    return (1.0 if room > 0 else 0.0) if width == 0 else min(max(room / width, 0), 1)
