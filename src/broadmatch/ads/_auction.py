"""Auctions over arrays: the candidates of auction a are the rows offsets[a] to offsets[a + 1]."""

import math

import numpy as np

from broadmatch.kernels import F64, I64, U64, Bytes, Flags, kernel
from broadmatch.kernels.hashing import mix
from broadmatch.kernels.random import STRIDE, unit

GSP, VCG, FIRST = 0, 1, 2
UCB, THOMPSON = 1, 2
SHOWN, INVALID, NO_BUDGET, BELOW_FLOOR, BELOW_RESERVE, SIBLING, OUTRANKED = 0, 1, 2, 3, 4, 5, 6
_WIDEST = 1000.0
"""Spread of log-odds beyond which a probability is 0 or 1 anyway."""


@kernel
def explored(q: float, spread: float, explore: int, stream: np.uint64, number: int) -> float:
    """σ(logit q + spread·z): z = 1 (UCB), or the standard normal number of this stream (Thompson, Box and Muller).

    Without a logarithm: σ(logit q + d) = q / (q + (1 − q)·e^{−d}).
    """
    if q <= 0.0 or q >= 1.0:
        return q
    d = min(spread, _WIDEST)
    if explore == THOMPSON:
        state = stream + STRIDE * np.uint64(2 * number + 1)
        radius = math.sqrt(-2.0 * math.log(1.0 - unit(state)))
        d *= radius * math.cos(2.0 * math.pi * unit(state + STRIDE))
    return q / (q + (1.0 - q) * math.exp(-d))


@kernel
def score_candidates(
    offsets: I64,
    bid: F64,
    probability: F64,
    uncertainty: F64,
    in_budget: Flags,
    key: U64,
    settings: tuple[float, float, float, float],
    explore: int,
    seed: np.uint64,
    score: F64,
    outcome: Bytes,
) -> None:
    """Of each candidate r = bid·q^s, and what keeps it out whatever the others bid; who may win is `OUTRANKED` so far.

    `settings` are the squashing s, the reserve, the floor and the scale c of the uncertainty. Draws are hashes of seed,
    key of the auction and number of the candidate in it.
    """
    squashing, reserve, floor, scale = settings
    for a in range(len(offsets) - 1):
        stream = mix(mix(key[a]) ^ seed)
        for i in range(offsets[a], offsets[a + 1]):
            q, score[i] = probability[i], 0.0
            valid = 0.0 <= bid[i] < math.inf and 0.0 <= q <= 1.0 and (explore == 0 or 0.0 <= uncertainty[i] < math.inf)
            if not valid:
                outcome[i] = INVALID
            elif len(in_budget) > 0 and not in_budget[i]:
                outcome[i] = NO_BUDGET
            elif q < floor:
                outcome[i] = BELOW_FLOOR
            else:
                if explore > 0:
                    q = explored(q, scale * uncertainty[i], explore, stream, i - offsets[a])
                r = bid[i] * (q if squashing == 1.0 else q**squashing)
                score[i] = r
                outcome[i] = OUTRANKED if r > 0.0 and r >= reserve else BELOW_RESERVE


@kernel
def _best(start: int, stop: int, score: F64, outcome: Bytes, advertiser: I64, best: I64, top: F64) -> int:
    """The best candidates and their scores, one an advertiser, of equal scores the first; how many there are."""
    n, bar, most = 0, 0.0, len(best)  # below the bar nobody is taken any more
    for i in range(start, stop):
        r = score[i]
        if r <= bar or outcome[i] != OUTRANKED:
            continue
        at = n
        if len(advertiser) > 0:
            at = 0
            while at < n and advertiser[best[at]] != advertiser[i]:
                at += 1
            if at < n and r <= top[at]:
                continue
        if at == n:  # in the place of the last, or behind it
            n = min(n + 1, most)
            at = n - 1
        while at > 0 and r > top[at - 1]:
            best[at], top[at] = best[at - 1], top[at - 1]
            at -= 1
        best[at], top[at] = i, r
        bar = top[n - 1] if n == most else 0.0
    return n


@kernel
def allot_places(
    offsets: I64,
    bid: F64,
    advertiser: I64,
    effects: F64,
    reserve: float,
    rule: int,
    score: F64,
    outcome: Bytes,
    row: I64,
    price: F64,
) -> None:
    """Who stands in each place (−1: nobody), and the price of a click there.

    With m_t = max(reserve, r_t): GSP takes bid_i·m_{i+1}/r_i; VCG bid_i·v_i/(x_i·r_i), where v_t = v_{t+1} +
    (x_t − x_{t+1})·m_{t+1} and x of the place behind the last is 0. Both are at most the bid.
    """
    places = len(effects)
    best, top = np.empty(places + 1, np.int64), np.empty(places + 1)  # one more: who is not shown makes a price
    for a in range(len(offsets) - 1):
        n = _best(offsets[a], offsets[a + 1], score, outcome, advertiser, best, top)
        owed, behind, first = 0.0, 0.0, a * places
        for t in range(places - 1, -1, -1):
            below = top[t + 1] if t + 1 < n else reserve
            owed += (effects[t] - behind) * below
            behind = effects[t]
            row[first + t], price[first + t] = -1, 0.0
            if t < n:
                i = best[t]
                row[first + t] = i
                share = below / top[t] if rule == GSP else owed / (behind * top[t]) if rule == VCG else 1.0
                price[first + t] = bid[i] * min(share, 1.0)
                outcome[i] = SHOWN
        if len(advertiser) > 0:
            for i in range(offsets[a], offsets[a + 1]):
                if outcome[i] == OUTRANKED:
                    for t in range(min(n, places)):
                        if advertiser[best[t]] == advertiser[i]:
                            outcome[i] = SIBLING
