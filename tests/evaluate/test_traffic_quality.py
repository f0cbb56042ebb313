"""Hourly figures: those of the slow twin, the same bits however rows are cut and saved between; their folder."""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import broadmatch
from broadmatch.data import Batch, Impressions
from broadmatch.errors import BadArtifact, BadInput, BadParameter
from broadmatch.evaluate import HourFigures, QualityFolder, TrafficQuality, quality_gauges
from broadmatch.evaluate.traffic_quality import METRICS, Figure
from broadmatch.evaluate.traffic_quality.figures import delay_figures, psi
from broadmatch.io.artifacts import save
from broadmatch.kernels.hashing import key_of, mix
from tests.reference.traffic_quality import HOUR, SlowQuality

SIGNALS = ("ad", "", "title")
MISSING = int(key_of("ad", None))


@st.composite
def traffic(draw):
    """Rows in some disorder over some hours, with ticks, unknown features and counts between."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, hours = draw(st.integers(1, 120)), draw(st.sampled_from([1, 3, 30, 200]))
    disorder = draw(st.sampled_from([0, 1, 3]))
    start = draw(st.sampled_from([0, -5 * HOUR, 1_700_000_000_000_000]))
    times = start + np.sort(rng.integers(0, hours * HOUR, n)) - rng.integers(0, disorder * HOUR + 1, n)
    rows = []
    for time in times.tolist():
        ad = MISSING if rng.random() < 0.2 else int(key_of("ad", int(rng.integers(0, 4))))
        features = [(0, ad, 1.0), (1, 77, 1.0)]
        words = {int(rng.integers(1, 2**63)) for _ in range(rng.integers(0, 3))}
        features += [(2, word, 1.0 if rng.random() < 0.5 else float(np.float32(rng.normal()))) for word in words]
        clicked = int(rng.random() < 0.3)
        rows.append(
            {
                "time": time, "clicked": clicked, "weight": float(np.float32(rng.choice([1, 0.5, 3]))),
                "learned": float(rng.random()), "served": math.nan if rng.random() < 0.3 else float(rng.random()),
                "delay": int(rng.integers(0, 10**9)) if clicked else -1,
                "slices": {"country": rng.choice(["de", "at", "ch", "us", None]), "device": f"d{rng.integers(0, 400)}"},
                "features": features,
            }
        )  # fmt: skip
    words, total = [], 0
    for i, row in enumerate(rows):
        words.append(row)
        if rng.random() < 0.2:
            total += int(rng.integers(0, 9))
            at = int(max(r["time"] for r in rows[: i + 1])) + int(rng.integers(0, 2 * HOUR))
            words.append(("tick", at, {"clicks": total + 3, "late_clicks": total // 2}))
        elif rng.random() < 0.1:
            words.append(("unknown", int(rng.integers(0, 5)), 9))
    words.append(("tick", int(times.max()) + 4 * HOUR, {}))
    return words


def batch_of(rows, coded):
    impressions = Impressions.from_rows(
        [[key for _, key, _ in row["features"]] for row in rows],
        values=[[value for _, _, value in row["features"]] for row in rows],
        fields=[[field for field, _, _ in row["features"]] for row in rows],
        clicked=[row["clicked"] for row in rows],
        weight=[row["weight"] for row in rows],
    )
    if (impressions.values == 1).all():
        impressions = impressions._replace(values=np.empty(0, np.float32))
    slices = {name: pa.array([row["slices"][name] for row in rows], pa.string()) for name in ("country", "device")}
    if coded:
        slices = {
            name: pa.concat_arrays([column, column]).dictionary_encode()[: len(rows)] for name, column in slices.items()
        }
    return Batch(impressions, time=np.array([row["time"] for row in rows]), slices=slices)


def watch_of(words, cut, *, save_at=-1, folder=None):
    """All hours that a watch gives for words whose rows come up to `cut` at once."""
    watch = TrafficQuality(window=600, slices=("country", "device"), signals=SIGNALS, most_slices=3, least=5)
    hours: list[HourFigures] = []
    watch.after_hour = hours.append
    waiting = []

    def give():
        if waiting:
            batch = batch_of(waiting, coded=len(waiting) % 2)
            columns = (np.array([row[name] for row in waiting]) for name in ("served", "learned", "delay"))
            watch.add(batch, *columns)
            waiting.clear()

    for i, word in enumerate(words):
        if isinstance(word, dict):
            waiting.append(word)
            if len(waiting) == cut:
                give()
        else:
            give()
            getattr(watch, word[0])(*word[1:])
        if i == save_at:
            give()
            save(watch, folder / "watch")
            watch = broadmatch.load(folder / "watch")
            watch.after_hour = hours.append
    give()
    return hours, watch.to_state()


def bucket(key, value):
    if value != 1:
        key = int(mix(np.uint64(key ^ (int(np.float32(value).view(np.uint32)) >> 21))))
    return key >> 58


@given(traffic(), st.integers(1, 50), st.data())
@settings(max_examples=25, deadline=None)
def test_the_figures_are_those_of_the_slow_twin_however_rows_are_cut(tmp_path_factory, words, cut, data):
    hours, state = watch_of(words, cut)
    save_at = data.draw(st.integers(0, len(words) - 1))
    again, other = watch_of(
        words, data.draw(st.integers(1, 50)), save_at=save_at, folder=tmp_path_factory.getbasetemp()
    )
    assert repr(hours) == repr(again)
    assert state.facts == other.facts
    assert all(np.array_equal(array, other.arrays[name]) for name, array in state.arrays.items())

    slow = SlowQuality(600, ("country", "device"), SIGNALS, most_slices=3, least=5)
    for word in words:
        if isinstance(word, dict):
            named = [(SIGNALS[f], bucket(key, v), f == 0 and key == MISSING) for f, key, v in word["features"]]
            slow.add(word | {"features": named})
        else:
            getattr(slow, word[0])(*word[1:])
    assert [hour.start for hour in hours] == [start for start, _ in slow.done]
    for hour, (_, expected) in zip(hours, slow.done, strict=True):
        found = {figure[:4]: (figure.value, figure.n) for figure in hour.figures}
        assert len(found) == len(hour.figures)
        assert found.keys() == expected.keys()
        for key, (value, n) in found.items():
            assert key[0] in METRICS
            off = 0.2 * expected[key][0] + 0.03 if key[0].startswith("ClickDelay") else 1e-9
            assert value == pytest.approx(expected[key][0], rel=1e-9, abs=off), key
            assert n == expected[key][1]


def plain(times, clicked=None, slices=None):
    n = len(times)
    impressions = Impressions.from_rows([[7]] * n, fields=[[0]] * n, clicked=clicked or [0] * n)
    return Batch(impressions, time=np.array(times, np.int64), slices=slices or {})


def test_what_cannot_be_watched():
    with pytest.raises(BadParameter, match="window"):
        TrafficQuality(window=-1).tick(0)
    with pytest.raises(BadParameter, match="slices"):
        TrafficQuality(window=1, slices=("a", "a")).tick(0)
    watch = TrafficQuality(window=1, slices=("a",))
    with pytest.raises(BadInput, match="no slices by 'a'"):
        watch.add(plain([1]), None, np.ones(1))
    with pytest.raises(BadInput, match="`time`"):
        watch.add(Batch(Impressions.from_rows([[7]], clicked=[0])), None, np.ones(1))
    with pytest.raises(BadInput, match="1 impressions but 2 of `served`"):
        watch.add(plain([1]), np.ones(2), np.ones(1))
    with pytest.raises(BadInput, match="clicked"):
        watch.add(plain([1], clicked=[math.nan]), None, np.ones(1))


def test_hours_without_traffic_are_told_but_not_without_end():
    watch, starts = TrafficQuality(window=0), []
    watch.after_hour = lambda hour: starts.append(hour.start // HOUR)
    watch.tick(10**15)
    assert starts == []
    watch.add(plain([5 * HOUR]), None, np.array([0.5]))
    watch.tick(9 * HOUR)
    assert starts == [5, 6, 7, 8]
    watch.tick(10**16)
    assert len(starts) == 4 + 48
    assert len(watch.hours_) == 0


def test_memory_is_bounded():
    watch = TrafficQuality(window=0, slices=("word",))
    sizes = []
    for hour in range(70):
        words = pa.array([f"{'x' * 500}{hour} {i}" for i in range(400)])
        watch.add(plain([hour * HOUR] * 400, slices={"word": words}), None, np.full(400, 0.1))
        state = watch.to_state()
        sizes.append(sum(array.nbytes for array in state.arrays.values()) + len(json.dumps(state.facts)))
    assert len(watch.hours_) == 49  # nobody ticks
    assert max(sizes[50:]) == pytest.approx(sizes[50], rel=0.01)
    assert sizes[-1] < 10_000_000


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=64), st.integers(1, 5))
def test_drift_of_equal_shares_is_none_and_of_others_some(counts, times):
    before = np.array(counts, np.int64)
    if before.sum():
        assert psi(before * times, before) < 0.1 * (before > 0).sum() / before.sum() + 1e-9
        moved = np.roll(before, 1)
        assert psi(moved, before) >= 0
        assert psi(moved, before) == pytest.approx(psi(before, moved))


def test_drift_by_chance_is_near_0():
    rng = np.random.default_rng(3)
    share = rng.dirichlet(np.ones(64))
    found = [psi(rng.multinomial(500, share), rng.multinomial(12_000, share)) for _ in range(300)]
    assert np.quantile(found, 0.99) < 0.08
    assert psi(rng.multinomial(500, np.roll(share, 7)), rng.multinomial(12_000, share)) > 0.5


@given(st.lists(st.integers(0, 10**14), min_size=1, max_size=200))
def test_quantiles_of_delays_are_near(delays):
    watch = TrafficQuality(window=0)
    watch.add(plain([0] * len(delays), clicked=[1] * len(delays)), None, np.full(len(delays), 0.5), np.array(delays))
    for figure, share in zip(delay_figures(watch.delays_[0]), (0.5, 0.9), strict=True):
        exact = sorted(delays)[math.ceil(share * len(delays)) - 1] / 1e6
        assert figure.value == pytest.approx(exact, abs=0.2 * exact + 0.03)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("names", []), ("names", [[["de"]]]), ("names", [[["de", 3], []]]), ("names", [[["de"] * 300, []]]),
        ("next", 2**50), ("counts", {"clicks": "many"}), ("counts", {"clicks": -1}), ("newest", "x"),
        ("totals", {str(i): i for i in range(200)}),
    ],
)  # fmt: skip
def test_a_forged_state_is_refused(name, value):
    watch = TrafficQuality(window=0, slices=("country", "device"))
    columns = {"country": pa.array(["de"]), "device": pa.array(["tv"])}
    watch.add(plain([0], slices=columns), None, np.ones(1))
    state = watch.to_state()
    assert TrafficQuality.from_state(state).names_ == [[["de"], ["tv"]]]
    state.facts[name] = value
    with pytest.raises(BadArtifact):
        TrafficQuality.from_state(state)


def hour_of(start, *values):
    return HourFigures(
        start, tuple(Figure("Bias", "served", "country", f"c{i}", v, 10 + i) for i, v in enumerate(values))
    )


def test_hours_are_kept_and_old_ones_removed(tmp_path):
    folder = QualityFolder(tmp_path / "quality", keep_days=2)
    hours = [hour_of(i * HOUR, float(i), math.nan) for i in range(60)]
    for hour in hours:
        folder.write(hour)
    kept = sorted(tmp_path.glob("quality/*.parquet"))
    assert len(kept) == 49
    assert kept[0].name == "hour-19700101T11.parquet"
    assert repr(list(folder.hours())) == repr(hours[11:])
    table = pq.read_table(kept[-1])
    assert table.column_names == ["model", "slicing", "slice", "bucket_start", "bucket_end", "metric", "value", "n"]
    assert table.to_pylist()[1]["value"] is None
    was = kept[-1].read_bytes()
    folder.write(hours[-1])
    assert kept[-1].read_bytes() == was
    kept[3].write_bytes(b"PAR1")
    with pytest.raises(BadInput, match=kept[3].name):
        list(folder.hours())


def test_gauges_of_the_last_hour(tmp_path, caplog):
    assert quality_gauges(tmp_path) == {}
    QualityFolder(tmp_path).write(hour_of(7 * HOUR, 0.5, math.nan))
    assert quality_gauges(tmp_path) == {
        ("Hour", "", "all", "all"): 7 * 3600.0,
        ("Bias", "served", "country", "c0"): 0.5,
    }
    assert not caplog.messages
    starts = ("[]", "[[1]]", '[[1, "", "", "", 2, 3]]')
    for text in ("{", "[]", "[" * 10**5, '{"start": "x", "figures": []}', *(f'{{"figures": {f}}}' for f in starts),
                 *(f'{{"start": 1, "figures": {f}}}' for f in starts[1:])):  # fmt: skip
        caplog.clear()
        (tmp_path / "now.json").write_text(text)
        assert quality_gauges(tmp_path) == {}
        assert "is damaged" in caplog.text
