"""The report: its values, its intervals, its table, and the difference of two models."""

import json
import time

import numpy as np
import pytest

from broadmatch import evaluate
from broadmatch.data import CSR, Names
from broadmatch.errors import BadInput, BadParameter
from broadmatch.evaluate import bootstrap
from broadmatch.evaluate.bootstrap import Bootstrap
from broadmatch.evaluate.ranking import PerPoint
from tests.evaluate.test_ranking_metrics import all_values, random_pair

PHRASES = Names.of([f"{i % 4} {i % 3} x" for i in range(30)])
P = np.linspace(0.1, 1, 30)


def noisy(truth, error, seed):
    """A model that gives the true label first, except with probability `error`."""
    rng = np.random.default_rng(seed)
    wrong = (truth.indices + 1) % truth.n_cols
    return truth._replace(indices=np.where(rng.random(truth.nnz) < error, wrong, truth.indices).astype(np.int32))


def single_labels(n, n_labels=10):
    return CSR.from_rows([[i % n_labels] for i in range(n)], n_labels)


def test_values_are_those_of_the_single_functions():
    predicted, truth = random_pair()
    report = evaluate.ranking_report(truth, predicted, ks=(3, 1), propensity=P, phrases=PHRASES, n_bootstrap=20)
    alone = all_values(predicted, truth, P, PHRASES, k=3)
    names = {"AP": "average precision", "one-error": "one-error", "coverage": "coverage error"}
    for short, value in alone.items():
        name = names.get(short, {"edit": "edit distance"}.get(short, short) + "@3")
        assert report[name].value == pytest.approx(value), name
    assert report["P@1"].value == evaluate.precision_at_k(truth, predicted, k=1)
    assert report["share with 100"].value == 0
    assert not {"PSP@1", "edit distance@1"} & set(evaluate.ranking_report(truth, predicted, n_bootstrap=1).metrics)


def test_counts_of_points_that_cannot_score():
    predicted, truth = CSR.from_rows([[0], [], [1], []], 2), CSR.from_rows([[0], [1], [], []], 2)
    report = evaluate.ranking_report(truth, predicted, n_bootstrap=5)
    assert (report.n_points, report.n_without_truth, report.n_without_predictions) == (4, 2, 2)
    assert "2 points without true labels, 2 without recommendations" in str(report)


def test_the_table_is_aligned_and_the_dictionary_is_json():
    predicted, truth = random_pair()
    report = evaluate.ranking_report(truth, predicted, propensity=P, phrases=PHRASES, n_bootstrap=50)
    lines = str(report).splitlines()
    assert len(lines) == 2 + len(report.metrics)
    ends = {line.index(unit) for line in lines[1:-1] for unit in ("  %", "  labels") if unit in line}
    assert len(ends) == 1
    first = lines[1].split()
    assert first[0] == "P@1"
    assert float(first[1]) == pytest.approx(100 * report["P@1"].value, abs=0.005)
    kept = json.loads(json.dumps(report.to_dict()))
    assert kept["metrics"]["P@1"]["value"] == report["P@1"].value
    assert kept["n_points"] == 40


def test_intervals_agree_with_the_binomial_law():
    truth = single_labels(2000)
    report = evaluate.ranking_report(truth, noisy(truth, 0.3, 1), ks=(1,), seed=3)
    estimate = report["P@1"]
    width = 2 * 1.96 * np.sqrt(estimate.value * (1 - estimate.value) / 2000)
    assert estimate.high - estimate.low == pytest.approx(width, rel=0.1)
    assert estimate.low < estimate.value < estimate.high
    wider = evaluate.ranking_report(truth, noisy(truth, 0.3, 1), ks=(1,), seed=3, level=0.999)["P@1"]
    assert wider.low < estimate.low
    assert wider.high > estimate.high


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    truth = single_labels(300)
    covered = 0
    for seed in range(60):
        e = evaluate.ranking_report(truth, noisy(truth, 0.4, seed), ks=(1,), n_bootstrap=300, level=0.9)["P@1"]
        covered += e.low <= 0.6 <= e.high
    assert 0.75 <= covered / 60 <= 1.0


def test_resamples_equal_a_plain_loop():
    rng = np.random.default_rng(0)
    mean, part = PerPoint(rng.random((50, 1))), PerPoint(rng.random((50, 1)), rng.random((50, 1)))
    draws = Bootstrap(7, 5, 0.95).resample({"mean": mean, "part": part})
    again = np.random.default_rng(5)
    for b in range(7):
        drawn = again.integers(0, 50, 50)
        assert draws["mean"][b] == pytest.approx(mean.numerator[drawn].mean())
        assert draws["part"][b] == pytest.approx(part.numerator[drawn].sum() / part.denominator[drawn].sum())


def test_resamples_do_not_depend_on_the_block_size(monkeypatch):
    contributions = {"x": PerPoint(np.random.default_rng(0).random((100, 1)))}
    expected = Bootstrap(30, 1, 0.95).resample(contributions)["x"]
    monkeypatch.setattr(bootstrap, "_CELLS", 700)
    assert Bootstrap(30, 1, 0.95).resample(contributions)["x"] == pytest.approx(expected, rel=1e-13)


def test_the_seed_decides():
    predicted, truth = random_pair()
    one, same, other = (evaluate.ranking_report(truth, predicted, seed=s, n_bootstrap=100) for s in (1, 1, 2))
    assert one.to_dict() == same.to_dict()
    assert one["P@3"] != other["P@3"]
    assert one["P@3"].value == other["P@3"].value


def test_paired_difference_sees_what_two_intervals_do_not():
    truth = single_labels(1000)
    worse = noisy(truth, 0.4, 1)
    better = worse._replace(indices=np.where(np.arange(1000) < 25, truth.indices, worse.indices))
    a, b = (evaluate.ranking_report(truth, m, ks=(1,)) for m in (better, worse))
    assert a["P@1"].low < b["P@1"].high  # side by side, the intervals overlap
    difference = evaluate.paired_difference(a, b, "P@1")
    assert difference.value == pytest.approx(a["P@1"].value - b["P@1"].value)
    assert 0 < difference.low < difference.value < difference.high
    back = evaluate.paired_difference(b, a, "P@1")
    assert (back.low, back.high) == pytest.approx((-difference.high, -difference.low))
    assert str(evaluate.paired_difference(a, a, "P@1")) == "0.0000 [0.0000, 0.0000]"


def test_paired_difference_refuses_what_cannot_be_compared():
    predicted, truth = random_pair()
    report = evaluate.ranking_report(truth, predicted, n_bootstrap=5)
    with pytest.raises(BadInput, match="not about the same points"):
        other = evaluate.ranking_report(truth.take(np.arange(40)[::-1]), predicted, n_bootstrap=5)
        evaluate.paired_difference(report, other, "P@1")
    with pytest.raises(BadInput, match="seed 0 and 1"):
        evaluate.paired_difference(report, evaluate.ranking_report(truth, predicted, n_bootstrap=5, seed=1), "P@1")
    with pytest.raises(BadInput, match=r"no 'P@7'; it has P@1, P@3"):
        evaluate.paired_difference(report, report, "P@7")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ks": (1, 0)}, "ks must be a whole number of at least 1, but it is 0"),
        ({"ks": ()}, "ks"),
        ({"n_bootstrap": 0}, "n_bootstrap"),
        ({"level": 1.5}, "level"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_parameters(wrong, message):
    predicted, truth = random_pair()
    with pytest.raises(BadParameter, match=message):
        evaluate.ranking_report(truth, predicted, **wrong)


def test_fast_enough_for_many_points():
    """A fifth of the benchmark's points, with room for a busy machine: catches a loop in Python."""
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(0, 90_000, (20_000, 100)), axis=1) + np.arange(100)
    predicted = CSR(
        np.arange(20_001) * 100, indices.astype(np.int32).ravel(), rng.random(2_000_000, np.float32), 100_000
    )
    truth = CSR.from_rows([[int(i)] for i in rng.integers(0, 100_000, 20_000)], 100_000)
    few, p = np.arange(3), np.full(100_000, 0.5)
    evaluate.ranking_report(truth.take(few), predicted.take(few), propensity=p, n_bootstrap=1)  # compiles
    started = time.perf_counter()
    evaluate.ranking_report(truth, predicted, propensity=p, n_bootstrap=200)
    assert time.perf_counter() - started < 5
