"""Signals that matter are chosen, others are not; more than 64 candidates stand side by side."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broadmatch.errors import BadInput, BadParameter
from broadmatch.registry import select_signals
from broadmatch.registry.selection import _Search
from broadmatch.signals import Description

GOOD = ("ad", "site", "hour")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    rng = np.random.default_rng(0)
    n = 20_000
    columns = {"ad": rng.integers(0, 20, n), "site": rng.integers(0, 10, n), "hour": rng.integers(0, 24, n)}
    columns |= {f"noise{i}": rng.integers(0, 8, n) for i in range(3)}
    columns["copy"] = columns["ad"]
    score = sum(rng.normal(0, 0.8, 24)[columns[name]] for name in GOOD) - 1
    table = pa.table({**columns, "clicked": rng.random(n) < 1 / (1 + np.exp(-score))})
    path = tmp_path_factory.mktemp("selection") / "log.parquet"
    pq.write_table(table, path)
    return path


def described(*names, **more):
    signals = dict.fromkeys(names, "categorical") | more
    return Description.from_dict({"label": "clicked", "signals": signals})


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
def test_what_matters_is_chosen(log, direction):
    found = select_signals(log, described("noise0", *GOOD, "noise1"), direction=direction)
    assert set(found.signals) == set(GOOD)
    gone = sorted(one.signal for one in found.steps if one.chosen and one.step == "remove")
    assert gone == (["noise0", "noise1"] if direction == "backward" else [])
    assert found.description == described(*GOOD)
    assert Description.from_dict(found.to_dict()["description"]) == found.description
    assert found.loss.low < found.loss.value < found.loss.high
    assert found.change.high > 0  # fewer signals, and no worse


def test_of_two_that_say_the_same_one_is_left_out(log):
    # With too slow a rate the second copy does add something: it makes the first learn twice as fast.
    found = select_signals(log, described("ad", "copy", "site"), direction="backward", settings={"alpha": 0.5})
    assert len({"ad", "copy"} & set(found.signals)) == 1
    assert "site" in found.signals


def test_most_and_crosses(log):
    one = select_signals(log, described(*GOOD), direction="forward", most=1)
    assert len(one.signals) == 1
    assert one.passes == 2  # a round, and the exact comparison
    search = _Search(log, described("ad", "site", pair={"cross": ["ad", "site"]}), {})
    assert search._without({"ad", "site", "pair"}, "ad") == {"site"}
    crossed = select_signals(log, described("ad", "site", pair={"cross": ["ad", "site"]}), direction="both")
    assert {"ad", "site"} <= set(crossed.signals)


def test_more_candidates_than_a_bit_field_has_bits(log, tmp_path):
    table = pq.read_table(log).slice(0, 4000)
    rng = np.random.default_rng(1)
    names = [f"n{i}" for i in range(70)]
    for name in names:
        table = table.append_column(name, pa.array(rng.integers(0, 4, len(table))))
    pq.write_table(table, tmp_path / "wide.parquet")
    found = select_signals(tmp_path / "wide.parquet", described(*names, *GOOD), direction="forward", most=1)
    assert len(found.steps) == 73
    assert found.signals[0] in GOOD
    # a candidate gains the same, to the eye, in whichever structure it stands
    again = select_signals(tmp_path / "wide.parquet", described(*GOOD, *names), direction="forward", most=1)
    gains = [{one.signal: one.gain.value for one in both.steps} for both in (found, again)]
    assert all(abs(gains[0][name] - gains[1][name]) < 0.004 for name in GOOD)


def test_what_cannot_be_selected_from_is_said(log, tmp_path):
    with pytest.raises(BadInput, match="No signal adds anything"):
        select_signals(log, described("noise0", "noise1"), direction="forward")
    with pytest.raises(BadInput, match="read but once"):
        select_signals("-", described("ad"))
    with pytest.raises(BadParameter, match="direction must be"):
        select_signals(log, described("ad"), direction="sideways")
