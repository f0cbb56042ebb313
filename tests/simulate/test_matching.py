import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.simulate import matching
from broadmatch.simulate.matching import CANDIDATES
from broadmatch.simulate.users import PLACES


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 5), st.sampled_from([0.0, 0.5, 1.0]))
def test_places_and_prices_equal_a_sorted_list(seed: int, n: int, empty: float) -> None:
    rng = np.random.default_rng(seed)
    score = np.exp(rng.normal(-1.0, 1.0, (n, CANDIDATES)))
    score[rng.random(score.shape) < empty] = 0.0
    row, share = matching._places(score.copy())
    reserve = float(np.exp(-1.1))
    for search in range(n):
        ranked = sorted(((s, i) for i, s in enumerate(score[search]) if s >= reserve), reverse=True)
        shown = ranked[:PLACES]
        below = [s for s, _ in ranked[1:]] + [reserve]
        expected = [below[t] / s for t, (s, _) in enumerate(shown)]
        assert row[search, : len(shown)].tolist() == [search * CANDIDATES + i for _, i in shown]
        assert (row[search, len(shown) :] == -1).all()
        np.testing.assert_allclose(share[search, : len(shown)], expected, rtol=1e-15)
