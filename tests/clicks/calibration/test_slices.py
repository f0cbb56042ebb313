"""A calibration for each slice: parents, shrinkage, slices never seen, and what it does on a real stream."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import broadmatch
from broadmatch.clicks import SlicedCalibration
from broadmatch.clicks.calibration.slice_table import SliceTable, bits_of_column
from broadmatch.errors import BadInput, BadParameter
from broadmatch.kernels.hashing import MISSING, key_of
from tests.reference import calibration as reference

KINDS = pytest.mark.parametrize("kind", ["poisson", "isotonic"])


def traffic(n=30_000, seed=0):
    """Predictions that know neither country nor city, which change the click rate by factors of their own."""
    rng = np.random.default_rng(seed)
    country, city = rng.integers(0, 3, n), rng.integers(0, 4, n)
    p = 1 / (1 + np.exp(-rng.normal(-3, 0.7, n)))
    true = np.minimum(p * np.array([0.5, 1.0, 2.0])[country] * np.array([0.7, 1.0, 1.0, 1.5])[city], 1)
    clicked = (rng.random(n) < true).astype(float)
    return (
        p,
        clicked,
        {"country": pa.array([f"C{c}" for c in country]), "city": pa.array([f"c{c}" for c in city])},
        true,
    )


def part(slices, a, b):
    return {name: column[a:b] for name, column in slices.items()}


def fitted(p, clicked, slices, weight=None, **params):
    calibration = SlicedCalibration(by=tuple(slices), **params)
    calibration.learn_many(p, clicked, slices, weight)
    calibration.refresh()
    return calibration


@KINDS
@pytest.mark.parametrize("min_clicks", [1e9, 20])
def test_every_slice_of_every_level_becomes_calibrated(kind, min_clicks):
    p, clicked, slices, true = traffic(200_000)
    calibration = fitted(p, clicked, slices, method=kind, min_clicks=min_clicks)
    assert calibration.n_slices == 3 + 12
    out = calibration.apply(p, slices)
    whole = calibration.whole_.apply(p)
    assert np.abs(out - true).mean() < 0.2 * np.abs(whole - true).mean()
    for value in ("C0", "C1", "C2"):
        here = np.array(slices["country"]) == value
        assert out[here].mean() == pytest.approx(clicked[here].mean(), rel=0.05)


@KINDS
def test_a_slice_never_seen_takes_its_parents_map(kind):
    p, clicked, slices, _ = traffic()
    calibration = fitted(p, clicked, slices, method=kind)
    both = {"country": ["C2", "nowhere"], "city": ["never", "c1"]}
    country = fitted(p, clicked, {"country": slices["country"]}, method=kind)
    assert calibration.apply([0.1, 0.1], both).tolist() == [
        country.apply_one(0.1, {"country": "C2"}),
        calibration.whole_.apply_one(0.1),
    ]
    # one that came after the last refresh is as good as never seen
    calibration.learn_many([0.1], [1], {"country": ["C2"], "city": ["never"]})
    assert calibration.apply([0.1], part(both, 0, 1))[0] == country.apply_one(0.1, {"country": "C2"})


@KINDS
def test_the_same_city_name_in_two_countries_is_two_slices(kind):
    p = np.full(4000, 0.1)
    country, city = np.repeat(["A", "B"], 2000), np.repeat(["x"], 4000)
    clicked = np.where(country == "A", np.arange(4000) % 5 == 0, np.arange(4000) % 20 == 0).astype(float)
    calibration = fitted(p, clicked, {"country": country, "city": city}, method=kind)
    out = calibration.apply([0.1, 0.1], {"country": ["A", "B"], "city": ["x", "x"]})
    np.testing.assert_allclose(out, [0.2, 0.05], rtol=0.03)


@given(
    strength=st.floats(0.1, 100),
    n=st.integers(1, 60),
    clicks=st.integers(0, 60),
    weight=st.sampled_from([0.5, 1.0, 3.0]),
)
@settings(max_examples=60, deadline=None)
def test_few_clicks_shrink_to_the_parent_as_a_gamma_prior_says(strength, n, clicks, weight):
    clicks = min(clicks, n)
    p = np.full(2000 + n, 0.1)
    clicked = np.r_[np.arange(2000) % 10 == 0, np.arange(n) < clicks].astype(float)
    slices = {"site": np.r_[np.zeros(2000, np.uint64), np.full(n, 7, np.uint64)]}
    w = np.r_[np.ones(2000), np.full(n, weight)]
    calibration = fitted(p, clicked, slices, w, strength=strength, min_clicks=1e9)
    parent = (clicked * w).sum() / w.sum()
    factor = reference.slice_factor(weight * clicks, weight * n * parent, strength)
    got = calibration.apply_one(0.1, {"site": 7})
    assert got == pytest.approx(min(1, parent * factor), rel=1e-9)


def test_a_shape_of_its_own_is_the_regression_on_the_parents_output_and_pseudo_clicks():
    p, clicked, slices, _ = traffic()
    calibration = fitted(p, clicked, {"country": slices["country"]}, strength=30, min_clicks=20)
    whole = calibration.whole_
    for slot in range(1, 4):
        w, c, wp = calibration.sums_.values[slot][calibration.sums_.values[slot][:, 0] > 0].T
        q = np.exp(whole.log_factor_ + whole.exponent_ * np.log(wp / w))
        level = reference.slice_factor(c.sum(), (w * q).sum(), 30)
        # the pseudo-impressions are spread as the slice's own, and bring 30 clicks at the rate level·q
        more = w * 30 / (level * w * q).sum()
        shift, k = reference.power(w + more, c + more * level * q, q)
        np.testing.assert_allclose(calibration.maps_.exponent[slot], k * whole.exponent_, rtol=1e-4)
        np.testing.assert_allclose(calibration.maps_.log_factor[slot], shift + k * whole.log_factor_, rtol=1e-4)


def test_an_isotonic_slice_is_the_regression_on_its_bins_and_pseudo_clicks():
    from sklearn.isotonic import IsotonicRegression

    p, clicked, slices, _ = traffic()
    calibration = fitted(p, clicked, {"country": slices["country"]}, method="isotonic", strength=30, min_clicks=20)
    grid = np.linspace(0, 1, 200)
    for slot in range(1, 4):
        w, c, wp = calibration.sums_.values[slot][calibration.sums_.values[slot][:, 0] > 0].T
        q = calibration.whole_.apply(wp / w)
        level = reference.slice_factor(c.sum(), (w * q).sum(), 30)
        more = w * 30 / (level * w * q).sum()
        weight, clicks = w + more, c + more * level * q
        expected = np.maximum(level * w * q, weight * 0.1 * clicks.sum() / weight.sum())
        weight, clicks, predicted = np.array(reference.groups(weight, clicks, weight * wp / w, expected, 20)).T
        peer = IsotonicRegression(out_of_bounds="clip").fit(predicted / weight, clicks / weight, sample_weight=weight)
        name = next(c for c in ("C0", "C1", "C2") if calibration.slices_.keys[slot] == key_of("country", c))
        out = calibration.apply(grid, {"country": [name] * len(grid)})
        np.testing.assert_allclose(out, peer.predict(grid), atol=1e-9)


@KINDS
def test_every_slice_rises_and_stays_a_probability(kind):
    p, clicked, slices, _ = traffic(5000)
    calibration = fitted(p, clicked, slices, method=kind, min_clicks=5, strength=0.1)
    grid = np.linspace(0, 1, 300)
    for country in ("C0", "C1", "C2", "other"):
        for city in ("c0", "c1", "c2", "c3", "other"):
            out = calibration.apply(grid, {"country": [country] * 300, "city": [city] * 300})
            assert (np.diff(out) >= 0).all()
            assert ((out >= 0) & (out <= 1)).all()


@KINDS
def test_how_the_stream_is_cut_and_saved_makes_no_difference(kind, tmp_path):
    p, clicked, slices, _ = traffic(6000)
    weight = np.random.default_rng(3).random(6000)
    params = {"method": kind, "half_life": 90, "min_clicks": 2}
    once = fitted(p, clicked, slices, weight, **params)
    cut = SlicedCalibration(by=("country", "city"), **params)
    for i, (a, b) in enumerate(((0, 0), (0, 1), (1, 2500), (2500, 6000))):
        cut.learn_many(p[a:b], clicked[a:b], part(slices, a, b), weight[a:b])
        cut.refresh()
        cut.save(tmp_path / str(i))
        cut = broadmatch.load(tmp_path / str(i))
        assert cut.apply(p, slices).shape == (6000,)
    one, other = once.to_state(), cut.to_state()
    assert one.params == other.params
    assert all(np.array_equal(one.arrays[name], other.arrays[name]) for name in one.arrays)
    assert once.apply(p, slices).tobytes() == cut.apply(p, slices).tobytes()


@KINDS
def test_slices_without_clicks_and_with_nothing_else(kind):
    p = np.full(300, 0.1)
    clicked = np.repeat([0.0, 1.0, 0.0], 100)
    clicked[200:230] = 1
    slices = {"site": np.repeat(["none", "all", "some"], 100)}
    for min_clicks in (1, 1e9):
        out = fitted(p, clicked, slices, method=kind, min_clicks=min_clicks).apply(
            p[::100], {"site": slices["site"][::100]}
        )
        assert 0 < out[0] < 0.05
        assert out[1] > 0.9
        assert out[2] == pytest.approx(0.3, abs=0.05)
    nothing = fitted(p, np.zeros(300), slices, method=kind)
    out = nothing.apply([0.1, 0.1], {"site": ["none", "new"]})
    assert 0 < out[0] < out[1] == pytest.approx(0.1)


def test_predictions_of_0_and_1_in_slices():
    p = np.tile([0.0, 1.0, 0.5], 200)
    clicked = np.tile([0.0, 1.0, 1.0, 0.0, 1.0, 0.0], 100)
    slices = {"site": np.arange(600) % 2}
    for kind in ("poisson", "isotonic"):
        out = fitted(p, clicked, slices, method=kind).apply(p, slices)
        assert np.isfinite(out).all()
        assert out[p == 0].max() < out[p == 0.5].min() <= out[p == 1].min()


# --- slices and their keys ----------------------------------------------------------------------------------------


def test_columns_of_one_content_have_the_same_bits_in_any_form():
    texts = ["b", "a", None, "b", "", "12"]
    want = bits_of_column("x", pa.array(texts))
    assert want[0] == want[3] != want[1]
    assert want[2] == MISSING
    assert want[5] == 12
    for form in (
        pa.array(texts).dictionary_encode(),
        pa.array(texts, pa.large_string()),
        pa.chunked_array([texts[:2], texts[2:]]),
        pa.chunked_array([texts[:2], texts[2:]]).dictionary_encode(),
        pa.array(["skip", *texts]).slice(1),
        pa.DictionaryArray.from_arrays(pa.array([1, 2, 0, 1, 3, 4]), pa.array([None, "b", "a", "", "12"])),
        texts,
    ):
        np.testing.assert_array_equal(bits_of_column("x", form), want)
    numbers = np.array([5, -1, 0])
    for form in (numbers.astype(np.int32), pa.array(numbers), ["5", "-1", "0"], pa.array(numbers).dictionary_encode()):
        np.testing.assert_array_equal(bits_of_column("x", form), numbers.view(np.uint64))
    assert bits_of_column("x", np.array([2**64 - 1], np.uint64))[0] == 2**64 - 1
    assert bits_of_column("x", pa.array([3, None])).tolist() == [3, MISSING]
    assert len(bits_of_column("x", pa.array([], pa.string()))) == 0


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 2)), max_size=3000))
@settings(max_examples=20, deadline=None)
def test_slices_are_numbered_by_first_appearance_and_found_again(pairs):
    table = SliceTable(("a", "b"))
    columns = {"a": np.array([p[0] for p in pairs], np.int64), "b": np.array([p[1] for p in pairs], np.int64)}
    keys = table.keys_of(columns, len(pairs))
    slots = table.number(keys)
    seen = {}
    for row, (a, b) in enumerate(pairs):
        for level, name in enumerate(((a,), (a, b))):
            assert slots[row, level] == seen.setdefault(name, len(seen) + 1)
    assert table.n_slices == len(seen) + 1
    assert all(table.parents[n] == (seen[name[:1]] if len(name) == 2 else 0) for name, n in seen.items())
    np.testing.assert_array_equal(table.deepest(keys, table.n_slices), slots[:, 1])
    np.testing.assert_array_equal(table.number(keys), slots)
    limit = table.n_slices // 2
    want = np.where(slots[:, 1] < limit, slots[:, 1], np.where(slots[:, 0] < limit, slots[:, 0], 0))
    np.testing.assert_array_equal(table.deepest(keys, limit), want)


def test_thousands_of_slices():
    rng = np.random.default_rng(0)
    site = rng.integers(0, 20_000, 100_000).astype(np.uint64)
    p = np.full(100_000, 0.1)
    clicked = (rng.random(100_000) < np.where(site % 2, 0.05, 0.25)).astype(float)
    calibration = fitted(p, clicked, {"site": site})
    assert calibration.n_slices == len(np.unique(site))
    out = calibration.apply(p, {"site": site})
    assert out[site % 2 == 0].mean() > 1.2 * out[site % 2 == 1].mean()


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slices", "told"),
    [
        ({}, "There is no column 'country' to slice by; there is none"),
        ({"city": ["x"]}, "There is no column 'country' to slice by; there is city"),
        ({"country": ["x", "y"]}, "The slices 'country' must have one value for each of the 1 probabilities"),
        ({"country": [[1.5]]}, "The slices 'country' are list<item: double>; give texts or whole numbers"),
    ],
)
def test_wrong_slices_are_refused_and_change_nothing(slices, told):
    calibration = SlicedCalibration(by=("country",))
    with pytest.raises(BadInput, match=told.replace("<", "[<]")):
        calibration.learn_many([0.1], [1], slices)
    with pytest.raises(BadInput, match="probability: row 0 is nan"):
        calibration.learn_many([np.nan], [1], {"country": ["x"]})
    assert calibration.n_slices == calibration.sums_.clock[0] == calibration.whole_.sums_.clock[0] == 0


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"by": ()}, "by must be a tuple of distinct column names"),
        ({"by": "country"}, "by must be a tuple"),
        ({"by": ("a", "a")}, "by must be a tuple of distinct"),
        ({"by": ("a",), "method": "linear"}, "method must be one of 'poisson', 'isotonic'"),
        ({"by": ("a",), "strength": 0}, "strength must be a number above 0"),
        ({"by": ("a",), "min_clicks": 0}, "min_clicks must be a number of at least 1"),
    ],
)
def test_parameters_are_checked(params, told):
    with pytest.raises(BadParameter, match=told):
        SlicedCalibration(**params).refresh()


# --- a real stream ------------------------------------------------------------------------------------------------


@KINDS
def test_worst_subreddits_become_calibrated_on_later_posts(kind, shared_data):
    """The prediction knows only domain and hour; the subreddit is withheld."""
    import pyarrow.parquet as pq

    posts = pq.read_table(shared_data / "reddit" / "posts.parquet", columns=["time", "subreddit", "domain", "comments"])
    n = posts.num_rows
    third = n // 3
    clicked = (posts["comments"].to_numpy() >= 100).astype(np.float64)
    domain = posts["domain"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    subreddit = posts["subreddit"].combine_chunks().dictionary_encode()
    rate = clicked[:third].mean()
    shown = np.bincount(domain[:third], minlength=domain.max() + 1)
    p = ((np.bincount(domain[:third], clicked[:third], minlength=len(shown)) + 20 * rate) / (shown + 20))[domain]
    calibration = SlicedCalibration(by=("subreddit",), method=kind)
    calibration.learn_many(
        p[third : 2 * third], clicked[third : 2 * third], {"subreddit": subreddit[third : 2 * third]}
    )
    calibration.refresh()

    later = slice(2 * third, n)
    after = calibration.apply(p[later], {"subreddit": subreddit[2 * third :]})
    code = subreddit.indices.to_numpy()[later]
    posts_of = np.bincount(code)
    many = posts_of >= 100

    def error(q):
        return (np.abs(np.bincount(code, q) - np.bincount(code, clicked[later]))[many]) / posts_of[many]

    worst = np.argsort(-error(p[later]))[: many.sum() // 10]
    assert error(after)[worst].mean() < 0.5 * error(p[later])[worst].mean()
