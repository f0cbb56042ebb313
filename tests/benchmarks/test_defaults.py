"""docs/defaults.md is what its command writes from the rows, and --run puts new rows in place of old ones."""

import json
import sys

import numpy as np
import pytest

from benchmarks import defaults, tuning
from benchmarks.common import paired
from broadmatch.evaluate.ranking import PerPoint
from broadmatch.labels import MLRF, OneVsRest, advise_model
from broadmatch.simulate import synthetic_dataset

ROW = {
    "part": "Forest",
    "default": "`n_trees=7`",
    "chosen_on": "held-out points",
    "data": "planted",
    "metric": "P@1 / 3",
    "ours": [62.5, 30.25],
    "tuned": [63.0, 30.0],
    "difference": [-0.5, 0.25],
    "interval": [0.75, [-0.125, 0.5]],
    "command": "python -m nothing",
    "cpu_s": 1234.5,
}


def test_the_page_is_what_the_command_writes():
    assert defaults.PAGE.read_text(encoding="utf-8") == defaults.page(defaults.read_rows()), (
        "run: python -m benchmarks.defaults"
    )


def test_every_row_has_what_the_page_needs():
    rows = defaults.read_rows()
    assert rows
    for row in rows:
        assert {*defaults.ABOUT, "part", "data", "metric", "ours", "tuned", "difference", "interval"} <= row.keys()
        assert row["command"].startswith("python -m benchmarks.") and "--defaults" in row["command"].split()


def test_a_section_tells_what_a_default_costs():
    other = ROW | {"part": "a click model", "metric": "log loss", "ours": 0.125, "tuned": None, "rival": "vw",
                   "difference": -0.00125, "interval": 0.0004, "cpu_s": None}  # fmt: skip
    text = defaults.page([ROW, other, ROW | {"data": "real", "interval": None}])
    assert text.startswith(defaults.HEAD) and text.index("## a click model") < text.index("## Forest")
    assert "- `python -m nothing`, 1,234 s of processor time\n" in text and "- `python -m nothing`\n" in text
    assert "| planted | P@1 / 3 | 62.50 / 30.25 | 63.00 / 30.00 | tuned | −0.50 ± 0.75 / +0.25 [−0.12, +0.50] |" in text
    assert "| real | P@1 / 3 | 62.50 / 30.25 | 63.00 / 30.00 | tuned | −0.50 / +0.25 |" in text
    assert "| planted | log loss | 0.1250 | – | vw | −0.0013 ± 0.0004 |" in text
    assert text.count("| data |") == 2


def test_the_table_says_of_each_default_what_is_better_and_worse_beyond_chance():
    loss = ROW | {"part": "clicks", "metric": "log loss, difference in %", "ours": 0.1, "difference": -2.0}
    rows = [loss | {"interval": 0.5}, loss | {"difference": 1.0, "interval": [0.5, 1.5], "data": "later"},
            ROW | {"interval": [0.25, 0.25]}, ROW | {"interval": None}]  # fmt: skip
    text = defaults.page(rows)
    about = "`n_trees=7` | held-out points"
    assert f"| clicks | {about} | 2 figures: 1 better, 1 worse; most: +1.00 in {loss['metric']}, later |" in text
    assert f"| Forest | {about} | 4 figures: 0 better, 1 worse; most: −0.50 in P@1, planted |" in text
    assert text.count("`n_trees=7`") == 2


def test_run_puts_what_a_command_prints_in_place_of_its_rows(tmp_path):
    new = {name: value for name, value in ROW.items() if name != "command"} | {"ours": [70.0, 40.0]}
    lines = ["a line", json.dumps({"fit_s": 1}), json.dumps(new)]
    script, file = tmp_path / "printing.py", tmp_path / "rows.jsonl"
    script.write_text(f"print({json.dumps(chr(10).join(lines))})")
    mine, other = {"command": f"python {script}"}, {"part": "other", "command": "python -c 'raise SystemExit(1)'"}
    file.write_text("".join(json.dumps(row) + "\n" for row in (ROW | mine, ROW | other, ROW | mine)))
    defaults.run(["Forest"], tmp_path)
    assert defaults.rows_of(file) == [ROW | other, new | mine]
    with pytest.raises(SystemExit, match="printed no rows"):
        defaults.printed("python -c 'print(1)'")


def test_a_part_that_is_not_there_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["defaults", "--run", "nothing"])
    with pytest.raises(SystemExit):
        defaults.main()
    assert "there is no part nothing" in capsys.readouterr().err


def test_paired_differences_are_of_means_over_seeds_and_their_intervals_over_points():
    rng = np.random.default_rng(3)
    truth = rng.random((4000, 2)) + 1
    ours = [PerPoint(rng.random((4000, 2)) * truth, truth) for _ in range(2)]
    other = PerPoint(ours[0].numerator - 0.1 * truth + rng.normal(0, 0.2, (4000, 2)), truth)
    found = paired(ours, [other])
    a, b = np.mean([one.numerator for one in ours], axis=0), other.numerator
    assert found["ours"] == pytest.approx(100 * a.sum(0) / truth.sum(0), abs=0.006)
    assert found["tuned"] == pytest.approx(100 * b.sum(0) / truth.sum(0), abs=0.006)
    assert found["difference"] == pytest.approx(100 * (a - b).sum(0) / truth.sum(0), abs=0.006)
    drawn = rng.integers(0, 4000, (500, 4000))
    draws = [100 * (a - b)[rows].sum(0) / truth[rows].sum(0) for rows in drawn]
    assert found["interval"] == pytest.approx(1.96 * np.std(draws, axis=0), rel=0.15)
    assert paired([PerPoint(np.array([[1.0], [0.0]]))], [PerPoint(np.array([[0.0], [0.0]]))])["difference"] == [50.0]


def test_the_rule_of_train_has_a_row_for_each_set(monkeypatch, capsys):
    points = synthetic_dataset(n_points=300, n_features=200, n_labels=12, seed=1)
    monkeypatch.setattr(tuning, "training_sets", lambda names: [("planted", points)])
    few = {"OneVsRest": lambda jobs: OneVsRest(n_jobs=jobs), "MLRF": lambda jobs: MLRF(n_trees=2, n_jobs=jobs)}
    monkeypatch.setattr(tuning, "MODELS", few)
    tuning.rule([], 300, 1, True)
    (row,) = [row for row in map(json.loads, capsys.readouterr().out.splitlines()) if "part" in row]
    assert row["data"] == f"planted: {advise_model(points.X, points.Y).model.__name__}"
    assert abs(row["ours"] - row["tuned"] - row["difference"]) < 0.02
    assert row["command"].endswith("--points 300 --defaults")
