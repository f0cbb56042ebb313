"""The plot of boosting rounds: a file that opens everywhere."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from broadmatch.errors import BadInput, CannotWrite
from broadmatch.labels import BoostingHistory, plot_rounds
from broadmatch.labels.boosting import MEASURES

SVG = "{http://www.w3.org/2000/svg}"


def history(seed, rounds=6, evaluated=True):
    rng = np.random.default_rng(seed)
    table = rng.random((rounds + 1, len(MEASURES)))
    return BoostingHistory(table, table / 2 if evaluated else np.empty((rounds + 1, 0)))


def lines(path):
    root = ET.fromstring(path.read_text(encoding="utf-8"))  # noqa: S314 - our own file
    return list(root.iter(f"{SVG}polyline"))


def test_every_model_has_a_line_in_every_panel(tmp_path):
    many = {"a & <b>": history(0), "HM": history(1, rounds=3, evaluated=False)}
    plot_rounds(many, tmp_path / "x.svg", measures=("loss", "ZO", "HM", "TS"), title='A "title" & <more>')
    drawn = lines(tmp_path / "x.svg")
    assert len(drawn) == 4 * 3
    assert sum("dashed" in line.get("class") for line in drawn) == 4
    assert [len(line.get("points").split()) for line in drawn[:3]] == [7, 7, 4]
    assert drawn[0].find(f"{SVG}title").text.startswith("a & <b>, training points:")


def test_higher_values_stand_higher_and_later_rounds_further_right(tmp_path):
    table = np.zeros((3, len(MEASURES)))
    table[:, MEASURES.index("loss")] = [4.0, 2.0, 1.0]
    BoostingHistory(table, np.empty((3, 0))).plot(tmp_path / "x.svg")
    x, y = zip(*(map(float, p.split(",")) for p in lines(tmp_path / "x.svg")[0].get("points").split()), strict=True)
    assert list(x) == sorted(x)
    assert y[1] - y[0] == pytest.approx(2 * (y[2] - y[1]), abs=0.2)


def test_what_cannot_be_drawn(tmp_path):
    with pytest.raises(BadInput, match="1 to 6 models, but there are 0"):
        plot_rounds({}, tmp_path / "x.svg")
    with pytest.raises(BadInput, match="measures is empty"):
        plot_rounds({"a": history(0)}, tmp_path / "x.svg", measures=())
    with pytest.raises(BadInput, match="no 'P@1'"):
        plot_rounds({"a": history(0)}, tmp_path / "x.svg", measures=("P@1",))
    with pytest.raises(CannotWrite):
        plot_rounds({"a": history(0)}, tmp_path / "nowhere" / "x.svg")
    assert not (tmp_path / "x.svg").exists()
