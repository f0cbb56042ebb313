"""The progressive report: against plain metrics slice by slice, its intervals against DeLong and simulation."""

import datetime as dt
import math
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch import evaluate
from broadmatch.errors import BadInput, BadParameter, MissingFile
from broadmatch.evaluate import PredictionLog, click_report, predictions, progressive_report
from broadmatch.evaluate.click_report import n_bins, score_bins
from tests.reference import click_metrics as slow

HOUR = 3_600_000_000
PLAIN = {
    "AucLoss": evaluate.auc_loss,
    "LogLoss": evaluate.log_loss,
    "SquaredError": evaluate.squared_error,
    "Bias": evaluate.calibration_bias,
}
Z = NormalDist().inv_cdf(0.975)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def traffic(n=600, seed=0, weighted=True):
    """Three models on traffic with a few countries (one of them unknown) over five hours."""
    rng = np.random.default_rng(seed)
    x = rng.normal(-1, 1.5, n)
    score = {"old": x + rng.normal(0, 1, n), "new": x + rng.normal(0, 0.5, n), "rounded": np.round(x)}
    return pa.table(
        {
            "time": pa.array(rng.integers(0, 5 * HOUR, n)).cast(pa.timestamp("us", tz="UTC")),
            "clicked": (rng.random(n) < sigmoid(x)).astype(np.float32),
            "weight": rng.choice([0.5, 1.0, 4.0], n).astype(np.float32) if weighted else np.ones(n, np.float32),
            "country": pa.array(rng.choice(["nz", "au", "fj", None], n, p=[0.5, 0.3, 0.05, 0.15])).dictionary_encode(),
            **{f"p_{m}": sigmoid(s).astype(np.float32) for m, s in score.items()},
        }
    )


def logged(folder, table, rows, **columns):
    """The first model of some rows of `traffic` as a run of its own; `columns` are changed."""
    some = table.take(rows).select(["time", "clicked", "weight", "country", "p_old"])
    for name, values in {"id": np.asarray(rows, np.uint64) + np.uint64(2**63), **columns}.items():
        some = some.append_column(name, pa.array(values)) if name not in some.column_names else some.set_column(
            some.column_names.index(name), name, pa.array(values)
        )  # fmt: skip
    folder.mkdir()
    pq.write_table(some, folder / "part-000000.parquet")
    return folder


def test_runs_are_compared_on_exactly_the_same_rows(tmp_path):
    table = traffic(300)
    rng = np.random.default_rng(1)
    a = logged(tmp_path / "a", table, np.arange(300))
    shuffled = rng.permutation(300)
    b = logged(tmp_path / "b", table, shuffled, p_old=table["p_new"].to_numpy()[shuffled])
    report = progressive_report([a, b], every="hour")
    both = table.select(["time", "clicked", "weight", "country", "p_old", "p_new"])
    wanted = progressive_report(both.rename_columns([*both.column_names[:4], "p_a", "p_b"]), every="hour")
    assert report.to_table().equals(wanted.to_table())
    three = progressive_report([a, logged(tmp_path / "c", both, np.arange(300)), b])
    assert three.models == ("a", "c", "b")

    def refused(rows, **columns):
        folder = logged(tmp_path / f"{len(list(tmp_path.iterdir()))}", table, rows, **columns)
        with pytest.raises(BadInput) as error:
            progressive_report([a, folder])
        return str(error.value)

    assert "a has 10 rows that are not in" in refused(np.arange(290))
    assert "and 5 of that are not in it" in refused(np.arange(5, 300), id=np.arange(295, dtype=np.uint64) + 2**63 + 10)
    assert "has 1 rows whose id another row has too" in refused(np.r_[np.arange(299), 298])
    clicked = table["clicked"].to_numpy()
    assert "300 rows have another `clicked`" in refused(np.arange(300), clicked=1 - clicked)
    with pytest.raises(BadInput, match="has no ids to join rows by: name `id` in the description"):
        pq.write_table(table, tmp_path / "d.parquet")
        progressive_report([a, tmp_path / "d.parquet"])


def arrays(table, *names):
    return tuple(table[name].to_numpy() for name in names)


def found(report, **where):
    """The one row of the report, or the rows, with these values."""
    rows = [r for r in report.to_table().to_pylist() if all(r[k] == v for k, v in where.items())]
    return rows[0] if len(rows) == 1 else rows


def test_every_value_is_the_plain_metric_on_those_rows():
    table = traffic()
    report = progressive_report(table, every="hour")
    whole = pc.equal(0, pa.array(np.zeros(table.num_rows)))
    hour = pc.divide(table["time"].cast(pa.int64()), HOUR)
    seen = 0
    for r in report.to_table().to_pylist():
        rows = whole
        if r["slicing"] == "country":
            same = pc.equal(table["country"].cast("string"), pa.scalar(r["slice"], pa.string()))
            rows = pc.is_null(table["country"]) if r["slice"] is None else pc.fill_null(same, False)
        else:
            assert (r["slicing"], r["slice"]) == ("all", "all")
        if r["bucket_start"] is not None:
            at = int(r["bucket_start"].timestamp() // 3600)
            assert r["bucket_end"] - r["bucket_start"] == dt.timedelta(hours=1)
            rows = pc.and_(rows, pc.equal(hour, at))
        y, w, p = arrays(table.filter(rows), "clicked", "weight", f"p_{r['model']}")
        assert (r["impressions"], r["clicks"]) == (len(y), y.sum())
        assert r["weight"] == pytest.approx(w.sum())
        plain = PLAIN[r["metric"]](y, p, sample_weight=w)
        assert r["value"] == (None if math.isnan(plain) else pytest.approx(plain, abs=1e-12))
        base = PLAIN[r["metric"]](y, table.filter(rows)["p_old"].to_numpy(), sample_weight=w)
        plus = 1 if r["metric"] == "Bias" else 0  # the change of the bias is that of the mean prediction
        if not math.isnan(base) and base + plus > 0:
            expected = 100 * ((r["value"] + plus) / (base + plus) - 1)
            assert r["relative"] == pytest.approx(expected, abs=1e-8)
        assert r["auc_error"] == (0 if r["metric"] == "AucLoss" else None)
        seen += 1
    assert seen == (1 + 5 + 4 + 4 * 5) * 3 * 4


def test_slices_come_by_falling_impressions_and_models_as_in_the_log():
    rows = progressive_report(traffic()).summary("country")
    assert list(dict.fromkeys(r["slice"] for r in rows)) == ["nz", "au", None, "fj"]
    assert list(dict.fromkeys(r["model"] for r in rows)) == ["old", "new", "rounded"]
    assert [r["impressions"] for r in rows] == sorted((r["impressions"] for r in rows), reverse=True)


def test_auc_intervals_are_those_of_delong():
    table = traffic(200, weighted=False)
    y, old, new = arrays(table, "clicked", "p_old", "p_new")
    a, b, var_a, cov, var_b = slow.delong(new, old, y == 1)
    r = found(progressive_report(table, slices=[]), model="new", metric="AucLoss")
    assert (r["value"], r["high"] - r["value"]) == pytest.approx((a, Z * math.sqrt(var_a)), rel=1e-9)
    ratio = math.sqrt(var_a - 2 * (a / b) * cov + (a / b) ** 2 * var_b) / b  # of a/b, by the delta method
    assert r["relative_high"] - r["relative"] == pytest.approx(100 * Z * ratio, rel=1e-9)


def test_mean_intervals_are_the_paired_normal_ones():
    table = traffic(200, weighted=False)
    y, old, new = arrays(table, "clicked", "p_old", "p_new")
    a, b = (new.astype(float) - y) ** 2, (old.astype(float) - y) ** 2
    r = found(progressive_report(table, slices=[], level=0.9), model="new", metric="SquaredError")
    z = NormalDist().inv_cdf(0.95)
    assert r["value"] - r["low"] == pytest.approx(z * a.std(ddof=1) / math.sqrt(200), rel=1e-9)
    residual = a - a.mean() / b.mean() * b
    expected = 100 * z * math.sqrt((residual**2).sum() / 199 / 200) / b.mean()
    assert r["relative"] - r["relative_low"] == pytest.approx(expected, rel=1e-9)


def simulated(n, seed, keep):
    """Clicks with known truth; of what was not clicked the share `keep` stays, with weight 1/keep."""
    rng = np.random.default_rng(seed)
    x = rng.normal(-1.5, 1, n)
    old, new = sigmoid(x + rng.normal(0, 0.8, n)), sigmoid(x + rng.normal(0.1, 0.6, n))
    y = rng.random(n) < sigmoid(x)
    stays = y | (rng.random(n) < keep)
    return y[stays], np.where(y, 1, 1 / keep)[stays], old[stays], new[stays], stays


@pytest.mark.parametrize("keep", [1.0, 0.3])
def test_intervals_hold_the_truth_as_often_as_they_say(keep):
    repetitions, n = 600, 500
    y, w, old, new, _ = simulated(2_000_000, 1, 1.0)
    truth = {name: metric(y, new, sample_weight=w) for name, metric in PLAIN.items()}
    change = {
        name: 100 * ((truth[name] + (name == "Bias")) / (metric(y, old, sample_weight=w) + (name == "Bias")) - 1)
        for name, metric in PLAIN.items()
    }
    y, w, old, new, stays = simulated(repetitions * n, 2, keep)
    group = np.repeat(np.arange(repetitions), n)[stays].astype(str)
    log = pa.table({"clicked": y.astype(np.float32), "weight": w, "run": group, "p_old": old, "p_new": new})
    rows = progressive_report(log, level=0.9).summary("run")
    for name in PLAIN:
        of = [r for r in rows if r["model"] == "new" and r["metric"] == name]
        assert len(of) == repetitions
        covered = np.mean([r["low"] <= truth[name] <= r["high"] for r in of])
        paired = np.mean([r["relative_low"] <= change[name] <= r["relative_high"] for r in of])
        # four standard errors of a share of 600, and normal intervals of 500 skewed losses fall a little short
        assert 0.84 < covered < 0.95, name
        assert 0.84 < paired < 0.95, name
    wide = np.mean([r["high"] - r["low"] for r in rows if r["model"] == "new" and r["metric"] == "LogLoss"])
    narrow = np.mean(
        [r["relative_high"] - r["relative_low"] for r in rows if r["model"] == "new" and r["metric"] == "LogLoss"]
    )
    assert narrow / 100 < wide / truth["LogLoss"]  # the pairing is worth it


@given(st.lists(st.floats(0, 1, width=32), min_size=1), st.integers(0, 14))
def test_bins_rise_with_the_probability(drawn, bits):
    p = np.sort(np.array([0, 1, 0.5, *drawn], np.float32))
    bins = score_bins(p, bits)
    assert (np.diff(bins) >= 0).all()
    assert (bins[0], bins[-1]) == (0, n_bins(bits) - 1)


@pytest.mark.parametrize("histogram_bytes", [1 << 27, 1 << 12])
def test_streaming_keeps_its_bound_and_changes_nothing_else(tmp_path, monkeypatch, histogram_bytes):
    monkeypatch.setattr(predictions, "_ROWS_OF_A_PIECE", 70)
    monkeypatch.setattr(click_report, "_HISTOGRAM_BYTES", histogram_bytes)  # small: coarse bins, a model at a time
    table = traffic()
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=100)
    exact = progressive_report(tmp_path / "log.parquet", every=7200, baseline="new")
    near = progressive_report(tmp_path / "log.parquet", every=7200, baseline="new", max_rows=599)
    assert (exact.exact, near.exact) == (True, False)
    off = 0.0
    for e, s in zip(exact.to_table().to_pylist(), near.to_table().to_pylist(), strict=True):
        assert {k: e[k] for k in ("model", "slicing", "slice", "metric", "impressions", "bucket_start")} == {
            k: s[k] for k in ("model", "slicing", "slice", "metric", "impressions", "bucket_start")
        }
        if e["metric"] == "AucLoss":
            assert (e["value"] is None) == (s["value"] is None)
            if e["value"] is not None:
                assert abs(e["value"] - s["value"]) <= s["auc_error"] + 1e-12
                assert s["low"] is None or s["low"] <= e["value"] <= s["high"]
                off = max(off, s["auc_error"])
            if e["model"] == "new":
                assert s["relative"] in (0, None)
            elif e["relative"] is not None and s["relative_low"] is not None:
                assert s["relative_low"] <= e["relative"] <= s["relative_high"]
        else:
            for k in ("value", "low", "high", "relative", "relative_high"):
                assert s[k] == (None if e[k] is None else pytest.approx(e[k], rel=1e-9, abs=1e-12))
    assert off > 0


def test_a_log_a_file_and_a_table_say_the_same(tmp_path):
    table = traffic()
    with PredictionLog(tmp_path / "log", models=["old", "new", "rounded"], slices=["country"]) as log:
        for start in (0, 250, 500):
            part = table.slice(start, 250)
            y, w, *p = arrays(part, "clicked", "weight", "p_old", "p_new", "p_rounded")
            time = part["time"].cast(pa.int64()).to_numpy()
            log.append(y, w, time, {"country": part["country"]}, np.stack(p, axis=1))
            log.flush()
    pq.write_table(table, tmp_path / "one.parquet")
    reports = [progressive_report(p, every="day") for p in (tmp_path / "log", str(tmp_path / "one.parquet"), table)]
    assert reports[0].to_table().equals(reports[1].to_table())
    assert reports[0].to_table().equals(reports[2].to_table())
    assert len(list((tmp_path / "log").iterdir())) == 3


def test_only_rows_that_every_model_predicted_count(caplog):
    table = traffic(60)
    clicked = table["clicked"].to_numpy().copy()
    clicked[3] = np.nan
    weight = table["weight"].to_numpy().copy()
    weight[4] = 0
    new = pa.array([None if i == 5 else v for i, v in enumerate(table["p_new"].to_pylist())], pa.float32())
    holed = table.set_column(1, "clicked", pa.array(clicked)).set_column(2, "weight", pa.array(weight))
    holed = holed.set_column(holed.column_names.index("p_new"), "p_new", new)
    report = progressive_report(holed)
    assert (report.n_impressions, report.n_left_out) == (57, 3)
    assert "3 of 60 rows" in caplog.text
    rest = table.filter(pa.array([i not in (3, 4, 5) for i in range(60)]))
    assert report.to_table().equals(progressive_report(rest).to_table())
    assert "57 impressions, 3 left out" in str(report)


def test_small_and_one_sided_slices_say_what_is_unknown():
    log = pa.table({"clicked": [1, 1, 0, 0, 1], "s": ["a", "b", "c", "c", "b"], "p_m": [0.5, 0.2, 0.1, 0.3, 0.9]})
    report = progressive_report(log)

    def figures(value, metric):
        r = found(report, slicing="s", slice=value, metric=metric)
        return r["value"], r["low"]

    assert figures("a", "LogLoss") == (pytest.approx(math.log(2)), None)
    assert (*figures("a", "AucLoss"), *figures("c", "AucLoss"), *figures("c", "Bias")) == (None,) * 6
    assert "–" in str(progressive_report(log.slice(0, 1)))
    assert figures("b", "Bias")[0] == pytest.approx(0.55 - 1)


def test_a_model_equal_to_the_baseline_is_exactly_no_change():
    table = traffic(100)
    table = table.append_column("p_copy", table["p_old"])
    for r in progressive_report(table).summary():
        if r["model"] == "copy":
            assert (r["relative"], r["relative_low"], r["relative_high"]) == (0, 0, 0)


def test_the_table_is_written_whole_and_names_its_baseline(tmp_path):
    report = progressive_report(traffic(50), baseline="new", level=0.9)
    report.to_parquet(tmp_path / "report.parquet")
    back = pq.read_table(tmp_path / "report.parquet")
    assert back.equals(report.to_table())
    assert back.schema.metadata[b"baseline"] == b"new"
    assert [f.name for f in tmp_path.iterdir()] == ["report.parquet"]


def test_thousands_of_slices_and_no_weight_or_time():
    rng = np.random.default_rng(3)
    n = 20_000
    p = rng.random(n)
    log = pa.table({"clicked": rng.random(n) < p, "sub": rng.integers(0, 5000, n), "p_m": p})
    report = progressive_report(log)
    rows = report.summary("sub")
    assert sum(r["impressions"] for r in rows) == 4 * n
    assert len(rows) == 4 * len(np.unique(log["sub"].to_numpy()))


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"baseline": "newest"}, BadParameter, "baseline must be one of 'old', 'new'"),
        ({"every": "week"}, BadParameter, "every must be"),
        ({"every": 0}, BadParameter, "every must be"),
        ({"level": 1.5}, BadParameter, "level"),
        ({"max_rows": 0}, BadParameter, "max_rows"),
        ({"slices": ["city"]}, BadInput, "no slicing 'city'; it has country"),
    ],
)
def test_wrong_requests(change, error, says):
    with pytest.raises(error, match=says):
        progressive_report(traffic(20), **change)
    with pytest.raises(BadParameter, match="slicing must be one of all, country"):
        progressive_report(traffic(20)).summary("city")


def replaced(column, values):
    table = traffic(3)
    return table.set_column(table.column_names.index(column), column, values)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: traffic(20).drop_columns(["clicked"]), "no column clicked"),
        (lambda: traffic(20).select(["clicked", "country"]), "no column p_<model>"),
        (lambda: traffic(20).slice(0, 0), "no row with a label"),
        (lambda: traffic(20).rename_columns(["time", "clicked", "weight", "all", "p_a", "p_b", "p_c"]), "'all'"),
        (lambda: traffic(20).drop_columns(["time"]), "no column time"),
        (lambda: replaced("p_new", pa.array([0.1, 1.5, 0.2])), r"p_new: row 1 is 1\.5"),
        (lambda: replaced("clicked", pa.array([0, 1, 7])), "clicked: row 2 is 7"),
        (lambda: replaced("weight", pa.array([1, 1, -1])), "weight: row 2 is -1"),
        (lambda: replaced("weight", pa.array(["a", "b", "c"])), "weight holds string"),
        (lambda: replaced("time", pa.array([None, 1, 2])), "have no time"),
        (lambda: replaced("time", pa.array(["x", "y", "z"])), "time holds string"),
        (lambda: {1: 2}, "but it is a dict"),
        (lambda: [1, 2], "but it is a int"),
    ],
)
def test_wrong_tables(make, says):
    with pytest.raises(BadInput, match=says):
        progressive_report(make(), every="hour")


def test_wrong_folders_and_files(tmp_path):
    with pytest.raises(MissingFile, match="no folder or file"):
        progressive_report(tmp_path / "nowhere")
    with pytest.raises(MissingFile, match="holds no predictions"):
        progressive_report(tmp_path)
    pq.write_table(traffic(10), tmp_path / "part-000001.parquet")
    with pytest.raises(MissingFile, match="lacks a part"):
        progressive_report(tmp_path)
    pq.write_table(traffic(10).drop_columns(["p_old"]), tmp_path / "part-000000.parquet")
    with pytest.raises(BadInput, match="other columns"):
        progressive_report(tmp_path)
    (tmp_path / "part-000000.parquet").write_bytes(b"no Parquet")
    with pytest.raises(BadInput, match=r"part-000000.parquet is not a whole Parquet file"):
        progressive_report(tmp_path)


def test_a_damaged_page_is_told(tmp_path):
    with PredictionLog(tmp_path, models=["m"]) as log:
        log.append(np.zeros(5000), None, None, {}, np.random.default_rng(0).random(5000))
    file = tmp_path / "part-000000.parquet"
    column = pq.ParquetFile(file).metadata.row_group(0).column(3)
    content = bytearray(file.read_bytes())
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 1  # one bit of one probability
    file.write_bytes(content)
    with pytest.raises(BadInput, match=r"part-000000.parquet is damaged"):
        progressive_report(tmp_path)
