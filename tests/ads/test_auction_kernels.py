"""The kernels of the auction agree with their slow twin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.ads import Auction
from broadmatch.ads.auction import OUTCOMES
from broadmatch.kernels.hashing import seed_of
from tests.reference import auction as slow

OUTCOME = dict(zip(OUTCOMES, ("shown", "invalid", "budget", "floor", "reserve", "sibling", "rank"), strict=True))
bids = st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0, 1e12, -1.0, np.nan, np.inf]) | st.floats(1e-6, 10)
chances = st.sampled_from([0.0, 0.1, 0.1, 0.25, 1.0, -0.1, 1.5, np.nan]) | st.floats(1e-12, 1)
unsure = st.sampled_from([0.0, 0.5, np.inf, -1.0, np.nan]) | st.floats(0, 3)
candidates = st.lists(st.tuples(bids, chances, unsure, st.integers(0, 3), st.booleans() | st.just(True)), max_size=9)
settings = st.fixed_dictionaries(
    {
        "squashing": st.sampled_from([1.0, 0.5, 0.0, 2.0]),
        "floor": st.sampled_from([0.0, 0.1, 0.2]),
        "explore": st.sampled_from([None, "ucb", "thompson"]),
        "scale": st.sampled_from([0.0, 1.0, 2.0]),
        "seed": st.integers(0, 3),
    }
)


@given(
    auctions=st.lists(st.tuples(candidates, st.integers(0, 2**63 - 1)), min_size=1, max_size=4),
    chosen=settings,
    rule=st.sampled_from(["gsp", "vcg", "first"]),
    reserve=st.sampled_from([0.0, 0.0, 0.1, 1.0]),
    effects=st.sampled_from([(1.0,), (1.0, 0.5), (1.0, 1.0, 0.2, 0.1)]),
    owners=st.booleans(),
)
def test_the_kernels_do_what_the_slow_twin_does(auctions, chosen, rule, reserve, effects, owners):
    rows = [candidate for found, _ in auctions for candidate in found]
    bid, q, u, owner, allowed = (list(c) for c in zip(*rows, strict=True)) if rows else ([],) * 5
    owner = owner if owners else list(range(len(rows)))
    offsets = np.cumsum([0, *(len(found) for found, _ in auctions)])
    result = Auction(rule=rule, places=len(effects), effects=effects, reserve=reserve, **chosen).run(
        np.array(bid, float),
        np.array(q, float),
        offsets=offsets,
        uncertainty=np.array(u, float),
        advertiser=np.array(owner, int) if owners else None,
        in_budget=np.array(allowed, bool),
        key=np.array([key for _, key in auctions]),
    )
    seed = int(seed_of(f"auction {chosen['seed']}"))
    for a, (found, key) in enumerate(auctions):
        first = int(offsets[a])
        scored = [
            slow.score(*bid_q_u, ok, i, key=key, **{**chosen, "seed": seed})
            for i, (*bid_q_u, _, ok) in enumerate(found)
        ]
        scores = result.score[first : first + len(found)]
        assert scores.tolist() == pytest.approx(
            [r for r, _ in scored], rel=1e-9, abs=1e-200
        )  # rounding decides who is first of two, so the order is that of the kernel's
        kept_out = [slow.reserved(r, reason, reserve) for r, (_, reason) in zip(scores, scored, strict=True)]
        owned = owner[first : first + len(found)]
        order = slow.ranked(scores, kept_out, owned)
        shown = order[: len(effects)]
        assert [OUTCOME[v.outcome] for v in result.why(a)] == slow.outcomes(order, len(effects), kept_out, owned)
        assert result.row[a].tolist() == [first + i for i in shown] + [-1] * (len(effects) - len(shown))
        expected = slow.prices(order, scores, [b for b, *_ in found], rule, effects, reserve)
        assert result.price[a, : len(shown)].tolist() == pytest.approx(expected, rel=1e-9)
        assert not result.price[a, len(shown) :].any()
