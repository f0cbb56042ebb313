"""Reliability: its bins, its intervals, and a plot that opens everywhere."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.errors import BadInput, BadParameter, CannotWrite
from broadmatch.evaluate import calibration_bias, calibration_error, plot_reliability, reliability
from broadmatch.evaluate.reliability import HISTOGRAM_EDGES, wilson_interval
from broadmatch.evaluate.reliability_plot import reliability_svg

rows = st.lists(
    st.tuples(
        st.sampled_from([0.0, 1.0]),
        st.sampled_from([0.0, 0.2, 1.0]) | st.floats(0, 1),
        st.sampled_from([0.5, 1.0, 3.0]),
    ),
    min_size=1,
    max_size=80,
)


def columns(data):
    return tuple(np.array(column, np.float64) for column in zip(*data, strict=True))


def simulated(n=5000, seed=0, scale=0.3):
    rng = np.random.default_rng(seed)
    p = rng.random(n) * scale
    return (rng.random(n) < p).astype(float), p


@given(rows, st.integers(1, 25))
@settings(max_examples=150, deadline=None)
def test_bins_account_for_everything_and_the_error_is_the_metric(data, n_bins):
    y, p, w = columns(data)
    r = reliability(y, p, sample_weight=w, n_bins=n_bins)
    assert 1 <= len(r.mass) <= n_bins
    assert r.mass.sum() == pytest.approx(w.sum())
    assert (r.mass * r.rate).sum() == pytest.approx((w * y).sum())
    assert (r.mass * r.probability).sum() == pytest.approx((w * p).sum())
    assert (np.diff(r.probability) >= 0).all()  # equal only where weights make the least numbers vanish
    assert ((r.low >= 0) & (r.low <= r.rate + 1e-12) & (r.rate <= r.high + 1e-12) & (r.high <= 1)).all()
    assert r.error == pytest.approx(calibration_error(y, p, sample_weight=w, n_bins=n_bins), abs=1e-12)
    assert r.bias == pytest.approx(calibration_bias(y, p, sample_weight=w), nan_ok=True)
    assert r.histogram.sum() == pytest.approx(w.sum())


def test_bins_have_equal_mass_and_equal_predictions_stay_together():
    y, p = simulated()
    assert np.ptp(reliability(y, p, n_bins=20).mass) <= 1
    same = reliability(np.tile([0, 1], 50), np.repeat([0.2, 0.4], [90, 10]), n_bins=10)
    assert same.mass.tolist() == [90, 10]


def test_the_interval_is_wilsons():
    from scipy.stats import binomtest

    for k, n in ((0, 10), (3, 10), (10, 10), (50, 1000)):
        want = binomtest(k, n).proportion_ci(method="wilson")
        low, high = wilson_interval(np.array([k / n]), np.array([float(n)]))
        assert (low[0], high[0]) == pytest.approx((want.low, want.high), abs=1e-12)


def test_intervals_hold_the_truth_as_often_as_they_say_with_weights_too():
    def inside(r):
        return ((r.low <= r.probability) & (r.probability <= r.high)).mean()

    plain, sampled = [], []
    for seed in range(200):
        y, p = simulated(1000, seed)
        plain.append(inside(reliability(y, p, n_bins=5)))
        kept = (y == 1) | (np.random.default_rng(1000 + seed).random(1000) < 0.5)
        sampled.append(inside(reliability(y[kept], p[kept], sample_weight=np.where(y == 1, 1, 2)[kept], n_bins=5)))
    assert 0.93 < np.mean(plain) < 0.98
    assert 0.93 < np.mean(sampled) <= 1


def test_the_table_and_the_text():
    y, p = simulated(100)
    r = reliability(y, p, n_bins=4)
    table = r.to_table()
    assert table.column_names == ["probability", "rate", "low", "high", "mass"]
    assert table["rate"].to_pylist() == r.rate.tolist()
    lines = str(r).splitlines()
    assert len(lines) == 6
    assert len({len(line) for line in lines[:-1]}) == 1
    assert lines[-1].startswith(f"calibration error {r.error:.4f}")


def drawn(curves, path, **options):
    plot_reliability(curves, path, **options)
    root = ET.fromstring(path.read_text(encoding="utf-8"))  # noqa: S314 - our own file
    return root, [e for e in root.iter() if e.tag.endswith("circle") and e.find("{*}title") is not None]


def test_the_plot_shows_every_bin_of_every_curve(tmp_path):
    y, p = simulated()
    before, after = reliability(y, 0.5 * p), reliability(y, p)
    root, dots = drawn({"before & <1>": before, "after": after}, tmp_path / "x.svg", title='A "title" & <more>')
    assert len(dots) == 40
    text = "".join(root.itertext())
    assert "before & <1>" in text
    assert 'A "title" & <more>' in text
    assert f"{100 * after.error:.2f} %" in text
    assert "logarithmic" in text  # predictions from 0.2 % to 30 %
    last = dots[-1]
    assert float(last.get("cx")) + float(last.get("cy")) > 0
    single = tmp_path / "single.svg"
    after.plot(single)
    assert single.read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("clicked", "p"),
    [
        ([0, 0], [0.0, 0.0]),
        ([1, 1], [1.0, 1.0]),
        ([0, 0, 1], [1e-9, 1e-5, 0.5]),
        ([0], [1e-12]),
        ([1, 0], [0.0, 1.0]),
        ([0, 1] * 50, [0.001, 0.9] * 50),
    ],
)
def test_points_stay_inside_the_plot(clicked, p, tmp_path):
    _, dots = drawn({"x": reliability(clicked, p)}, tmp_path / "x.svg")
    for dot in dots:
        assert 72 <= float(dot.get("cx")) <= 536
        assert 84 <= float(dot.get("cy")) <= 500


def test_a_calibrated_point_lies_on_the_diagonal(tmp_path):
    for p in ([0.25, 0.75], [0.01, 0.99]):
        clicked = np.concatenate([np.arange(400) < 400 * q for q in p])
        _, dots = drawn({"x": reliability(clicked, np.repeat(p, 400))}, tmp_path / "x.svg")
        for dot in dots:
            right, up = (float(dot.get("cx")) - 72) / 464, (500 - float(dot.get("cy"))) / 416
            assert right == pytest.approx(up, abs=0.001)


def test_the_same_data_gives_the_same_file():
    y, p = simulated()
    assert reliability_svg({"x": reliability(y, p)}, "x") == reliability_svg({"x": reliability(y, p)}, "x")
    assert len(HISTOGRAM_EDGES) == 2049


def test_what_is_refused(tmp_path):
    with pytest.raises(BadInput, match="row 1 is nan"):
        reliability([0, 1], [0.1, np.nan])
    with pytest.raises(BadInput, match="row 0 is 2"):
        reliability([2], [0.1])
    with pytest.raises(BadInput, match="no rows"):
        reliability([], [])
    with pytest.raises(BadParameter, match="n_bins must be a whole number"):
        reliability([0], [0.1], n_bins=0)
    one = reliability([0], [0.1])
    with pytest.raises(BadInput, match="1 to 6 curves, but there are 7"):
        plot_reliability({str(i): one for i in range(7)}, tmp_path / "x.svg")
    with pytest.raises(CannotWrite, match="Cannot write"):
        one.plot(tmp_path / "nowhere" / "x.svg")
