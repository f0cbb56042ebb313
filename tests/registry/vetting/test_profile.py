"""What is counted of a signal is what is there, however the log is cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.data import Batch, Impressions
from broadmatch.kernels.hashing import MISSING, feature_key, key_of, seed_of
from broadmatch.registry.vetting import _sights as kernels
from broadmatch.registry.vetting.profile import PART, ROWS_A_PART, SignalProfile, drifts, growth, new_share, sustained
from tests.reference import signal_sights as reference

NONE = int(feature_key(seed_of("ad"), MISSING))
KEYS = st.sampled_from([NONE, *(int(key_of("ad", str(i))) for i in range(9))])


@settings(max_examples=60)
@given(rows=st.lists(st.tuples(st.lists(KEYS, unique=True, max_size=4), st.integers(0, 2)), max_size=30))
def test_the_kernel_counts_what_the_twin_counts(rows):
    data = Impressions.from_rows([keys for keys, _ in rows])
    part = np.array([p for _, p in rows], np.int64)
    seen, counts = np.zeros((3, 2, kernels.BUCKETS), np.int64), np.zeros((3, kernels.COLUMNS), np.int64)
    often, bits = np.zeros(64, np.int64), np.zeros(1 << 14, np.uint64)
    kernels.add_sights(data.indptr, data.keys, np.uint64(NONE), part, seen, counts, often, bits)
    wanted, totals, known = reference.add_sights([keys for keys, _ in rows], NONE, part.tolist())
    for p in range(3):
        for way in range(kernels.WAYS):
            assert {b: n for b, n in enumerate(seen[p, way].tolist()) if n} == dict(wanted.get((p, way), {}))
        assert counts[p].tolist() == totals.get(p, [0, 0, 0, 0])
    assert often.sum() == len(data.keys)
    assert all(kernels.seen_before(np.uint64(key), bits) for key in known)


def stream(values, time=None):
    rows = Impressions.from_rows([[int(key_of("ad", value))] for value in values])
    return Batch(rows, time=np.empty(0, np.int64) if time is None else np.asarray(time)), rows


def figures(values, time=None, cuts=(), **more):
    profile, whole = SignalProfile("ad", **more), stream(values, time)[0]
    for a, b in zip([0, *cuts], [*cuts, len(values)], strict=True):
        part = whole.between(a, b)
        profile.add(part, part.impressions)
    return profile.figures()


def test_cuts_change_nothing_and_missing_is_no_value():
    rng = np.random.default_rng(0)
    values = [None if v == 0 else str(v) for v in rng.integers(0, 50, 5000)]
    time = np.sort(rng.integers(0, 3 * 24, 5000)) * 3_600_000_000
    whole = figures(values, time)
    assert figures(values, time, cuts=[1, 700, 701, 4000]) == whole
    assert whole["Coverage"] == pytest.approx(sum(v is not None for v in values) / 5000)
    assert (whole["Cardinality"], whole["Days"], whole["Impressions"]) == (49, 3, 5000)
    assert 0.01 < whole["TopShare"] < 0.05
    assert whole["NewValues"] == 0


def test_a_value_for_each_row_grows_without_end_and_a_constant_not_at_all():
    each, same = figures([str(i) for i in range(60_000)]), figures(["x"] * 60_000)
    assert (each["Growth"], each["NewValues"]) == (pytest.approx(1.0, abs=0.01), pytest.approx(1.0, abs=0.01))
    assert each["Cardinality"] == pytest.approx(60_000, rel=0.01)
    assert (same["Cardinality"], same["TopShare"], same["Growth"]) == (1, 1.0, 0.0)
    assert each["Days"] is None
    assert len(each["by_part"]["part"]) == -(-60_000 // ROWS_A_PART)


def test_a_change_at_noon_is_found_within_the_day_once_or_every_day():
    def at(part, n=600):
        return [part * PART + i for i in range(n)]

    def drift(parts):
        time = [t for p in range(len(parts)) for t in at(p)]
        rng = np.random.default_rng(1)
        values = [f"{name}{v}" for name in parts for v in rng.integers(0, 5, 600)]
        return figures(values, time)["DriftWithinDay"]

    assert drift("aaaa" * 3) < 0.02
    assert drift("aaaa" + "aabb" + "bbbb") > 1
    assert drift("aabb" * 3) > 0.3
    clocked = figures(["1"] * 1200, at(0) + at(1), clocked=True)
    assert clocked["DriftByDay"] is clocked["DriftWithinDay"] is None


def test_values_that_share_a_bucket_hide_no_change():
    keys = [int(key_of("noon", value)) for value in ("0", "1000000")]
    assert keys[0] >> 58 == keys[1] >> 58  # by chance
    profile = SignalProfile("noon")
    rows = Impressions.from_rows([[keys[i // 3000]] for i in range(6000)])
    profile.add(Batch(rows, time=np.arange(6000) // 1000 * PART), rows)
    assert profile.figures()["DriftWithinDay"] > 1


def test_small_parts():
    assert sustained(np.array([np.nan])) is None
    assert sustained(np.array([np.nan, 0.5])) == 0.5
    assert growth(np.array([5]), np.array([5])) is None
    assert new_share(np.array([], np.int64), np.array([], np.int64)) is None
    assert np.isnan(drifts(np.array([0, 9]), np.full((2, 1, 2), 900), 7)).all()  # the days before are too far away
