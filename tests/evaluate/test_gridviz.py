"""The data of GridViz: every figure of a grid against the slow reference, and where it can come from."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.errors import BadInput, BadParameter
from broadmatch.evaluate import PredictionLog, progressive_report
from broadmatch.evaluate.gridviz import (
    OwnMetric,
    blocks,
    build_grid,
    changes,
    discoveries,
    grid_table,
    read_grid,
    significant,
    write_grid,
    write_table,
)
from broadmatch.evaluate.gridviz.grid import LEAST_OF_CLASS, pair_of, pairs
from tests.reference import gridviz as reference

DAY = 86_400_000_000


def predictions(n=600, n_models=3, seed=0, weights=False, countries=("at", "de", None)):
    """A log of impressions with models that differ a little."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(-0.5, 1, n)
    country = [
        countries[i]
        for i in rng.choice(
            len(countries), n, p=np.array([3, 2, 1][: len(countries)]) / 6 * 6 / sum([3, 2, 1][: len(countries)])
        )
    ]
    columns = {
        "time": (rng.integers(0, 3, n) * DAY + rng.integers(0, DAY, n)),
        "clicked": (rng.random(n) < 1 / (1 + np.exp(-truth))).astype(np.int8),
        "weight": rng.choice([1.0, 2.0, 5.0], n) if weights else np.ones(n),
        "country": pa.array(country).dictionary_encode(),
        "device": pa.array([["phone", "desk top"][i] for i in rng.integers(0, 2, n)]),
    }
    for m in range(n_models):
        p = 1 / (1 + np.exp(-(truth + (0.2 + 0.3 * m) * rng.normal(size=n))))
        columns[f"p_m{m}"] = np.round(p, 2).astype(np.float32)  # ties
    return pa.table(columns)


def rows_of(log, **where):
    keep = np.ones(log.num_rows, bool)
    for column, value in where.items():
        keep &= np.array([v == value for v in log[column].to_pylist()])
    y, w = (log[c].to_numpy()[keep] for c in ("clicked", "weight"))
    models = [c for c in log.column_names if c.startswith("p_")]
    return y == 1, w.astype(float), [log[c].to_numpy()[keep].astype(float) for c in models]


def assert_column(grid, at, y, w, models):
    """Everything that a grid says of a slice is what its rows alone say."""
    assert grid.impressions[at] == len(y)
    assert grid.clicks[at] == y.sum()
    for k, metric in enumerate(reference.METRICS):
        values = [reference.value(metric, y, p, w) for p in models]
        np.testing.assert_allclose(grid.value[k, :, at], values, rtol=2e-6, atol=1e-7)
        few = min(y.sum(), (~y).sum()) < LEAST_OF_CLASS[metric]
        for i, j in pairs(len(models)):
            error = np.nan if few else reference.paired_error(metric, y, models[i], models[j], w)
            np.testing.assert_allclose(grid.se[k, pair_of(len(models), i, j), at], error, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("weights", [False, True])
def test_every_cell_and_every_pair_of_models_is_that_of_the_slices_rows(weights):
    log = predictions(weights=weights)
    grid = build_grid(log, cross=("country", "device"), every="day")
    assert grid.models == ("m0", "m1", "m2") and [m.name for m in grid.metrics] == list(reference.METRICS)
    assert [(g.name, g.first, g.count) for g in grid.groups] == [
        ("all", 0, 1), ("country", 1, 3), ("device", 4, 2), ("country × device", 6, 6)
    ]  # fmt: skip
    assert_column(grid, 0, *rows_of(log))
    assert_column(grid, grid.slices.index("at"), *rows_of(log, country="at"))
    assert_column(grid, grid.slices.index("(no value)"), *rows_of(log, country=None))
    assert_column(grid, grid.slices.index("de × phone"), *rows_of(log, country="de", device="phone"))
    assert_column(grid, grid.slices.index("(no value) × phone"), *rows_of(log, country=None, device="phone"))


def test_values_intervals_and_errors_against_the_baseline_are_those_of_the_progressive_report():
    log = predictions(weights=True)
    grid, report = build_grid(log, every="day", baseline="m1"), progressive_report(log, every="day", baseline="m1")
    assert grid.baseline == 1
    for row in report.summary("country"):
        k, m = reference.METRICS.index(row["metric"]), grid.models.index(row["model"])
        at = 1 + grid.slices[1:].index(row["slice"] or "(no value)")
        low, high = grid.value[k, m, at] - grid.low[k, m, at], grid.value[k, m, at] + grid.high[k, m, at]
        np.testing.assert_allclose([grid.value[k, m, at], low, high], [row[c] for c in ("value", "low", "high")], 1e-5)
    for row in report.summary("country", by_time=True):
        k, m = reference.METRICS.index(row["metric"]), grid.models.index(row["model"])
        at = 1 + grid.slices[1:].index(row["slice"] or "(no value)")
        period = [p.start for p in grid.periods].index(int(row["bucket_start"].timestamp()) * 1_000_000)
        assert grid.period_impressions[period, at] == row["impressions"]
        assert grid.period_clicks[period, at] == row["clicks"]
        np.testing.assert_allclose(grid.period_value[period, k, m, at], row["value"], rtol=1e-5)


def test_a_progressive_table_makes_the_same_grid_against_its_baseline(tmp_path):
    log = predictions(n=3000)
    grid, report = build_grid(log, every="day"), progressive_report(log, every="day")
    report.to_parquet(tmp_path / "report.parquet")
    for source in (report, report.to_table(), tmp_path / "report.parquet"):
        other = build_grid(source)
        assert (other.models, other.slices, other.groups, other.periods) == (
            grid.models, grid.slices, grid.groups, grid.periods
        )  # fmt: skip
        for name in ("value", "low", "high", "impressions", "clicks", "period_value", "period_clicks"):
            np.testing.assert_allclose(getattr(other, name), getattr(grid, name), rtol=1e-4, atol=1e-6)
        to_base = [pair_of(3, 0, 1), pair_of(3, 0, 2)]
        # The error of the change in percent, times the baseline's value: equal where models hardly differ.
        np.testing.assert_allclose(other.se[:, to_base], grid.se[:, to_base], rtol=0.2)
        assert np.isnan(other.se[:, pair_of(3, 1, 2)]).all()
    with pytest.raises(BadInput, match=r"compares with 'm0'; make it again to compare with 'm1'"):
        build_grid(report, baseline="m1")
    with pytest.raises(BadParameter, match="leave out cross and every"):
        build_grid(report, every="day")


def test_beyond_max_rows_the_grid_is_that_of_the_streamed_report():
    log = predictions(n=3000)
    exact, streamed = (
        build_grid(log, cross=("country", "device")),
        build_grid(log, cross=("country", "device"), max_rows=100),
    )
    assert streamed.slices == exact.slices and streamed.groups == exact.groups
    np.testing.assert_allclose(streamed.value[1:], exact.value[1:], rtol=1e-5)
    assert "From a progressive report" in streamed.notes[0]
    with pytest.raises(BadParameter, match="Own needs every row"):
        build_grid(log, metrics=[OwnMetric("Own", lambda y, p, w: 0.0)], max_rows=100)


def test_folders_and_several_runs_are_read(tmp_path):
    rng = np.random.default_rng(0)
    y, ids = rng.random(50) < 0.5, np.arange(50)
    for run in ("old", "new"):
        with PredictionLog(tmp_path / run, models=["model"], slices=["country"], ids=True) as written:
            country = {"country": pa.array(["at", "de"] * 25)}
            written.append(y, None, None, country, rng.random((50, 1), np.float32), ids)
    grid = build_grid([tmp_path / "old", tmp_path / "new"])
    assert grid.models == ("old", "new") and grid.slices == ("all", "at", "de")
    assert build_grid(tmp_path / "old").models == ("model",)
    assert build_grid(tmp_path / "old").se.shape == (4, 0, 3)


def test_blocks_of_any_size_give_the_same_bits(monkeypatch):
    log = predictions()
    whole = build_grid(log, cross=("country", "device"), every="day")
    monkeypatch.setattr(blocks, "_ROWS", 50)
    monkeypatch.setattr(blocks, "_GROUPS", 4)
    small = build_grid(log, cross=("country", "device"), every="day")
    for name in ("value", "low", "high", "se", "period_value", "period_se", "reliability", "clicks"):
        np.testing.assert_allclose(getattr(small, name), getattr(whole, name), rtol=1e-6, atol=1e-9)


def test_columns_stand_by_impressions_and_small_slices_are_named_in_a_note():
    log = predictions()
    grid = build_grid(log)
    for group in grid.groups:
        assert (np.diff(grid.impressions[group.first : group.first + group.count]) <= 0).all()
    least = int(grid.impressions[3]) + 1
    fewer = build_grid(log, slices=["country"], min_impressions=least)
    assert fewer.slices == grid.slices[:3]
    assert fewer.notes == (f"Slices of fewer than {least:,} impressions have no column: 1 of country.",)
    assert build_grid(log, slices=[], min_impressions=10_000).slices == ("all",)


def test_reliability_is_that_of_ten_bins_of_equal_mass():
    log = predictions(weights=True)
    grid = build_grid(log, slices=["country"])
    assert grid.reliability_slices.tolist() == [0, 1, 2, 3]
    y, w, models = rows_of(log, country="at")
    for m, p in enumerate(models):
        np.testing.assert_allclose(grid.reliability[1, m], reference.reliability(y, p, w, 10), rtol=1e-5)


def test_a_metric_of_ones_own_has_bootstrapped_intervals_or_none():
    log = predictions(n=300)

    def brier(y, p, w):
        return float((w * (p - y) ** 2).sum() / w.sum())

    own = [OwnMetric("Brier", brier), OwnMetric("Again", brier, unit="points", best="high", n_bootstrap=400)]
    grid = build_grid(log, metrics=["SquaredError", *own], every="day")
    assert [tuple(m) for m in grid.metrics[1:]] == [("Brier", "", "low"), ("Again", "points", "high")]
    np.testing.assert_allclose(grid.value[1], grid.value[0], rtol=1e-6)
    np.testing.assert_allclose(grid.period_value[:, 1], grid.period_value[:, 0], rtol=1e-6)
    assert np.isnan(grid.se[1]).all() and np.isnan(grid.low[1]).all()
    np.testing.assert_allclose(grid.se[2, :, 0], grid.se[0, :, 0], rtol=0.2)
    np.testing.assert_allclose(grid.high[2, :, 0], grid.high[0, :, 0], rtol=0.3)


def test_errors_of_a_handful_of_clicks_are_not_known():
    log = pa.table({
        "clicked": [1] * 9 + [0] * 500, "p_a": np.linspace(0, 1, 509), "p_b": np.linspace(0, 0.9, 509),
    })  # fmt: skip
    assert np.isnan(build_grid(log).se).all()


def test_what_cannot_be_shown_is_refused():
    log = predictions(n=50)
    with pytest.raises(BadParameter, match="metrics"):
        build_grid(log, metrics=["Loss"])
    with pytest.raises(BadParameter, match="metrics must be different"):
        build_grid(log, metrics=["Bias", "Bias"])
    with pytest.raises(BadParameter, match="cross needs two or more different slicings"):
        build_grid(log, cross=[("country",)])
    with pytest.raises(BadInput, match="no slicing 'town'"):
        build_grid(log, slices=["town"])
    with pytest.raises(BadInput, match="asked for twice"):
        build_grid(log, slices=["country", "country"])
    with pytest.raises(BadInput, match="no column time"):
        build_grid(log.drop_columns(["time"]), every="day")
    with pytest.raises(BadInput, match=r"more than a page can show"):
        blocks._check_size(4, 10, 10_000_000, 30)


@given(st.lists(st.one_of(st.floats(0, 1), st.just(float("nan")), st.floats(0, 0.01)), max_size=40))
@settings(max_examples=60, deadline=None)
def test_discoveries_are_those_of_benjamini_and_hochberg(p):
    assert discoveries(np.array(p)).tolist() == reference.discoveries(p, 0.05)


@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(1, 4), st.booleans())
@settings(max_examples=30, deadline=None)
def test_any_small_log_agrees_with_the_reference(seed, n, n_models, weights):
    log = predictions(n, n_models, seed, weights, countries=("at", "de"))
    least = dict.fromkeys(LEAST_OF_CLASS, 1)
    with pytest.MonkeyPatch.context() as patched:
        for metric in LEAST_OF_CLASS:
            patched.setitem(LEAST_OF_CLASS, metric, least[metric])
        grid = build_grid(log, slices=["country"])
        assert_column(grid, 0, *rows_of(log))
        for at, name in enumerate(grid.slices[1:], 1):
            assert_column(grid, at, *rows_of(log, country=name))


def test_changes_are_against_the_baseline_and_worse_is_above_zero():
    log = predictions()
    grid = build_grid(
        log, metrics=["LogLoss", "Bias", OwnMetric("Hits", lambda y, p, w: float(p[y].mean()), best="high")]
    )
    found = changes(grid)
    value = grid.value.astype(float)
    np.testing.assert_allclose(found.change[0], value[0] / value[0, :1] - 1)
    np.testing.assert_allclose(found.change[1], np.abs(value[1]) - np.abs(value[1, :1]))
    np.testing.assert_allclose(found.change[2], 1 - value[2] / value[2, :1])
    assert np.isnan(found.p[:, 0]).all()
    assert significant(grid, found).shape == value.shape
    np.testing.assert_allclose(changes(grid, baseline=2).difference[:, 0], -found.difference[:, 2])


def test_the_table_has_every_cell_and_no_formula(tmp_path):
    log = predictions(n=200, countries=("=1+1", "-de"))
    grid = build_grid(log, slices=["country"])
    table = grid_table(grid)
    assert table.num_rows == grid.value.size
    first = table.slice(3 * 4, 1).to_pylist()[0]
    assert (first["slicing"], first["slice"], first["model"], first["metric"]) == (
        "country",
        grid.slices[1],
        "m0",
        "AucLoss",
    )
    assert first["value"] == pytest.approx(float(grid.value[0, 0, 1]))
    write_table(grid, tmp_path / "grid.csv")
    read = pyarrow.csv.read_csv(tmp_path / "grid.csv")
    assert set(read["slice"].to_pylist()) == {"all", "'=1+1", "'-de"}
    write_table(grid, tmp_path / "grid.parquet")
    assert set(pq.read_table(tmp_path / "grid.parquet")["slice"].to_pylist()) == {"all", "=1+1", "-de"}


def test_a_grid_comes_back_from_its_file(tmp_path):
    grid = build_grid(predictions(), cross=("country", "device"), every="day", title="Ä × 漢字 </script>")
    write_grid(grid, tmp_path / "a.grid")
    back = read_grid(tmp_path / "a.grid")
    for name in ("title", "models", "baseline", "level", "metrics", "groups", "slices", "periods", "left_out", "notes"):
        assert getattr(back, name) == getattr(grid, name)
    np.testing.assert_array_equal(back.value, grid.value)
    np.testing.assert_array_equal(back.period_clicks, grid.period_clicks)
    for name, tolerance in (("low", 1e-3), ("high", 1e-3), ("se", 1e-3), ("period_se", 0.03), ("reliability", 1e-3)):
        np.testing.assert_allclose(getattr(back, name), getattr(grid, name), rtol=tolerance, atol=1e-5)
    for apart in (lambda v: v[..., 0, :], lambda v: v[..., 1:, :] - v[..., :1, :]):  # the baseline; differences to it
        was, now = apart(grid.period_value), apart(back.period_value)
        reach = np.nanmax(np.abs(was - apart(grid.value)), axis=0)
        assert (np.nan_to_num(np.abs(now - was)) <= reach / 250 + 1e-6).all()
